//! The commands of a page, and what its comments say of them.

use std::path::Path;

/// Fate of a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Fate {
    /// The command runs and exits with code 0.
    Run,
    /// The command runs hidden from readers, to give the outputs of smaller runs their names on the page.
    Prepared,
    /// The program understands it, and stops before it does anything.
    Parsed(String),
    /// Nothing.
    Not(String),
}

/// A command, as a reader types it.
#[derive(Debug)]
pub struct Command {
    pub line: usize,
    pub text: String,
    pub fate: Fate,
    /// Beginnings of commands, with the options that replace their own options of the same names.
    pub more: Vec<(String, String)>,
}

/// Returns the commands of a page, and the faults in its markers.
///
/// ```text
/// <!-- ci
/// ebm fit: --set members=1            from here to the end of the page, for every command that begins so
/// $ mv runs/small runs/large          runs here
/// -->
/// <!-- ci: parsed: trains for an hour -->     the block below
/// <!-- ci: not run: needs a GPU -->           the block below
/// ```
///
/// `by:` in the marker of a table is a command too, which is parsed where it is one of `ebm`.
pub fn commands(name: &str, text: &str) -> (Vec<Command>, Vec<String>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    let (mut more, mut fate) = (Vec::new(), Fate::Run);
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let line_number = at + 1;
        if let Some(language) = line.trim_start().strip_prefix("```") {
            let block: Vec<(usize, &str)> =
                lines.by_ref().take_while(|(_, line)| line.trim() != "```").collect();
            let fate = std::mem::replace(&mut fate, Fate::Run);
            if language == "sh" {
                let texts = joined(&block);
                found.extend(texts.into_iter().map(|(line, text)| Command {
                    line,
                    text,
                    fate: fate.clone(),
                    more: more.clone(),
                }));
            } else if language.is_empty() {
                wrong.push(format!(
                    "{name}:{line_number}: the block says no language: sh, rust, text, json, toml, csv"
                ));
            } else if fate != Fate::Run {
                wrong
                    .push(format!("{name}:{line_number}: a comment `ci` stands above a block of {language}"));
            } else if let Some((line, _)) = block.iter().find(|(_, line)| is_command(line)) {
                wrong.push(format!("{name}:{}: a command in a block of {language}", line + 1));
            }
        } else if line.trim() == "<!-- ci" {
            for (at, rule) in lines.by_ref().take_while(|(_, line)| line.trim() != "-->") {
                match (rule.strip_prefix("$ "), rule.split_once(": ")) {
                    (Some(text), _) => found.push(Command {
                        line: at + 1,
                        text: text.to_owned(),
                        fate: Fate::Prepared,
                        more: more.clone(),
                    }),
                    (None, Some((begins, options))) => more.push((begins.to_owned(), options.to_owned())),
                    (None, None) => {
                        wrong.push(format!("{name}:{}: no line `ebm COMMAND: ARGUMENTS`", at + 1))
                    }
                }
            }
        } else if let Some(rule) = line.strip_prefix("<!-- ci: ") {
            match rule.strip_suffix(" -->").and_then(|rule| rule.split_once(": ")) {
                Some(("parsed", why)) => fate = Fate::Parsed(why.to_owned()),
                Some(("not run", why)) => fate = Fate::Not(why.to_owned()),
                _ => wrong
                    .push(format!("{name}:{line_number}: `ci:` is none of `parsed: WHY`, `not run: WHY`")),
            }
        } else if let Some(by) = line.strip_prefix("by: ").filter(|by| is_command(by)) {
            let fate = Fate::Parsed("what a table was made with".to_owned());
            found.push(Command { line: line_number, text: by.to_owned(), fate, more: Vec::new() });
        } else if fate != Fate::Run && !line.trim().is_empty() {
            wrong.push(format!("{name}:{line_number}: there is no block directly below a comment `ci`"));
            fate = Fate::Run;
        }
    }
    (found, wrong)
}

/// Whether the line is one of this project's own commands.
pub fn is_command(line: &str) -> bool {
    ["ebm ", "cargo xtask reproduce ", "cargo xtask download "].iter().any(|start| line.starts_with(start))
}

/// The commands of a block: without lines that are comments, and with those that a backslash continues as one.
fn joined(block: &[(usize, &str)]) -> Vec<(usize, String)> {
    let mut texts: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (at, line) in block {
        let part = line.strip_suffix('\\').unwrap_or(line);
        match texts.last_mut().filter(|_| open) {
            Some((_, text)) => *text += part.trim_start(),
            None if line.trim().is_empty() || line.trim_start().starts_with('#') => {}
            None => texts.push((at + 1, part.to_owned())),
        }
        open = line.ends_with('\\');
    }
    texts
}

/// Every page with commands, named from the root: README.md, those of docs/, of docs/notes/ and of the crates.
pub fn pages(root: &Path) -> Vec<String> {
    let list = |folder: &str| {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.map(|name| format!("{folder}/{name}")).collect::<Vec<_>>()
    };
    let mut pages = vec!["README.md".to_owned(), "CONTRIBUTING.md".to_owned(), "bench/README.md".to_owned()];
    for folder in ["docs", "docs/notes"] {
        pages.extend(list(folder).into_iter().filter(|name| name.ends_with(".md")));
    }
    pages.extend(list("crates").into_iter().map(|name| name + "/README.md"));
    pages.retain(|page| root.join(page).exists());
    pages.sort();
    pages
}
