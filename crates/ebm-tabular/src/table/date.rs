//! Conversion of dates to numbers.

use super::Style;

/// Beginnings of the months' English names.
const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/// Parses a date, with or without a time of day, as days since 1970-01-01 in UTC. A time without a zone counts as UTC.
/// The parts are separated by `-`, `/`, `.`, a space or a comma, and the month may be an English name. Of years of two
/// digits those below 69 are in this century.
pub fn days(text: &str, style: Style) -> Option<f64> {
    // The time begins behind the last T or space before the first colon.
    let start = text.find(':').map(|colon| text[..colon].rfind([' ', 'T']).map_or(0, |place| place + 1));
    let (date, time) = text.split_at(start.unwrap_or(text.len()));
    if date.is_empty() || style == Style::Time {
        return of_day(time).filter(|_| date.is_empty() && style == Style::Time);
    }
    let date = date.trim_end_matches('T');
    let mut words = date.split(['-', '/', '.', ' ', ',']).filter(|word| !word.is_empty());
    let [a, b, c] = [words.next()?, words.next()?, words.next().filter(|_| words.next().is_none())?];
    let [year, month, day] = match style {
        Style::Ymd => [a, b, c],
        Style::Dmy => [c, b, a],
        _ => [c, a, b],
    };
    let short = |word: &str| word.parse::<i64>().ok().filter(|_| word.len() <= 2);
    let named = MONTHS.iter().position(|name| month.to_lowercase().starts_with(name));
    // Dots stand between day, month and year in this order; and nobody writes 24-Mar-03 with the year in front.
    let is_dotted = date.contains('.') && named.is_none();
    let year = match (year.len(), year.parse::<i64>().ok()?) {
        (4, year) if style != Style::Mdy || !is_dotted => year,
        (2, year) if style == Style::Dmy || !is_dotted && (style == Style::Mdy || named.is_none()) => {
            year + if year < 69 { 2000 } else { 1900 }
        }
        _ => return None,
    };
    let (month, day) = (named.map(|place| place as i64 + 1).or_else(|| short(month))?, short(day)?);
    let date = first(year, month) + day - 1;
    let exists = (1..=12).contains(&month) && day > 0 && date < first(year, month + 1);
    let of_day = if time.is_empty() { 0.0 } else { of_day(time)? };
    exists.then_some(date as f64 + of_day)
}

/// Parses a time such as `13:45`, `13:45:10.5`, `1:45 PM` or `13:45:10+02:00` as days since midnight in UTC.
fn of_day(time: &str) -> Option<f64> {
    let end = time.find(|sign: char| !sign.is_ascii_digit() && !":.,".contains(sign)).unwrap_or(time.len());
    let (clock, zone) = (time[..end].replace(',', "."), time[end..].trim().to_ascii_uppercase());
    let parts = clock.split(':').map(|word| word.parse().ok()).collect::<Option<Vec<f64>>>()?;
    let (&[hour, minute], second) = (parts.first_chunk()?, parts.get(2).unwrap_or(&0.0));
    let shift = match zone.as_str() {
        "" | "Z" | "UTC" | "GMT" => 0.0,
        "AM" | "PM" => 12.0 * (f64::from(zone == "PM") - f64::from(hour >= 12.0)),
        zone => {
            let digits = format!("{:0<4}", zone.replace(['+', '-', ':'], ""));
            let ahead: u32 =
                digits.parse().ok().filter(|_| digits.len() == 4 && zone.starts_with(['+', '-']))?;
            let hours = f64::from(ahead / 100) + f64::from(ahead % 100) / 60.0;
            if zone.starts_with('+') { -hours } else { hours }
        }
    };
    let exists = parts.len() < 4 && hour < 24.0 && minute < 60.0 && *second < 61.0;
    exists.then_some(((hour + shift) * 3600.0 + minute * 60.0 + second) / 86_400.0)
}

/// Returns the days from 1970-01-01 to the first of a month. Years are counted from March, so that the leap day is last.
fn first(year: i64, month: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    // 719 468 days lie between 0000-03-01 and 1970-01-01.
    365 * year + leaps + (153 * month + 2) / 5 - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Against `datetime` of Python.
    #[test]
    fn dates_are_days() {
        let dates = [
            ("1970-01-01", 0.0, Style::Ymd),
            ("2000-02-29", 11_016.0, Style::Ymd),
            ("2024/03/01", 19_783.0, Style::Ymd),
            ("31.12.1969", -1.0, Style::Dmy),
            ("3/14/2024", 19_796.0, Style::Mdy),
            ("03-Mar-2024", 19_785.0, Style::Dmy),
            ("Sept 3, 2024", 19_969.0, Style::Mdy),
            ("Sept. 3, 2024", 19_969.0, Style::Mdy),
            ("03.03.24", 19_785.0, Style::Dmy),
            ("2024.03.03", 19_785.0, Style::Ymd),
            ("3 September 2024", 19_969.0, Style::Dmy),
            ("01/02/70", 1.0, Style::Mdy),
            ("1/2/00", 10_958.0, Style::Mdy),
            ("1970-01-02T12:00", 1.5, Style::Ymd),
            ("1970-01-02 06:00:00Z", 1.25, Style::Ymd),
            ("1970-01-02T02:00:00.000+02:00", 1.0, Style::Ymd),
            ("1970-01-01 22:00:00-0500", 1.125, Style::Ymd),
            ("1/2/1970 12:00:00 AM", 1.0, Style::Mdy),
            ("1/2/1970 6:00 PM", 1.75, Style::Mdy),
            ("18:00:00", 0.75, Style::Time),
        ];
        for (text, value, style) in dates {
            assert_eq!(days(text, style), Some(value), "{text}");
        }
        for text in [
            "2024-13-01",
            "2023-02-29",
            "2024-3",
            "1970-01-01 25:00",
            "1970-01-01 10:00 XX",
            "12.5",
            "a.b.2020",
            "1970-01-01 10",
            "2024-01-00",
            "10:00",
            "",
            ":",
            "1970-01-01 10:00+é",
            "1970-01-01 10:00 é",
            "T:",
            "100-01-02",
        ] {
            assert_eq!(days(text, Style::Ymd), None, "{text}");
        }
        for style in [Style::Ymd, Style::Mdy] {
            assert_eq!((days("01.03.24", style), days("03.04.2024", style)), (None, None));
        }
    }
}
