//! One name for a sequence, however a source spells it.

/// The spelling by which names are compared: small letters, and `_` where a source writes `.`, `-` or a
/// blank, so that `Human4.2`, `human4-2` and `human4_2` are one.
pub fn name_key(name: &str) -> String {
    name.chars()
        .flat_map(char::to_lowercase)
        .map(|c| if matches!(c, '.' | '-' | ' ') { '_' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_name_have_one_key() {
        for name in ["Human4.2", "human4-2", "HUMAN4_2", "human4 2"] {
            assert_eq!(name_key(name), "human4_2");
        }
        assert_ne!(name_key("Car1"), name_key("Car.1"));
    }
}
