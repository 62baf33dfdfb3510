//! Conversion of dates to numbers.

use serde::{Deserialize, Serialize};

/// Order of the parts of a date.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Year, month, day.
    Ymd,
    /// Day, month, year.
    Dmy,
    /// Month, day, year.
    Mdy,
    /// A time of day without a date.
    Time,
}

impl Order {
    /// All orders.
    pub const ALL: [Self; 4] = [Self::Ymd, Self::Dmy, Self::Mdy, Self::Time];

    /// Returns the order's name.
    pub fn name(self) -> &'static str {
        ["ymd", "dmy", "mdy", "time"][self as usize]
    }
}

/// Names of the months; a text may shorten them to three letters.
const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Parses a date, with or without a time of day, as days since 1970-01-01 in UTC. A time without a zone counts as UTC.
/// The parts are separated by `-`, `/`, `.`, a space or a comma, and the month may be an English name. Of years of two
/// digits those below 69 are in this century.
pub fn days(text: &str, order: Order) -> Option<f64> {
    // The time begins behind the last T or space before the first colon.
    let colon = text.find(':');
    let start = colon.map(|colon| text[..colon].rfind([' ', 'T']).map_or(0, |place| place + 1));
    let (date, time) = text.split_at(start.unwrap_or(text.len()));
    let of_day = if time.is_empty() { Some(0.0) } else { of_day(time) };
    match (order, date.is_empty()) {
        (Order::Time, true) => return of_day,
        (Order::Time, false) | (_, true) => return None,
        _ => {}
    }
    let date = date.trim_end_matches([' ', 'T']);
    let mut words = date.split(['-', '/', '.', ' ', ',']).filter(|word| !word.is_empty());
    let words = [words.next()?, words.next()?, words.next().filter(|_| words.next().is_none())?];
    let named = words.iter().position(|word| month_of_name(word).is_some());
    let [year, month, day] = match (order, named) {
        (Order::Ymd, None | Some(1)) => words,
        (Order::Dmy, None | Some(1)) => [words[2], words[1], words[0]],
        (Order::Mdy, None | Some(0)) => [words[2], words[0], words[1]],
        _ => return None,
    };
    let whole =
        |word: &str| word.parse::<i64>().ok().filter(|_| word.bytes().all(|byte| byte.is_ascii_digit()));
    let year = match (year.len(), whole(year)?) {
        (4, year) => year,
        // Nobody writes 24-Mar-03 with the year in front.
        (2, year) if order != Order::Ymd || named.is_none() => year + if year < 69 { 2000 } else { 1900 },
        _ => return None,
    };
    let month = month_of_name(month).or_else(|| whole(month).filter(|_| month.len() <= 2))?;
    let day = whole(day).filter(|_| day.len() <= 2)?;
    let first = |month: i64| days_from_civil(year + month / 12, month % 12);
    let date = first(month - 1) + day - 1;
    ((1..=12).contains(&month) && day > 0 && date < first(month)).then_some(date as f64 + of_day?)
}

/// Returns the number of a month's English name.
fn month_of_name(word: &str) -> Option<i64> {
    let word = word.to_lowercase();
    let place = MONTHS.iter().position(|name| word.len() >= 3 && name.starts_with(&word))?;
    Some(place as i64 + 1)
}

/// Parses a time such as `13:45`, `13:45:10.5`, `1:45 PM` or `13:45:10+02:00` as days since midnight in UTC.
fn of_day(time: &str) -> Option<f64> {
    let clock = time.find(|sign: char| !sign.is_ascii_digit() && !":.,".contains(sign)).unwrap_or(time.len());
    let (clock, zone) = (&time[..clock], time[clock..].trim().to_ascii_uppercase());
    let clock = clock.replace(',', ".");
    let mut parts = clock.split(':');
    let mut part = |below: f64, default: Option<f64>| match parts.next() {
        Some(word) => word.parse().ok().filter(|part| (0.0..below).contains(part)),
        None => default,
    };
    let (mut hour, minute, second) = (part(24.0, None)?, part(60.0, None)?, part(61.0, Some(0.0))?);
    let mut offset = 0.0;
    match zone.as_str() {
        "" | "Z" | "UTC" | "GMT" => {}
        "AM" | "PM" if (1.0..13.0).contains(&hour) => {
            hour = hour % 12.0 + if zone == "PM" { 12.0 } else { 0.0 }
        }
        _ => {
            let digits = zone[1..].replace(':', "");
            let parsed = digits.parse::<u32>().ok().filter(|_| matches!(digits.len(), 2 | 4))?;
            let [hours, minutes] = if digits.len() == 2 { [parsed, 0] } else { [parsed / 100, parsed % 100] };
            let sign = if zone.starts_with('+') {
                1.0
            } else if zone.starts_with('-') {
                -1.0
            } else {
                return None;
            };
            offset = sign * f64::from(60 * hours + minutes);
        }
    }
    parts.next().is_none().then_some((hour * 60.0 + minute - offset) / 1440.0 + second / 86_400.0)
}

/// Returns the days from 1970-01-01 to the first of a month, counted from 0, of the Gregorian calendar. Its years are
/// counted from March, so that the leap day is their last.
fn days_from_civil(year: i64, month: i64) -> i64 {
    let (year, month) = if month > 1 { (year, month - 2) } else { (year - 1, month + 10) };
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
            ("1970-01-01", 0.0, Order::Ymd),
            ("2000-02-29", 11_016.0, Order::Ymd),
            ("2024/03/01", 19_783.0, Order::Ymd),
            ("31.12.1969", -1.0, Order::Dmy),
            ("3/14/2024", 19_796.0, Order::Mdy),
            ("03-Mar-2024", 19_785.0, Order::Dmy),
            ("Sept 3, 2024", 19_969.0, Order::Mdy),
            ("3 September 2024", 19_969.0, Order::Dmy),
            ("01/02/70", 1.0, Order::Mdy),
            ("1/2/00", 10_958.0, Order::Mdy),
            ("1970-01-02T12:00", 1.5, Order::Ymd),
            ("1970-01-02 06:00:00Z", 1.25, Order::Ymd),
            ("1970-01-02T02:00:00.000+02:00", 1.0, Order::Ymd),
            ("1970-01-01 22:00:00-0500", 1.125, Order::Ymd),
            ("1/2/1970 12:00:00 AM", 1.0, Order::Mdy),
            ("1/2/1970 6:00 PM", 1.75, Order::Mdy),
            ("18:00:00", 0.75, Order::Time),
        ];
        for (text, value, order) in dates {
            assert_eq!(days(text, order), Some(value), "{text}");
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
            "T:",
            "100-01-02",
        ] {
            assert_eq!(days(text, Order::Ymd), None, "{text}");
        }
    }
}
