//! Runs as one page.
