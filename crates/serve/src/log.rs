//! Log lines on standard error. Write errors (a closed pipe, a full disk) are ignored, where
//! `eprintln!` would panic.

use std::io::Write;

pub(crate) fn log(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
