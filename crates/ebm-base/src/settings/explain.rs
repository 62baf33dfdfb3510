//! Text of declarations.

use super::{Declaration, Field};

impl Declaration {
    /// Returns a line for each setting with its key, range and meaning. `*` stands for the `key` of a row, and
    /// `kind=name` for a kind that is named beside its settings.
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
        let (fields, tag) = match self {
            Self::Plain => return say(""),
            Self::Numbers(range) => return say(&format!("{range}. ")),
            Self::List(item) => return item.explain(&under("*"), meaning, lines),
            Self::Table(fields) => (fields, None),
            Self::Choice { tag, kinds } => (kinds, *tag),
        };
        for Field { name, meaning, declaration } in fields {
            let part = tag.map_or_else(|| name.clone(), |tag| format!("{tag}={name}"));
            declaration.explain(&under(&part), meaning, lines);
        }
    }
}
