//! Finds the commands of a page that cannot run if a program is missing, and those that read their outputs.

use super::page::{Command, Fate};

/// Command that is not run, but would be if every program were there.
#[derive(Debug, PartialEq)]
pub struct Lack {
    pub line: usize,
    /// The program that is missing, of this command or of the one that makes what it reads.
    pub program: String,
    /// Missing input of the command, which no command has made.
    pub reads: Option<String>,
}

/// Returns the programs that a command starts: the first words of the parts between `;`, `&&`, `||` and `|`.
pub fn programs(command: &Command) -> impl Iterator<Item = &str> {
    let mut first = true;
    let words = command.text.split_whitespace().take_while(|word| !word.starts_with('#'));
    words.filter(move |word| {
        let ends = word.ends_with(';') || ["&&", "||", "|"].contains(word);
        std::mem::replace(&mut first, ends)
    })
}

/// Changes the fate of the commands of a page that cannot run: shown commands are only parsed, hidden ones are left
/// out. `has` says whether a program is here.
pub fn take_out(commands: &mut [Command], has: impl Fn(&str) -> bool) -> Vec<Lack> {
    let (mut lacks, mut absent) = (Vec::new(), Vec::<(String, String)>::new());
    for command in commands.iter_mut().filter(|command| matches!(command.fate, Fate::Run | Fate::Prepared)) {
        let words: Vec<&str> =
            command.text.split_whitespace().map(|word| word.trim_end_matches(';')).collect();
        let is_below = |word: &str, path: &str| {
            word.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let named = |path: &str| words.iter().any(|word| is_below(word, path));
        let (program, reads) = if let Some(program) = programs(command).find(|program| !has(program)) {
            (program.to_owned(), None)
        } else if let Some((path, program)) = absent.iter().find(|(path, _)| named(path)) {
            (program.clone(), Some(path.clone()))
        } else {
            continue;
        };
        absent.extend(made(&words).map(|path| (path.to_owned(), program.clone())));
        command.fate = match (&command.fate, &reads) {
            (Fate::Run, None) => Fate::Parsed(format!("there is no {program} here")),
            (Fate::Run, Some(path)) => Fate::Parsed(format!("{path} comes of {program}, which is not here")),
            _ => Fate::Not(format!("there is no {program} here")),
        };
        lacks.push(Lack { line: command.line, program, reads });
    }
    lacks
}

/// Returns the outputs of a command: the words after an option for an output or `>`, and the last word of other
/// programs' commands, such as `mv` and `cp`.
fn made<'a>(words: &'a [&'a str]) -> impl Iterator<Item = &'a str> {
    let outputs = words.windows(2).filter(|pair| ["--run", "--out", "--defects", ">"].contains(&pair[0]));
    let ours = words.iter().any(|word| ["ebm", "cargo"].contains(word));
    let last = words.last().filter(|_| !ours && words.len() > 1);
    outputs.map(|pair| pair[1]).chain(last.copied()).map(|path| path.trim_end_matches('/'))
}
