//! `--record`: a line of JSON for what was run, then one for each question as it is answered, so
//! that a run that was cut off can go on with `--resume`.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use conclave_eval::outcome::Outcome;
use serde_json::Value;

use crate::args;
use crate::failure::Failure;

/// A record that grows.
pub struct Record {
    path: PathBuf,
    file: Mutex<File>,
}

/// The record that the command line asks for, and what is in it already. `what` was run has to be
/// the same.
///
/// # Errors
/// A file that can't be read or written, or one that is another run's.
pub fn open(args: &args::Eval, what: &Value) -> Result<(Option<Record>, Vec<Outcome>), Failure> {
    let Some(path) = &args.record else {
        return Ok((None, Vec::new()));
    };
    let failed = |source| Failure::file(path, source);
    let there = match std::fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(failed(error)),
    };
    if !there.is_empty() && !args.resume {
        return Err(Failure::Usage(format!(
            "{} is there already; go on with --resume, or record to another file",
            path.display()
        )));
    }
    // A line that was cut off is answered again.
    let whole = there.iter().rposition(|&byte| byte == b'\n');
    let whole = whole.map_or(0, |last| last + 1);
    let what = what.to_string();
    let outcomes = read(path, &there[..whole], &what)?;
    let mut options = OpenOptions::new();
    let opened = options.create(true).append(true).open(path);
    let mut file = opened.map_err(failed)?;
    file.set_len(whole as u64).map_err(failed)?;
    if whole == 0 {
        writeln!(file, "{what}").map_err(failed)?;
    }
    let record = Record {
        path: path.clone(),
        file: Mutex::new(file),
    };
    Ok((Some(record), outcomes))
}

/// The outcomes of a record, whose first line must be `what`.
fn read(path: &Path, bytes: &[u8], what: &str) -> Result<Vec<Outcome>, Failure> {
    let mut lines = bytes
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty());
    match lines.next() {
        Some(line) if line != what.as_bytes() => Err(Failure::Usage(format!(
            "{} was recorded with other members or settings; record this run to another file",
            path.display()
        ))),
        _ => lines
            .map(|line| {
                serde_json::from_slice(line).map_err(|source| Failure::Json {
                    path: path.to_owned(),
                    source,
                })
            })
            .collect(),
    }
}

impl Record {
    /// Adds a question's line at once.
    ///
    /// # Errors
    /// [`Failure::File`], or [`Failure::Json`] which outcomes never are.
    pub fn add(&self, outcome: &Outcome) -> Result<(), Failure> {
        let line = serde_json::to_string(outcome).map_err(|source| Failure::Json {
            path: self.path.clone(),
            source,
        })?;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        let written = file.write_all((line + "\n").as_bytes());
        written.map_err(|source| Failure::file(&self.path, source))
    }
}
