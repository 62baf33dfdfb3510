//! Foreign text in a page.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::Result;

/// `text` as it may stand in an element or, between double quotes, in an attribute. Control characters that
/// HTML does not allow become the sign for what cannot be shown.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(c),
            c if c.is_control() => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// `value` as JSON that may stand in a script element: no `<` that could end it is left.
///
/// # Errors
/// When the value has no form in JSON.
pub fn json<T: Serialize>(value: &T) -> Result<String> {
    // In JSON `<` occurs in texts alone, where this is another way to write it.
    Ok(serde_json::to_string(value)?.replace('<', "\\u003c"))
}

/// Bytes of the media type `kind`, such as `image/png`, as the address of a picture.
pub fn data_uri(kind: &str, bytes: &[u8]) -> String {
    format!("data:{kind};base64,{}", STANDARD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_an_element() {
        let text = "<script>alert('1 & \"2\"')</script>\u{0}\u{1b}\n";
        let expected =
            "&lt;script&gt;alert(&#39;1 &amp; &quot;2&quot;&#39;)&lt;/script&gt;\u{fffd}\u{fffd}\n";
        assert_eq!(escape(text), expected);
    }

    #[test]
    fn data_stay_in_their_element_and_what_they_are() {
        let value = "</script><!--<script>";
        let written = json(&value).unwrap();
        assert!(!written.contains('<'), "{written}");
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), value);
    }

    #[test]
    fn bytes_are_an_address() {
        assert_eq!(data_uri("image/png", b"ebm"), "data:image/png;base64,ZWJt");
    }
}
