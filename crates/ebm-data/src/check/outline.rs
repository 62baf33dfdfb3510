//! Outlines: what only a check reads of an annotation file.

use serde::Deserialize;
use serde_json::Value;

/// The area within an object's outline in pixels, if there is an outline of polygons.
#[derive(Default, Deserialize)]
#[serde(from = "Value")]
pub(super) struct Outline(pub Option<f64>);

impl From<Value> for Outline {
    fn from(value: Value) -> Self {
        let polygons = value.as_array().filter(|polygons| !polygons.is_empty());
        Self(polygons.and_then(|polygons| polygons.iter().map(polygon_area).sum()))
    }
}

/// The area of a polygon `[x0, y0, x1, y1, …]`: half the sum of the cross products of neighbouring corners.
fn polygon_area(polygon: &Value) -> Option<f64> {
    let numbers: Vec<f64> = polygon.as_array()?.iter().map(Value::as_f64).collect::<Option<_>>()?;
    let corners: Vec<&[f64]> = numbers.chunks_exact(2).collect();
    let next = corners.iter().cycle().skip(1);
    let doubled: f64 = corners.iter().zip(next).map(|(a, b)| a[0] * b[1] - b[0] * a[1]).sum();
    Some(doubled.abs() / 2.)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn areas_are_those_of_the_polygons() {
        assert_eq!(Outline::from(json!([[0, 0, 4, 0, 4, 3]])).0, Some(6.));
        assert_eq!(Outline::from(json!([[0, 0, 0, 2, 2, 2, 2, 0], [0, 0, 4, 0, 4, 3]])).0, Some(10.));
        for other in [json!(null), json!([]), json!({"counts": [1], "size": [1, 1]}), json!([["0", 1]])] {
            assert_eq!(Outline::from(other).0, None);
        }
        assert_eq!(Outline::from(json!([[]])).0, Some(0.));
    }
}
