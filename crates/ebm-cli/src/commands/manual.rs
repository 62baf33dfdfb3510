//! `ebm completions` and `ebm man`: what clap knows of the commands, for shells and for `man`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use ebm_data::files::write_atomic;

/// Arguments of `ebm completions`.
#[derive(Args)]
pub struct CompletionsArgs {
    /// Whose completions.
    #[arg(value_enum)]
    shell: Shell,
}

/// Arguments of `ebm man`.
#[derive(Args)]
pub struct ManArgs {
    /// A folder for the pages of every command, such as ~/.local/share/man/man1; without it, the page of `ebm` is printed.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Prints the completions of the command line `C`.
pub fn completions<C: CommandFactory>(args: &CompletionsArgs) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut C::command(), "ebm", &mut text);
    print!("{}", String::from_utf8(text).context("the completions are no text")?);
    Ok(())
}

/// Prints or writes pages of the command line `C`.
pub fn man<C: CommandFactory>(args: &ManArgs) -> Result<()> {
    let mut command = C::command().disable_help_subcommand(true);
    // Gives commands their full names.
    command.build();
    let Some(folder) = &args.out else {
        print!("{}", page(&Man::new(command))?);
        return Ok(());
    };
    super::create_dir(folder)?;
    let written = write(&command, folder)?;
    eprintln!("{written} pages are in {}", folder.display());
    Ok(())
}

/// Writes the pages of a command and of those below it; how many.
fn write(command: &clap::Command, folder: &Path) -> Result<usize> {
    let man = Man::new(command.clone());
    let file = folder.join(man.get_filename());
    write_atomic(&file, page(&man)?.as_bytes())?;
    let below = command.get_subcommands().filter(|command| !command.is_hide_set());
    below.map(|command| write(command, folder)).try_fold(1, |sum, written| Ok(sum + written?))
}

fn page(man: &Man) -> Result<String> {
    let mut text = Vec::new();
    man.render(&mut text)?;
    String::from_utf8(text).context("the page is no text")
}
