//! Task files: one question a line, with an answer that a program can check. The format is that of
//! `tests/tasks/README.md`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

use crate::code::Code;
use crate::conversation::{self, Message};
use crate::python::{Python, PythonError};
use crate::words::{bare, has, last_number, places, plain};

/// Bytes that a compiled pattern may take. Searching is linear in the answer whatever the pattern.
const PATTERN_BYTES: usize = 4 << 20;

/// Questions of one file.
const MOST_TASKS: usize = 10_000;

/// Words of a question for a number.
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
    /// Its name within the file; the line's number where the file gives none.
    pub id: String,
    /// The user's last message, which is answered.
    pub question: String,
    /// The whole conversation, which ends with the question.
    pub messages: Vec<Message>,
    expected: Expected,
    /// None of them may be in a right answer.
    not: Vec<String>,
}

/// What makes an answer right.
#[derive(Debug, Clone)]
enum Expected {
    /// One of them is in it.
    Words(Vec<String>),
    /// It is found in the trimmed answer.
    Pattern(Regex),
    /// It names choice `right` of `all` and no other; all are [`plain`].
    Choice { right: usize, all: Vec<String> },
    /// Its code passes a test.
    Code(Code),
    /// No answer is right or wrong.
    Open,
}

impl Task {
    /// Whether `answer` is right; never of an open task. Code is run by `python`, and by the
    /// `python3` of the machine if that is `None`.
    ///
    /// # Errors
    /// [`PythonError`] where code can't be run.
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

    /// Whether `answer` is right. An answer whose code can't be run isn't.
    pub fn check(&self, answer: &str) -> bool {
        self.verdict(answer, None).unwrap_or(false)
    }

    /// The test of the answers' code, where the task has one.
    pub fn code(&self) -> Option<&Code> {
        match &self.expected {
            Expected::Code(code) => Some(code),
            _ => None,
        }
    }

    /// Whether no answer is right or wrong.
    pub fn is_open(&self) -> bool {
        matches!(self.expected, Expected::Open)
    }

    /// What votes for the same thing as `answer` does: the choices that it names; its last number,
    /// where the question asks for one; or else its bare words. Which answer is right has no part
    /// in it.
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

/// Which of `choices` an answer names. A choice within a longer one that is named there (`shark` in
/// `whale shark`) is not named by it.
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

/// A task file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TaskError {
    /// It can't be read.
    #[error("{}: {source}; --tasks wants files of questions, one JSON object a line", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line of it is no question.
    #[error("{}, line {line}: {fault}", path.display())]
    Line {
        /// Of which file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        fault: Fault,
    },
    /// It has no question.
    #[error("{}: no question in it; write one JSON object a line, {EXAMPLE}", path.display())]
    Empty {
        /// Which.
        path: PathBuf,
    },
}

const EXAMPLE: &str = r#"as {"question": "What is 2 + 2?", "answer": ["4", "four"]}"#;

/// What is wrong with a line of a task file.
#[derive(Debug, thiserror::Error)]
pub enum Fault {
    /// No JSON object with the fields of a question.
    #[error("{0}; write one question a line, {EXAMPLE}")]
    Json(#[from] serde_json::Error),
    /// The question or a text to look for has no words.
    #[error("\"{0}\" is empty; give it words, or leave the line out")]
    Empty(&'static str),
    /// Neither a question nor a conversation, or both.
    #[error("give either \"question\", a text, or \"messages\", a list of turns")]
    Question,
    /// Turns that no chat template takes.
    #[error("\"messages\" {0}")]
    Messages(&'static str),
    /// An answer, a list or an id of another type.
    #[error("\"{field}\" must be {wanted}")]
    Kind {
        /// The field.
        field: &'static str,
        /// What it can be.
        wanted: &'static str,
    },
    /// A pattern that can't be compiled, or is too large.
    #[error(
        "the regex can't be used: {0}; its syntax is that of Rust's regex crate, without look-around and back-references"
    )]
    Pattern(#[from] regex::Error),
    /// Choices without the right one among them, or without another.
    #[error("\"choices\" must list two texts or more, each once, with \"answer\" among them")]
    Choices,
    /// An id that an earlier line has.
    #[error("the id \"{0}\" is taken by an earlier line; give each question its own")]
    Twice(String),
    /// More questions than a file may have.
    #[error("a file has at most {MOST_TASKS} questions; split it")]
    Many,
}

/// The fields of a line.
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
/// [`TaskError`], naming file and line.
pub fn read(path: &Path) -> Result<Vec<Task>, TaskError> {
    let text = std::fs::read_to_string(path).map_err(|source| TaskError::File {
        path: path.to_owned(),
        source,
    })?;
    parse(path, &text)
}

/// The questions of `text`, which was read from `path`. Lines without a word are passed over.
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

/// A text or a list of texts, each with a word in it.
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
