//! The one format of everything that machines read: docs/json.md states its keys and units,
//! tests/common/schema.rs checks them.

use serde_json::Value;

/// The format's version; another one has other keys or other units.
pub const SCHEMA: &str = "ebm/1";

/// The object `body` as a document of `command`, the words that a user types.
pub fn document(command: &str, mut body: Value) -> Value {
    if let Some(object) = body.as_object_mut() {
        object.insert("schema".into(), SCHEMA.into());
        object.insert("command".into(), command.into());
    }
    body
}

#[cfg(test)]
#[path = "../tests/common/schema.rs"]
mod page;

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::page;

    /// The words of every command that has `--json`, and of those that print JSON alone.
    fn commands(command: &clap::Command, words: &str, found: &mut Vec<String>) {
        let printing = ["predict detection", "predict age", "predict head-pose"];
        if command.get_arguments().any(|argument| argument.get_id() == "json") || printing.contains(&words) {
            found.push(words.to_owned());
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            let words = format!("{words} {}", sub.get_name());
            commands(sub, words.trim_start(), found);
        }
    }

    #[test]
    fn every_command_is_documented() {
        let mut found = Vec::new();
        commands(&crate::Cli::command(), "", &mut found);
        let mut known = page::commands();
        found.sort();
        known.sort();
        assert_eq!(found, known);
    }
}
