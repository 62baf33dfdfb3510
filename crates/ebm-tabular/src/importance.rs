//! Permutation importance: how much worse a fit predicts if a column's cells are mixed up.

use candle_core::Tensor;
use ebm_base::Key;
use ebm_eval::Summary;
use rand::seq::SliceRandom;
use rayon::prelude::*;
use serde::Serialize;

use crate::evaluation::complete_rows;
use crate::regressor::{Complete, TabularRegressor};
use crate::{Error, Result, Table};

/// Number of permutations of each column.
const PERMUTATIONS: u64 = 5;
/// Largest number of rows that are judged.
const MAX_ROWS: usize = 200;

/// Rise of the mean of −log p(y | x), in nats, if the cells of a column are permuted among the rows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Importance {
    /// Name of the column.
    pub name: String,
    /// Mean over five permutations.
    pub rise: f64,
    /// Least rise of a permutation.
    pub rise_low: f64,
    /// Largest rise of a permutation.
    pub rise_high: f64,
}

/// Computes the importance of each input column on the first rows of `table` that have all targets, 200 at most. The most
/// important column comes first.
///
/// # Errors
/// [`Error::Input`] for a method without a density, or without a row that has all targets.
pub fn importance(regressor: &TabularRegressor, table: &Table) -> Result<Vec<Importance>> {
    let fitted = regressor.fitted();
    if !regressor.has_density()? {
        let reason = "it has no density; the importance of columns needs a log p";
        return Err(Error::input(format!("the method {}", fitted.method), reason));
    }
    let Complete { table, mut y, .. } = complete_rows(&fitted.targets, table)?;
    y.truncate(MAX_ROWS);
    let count = y.len() as u32;
    let x = regressor.encode(&table.select(&(0..y.len()).collect::<Vec<_>>()))?.x;
    let initial = regressor.log_probs(regressor.ensemble(), &x, &y)?;
    let mut inputs = 0;
    let mut parts = Vec::new();
    for column in fitted.features.columns() {
        let width = column.parts().len();
        parts.extend((width > 0).then_some((column, inputs, width)));
        inputs += width;
    }
    let key = Key::new(fitted.seed).split("importance");
    let rise = |(name, from, width): (&str, usize, usize), k: u64| {
        let mut order: Vec<u32> = (0..count).collect();
        order.shuffle(&mut key.split(name).index(k).rng());
        let is_mixed = (0..inputs).map(|input| u8::from((from..from + width).contains(&input)));
        let is_mixed = Tensor::from_iter(is_mixed, x.device())?.broadcast_as(x.shape())?;
        let mixed = is_mixed.where_cond(&x.index_select(&Tensor::new(order, x.device())?, 0)?, &x)?;
        let found = regressor.log_probs(regressor.ensemble(), &mixed, &y)?;
        Ok(initial.iter().zip(found).map(|(log_p, mixed)| log_p - mixed).sum::<f64>() / f64::from(count))
    };
    let of = |(column, from, width): (&crate::Column, usize, usize)| {
        let rises = (0..PERMUTATIONS).map(|k| rise((&column.name, from, width), k));
        let mut rises = rises.collect::<Result<Vec<f64>>>()?;
        rises.sort_by(f64::total_cmp);
        let (name, mean) = (column.name.clone(), Summary::new(&rises)?.mean);
        Ok(Importance { name, rise: mean, rise_low: rises[0], rise_high: rises[rises.len() - 1] })
    };
    let mut found = parts.into_par_iter().map(of).collect::<Result<Vec<_>>>()?;
    found.sort_by(|a, b| b.rise.total_cmp(&a.rise));
    Ok(found)
}
