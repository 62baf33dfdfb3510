//! How figures stand in JSON: a rate as a fraction, and what could not be measured as null. For
//! `#[serde(with = "…")]`.

/// A rate that is held in per cent and written as a fraction.
pub mod per_cent {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// What a factor can be applied to.
    pub trait Scale {
        /// Every number in it times `factor`.
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
    /// The serializer's.
    pub fn serialize<T: Scale + Serialize, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value.times(0.01).serialize(serializer)
    }

    /// Reads what [`serialize`] wrote.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, T: Scale + Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        Ok(T::deserialize(deserializer)?.times(100.0))
    }
}

/// A figure that is −1 where there is nothing that it could be of, as in pycocotools, and null in JSON.
pub mod or_null {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    /// Writes null for a negative number.
    ///
    /// # Errors
    /// The serializer's.
    pub fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Some(*value).filter(|value| *value >= 0.0).serialize(serializer)
    }

    /// Reads null as −1.
    ///
    /// # Errors
    /// The deserializer's.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Option::deserialize(deserializer)?.unwrap_or(-1.0))
    }
}
