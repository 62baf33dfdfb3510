//! Cross-validation: each fold of the rows is judged by a fit to other rows.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ebm_base::Key;
use ebm_core::rand::RngCore;
use rand::seq::SliceRandom;

use crate::config::TabularConfig;
use crate::regressor::{Complete, FitOptions, TabularRegressor, complete};
use crate::{Error, Evaluation, Result, Table, evaluate};

/// Way to divide the rows of a table into folds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Division {
    /// Divides rows at random.
    #[default]
    Random,
    /// Divides at random, and keeps the rows of one text in this column together. A gap is a group of its own.
    Group(String),
    /// Divides by the numbers or dates in this column. Each fold is judged by a fit to all rows before it.
    Time(String),
}

/// Positions of the rows to learn from, and of those to judge by.
type Fold = [Vec<usize>; 2];

/// Evaluates the method that `options` name by `count` fits, each on a fold that it has not learnt from. Rows without all
/// targets are left out. The column of `division` is an input too, unless `options` ignore it. Messages go to `say`.
///
/// # Errors
/// [`Error::Input`] if the column of `division` cannot divide the rows into this number of folds, and the errors of
/// [`TabularRegressor::fit`] and [`evaluate`].
pub fn cross_validate(
    table: &Table,
    options: &FitOptions,
    config: &TabularConfig,
    count: usize,
    division: &Division,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<Evaluation>> {
    let Complete { table, .. } = complete(table, &options.targets)?;
    let folds = divide(&table, count, division, Key::new(options.seed).split("folds"))?;
    let judge = |(place, fold): (usize, &Fold)| {
        let [learnt, judged] = fold.each_ref().map(|rows| table.select(rows));
        let name = format!("fold {} of {count}", place + 1);
        say(&format!("{name}: {} rows judged by a fit to {} others", judged.rows(), learnt.rows()));
        let say = &mut |text: &str| say(&format!("{name}: {text}"));
        evaluate(&TabularRegressor::fit(&learnt, options, config, say)?, &judged)
    };
    folds.iter().enumerate().map(judge).collect()
}

fn divide(table: &Table, count: usize, division: &Division, key: Key) -> Result<Vec<Fold>> {
    let rng = &mut key.rng();
    let (parts, folds) = match division {
        Division::Random => ("rows", by_group(&vec![None; table.rows()], count, rng)),
        Division::Group(name) => {
            let place = table.column(name)?;
            let groups: Vec<_> = (0..table.rows()).map(|row| table.text(row, place)).collect();
            ("groups", by_group(&groups, count, rng))
        }
        Division::Time(name) => {
            let reason = "is no number or date to order the rows by; correct it, or remove the row";
            ("different times", by_time(&table.all_values(name, |_, _| true, reason)?, count))
        }
    };
    let reason = format!("too few {parts} for {count} folds; give fewer --folds");
    folds.ok_or_else(|| Error::input(table.name(), reason))
}

/// Divides rows at random into `count` folds of about equal size. Rows of a group share a fold; a row without a group is one.
/// None if there are fewer groups than folds.
fn by_group(groups: &[Option<&str>], count: usize, rng: &mut dyn RngCore) -> Option<Vec<Fold>> {
    let mut parts = BTreeMap::<(Option<&str>, usize), Vec<usize>>::new();
    for (row, group) in groups.iter().enumerate() {
        parts.entry((*group, if group.is_none() { row } else { 0 })).or_default().push(row);
    }
    let mut parts: Vec<Vec<usize>> = parts.into_values().collect();
    parts.shuffle(rng);
    // The largest groups come first, so that the others can even out the sizes.
    parts.sort_by_key(|part| Reverse(part.len()));
    let mut folds: Vec<Vec<usize>> = vec![vec![]; count];
    for part in parts {
        folds.iter_mut().min_by_key(|fold| fold.len())?.extend(part);
    }
    let fold = |place: usize| {
        let learnt = [&folds[..place], &folds[place + 1..]].concat().concat();
        (!folds[place].is_empty()).then(|| [learnt, folds[place].clone()])
    };
    (0..count).map(fold).collect()
}

/// Divides rows by time into `count` + 1 blocks of about equal size, and judges each but the first by the rows before it.
/// Rows of one time share a block; none if a block would be empty.
fn by_time(times: &[f64], count: usize) -> Option<Vec<Fold>> {
    let mut order: Vec<usize> = (0..times.len()).collect();
    order.sort_by(|&a, &b| times[a].total_cmp(&times[b]));
    let begin = |block: usize| {
        let first = times[*order.get(block * times.len() / (count + 1))?];
        Some(order.partition_point(|&row| times[row] < first))
    };
    let mut begins = (0..=count).map(begin).collect::<Option<Vec<usize>>>()?;
    begins.push(times.len());
    let fold = |ends: &[usize]| [&order[..ends[0]], &order[ends[0]..ends[1]]].map(<[usize]>::to_vec);
    begins.windows(2).all(|ends| ends[0] < ends[1]).then(|| begins[1..].windows(2).map(fold).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every row is judged at most once, and by a fit that has not learnt from it.
    fn check(folds: &[Fold], rows: usize) -> Vec<usize> {
        let mut judged = vec![0; rows];
        for [learnt, own] in folds {
            assert!(!learnt.is_empty() && !own.is_empty());
            assert!(own.iter().all(|row| !learnt.contains(row)));
            own.iter().for_each(|&row| judged[row] += 1);
        }
        assert!(judged.iter().all(|&times| times <= 1), "{judged:?}");
        folds.iter().map(|[_, judged]| judged.len()).collect()
    }

    #[test]
    fn random_folds_judge_every_row_once_and_depend_on_the_seed() {
        let folds = |seed| by_group(&[None; 103], 5, &mut Key::new(seed).rng()).unwrap();
        assert_eq!(check(&folds(0), 103), [21, 21, 21, 20, 20]);
        assert!(folds(0).iter().all(|[learnt, judged]| learnt.len() + judged.len() == 103));
        assert!(folds(0) == folds(0) && folds(0) != folds(1));
        assert_eq!(by_group(&[None; 4], 5, &mut Key::new(0).rng()), None);
    }

    #[test]
    fn a_group_is_never_on_both_sides() {
        // Groups of 1, 2, …, 12 rows, and 10 gaps.
        let names: Vec<String> = (0..13).map(|k| format!("g{k}")).collect();
        let mut groups: Vec<Option<&str>> = vec![None; 10];
        (1..13).for_each(|k| groups.extend(vec![Some(&*names[k]); k]));
        for seed in 0..20 {
            groups.shuffle(&mut Key::new(seed).split("rows").rng());
            let folds = by_group(&groups, 4, &mut Key::new(seed).rng()).unwrap();
            let sizes = check(&folds, 88);
            assert_eq!(sizes.iter().sum::<usize>(), 88);
            assert!(sizes.iter().all(|size| (20..=24).contains(size)), "{sizes:?}");
            for [learnt, judged] in folds {
                let is_divided = |row: &usize| {
                    groups[*row].is_some() && learnt.iter().any(|other| groups[*other] == groups[*row])
                };
                assert!(!judged.iter().any(is_divided));
            }
        }
        assert_eq!(by_group(&[Some("a"), Some("b"), Some("a")], 3, &mut Key::new(0).rng()), None);
    }

    #[test]
    fn nothing_is_learnt_from_the_future() {
        // Times in no order, each twice.
        let times: Vec<f64> = (0..60).map(|row| f64::from(row * 7 % 30)).collect();
        let folds = by_time(&times, 5).unwrap();
        assert_eq!(check(&folds, 60), [10; 5]);
        for (place, [learnt, judged]) in folds.iter().enumerate() {
            assert_eq!(learnt.len(), 10 * (place + 1));
            let last = learnt.iter().map(|&row| times[row]).fold(f64::NEG_INFINITY, f64::max);
            assert!(judged.iter().all(|&row| times[row] > last));
        }
        // Rows of one time are not divided: 7 of 10 rows share the middle block.
        let times = [0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0];
        assert_eq!(by_time(&times, 1).unwrap()[0][0], [0]);
        assert_eq!((by_time(&times, 3), by_time(&[], 1), by_time(&[1.0; 8], 2)), (None, None, None));
    }
}
