//! Task files: one question per line, with an answer that a program can check. The format is
//! described in `tests/tasks/README.md`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

use crate::code::Code;
use crate::conversation::{self, Message};
use crate::python::{Python, PythonError};
use crate::words::{bare, has, last_number, places, plain};

/// Maximum size of a compiled pattern. Searching is linear in the answer for any pattern.
const PATTERN_BYTES: usize = 4 << 20;

/// Maximum number of questions in a file.
const MOST_TASKS: usize = 10_000;

/// Phrases of questions that ask for a number.
const COUNTING: [&str; 8] = [
    "how many",
    "how much",
    "what is half",
    "what is twice",
    " plus ",
    " minus ",
    " times ",
    " divided by ",
];

/// One question.
#[derive(Debug, Clone)]
pub struct Task {
    /// Name within the file; the line number if the file gives none.
    pub id: String,
    /// The user's last message, which is to be answered.
    pub question: String,
    /// The whole conversation, which ends with the question.
    pub messages: Vec<Message>,
    expected: Expected,
    /// Texts that a right answer must not contain.
    not: Vec<String>,
}

/// Criterion of a right answer.
#[derive(Debug, Clone)]
enum Expected {
    /// Contains one of the texts.
    Words(Vec<String>),
    /// The pattern matches the trimmed answer.
    Pattern(Regex),
    /// Names choice `right` of `all` and no other; all are [`plain`].
    Choice { right: usize, all: Vec<String> },
    /// The code passes a test.
    Code(Code),
    /// No answer is right or wrong.
    Open,
}

impl Task {
    /// Returns whether `answer` is right; always false for an open task. Code runs in `python`, or
    /// in the machine's `python3` if `None`.
    ///
    /// # Errors
    /// [`PythonError`] if code can't be run.
    pub fn verdict(&self, answer: &str, python: Option<&Python>) -> Result<bool, PythonError> {
        if self.not.iter().any(|other| has(answer, other)) {
            return Ok(false);
        }
        Ok(match &self.expected {
            Expected::Words(any) => any.iter().any(|wanted| has(answer, wanted)),
            Expected::Pattern(pattern) => pattern.is_match(answer.trim()),
            Expected::Choice { right, all } => named(all, answer) == [*right],
            Expected::Code(code) => match python {
                Some(python) => python.passes(&code.program(answer))?,
                None => Python::find()?.passes(&code.program(answer))?,
            },
            Expected::Open => false,
        })
    }

    /// Returns whether `answer` is right; false if its code can't be run.
    pub fn check(&self, answer: &str) -> bool {
        self.verdict(answer, None).unwrap_or(false)
    }

    /// The test of the answers' code, if the task has one.
    pub fn code(&self) -> Option<&Code> {
        match &self.expected {
            Expected::Code(code) => Some(code),
            _ => None,
        }
    }

    /// Returns whether no answer is right or wrong.
    pub fn is_open(&self) -> bool {
        matches!(self.expected, Expected::Open)
    }

    /// Key that is equal for answers that mean the same: the choices it names; its last number, if
    /// the question asks for one; or else its bare words. Does not depend on the right answer.
    pub fn key(&self, answer: &str) -> String {
        if let Expected::Choice { all, .. } = &self.expected {
            let named = named(all, answer);
            if !named.is_empty() {
                let named: Vec<&str> = named.iter().map(|&one| all[one].as_str()).collect();
                return named.join(", ");
            }
        }
        if let Expected::Code(_) = &self.expected {
            return bare(&Code::code(answer));
        }
        let asked = plain(&self.question);
        let number = COUNTING.iter().any(|words| asked.contains(words));
        let number = number.then(|| last_number(answer)).flatten();
        number.unwrap_or_else(|| bare(answer))
    }
}

/// Indices of the `choices` that an answer names. A choice within a longer one (`shark` in `whale
/// shark`) does not count.
fn named(choices: &[String], answer: &str) -> Vec<usize> {
    let answer = plain(answer);
    let found: Vec<_> = choices
        .iter()
        .map(|choice| places(&answer, choice))
        .collect();
    let within_longer = |place: &std::ops::Range<usize>| {
        found.iter().flatten().any(|other| {
            other.start <= place.start && place.end <= other.end && other.len() > place.len()
        })
    };
    let stands = |places: &Vec<_>| places.iter().any(|place| !within_longer(place));
    (0..choices.len())
        .filter(|&choice| stands(&found[choice]))
        .collect()
}

/// Reason why a task file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// The file can't be read.
    #[error(
        "{}: {source}; --tasks wants files of questions, one JSON object a line",
        path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A line is not a question.
    #[error("{}, line {line}: {fault}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1.
        line: usize,
        /// Problem with the line.
        fault: Fault,
    },
    /// The file has no question.
    #[error("{}: no question in it; write one JSON object a line, {EXAMPLE}", path.display())]
    Empty {
        /// The file.
        path: PathBuf,
    },
}

const EXAMPLE: &str = r#"as {"question": "What is 2 + 2?", "answer": ["4", "four"]}"#;

/// Problem with a line of a task file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// Not a JSON object with the fields of a question.
    #[error("{0}; write one question a line, {EXAMPLE}")]
    Json(#[from] serde_json::Error),
    /// The question or an expected text is blank.
    #[error("\"{0}\" is empty; give it words, or leave the line out")]
    Empty(&'static str),
    /// Neither a question nor a conversation, or both.
    #[error("give either \"question\", a text, or \"messages\", a list of turns")]
    Question,
    /// Turns that chat templates refuse.
    #[error("\"messages\" {0}")]
    Messages(&'static str),
    /// A field of the wrong type.
    #[error("\"{field}\" must be {wanted}")]
    Kind {
        /// Name of the field.
        field: &'static str,
        /// Accepted values.
        wanted: &'static str,
    },
    /// The pattern is invalid or too large.
    #[error(
        "the regex can't be used: {0}; its syntax is that of Rust's regex crate, without \
        look-around and back-references"
    )]
    Pattern(#[from] regex::Error),
    /// The right choice is missing, or there is no other.
    #[error("\"choices\" must list two texts or more, each once, with \"answer\" among them")]
    Choices,
    /// An earlier line has the same id.
    #[error("the id \"{0}\" is taken by an earlier line; give each question its own")]
    Twice(String),
    /// Too many questions in a file.
    #[error("a file has at most {MOST_TASKS} questions; split it")]
    Many,
}

/// Fields of a line.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    id: Value,
    question: Option<String>,
    messages: Option<Vec<Message>>,
    answer: Value,
    choices: Option<Vec<String>>,
    #[serde(default)]
    not: Value,
}

/// Reads the questions of the file at `path`.
///
/// # Errors
/// [`TaskError`], with file and line.
pub fn read(path: &Path) -> Result<Vec<Task>, TaskError> {
    let text = std::fs::read_to_string(path).map_err(|source| TaskError::File {
        path: path.to_owned(),
        source,
    })?;
    parse(path, &text)
}

/// Parses the questions of `text`, read from `path`. Blank lines are skipped.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Vec<Task>, TaskError> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut tasks: Vec<Task> = Vec::new();
    let mut ids = HashSet::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let task = task(line, index + 1).and_then(|task| {
            if tasks.len() == MOST_TASKS {
                Err(Fault::Many)
            } else if ids.insert(task.id.clone()) {
                Ok(task)
            } else {
                Err(Fault::Twice(task.id))
            }
        });
        tasks.push(task.map_err(|fault| TaskError::Line {
            path: path.to_owned(),
            line: index + 1,
            fault,
        })?);
    }
    if tasks.is_empty() {
        return Err(TaskError::Empty {
            path: path.to_owned(),
        });
    }
    Ok(tasks)
}

fn task(line: &str, number: usize) -> Result<Task, Fault> {
    let written: Written = serde_json::from_str(line)?;
    let messages = match (written.question, written.messages) {
        (Some(question), None) if question.trim().is_empty() => {
            return Err(Fault::Empty("question"));
        }
        (Some(question), None) => vec![Message::user(question)],
        (None, Some(messages)) => {
            conversation::check(&messages).map_err(Fault::Messages)?;
            messages
        }
        _ => return Err(Fault::Question),
    };
    let last = messages.last().ok_or(Fault::Question)?;
    let id = match written.id {
        Value::Null => number.to_string(),
        Value::String(id) if !id.trim().is_empty() => id,
        Value::Number(id) => id.to_string(),
        _ => {
            return Err(Fault::Kind {
                field: "id",
                wanted: "a text or a number",
            });
        }
    };
    Ok(Task {
        id,
        question: last.content.clone(),
        messages,
        expected: match written.choices {
            Some(choices) => choice(&choices, &written.answer)?,
            None => expected(written.answer)?,
        },
        not: match written.not {
            Value::Null => Vec::new(),
            not => texts("not", "a text or a list of texts", not)?,
        },
    })
}

fn expected(answer: Value) -> Result<Expected, Fault> {
    const WANTED: &str = "a text, a list of texts, {\"regex\": \"…\"}, {\"python\": \"…\"} \
        with a \"prefix\" or without, or {\"open\": true}";
    let Value::Object(fields) = answer else {
        return Ok(Expected::Words(texts("answer", WANTED, answer)?));
    };
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    let open = fields.get("open") == Some(&Value::Bool(true));
    match (fields.len(), text("regex"), text("python"), text("prefix")) {
        (1, Some(pattern), None, None) => Ok(Expected::Pattern(
            RegexBuilder::new(pattern)
                .size_limit(PATTERN_BYTES)
                .dfa_size_limit(PATTERN_BYTES)
                .build()?,
        )),
        (1, None, Some(test), None) | (2, None, Some(test), Some(_)) if test.trim().is_empty() => {
            Err(Fault::Empty("python"))
        }
        (1, None, Some(test), None) | (2, None, Some(test), Some(_)) => Ok(Expected::Code(Code {
            test: test.to_owned(),
            prefix: text("prefix").map(str::to_owned),
        })),
        (1, None, None, None) if open => Ok(Expected::Open),
        _ => Err(Fault::Kind {
            field: "answer",
            wanted: WANTED,
        }),
    }
}

fn choice(choices: &[String], answer: &Value) -> Result<Expected, Fault> {
    let Some(answer) = answer.as_str() else {
        return Err(Fault::Kind {
            field: "answer",
            wanted: "the text of one of the choices",
        });
    };
    let all: Vec<String> = choices.iter().map(|choice| plain(choice)).collect();
    let different: HashSet<&String> = all.iter().collect();
    let right = all.iter().position(|choice| *choice == plain(answer));
    match right {
        _ if all.iter().any(String::is_empty) => Err(Fault::Empty("choices")),
        Some(right) if all.len() > 1 && different.len() == all.len() => {
            Ok(Expected::Choice { right, all })
        }
        _ => Err(Fault::Choices),
    }
}

/// Parses a text or a list of texts, none of them blank.
fn texts(field: &'static str, wanted: &'static str, value: Value) -> Result<Vec<String>, Fault> {
    let list = match value {
        Value::Array(list) => list,
        one => vec![one],
    };
    let text = |value| match value {
        Value::String(text) if text.trim().is_empty() => Err(Fault::Empty(field)),
        Value::String(text) => Ok(text),
        _ => Err(Fault::Kind { field, wanted }),
    };
    let texts: Vec<String> = list.into_iter().map(text).collect::<Result<_, _>>()?;
    if texts.is_empty() {
        return Err(Fault::Empty(field));
    }
    Ok(texts)
}

#[cfg(test)]
mod tests;
