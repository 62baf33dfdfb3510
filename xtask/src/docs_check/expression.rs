//! Values of CSV records, and numbers as tables show them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};

/// A line of a CSV file by column.
pub type Record = BTreeMap<String, String>;

/// A product of columns and numbers, some of them divisors.
#[derive(Clone, Debug)]
struct Product(Vec<(bool, String)>);

impl Product {
    fn parse(text: &str) -> Result<Self> {
        let mut factors = Vec::new();
        for (index, part) in text.split('*').enumerate() {
            for (position, factor) in part.split('/').enumerate() {
                if factor.is_empty() || factor.contains(['(', ')', '[', ']']) {
                    bail!("`{text}` is no product of columns and numbers (factor {})", index + 1);
                }
                factors.push((position > 0, factor.to_owned()));
            }
        }
        Ok(Self(factors))
    }

    /// None where a column is empty or missing.
    fn of(&self, record: &Record) -> Result<Option<f64>> {
        let mut product = 1.0;
        for (divides, factor) in &self.0 {
            let value: f64 = match (factor.parse(), record.get(factor).map(String::as_str)) {
                (Ok(number), _) => number,
                (_, None | Some("")) => return Ok(None),
                (_, Some(text)) => text.parse().with_context(|| format!("column `{factor}`: `{text}`"))?,
            };
            product = if *divides { product / value } else { product * value };
        }
        Ok(Some(product))
    }

    fn columns(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(_, factor)| factor.as_str()).filter(|factor| factor.parse::<f64>().is_err())
    }
}

/// What a number in a cell is of the records of its row.
#[derive(Clone, Debug)]
pub struct Expression {
    aggregate: Option<String>,
    product: Product,
}

impl Expression {
    /// Reads `mean(100*AP)` or `ours_ms`.
    pub fn parse(text: &str) -> Result<Self> {
        let Some((name, rest)) = text.split_once('(') else {
            return Ok(Self { aggregate: None, product: Product::parse(text)? });
        };
        if !["mean", "sd", "min", "max", "count"].contains(&name) {
            bail!("`{name}` is none of mean, sd, min, max, count");
        }
        let inner = rest.strip_suffix(')').with_context(|| format!("`{text}` has no `)` at its end"))?;
        Ok(Self { aggregate: Some(name.to_owned()), product: Product::parse(inner)? })
    }

    /// The columns that it needs.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.product.columns()
    }

    /// Whether it may be left out of a cell where it is 0: the spread of what does not vary.
    pub fn is_spread(&self) -> bool {
        self.aggregate.as_deref() == Some("sd")
    }

    /// None where no record has a value, and for the spread of one.
    pub fn of(&self, records: &[&Record]) -> Result<Option<f64>> {
        let values = records.iter().filter_map(|record| self.product.of(record).transpose());
        let values = values.collect::<Result<Vec<f64>>>()?;
        if values.is_empty() {
            return Ok(None);
        }
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        Ok(match self.aggregate.as_deref() {
            None if values.iter().any(|value| *value != values[0]) => {
                bail!("{} records with different values; take their mean, or state conditions", values.len())
            }
            None => Some(values[0]),
            Some("mean") => Some(mean),
            Some("sd") if values.len() == 1 => None,
            Some("sd") => {
                Some((values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt())
            }
            Some("min") => values.into_iter().reduce(f64::min),
            Some("max") => values.into_iter().reduce(f64::max),
            Some(_) => Some(count),
        })
    }
}

/// `column=value`; the left side may be a product.
#[derive(Clone, Debug)]
pub struct Condition {
    left: Product,
    value: String,
}

impl Condition {
    /// Reads `a=1, b=x`.
    pub fn parse_all(text: &str) -> Result<Vec<Self>> {
        let one = |part: &str| {
            let (left, value) =
                part.split_once('=').with_context(|| format!("`{part}` is no condition column=value"))?;
            Ok(Self { left: Product::parse(left.trim())?, value: value.trim().to_owned() })
        };
        text.split(',').filter(|part| !part.trim().is_empty()).map(one).collect()
    }

    /// The columns that it needs.
    pub fn columns(&self) -> impl Iterator<Item = &str> {
        self.left.columns()
    }

    /// Whether a record counts; one without such a column always does.
    pub fn holds(&self, record: &Record) -> Result<bool> {
        if self.columns().any(|column| !record.contains_key(column)) {
            return Ok(true);
        }
        if let [(false, column)] = &self.left.0[..] {
            return Ok(same(&record[column], &self.value));
        }
        let (found, asked) = (self.left.of(record)?, self.value.parse::<f64>());
        Ok(found.zip(asked.ok()).is_some_and(|(a, b)| close(a, b)))
    }
}

/// The same text, or the same number.
pub fn same(a: &str, b: &str) -> bool {
    a == b || a.parse::<f64>().ok().zip(b.parse().ok()).is_some_and(|(a, b)| close(a, b))
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs())
}

/// A number as it is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shown {
    pub value: f64,
    /// Half a unit of its last digit; 0 for a fraction.
    half: f64,
}

impl Shown {
    /// Whether `value` is shown like this.
    pub fn is(self, value: f64) -> bool {
        (self.value - value).abs() <= self.half * (1.0 + 1e-6) + 1e-9 * value.abs()
    }
}

/// The numbers of a cell: `45.1 ± 0.2`, `53.8 (68.5)`, `−1.5e-3`, `1/16`, `**2**`.
pub fn numbers(cell: &str) -> Vec<Shown> {
    let chars: Vec<char> = cell.chars().collect();
    let mut found: Vec<Shown> = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        if !chars[at].is_ascii_digit() {
            at += 1;
            continue;
        }
        let start = at;
        let digits = |mut at: usize| {
            while at < chars.len() && chars[at].is_ascii_digit() {
                at += 1;
            }
            at
        };
        at = digits(at);
        let mut decimals = 0;
        if chars.get(at) == Some(&'.') && digits(at + 1) > at + 1 {
            decimals = digits(at + 1) - at - 1;
            at += 1 + decimals;
        }
        let mut exponent = 0;
        if matches!(chars.get(at), Some('e')) {
            let sign = usize::from(matches!(chars.get(at + 1), Some('-' | '+')));
            let end = digits(at + 1 + sign);
            if end > at + 1 + sign {
                exponent = chars[at + 1..end].iter().collect::<String>().parse().unwrap_or(0);
                at = end;
            }
        }
        let before = start.checked_sub(1).map(|index| chars[index]);
        // Digits in a word, such as those of ResNet50 or RS2, are a name's.
        let in_word =
            before.is_some_and(char::is_alphabetic) || chars.get(at).is_some_and(|c| c.is_alphabetic());
        let sign = if matches!(before, Some('-' | '−')) { -1.0 } else { 1.0 };
        let text: String = chars[start..at].iter().collect();
        let (Ok(value), false) = (text.parse::<f64>(), in_word) else { continue };
        let half = 0.5 * 10f64.powi(exponent - i32::try_from(decimals).unwrap_or(0));
        match found.last_mut() {
            Some(last) if before == Some('/') => *last = Shown { value: last.value / value, half: 0.0 },
            _ => found.push(Shown { value: sign * value, half }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(cell: &str) -> Vec<f64> {
        numbers(cell).iter().map(|shown| shown.value).collect()
    }

    #[test]
    fn numbers_of_cells() {
        assert_eq!(values("45.1 ± 0.2"), [45.1, 0.2]);
        assert_eq!(values("53.8 (68.5)"), [53.8, 68.5]);
        assert_eq!(values("**47.3**, −2.5e-4, -3"), [47.3, -2.5e-4, -3.0]);
        assert_eq!(values("1/16"), [0.0625]);
        assert_eq!(values("117 %, ≤ 0.9"), [117.0, 0.9]);
        assert_eq!(values("– ResNet50 x86"), [0.0; 0]);
    }

    #[test]
    fn a_number_stands_for_what_rounds_to_it() {
        let shown = |cell| numbers(cell)[0];
        assert!(shown("0.07").is(0.0749) && !shown("0.07").is(0.0751));
        // A tie may have gone either way.
        assert!(shown("0.06").is(0.065) && shown("0.07").is(0.065));
        assert!(shown("6.3e-5").is(6.25e-5) && !shown("6.3e-5").is(6.36e-5));
        assert!(shown("1/16").is(0.0625) && !shown("1/16").is(0.07));
    }

    #[test]
    fn expressions_of_records() {
        let record = |kl: &str| Record::from([("kl".to_owned(), kl.to_owned())]);
        let records = [record("1"), record(""), record("2"), record("6")];
        let of = |text| {
            let records: Vec<&Record> = records.iter().collect();
            Expression::parse(text).unwrap().of(&records).unwrap()
        };
        assert_eq!(of("mean(kl)"), Some(3.0));
        // √(((1−3)² + (2−3)² + (6−3)²) / 2) = √7.
        assert_eq!(of("sd(kl)"), Some(7f64.sqrt()));
        assert_eq!((of("min(kl)"), of("max(10*kl/4)"), of("count(kl)")), (Some(1.0), Some(15.0), Some(3.0)));
        assert_eq!(of("mean(none)"), None);
        assert!(Expression::parse("kl").unwrap().of(&[&records[0], &records[2]]).is_err());
        for bad in ["median(kl)", "mean(kl", "a**b", ""] {
            assert!(Expression::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn conditions() {
        let record =
            Record::from([("size", "0.00025"), ("position", "6.25e-05")].map(|(k, v)| (k.into(), v.into())));
        let holds = |text| Condition::parse_all(text).unwrap().iter().all(|c| c.holds(&record).unwrap());
        assert!(holds("size/position=4, size=2.5e-4") && !holds("size/position=16"));
        assert!(holds("other=1") && !holds("size=x"));
        assert!(Condition::parse_all("size").is_err());
    }
}
