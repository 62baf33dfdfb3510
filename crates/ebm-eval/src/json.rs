//! Serde helpers, for `#[serde(with = "…")]`, that write a rate as a fraction and a figure that could not be
//! measured as null.

/// Stores a rate in per cent and writes it as a fraction.
pub mod per_cent {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// A number or numbers that can be scaled.
    pub trait Scale {
        /// Multiplies every number by `factor`.
        fn times(&self, factor: f64) -> Self;
    }

    impl Scale for f64 {
        fn times(&self, factor: f64) -> Self {
            self * factor
        }
    }

    impl Scale for Vec<f64> {
        fn times(&self, factor: f64) -> Self {
            self.iter().map(|value| value * factor).collect()
        }
    }

    /// Writes a hundredth of `value`.
    ///
    /// # Errors
    /// The errors of `serializer`.
    pub fn serialize<T: Scale + Serialize, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.times(0.01).serialize(serializer)
    }

    /// Reads a value that [`serialize`] wrote.
    ///
    /// # Errors
    /// The errors of `deserializer`.
    pub fn deserialize<'de, T: Scale + Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        Ok(T::deserialize(deserializer)?.times(100.0))
    }
}

/// Writes a figure without ground truth, which is −1 as in pycocotools, as null.
pub mod or_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes null for a negative number.
    ///
    /// # Errors
    /// The errors of `serializer`.
    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Some(*value).filter(|value| *value >= 0.0).serialize(serializer)
    }

    /// Reads null as −1.
    ///
    /// # Errors
    /// The errors of `deserializer`.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(-1.0))
    }
}
