//! Conversion of texts to numbers.

/// Parses a finite number, with a decimal comma if `decimal_comma` is set.
pub fn number(text: &str, decimal_comma: bool) -> Option<f64> {
    let text = text.trim();
    // Rust would parse words such as "inf" and "nan" as numbers.
    if !text.bytes().next_back()?.is_ascii_digit() && !text.ends_with('.') {
        return None;
    }
    let value = if decimal_comma { text.replace(',', ".").parse() } else { text.parse() };
    value.ok().filter(|value: &f64| value.is_finite())
}

/// Parses a date as the number of days since 1970-01-01. Dates look like `2024-03-01`, `2024/03/01` or `01.03.2024`,
/// optionally followed by a time of day such as `T13:45`, ` 13:45` or ` 13:45:10`.
pub fn days(text: &str) -> Option<f64> {
    let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, ""));
    let whole = |words: [&str; 3]| {
        let mut numbers = [0i64; 3];
        for (number, word) in numbers.iter_mut().zip(words) {
            let plain = !word.is_empty() && word.len() <= 4 && word.bytes().all(|byte| byte.is_ascii_digit());
            *number = word.parse().ok().filter(|_| plain)?;
        }
        Some(numbers)
    };
    let parts = |separator| <[&str; 3]>::try_from(date.split(separator).collect::<Vec<_>>()).ok();
    let [year, month, day] = match (parts('-').or_else(|| parts('/')), parts('.')) {
        (Some(words), _) if words[0].len() == 4 => whole(words)?,
        (_, Some([day, month, year])) if year.len() == 4 => whole([year, month, day])?,
        _ => return None,
    };
    let known = (1..=12).contains(&month) && (1..=31).contains(&day);
    Some(days_from_civil(year, month, day) as f64 + of_day(time)?).filter(|_| known)
}

/// Parses a time of day, `13:45` or `13:45:10` with optional fractions of a second and `Z`, as a fraction of a day.
fn of_day(time: &str) -> Option<f64> {
    let time = time.trim().trim_end_matches('Z');
    if time.is_empty() {
        return Some(0.0);
    }
    let mut seconds = 0.0;
    let words: Vec<&str> = time.split(':').collect();
    if !(2..=3).contains(&words.len()) {
        return None;
    }
    for (word, (size, most)) in words.into_iter().zip([(3600.0, 24.0), (60.0, 60.0), (1.0, 61.0)]) {
        let number: f64 = word.parse().ok()?;
        seconds += size * (0.0..most).contains(&number).then_some(number)?;
    }
    Some(seconds / 86_400.0)
}

/// Returns the days of the Gregorian calendar since 1970-01-01, counted in years that begin with March.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719 468 days lie between 0000-03-01 and 1970-01-01.
    365 * year + leaps + (153 * month + 2) / 5 + day - 1 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers_and_words_are_not() {
        for (text, value) in [("1.5", 1.5), ("-2e3", -2000.0), ("7.", 7.0), (".5", 0.5), ("+3", 3.0)] {
            assert_eq!(number(text, false), Some(value), "{text}");
        }
        assert_eq!(number("1,5", true), Some(1.5));
        for text in ["1,5", "inf", "nan", "1e999", "", "1 2", "0x10", "12b"] {
            assert_eq!(number(text, false), None, "{text}");
        }
    }

    /// Against `datetime.date.toordinal` of Python, less that of 1970-01-01.
    #[test]
    fn dates_are_days() {
        let dates =
            [("1970-01-01", 0.0), ("2000-02-29", 11_016.0), ("2024/03/01", 19_783.0), ("31.12.1969", -1.0)];
        for (text, value) in dates {
            assert_eq!(days(text), Some(value), "{text}");
        }
        assert_eq!(days("1970-01-02T12:00"), Some(1.5));
        assert_eq!(days("1970-01-02 06:00:00Z"), Some(1.25));
        for text in ["2024-13-01", "2024-3", "01-02-2024", "1970-01-01 25:00", "12.5", "a.b.2020"] {
            assert_eq!(days(text), None, "{text}");
        }
    }
}
