//! Declarations as text.

use crate::{Declaration, Field};

impl Declaration {
    /// A line for each setting: its key, its range, its meaning. `*` stands for the `key` of a row,
    /// `kind=name` for a kind that is named beside its settings.
    #[must_use]
    pub fn explained(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.explain("", &[], &mut lines);
        lines
    }

    fn explain(&self, key: &str, meaning: &[&str], lines: &mut Vec<String>) {
        let under = |part: &str| if key.is_empty() { part.to_owned() } else { format!("{key}.{part}") };
        let mut say = |range: &str| {
            let meaning: Vec<&str> = meaning.iter().map(|line| line.trim()).collect();
            lines.push(format!("{key}: {range}{}", meaning.join(" ")).trim_end().to_owned());
        };
        match self {
            Self::Plain => say(""),
            Self::Numbers(range) => say(&format!("{range}. ")),
            Self::List(item) => item.explain(&under("*"), meaning, lines),
            Self::Table(fields) => fields.iter().for_each(|field| field.explain(&under(&field.name), lines)),
            Self::Choice { tag, kinds } => kinds.iter().for_each(|kind| match tag {
                Some(tag) => kind.explain(&under(&format!("{tag}={}", kind.name)), lines),
                None => kind.explain(&under(&kind.name), lines),
            }),
        }
    }
}

impl Field {
    fn explain(&self, key: &str, lines: &mut Vec<String>) {
        self.declaration.explain(key, self.meaning, lines);
    }
}
