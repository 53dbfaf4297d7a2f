//! `--record`: a line of JSON for the run's settings, then one per question as it is answered, so
//! that `--resume` can continue an interrupted run and `--report` can repeat the report.

use std::collections::{HashMap, HashSet};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use conclave_eval::outcome::Outcome;
use conclave_eval::ways::Run;
use serde_json::Value;

use crate::args;
use crate::failure::Failure;

/// Settings in which records of one report may differ: the limit of answers depends on the tasks.
const FREE: [&str; 3] = ["device", "tokens", "reference"];

pub struct Record {
    path: PathBuf,
    file: Mutex<File>,
}

/// Opens the record of the command line with its outcomes so far. It begins with the settings
/// `what`, which must match, and the name of the device, which may change.
///
/// # Errors
/// A file that can't be read or written, or belongs to another run.
pub fn open(
    args: &args::Eval,
    what: &Value,
    device: &str,
) -> Result<(Option<Record>, Vec<Outcome>), Failure> {
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
    let whole = whole_lines(&there);
    let outcomes = match read(path, whole)? {
        Some((recorded, _)) if !same(&recorded, what) => {
            return Err(Failure::Usage(format!(
                "{} was recorded with other members or settings; record this run to another file",
                path.display()
            )));
        }
        Some((_, outcomes)) => outcomes,
        None => Vec::new(),
    };
    // Opened twice: Windows shortens no file that is open for appending.
    let mut options = OpenOptions::new();
    let opened = options.create(true).write(true).truncate(false).open(path);
    let shortened = opened.and_then(|file| file.set_len(whole.len() as u64));
    shortened.map_err(failed)?;
    let opened = OpenOptions::new().append(true).open(path);
    let mut file = opened.map_err(failed)?;
    if whole.is_empty() {
        let mut head = what.clone();
        head["device"] = device.into();
        writeln!(file, "{head}").map_err(failed)?;
    }
    let record = Record {
        path: path.clone(),
        file: Mutex::new(file),
    };
    Ok((Some(record), outcomes))
}

/// Returns whether a record's settings equal `what`, apart from the device.
fn same(recorded: &Value, what: &Value) -> bool {
    let mut recorded = recorded.clone();
    if let Value::Object(fields) = &mut recorded {
        fields.remove("device");
    }
    // Round-tripped like the record: numbers may change in their last digit.
    serde_json::from_str(&what.to_string()).is_ok_and(|what: Value| what == recorded)
}

/// Drops an incomplete last line; its question is answered again.
fn whole_lines(bytes: &[u8]) -> &[u8] {
    let last = bytes.iter().rposition(|&byte| byte == b'\n');
    &bytes[..last.map_or(0, |last| last + 1)]
}

/// Parses the settings and outcomes of a record; `None` if it is empty. A question that has changed
/// is asked again on `--resume`: its last line counts.
fn read(path: &Path, bytes: &[u8]) -> Result<Option<(Value, Vec<Outcome>)>, Failure> {
    let failed = |line: usize, error: &serde_json::Error, advice: &str| {
        let (path, reason) = (path.display(), reason(error));
        Failure::Usage(format!("{path}, line {line}: {reason}; {advice}"))
    };
    let lines = bytes.split(|&byte| byte == b'\n').zip(1..);
    let mut lines = lines.filter(|(line, _)| !line.trim_ascii().is_empty());
    let Some((head, line)) = lines.next() else {
        return Ok(None);
    };
    let head: Value = serde_json::from_slice(head).map_err(|error| {
        let advice = "it should be the members and rules of a run, as --record writes them; record \
            the run again";
        failed(line, &error, advice)
    })?;
    if !head["members"].is_array() || !head["rules"].is_array() {
        return Err(Failure::Usage(format!(
            "{} does not begin with the members and rules of a run: it is no \
             file that --record has written",
            path.display()
        )));
    }
    let mut outcomes: Vec<Outcome> = Vec::new();
    let mut places = HashMap::new();
    for (text, line) in lines {
        let outcome: Outcome = serde_json::from_slice(text).map_err(|error| {
            let advice = "delete the line, and --resume asks its question again";
            failed(line, &error, advice)
        })?;
        let question = (outcome.group.clone(), outcome.id.clone());
        let place = *places.entry(question).or_insert(outcomes.len());
        match outcomes.get_mut(place) {
            Some(earlier) => *earlier = outcome,
            None => outcomes.push(outcome),
        }
    }
    Ok(Some((head, outcomes)))
}

/// The error of a line's JSON, without the line number 1 that it has for every line.
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    match text.strip_suffix(&place) {
        Some(reason) => format!("{reason} at column {}", error.column()),
        None => text,
    }
}

/// Records of one run, such as of several task files.
pub struct Recorded {
    pub what: Value,
    pub outcomes: Vec<Outcome>,
}

/// Reads the records at `paths` as one run.
///
/// # Errors
/// A file that can't be read or is not a record, records of different members or settings, or a
/// question in two of them.
pub fn read_all(paths: &[PathBuf]) -> Result<Recorded, Failure> {
    let mut all: Option<Recorded> = None;
    let mut known = HashSet::new();
    for path in paths {
        let bytes = std::fs::read(path).map_err(|source| Failure::file(path, source))?;
        let Some((what, outcomes)) = read(path, whole_lines(&bytes))? else {
            return Err(Failure::Usage(format!(
                "{} is empty; --report wants files that --record has written",
                path.display()
            )));
        };
        for outcome in &outcomes {
            if !known.insert((outcome.group.clone(), outcome.id.clone())) {
                return Err(Failure::Usage(format!(
                    "{}: the question {} of {} is in an earlier record, too; report on one of \
                     them",
                    path.display(),
                    outcome.id,
                    outcome.group
                )));
            }
        }
        match &mut all {
            None => all = Some(Recorded { what, outcomes }),
            Some(first) => {
                if let Some(field) = difference(&first.what, &what) {
                    return Err(Failure::Usage(format!(
                        "{} was recorded with other {field} than {}; report on each by itself",
                        path.display(),
                        paths[0].display()
                    )));
                }
                first.outcomes.extend(outcomes);
            }
        }
    }
    all.ok_or_else(|| Failure::Usage("--report wants files that --record has written".to_owned()))
}

/// First field in which two runs differ but may not.
fn difference(one: &Value, other: &Value) -> Option<String> {
    let fields = [one, other].into_iter().filter_map(Value::as_object);
    let mut names = fields.flat_map(serde_json::Map::keys);
    let differs = |name: &&String| {
        let field = |run: &Value| run.get(name.as_str()).cloned().unwrap_or_default();
        !FREE.contains(&name.as_str()) && field(one) != field(other)
    };
    names.find(differs).cloned()
}

impl Recorded {
    /// The run of the records.
    ///
    /// # Errors
    /// [`Failure::Usage`] of invalid settings.
    pub fn run(&self) -> Result<Run, Failure> {
        let what = &self.what;
        let texts = |list: &Value, name: &dyn Fn(&Value) -> Option<String>| {
            let list = list.as_array()?;
            list.iter().map(name).collect::<Option<Vec<String>>>()
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let members = texts(&what["members"], &text);
        let rules = texts(&what["rules"], &|rule| text(&rule["name"]));
        let (Some(members), Some(rules)) = (members, rules) else {
            return Err(Failure::Usage(
                "a record names a member or a rule that is no text; record the run again"
                    .to_owned(),
            ));
        };
        let samples = what["samples"].as_str().map(str::parse);
        let draws = what["draws"].as_array();
        Ok(Run {
            members,
            rules,
            samples: samples.transpose().map_err(Failure::Usage)?,
            draws: draws.map_or_else(Vec::new, |seeds| {
                seeds.iter().filter_map(Value::as_u64).collect()
            }),
            seed: what["sampling"]["seed"].as_u64().unwrap_or(0),
        })
    }
}

impl Record {
    /// Writes a question's line immediately.
    ///
    /// # Errors
    /// [`Failure::File`], or [`Failure::Json`], which outcomes never cause.
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
