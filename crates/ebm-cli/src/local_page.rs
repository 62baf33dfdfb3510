//! A page that this machine alone can open.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result};
use ebm_server::{Server, Site};

/// Where the page of a command is.
pub const HINT: &str = "open this address in a browser on this machine; Ctrl-C ends it";

/// A server of this site at a port of 127.0.0.1, or at any that is free for 0.
pub fn server(port: u16, site: impl Site) -> Result<Server> {
    Ok(Server::bind(port, Box::new(site), secret()?)?)
}

/// Random bytes of the system, which nobody can guess.
fn secret() -> Result<[u8; 16]> {
    const SOURCE: &str = "/dev/urandom";
    let mut secret = [0; 16];
    let read = File::open(SOURCE).and_then(|mut source| source.read_exact(&mut secret));
    read.with_context(|| format!("cannot read random bytes from {SOURCE} for the page's token"))?;
    Ok(secret)
}
