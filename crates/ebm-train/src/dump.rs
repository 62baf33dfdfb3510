//! What is left to look at when a run ends because its losses were not finite.

use crate::checkpoint::CheckpointData;
use crate::error::{BoxError, Error, Result};
use crate::files;
use crate::trainer::StepReport;
use candle_core::{DType, Tensor};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const FILE: &str = "non_finite.json";

/// Writes `non_finite.json` into the run: the step's report, the steps that were hit, and for each of the
/// task's tensors its largest absolute value, which says where it grew. What is not finite stands there as
/// text.
pub(crate) fn write(
    run: &Path,
    step: usize,
    report: &StepReport,
    hits: &[usize],
    data: &CheckpointData,
) -> Result<PathBuf> {
    let task = |source| Error::Task { step, source };
    let object = json!({
        "step": step,
        "hits": hits,
        "loss": number(report.loss),
        "grad_norm": number(report.grad_norm),
        "scalars": report.scalars.iter().map(|(name, &value)| (name.clone(), number(value))).collect::<Map<_, _>>(),
        "largest_in_model": largest(&data.model).map_err(task)?,
        "largest_in_optimizer": largest(&data.optimizer).map_err(task)?,
    });
    let path = run.join(FILE);
    let text = serde_json::to_vec_pretty(&object).map_err(Error::json(&path))?;
    files::replace(&path, &text)?;
    Ok(path)
}

/// JSON has no NaN and no infinity.
fn number(value: f64) -> Value {
    if value.is_finite() { json!(value) } else { json!(value.to_string()) }
}

fn largest(tensors: &BTreeMap<String, Tensor>) -> std::result::Result<Map<String, Value>, BoxError> {
    let one = |tensor: &Tensor| -> std::result::Result<Value, BoxError> {
        if tensor.elem_count() == 0 {
            return Ok(Value::Null);
        }
        let values = tensor.to_dtype(DType::F64)?.flatten_all()?.to_vec1::<f64>()?;
        // A NaN is larger than anything.
        let largest = values.iter().fold(0f64, |most, value| {
            if most.is_nan() || value.is_nan() { f64::NAN } else { most.max(value.abs()) }
        });
        Ok(number(largest))
    };
    tensors.iter().map(|(name, tensor)| Ok((name.clone(), one(tensor)?))).collect()
}
