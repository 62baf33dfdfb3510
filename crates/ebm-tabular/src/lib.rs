//! Regression on tables: a density p(y | x) of one to three numeric columns given all others.
//!
//! | Contents | Item |
//! |---|---|
//! | a table of texts, read from a CSV file at once or in blocks | [`Table`], [`Blocks`] |
//! | a fit, saved to and loaded from a folder | [`TabularRegressor`] |
//! | the prediction for a row | [`Prediction`], [`TargetDensity`] |
//! | figures of predictions | [`evaluate`], [`cross_validate`], [`refined_rmse`], [`importance`] |
//! | the settings | [`TabularConfig`] |
//! | the network of f(x, y) | [`model::EnergyHead`] |
//! | data sets for comparing methods | [`benchmark`] |
//!
//! ```
//! use ebm_tabular::{FitOptions, Table, TabularConfig, TabularRegressor};
//!
//! let mut text = "x,y\n".to_owned();
//! (0..60).for_each(|k| text += &format!("{},{}\n", k, 2.0 * f64::from(k) + f64::from(k * 7 % 5)));
//! let table = Table::parse("line", &text)?;
//! let mut config = TabularConfig::new()?;
//! (config.members, config.training.steps) = (1, 100);
//! let regressor = TabularRegressor::fit(&table, &FitOptions::new("y"), &config, &mut |_| {})?;
//! let row = &regressor.predict(&Table::parse("new", "x,y\n30,62\n")?)?[0];
//! assert!(row.log_prob.is_some() && (row.targets[0].quantile(0.5)? - 62.0).abs() < 30.0);
//! # Ok::<(), ebm_tabular::Error>(())
//! ```
#![cfg_attr(doctest, doc = include_str!("../README.md"))]

pub mod benchmark;
mod config;
mod evaluation;
mod features;
mod folds;
mod importance;
pub mod model;
mod prediction;
mod regressor;
mod table;
mod target;
mod training;

pub use config::{
    Built, DensityConfig, MethodConfig, ModelConfig, NetworkConfig, TabularConfig, TrainingConfig,
};
pub use ebm_experiment::{Error, Result};
pub use evaluation::{
    DensityEvaluation, Evaluation, TargetEvaluation, evaluate, evaluate_predictions, refined_rmse,
};
pub use features::{Column, ColumnRoles, Encoded, Features, Kind};
pub use folds::{Division, cross_validate};
pub use importance::{Importance, importance};
pub use prediction::{Prediction, TargetDensity};
pub use regressor::{FitOptions, Fitted, MIN_CALIBRATION, TabularRegressor};
pub use table::{Blocks, Form, MAX_BYTES, ReadOptions, Source, Style, Table};
pub use target::{Support, Target, TargetSpec};
pub use training::{Rows, Trained, train};
