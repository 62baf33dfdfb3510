//! Format of all JSON output. docs/json.md states its keys and units, and tests/common/schema.rs checks them.

use serde_json::Value;

/// Version of the format. It changes when keys or units change.
pub const SCHEMA: &str = "ebm/1";

/// Adds the format's version and the command, in the words that a user types, to the object `body`.
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

    /// Words of every command with `--json`, and of commands that print only JSON.
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
