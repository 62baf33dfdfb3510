//! Conversion of texts to numbers.

/// Signs of currencies, and the per cent sign.
const UNITS: &str = "$€£¥%";

/// A number as it is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    /// Value, in per cent if the unit is `%`.
    pub value: f64,
    /// Sign of a currency or of per cent.
    pub unit: Option<char>,
    /// Sign between thousands.
    pub group: Option<char>,
}

/// Parses a finite number with this decimal sign. Thousands may be grouped by spaces, apostrophes, underscores and the
/// other of point and comma, also as in India. A minus may stand behind the number, or be parentheses about it.
pub fn number(text: &str, decimal: char) -> Option<Number> {
    // Rust would parse words such as "inf" and "nan" as numbers.
    let is_plain = text.ends_with(|sign: char| sign.is_ascii_digit() || sign == '.');
    if let Some(value) = text.parse().ok().filter(|_| is_plain && (decimal == '.' || !text.contains('.'))) {
        return f64::is_finite(value).then_some(Number { value, unit: None, group: None });
    }
    let text: String = text.chars().map(simple).collect();
    let inner = text.strip_prefix('(').and_then(|text| text.strip_suffix(')'));
    let (text, mut sign) = (inner.unwrap_or(&text), inner.map(|_| -1.0));
    let is_mark = |sign| sign == ' ' || sign == '-' || sign == '+' || UNITS.contains(sign);
    let rest = text.trim_start_matches(is_mark);
    let digits = rest.trim_end_matches(is_mark);
    let (before, after) = (&text[..text.len() - rest.len()], &rest[digits.len()..]);
    let mut unit = None;
    for (place, mark) in before.chars().chain(after.chars()).filter(|mark| *mark != ' ').enumerate() {
        match mark {
            '-' if sign.is_none() => sign = Some(-1.0),
            // "65+" is no number.
            '+' if sign.is_none() && place == 0 && !before.is_empty() => sign = Some(1.0),
            mark if UNITS.contains(mark) && unit.is_none() => unit = Some(mark),
            _ => return None,
        }
    }
    let (mantissa, exponent) = digits.split_once(['e', 'E']).unwrap_or((digits, "0"));
    let (whole, fraction) = mantissa.split_once(decimal).unwrap_or((mantissa, ""));
    let group = whole.chars().find(|sign| !sign.is_ascii_digit());
    let is_whole = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_whole(fraction) || group.is_some_and(|sign| sign == decimal || !is_grouped(whole, sign)) {
        return None;
    }
    let whole: String = whole.chars().filter(char::is_ascii_digit).collect();
    let size: f64 =
        format!("{whole}.{fraction}e{exponent}").parse().ok().filter(|size: &f64| size.is_finite())?;
    Some(Number { value: sign.unwrap_or(1.0) * size, unit, group })
}

/// Returns the ASCII sign of the same meaning.
fn simple(sign: char) -> char {
    match sign {
        '−' => '-',
        '’' => '\'',
        '\u{a0}' | '\u{2009}' | '\u{202f}' => ' ',
        '０'..='９' => char::from(b'0' + (sign as u32 - '０' as u32) as u8),
        '．' => '.',
        other => other,
    }
}

/// Returns whether `sign` groups the digits of `whole` by threes, or as in India by twos before the last three.
fn is_grouped(whole: &str, sign: char) -> bool {
    let groups: Vec<usize> = whole.split(sign).map(str::len).collect();
    let [first, inner @ .., 3] = &groups[..] else { return false };
    let size = inner.first().unwrap_or(&3);
    let is_known = [' ', '\'', '_', '.', ','].contains(&sign) && matches!(size, 2 | 3);
    let fits = (1..=*size).contains(first) && inner.iter().all(|group| group == size);
    let is_plain = whole.chars().all(|other| other == sign || other.is_ascii_digit());
    is_known && fits && is_plain && !whole.starts_with('0')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_and_words_are_not() {
        let read = |text, decimal| number(text, decimal).map(|number| number.value);
        let points = [
            ("1.5", 1.5),
            ("-2e3", -2000.0),
            ("7.", 7.0),
            (".5", 0.5),
            ("+3", 3.0),
            ("1,234", 1234.0),
            ("12,34,567.5", 1_234_567.5),
            ("1'234.5", 1234.5),
            ("1_234", 1234.0),
            ("$1,200.50", 1200.5),
            ("-$5", -5.0),
            ("$-5", -5.0),
            ("5 €", 5.0),
            ("(1,234)", -1234.0),
            ("($5)", -5.0),
            ("5-", -5.0),
            ("12.5%", 12.5),
            ("−5", -5.0),
            ("１２．５", 12.5),
            ("1.2E+3 %", 1200.0),
            ("£1.5e3", 1500.0),
            ("1\u{202f}234", 1234.0),
        ];
        for (text, value) in points {
            assert_eq!(read(text, '.'), Some(value), "{text}");
        }
        let commas = [
            ("1,5", 1.5),
            ("20.589,28", 20_589.28),
            ("1 234,5", 1234.5),
            ("1.234", 1234.0),
            ("-3,5 %", -3.5),
        ];
        for (text, value) in commas {
            assert_eq!(read(text, ','), Some(value), "{text}");
        }
        let words = [
            "1,5",
            "inf",
            "nan",
            "1e999",
            "",
            "1 2",
            "0x10",
            "12b",
            "65+",
            ".",
            "-",
            "$",
            "1,2345",
            "0,123",
            "--5",
            "(-5)",
            "$5€",
            "1/2",
            "e5",
            "1e",
            "1,234'567",
            "1__000",
            "1,23,45",
            "()",
            "1.5.2",
            "+-5",
        ];
        for text in words {
            assert_eq!(read(text, '.'), None, "{text}");
        }
        assert_eq!((read("1.5", ','), read("1.23,4", ',')), (None, None));
        assert_eq!(
            number("€1.234,5", ','),
            Some(Number { value: 1234.5, unit: Some('€'), group: Some('.') })
        );
    }
}
