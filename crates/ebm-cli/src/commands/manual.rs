//! `ebm completions` and `ebm man`: what clap knows of the commands, for shells and for `man`.

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, CommandFactory};
use clap_complete::Shell;
use clap_mangen::{Man, generate_to};

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
    print!("{}", String::from_utf8_lossy(&text));
    Ok(())
}

/// Prints or writes pages of the command line `C`.
pub fn man<C: CommandFactory>(args: &ManArgs) -> Result<()> {
    let mut command = C::command().disable_help_subcommand(true);
    if let Some(folder) = &args.out {
        super::create_dir(folder)?;
        return generate_to(command, folder).with_context(|| format!("cannot write to {}", folder.display()));
    }
    // Gives commands their full names.
    command.build();
    let mut text = Vec::new();
    Man::new(command).render(&mut text)?;
    print!("{}", String::from_utf8_lossy(&text));
    Ok(())
}
