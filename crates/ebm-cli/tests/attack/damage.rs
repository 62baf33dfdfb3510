//! Kinds of damage to sound inputs.

use serde_json::{Value, json};

use super::random::Random;

/// Numbers and words that are put in the place of others.
pub const HOSTILE: [&str; 24] = [
    "",
    "0",
    "-1",
    "1",
    "NaN",
    "inf",
    "-Infinity",
    "1e9",
    "1e400",
    "-1e-320",
    "0.5",
    "4294967296",
    "9223372036854775808",
    "18446744073709551616",
    "null",
    "true",
    "[]",
    "{}",
    "\u{0}",
    "../../x",
    "/dev/null",
    "/dev/zero",
    "\u{1b}[2J",
    "日本",
];

/// Bytes with one or a few defects; seldom none.
pub fn bytes(random: &mut Random, sound: &[u8]) -> Vec<u8> {
    let mut damaged = sound.to_vec();
    for _ in 0..[1, 1, 1, 2, 4][random.below(5)] {
        spoil(random, &mut damaged);
    }
    damaged
}

/// One defect.
fn spoil(random: &mut Random, bytes: &mut Vec<u8>) {
    let length = bytes.len();
    // Headers decide most: half of the places are in the first KiB.
    let near = if random.below(2) == 0 { length.min(1024) } else { length };
    let at = random.below(near);
    let most = 1 << random.below(12);
    let run = (1 + random.below(most)).min(length - at);
    let extreme = [0, 1, 0x7F, 0x7FFF_FFFF, 0xFFFF_FFFF, i64::MAX as u64, u64::MAX][random.below(7)];
    match random.below(10) {
        0 => bytes.truncate(at),
        1 => bytes.truncate(length - run),
        2 => bytes[at..at + run].fill([0, 0xFF, b'0', b'['][random.below(4)]),
        3 => drop(bytes.drain(at..at + run)),
        4 => {
            let again = bytes[at..at + run].to_vec();
            bytes.splice(at..at, again);
        }
        5 => {
            let noise: Vec<u8> = (0..run).map(|_| random.number() as u8).collect();
            bytes.splice(at..at, noise);
        }
        6 => {
            let width = [1, 2, 4, 8][random.below(4)].min(length - at);
            bytes[at..at + width].copy_from_slice(&extreme.to_le_bytes()[..width]);
        }
        7 => {
            let width = [2, 4, 8][random.below(3)].min(length - at);
            bytes[at..at + width].copy_from_slice(&extreme.to_be_bytes()[8 - width..]);
        }
        _ if length > 0 => bytes[at] ^= 1 << random.below(8),
        _ => {}
    }
}

/// A text with a defect of texts: lines, numbers, encodings. Sometimes of bytes.
pub fn text(random: &mut Random, sound: &str) -> Vec<u8> {
    let mut lines: Vec<String> = sound.lines().map(str::to_owned).collect();
    let at = random.below(lines.len());
    let Some(line) = lines.get(at).cloned() else { return random.pick(&HOSTILE).as_bytes().to_vec() };
    match random.below(9) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, line),
        2 | 3 => lines[at] = with_word(random, &line),
        4 => lines.insert(at, random.pick(&HOSTILE).repeat(1 << random.below(17))),
        5 => return [b"\xEF\xBB\xBF", sound.as_bytes()].concat(),
        6 => return sound.encode_utf16().flat_map(u16::to_le_bytes).collect(),
        7 => lines[at] = ["[", "<a>", "{\"a\":", "'''"][random.below(4)].repeat(1 << random.below(16)),
        _ => return bytes(random, sound.as_bytes()),
    }
    lines.join(["\n", "\n", "\r\n", "\r"][random.below(4)]).into_bytes()
}

/// A line with a hostile word in the place of one of its own.
fn with_word(random: &mut Random, line: &str) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || ".-+_/".contains(c);
    let starts = line.char_indices().scan(false, |before, (i, c)| {
        let start = is_word(c) && !std::mem::replace(before, is_word(c));
        Some(start.then_some(i))
    });
    let starts: Vec<usize> = starts.flatten().collect();
    let start = starts.get(random.below(starts.len())).copied().unwrap_or(0);
    let length = line[start..].find(|c| !is_word(c)).unwrap_or(line.len() - start);
    format!("{}{}{}", &line[..start], random.pick(&HOSTILE), &line[start + length..])
}

/// JSON with a value that is another, gone, or there a second time; sometimes damaged as a text is.
pub fn json_text(random: &mut Random, sound: &Value) -> Vec<u8> {
    if random.below(5) == 0 {
        return text(random, &format!("{sound:#}"));
    }
    let mut damaged = sound.clone();
    for _ in 0..=random.below(3) {
        spoil_value(random, &mut damaged);
    }
    // A number that JSON lacks stands as Python writes it.
    ["NaN", "Infinity"]
        .iter()
        .fold(damaged.to_string(), |text, word| text.replace(&format!("\"={word}\""), word))
        .into()
}

/// Walks down to some value and changes it or what holds it.
fn spoil_value(random: &mut Random, value: &mut Value) {
    let leave = random.below(4) > 0;
    match value {
        Value::Array(values) if leave && !values.is_empty() => {
            let at = random.below(values.len());
            match random.below(8) {
                0 => drop(values.remove(at)),
                1 => values.push(values[at].clone()),
                _ => spoil_value(random, &mut values[at]),
            }
        }
        Value::Object(entries) if leave && !entries.is_empty() => {
            let key = entries.keys().nth(random.below(entries.len())).cloned().unwrap_or_default();
            match random.below(8) {
                0 => drop(entries.remove(&key)),
                1 => drop(entries.insert(format!("{key}_"), json!(0))),
                _ => entries.get_mut(&key).into_iter().for_each(|inner| spoil_value(random, inner)),
            }
        }
        other => *other = hostile_value(random),
    }
}

fn hostile_value(random: &mut Random) -> Value {
    let deep = |depth: usize| (0..depth).fold(json!(0), |inner, _| json!([inner]));
    match random.below(14) {
        0 => Value::Null,
        1 => json!(-1),
        2 => json!(0),
        3 => json!(1e300),
        4 => json!(u64::MAX),
        5 => json!(i64::MIN),
        6 => json!("=NaN"),
        7 => json!("=Infinity"),
        8 => json!([]),
        9 => json!({}),
        10 => json!(true),
        11 => deep(1 << random.below(8)),
        12 => json!("x".repeat(1 << random.below(20))),
        _ => json!(random.pick(&HOSTILE)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_depends_on_the_case_alone_and_is_done() {
        let sound = json!({"images": [{"id": 1, "name": "a"}], "numbers": [1, 2, 3]});
        let all = |case| {
            let mut random = Random::new("kind", case);
            [
                bytes(&mut random, b"some bytes of a file"),
                text(&mut random, "a = 1\nb = two\n"),
                json_text(&mut random, &sound),
                bytes(&mut random, b""),
                text(&mut random, ""),
            ]
        };
        let made: Vec<_> = (0..500).map(all).collect();
        assert!((0..500).all(|case| made[case] == all(case)));
        let changed = made.iter().filter(|made| made[2] != sound.to_string().into_bytes()).count();
        assert!(changed > 450, "{changed}");
        assert!(made.iter().any(|made| String::from_utf8_lossy(&made[2]).contains(":NaN")));
    }
}
