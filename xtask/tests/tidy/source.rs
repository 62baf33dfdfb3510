//! Rust source without its comments and literals.

/// `text` with every comment and every string or character literal blanked; line breaks stay, so that line
/// numbers do.
pub fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let blanked = comment(rest).or_else(|| string(rest)).or_else(|| character(rest));
        if let Some(length) = blanked {
            code.push(' ');
            code.extend(rest[..length].chars().filter(|&c| c == '\n'));
            rest = &rest[length..];
        } else {
            // A whole word at once: the r of `for"…"` starts no raw string.
            let length = rest.find(|c| !is_word(c)).unwrap_or(rest.len()).max(first.len_utf8());
            code.push_str(&rest[..length]);
            rest = &rest[length..];
        }
    }
    code
}

/// The identifiers and keywords of a line of code.
pub fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c| !is_word(c)).filter(|word| !word.is_empty())
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment that `text` starts with. Block comments nest.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if depth == 0 {
            return (at > 0).then_some(at);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    (at > 0).then_some(at)
}

/// The length of the string literal, raw or not, that `text` starts with.
fn string(text: &str) -> Option<usize> {
    let unprefixed = text.trim_start_matches(['b', 'c', 'r']);
    let prefix = text.len() - unprefixed.len();
    let raw = prefix <= 2 && text[..prefix].contains('r');
    let body = unprefixed.trim_start_matches('#').strip_prefix('"')?;
    let hashes = unprefixed.len() - body.len() - 1;
    let start = text.len() - body.len();
    if raw {
        let end = format!("\"{}", "#".repeat(hashes));
        return Some(body.find(&end).map_or(text.len(), |at| start + at + end.len()));
    }
    if hashes > 0 || prefix > 1 {
        return None;
    }
    let mut escaped = false;
    for (at, c) in body.char_indices() {
        match c {
            '"' if !escaped => return Some(start + at + 1),
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    Some(text.len())
}

/// The length of the character literal that `text` starts with; a lifetime is none.
fn character(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let mut chars = body.char_indices();
    let (_, first) = chars.next()?;
    if first == '\\' {
        chars.next()?;
        return body.get(2..)?.find('\'').map(|at| 1 + 2 + at + 1);
    }
    match chars.next()? {
        (at, '\'') => Some(1 + at + 1),
        _ => None,
    }
}

#[test]
fn comments_and_literals_are_blanked() {
    let cases = [
        ("a // unsafe\nb", "a  \nb"),
        ("/// unsafe\n", " \n"),
        ("a /* x /* unsafe */ y\n */ b", "a  \n b"),
        (r#"f("unsafe \" unsafe") g"#, "f( ) g"),
        (r##"f(r#"un"safe"#) g"##, "f( ) g"),
        (r#"f(r"\") g"#, "f( ) g"),
        (r#"f(b"x", br"y", c"z") g"#, "f( ,  ,  ) g"),
        (r"f('\'', '\\', '\u{1F600}', '\n') g", "f( ,  ,  ,  ) g"),
        (r#"f('"', b'"') unsafe"#, "f( , b ) unsafe"),
        ("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}"),
        ("\"a\nb\" c", " \n c"),
        ("r#type bar \"x\"", "r#type bar  "),
        ("a / b * c", "a / b * c"),
    ];
    for (text, code) in cases {
        assert_eq!(code_of(text), code, "{text}");
    }
}

#[test]
fn words_are_whole() {
    assert_eq!(
        words("#[expect(unsafe_code)] x.unsafe").collect::<Vec<_>>(),
        ["expect", "unsafe_code", "x", "unsafe"]
    );
}
