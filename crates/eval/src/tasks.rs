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
    /// where the question asks for one; or else its bare words. Which answer is right has no part in it.
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
mod tests {
    use super::*;

    fn one(line: &str) -> Task {
        let mut tasks = parse(Path::new("mine.jsonl"), line).unwrap();
        assert_eq!(tasks.len(), 1);
        tasks.remove(0)
    }

    fn error(text: &str) -> String {
        parse(Path::new("mine.jsonl"), text)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn a_text_or_one_of_a_list_is_found_as_words() {
        let task = one(r#"{"question": "q", "answer": ["8", "eight"]}"#);
        for right in ["8", "It has eight legs.", "8 legs", "(8)"] {
            assert!(task.check(right), "{right}");
        }
        for wrong in ["18", "eighteen", "seven", ""] {
            assert!(!task.check(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_regex_is_searched_in_the_trimmed_answer() {
        let task = one(r#"{"question": "q", "answer": {"regex": "(?i)^\\W*yes\\W*$"}}"#);
        assert!(task.check("\n Yes.  "));
        assert!(!task.check("yes or no"));
        let end = one(r#"{"question": "q", "answer": {"regex": "^up$"}}"#);
        assert!(end.check(" up\n") && !end.check("up to"));
    }

    #[test]
    fn what_must_not_be_said_makes_it_wrong() {
        let task = one(r#"{"question": "q", "answer": "Tuesday", "not": ["Sunday", "Wednesday"]}"#);
        assert!(task.check("Tuesday, not Monday"));
        assert!(!task.check("Tuesday or wednesday"));
        assert!(task.check("Tuesday on wednesdays"));
        let alone = one(r#"{"question": "q", "answer": {"regex": "red"}, "not": "blue"}"#);
        assert!(alone.check("red") && !alone.check("red, blue"));
        let choice =
            one(r#"{"question": "q", "choices": ["a", "b"], "answer": "a", "not": "maybe"}"#);
        assert!(choice.check("a") && !choice.check("maybe a"));
    }

    #[test]
    fn a_choice_names_the_right_one_alone() {
        let task = one(
            r#"{"question": "q", "choices": ["Shark", "whale shark", "lion"], "answer": "shark"}"#,
        );
        assert!(task.check("The shark. Yes, the SHARK."));
        for wrong in ["a lion", "shark or lion", "a whale shark", "sharks", ""] {
            assert!(!task.check(wrong), "{wrong}");
        }
        assert!(!task.check("the whale shark is a shark"));
        let longer = one(
            r#"{"question": "q", "choices": ["shark", "whale shark"], "answer": "whale shark"}"#,
        );
        assert!(longer.check("the whale shark") && !longer.check("the shark"));
        assert_eq!(task.key("It is a lion!"), "lion");
        assert_eq!(task.key("a lion or a shark"), "shark, lion");
        assert_eq!(task.key("I don't know."), "i don't know");
        let sum = one(r#"{"question": "How many are 7\nand 5?", "answer": "12"}"#);
        assert_eq!(sum.key("7 + 5 = 12."), sum.key("It is 12"));
        assert_eq!(sum.key("Twelve!"), "twelve");
        let other = one(r#"{"question": "Who has 5?", "answer": "Ann"}"#);
        assert_eq!(other.key("Ann has 5."), "ann has 5");
    }

    #[test]
    fn a_conversation_ends_with_its_question() {
        let task = one(r#"{"messages": [{"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello!"},
                {"role": "user", "content": "How many is 2 plus 2?"}], "answer": "4"}"#
            .replace('\n', " ")
            .as_str());
        assert_eq!(task.question, "How many is 2 plus 2?");
        let roles: Vec<&str> = task.messages.iter().map(|one| one.role.as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "user"]);
        assert_eq!(
            task.key("It is 4"),
            "4",
            "the last question asks for a number"
        );
        let plain = one(r#"{"question": "q", "answer": "a"}"#);
        assert_eq!(plain.messages, [Message::user("q")]);
    }

    #[test]
    fn code_is_right_if_it_passes_its_test() {
        let line = serde_json::json!({
            "question": "q",
            "answer": {"python": "assert f(2) == 4", "prefix": "def f(x):\n"},
            "not": "eval",
        });
        let task = one(&line.to_string());
        for right in [
            "return 2 * x",
            "```python\ndef f(x):\n    return x + x\n```",
        ] {
            assert!(task.check(right), "{right}");
        }
        for wrong in [
            "return x",
            "```\ndef f(x):\n    return 0\n```",
            "",
            "return eval('2*x')",
        ] {
            assert!(!task.check(wrong), "{wrong}");
        }
        assert!(task.code().is_some() && !task.is_open());
        assert_eq!(task.key("So:\n```\nreturn 4\n```\nIt is."), "return 4");
    }

    #[test]
    fn an_open_task_has_no_right_answer() {
        let task = one(r#"{"question": "Tell me a story.", "answer": {"open": true}}"#);
        assert!(task.is_open() && !task.check("Once upon a time"));
    }

    #[test]
    fn ids_are_given_or_the_lines() {
        let text = "\u{feff}{\"question\": \"a\", \"answer\": \"b\"}\r\n\n{\"id\": 7, \"question\": \"c\", \"answer\": \"d\"}\n";
        let tasks = parse(Path::new("f"), text).unwrap();
        let ids: Vec<&str> = tasks.iter().map(|task| task.id.as_str()).collect();
        assert_eq!(ids, ["1", "7"]);
        assert_eq!(tasks[1].question, "c");
        let twice = text.replace("\"id\": 7", "\"id\": \"1\"");
        assert!(error(&twice).starts_with("mine.jsonl, line 3: the id \"1\""));
    }

    #[test]
    fn errors_name_file_line_and_what_to_write() {
        let good = r#"{"question": "a", "answer": "b"}"#;
        for (line, says) in [
            ("nonsense", "one question a line"),
            (r#"{"question": "a"}"#, "missing field `answer`"),
            (
                r#"{"question": "a", "answer": "b", "choice": []}"#,
                "unknown field `choice`",
            ),
            (
                r#"{"question": " ", "answer": "b"}"#,
                "\"question\" is empty",
            ),
            (r#"{"question": "a", "answer": ""}"#, "\"answer\" is empty"),
            (r#"{"question": "a", "answer": []}"#, "\"answer\" is empty"),
            (
                r#"{"question": "a", "answer": 4}"#,
                "\"answer\" must be a text",
            ),
            (
                r#"{"question": "a", "answer": {"regexp": "b"}}"#,
                "{\"regex\"",
            ),
            (
                r#"{"question": "a", "answer": {"regex": "("}}"#,
                "Rust's regex crate",
            ),
            (
                r#"{"question": "a", "answer": {"regex": "(?=b)"}}"#,
                "look-around",
            ),
            (
                r#"{"question": "a", "answer": "b", "not": [""]}"#,
                "\"not\" is empty",
            ),
            (
                r#"{"question": "a", "answer": "b", "not": 3}"#,
                "\"not\" must be",
            ),
            (
                r#"{"question": "a", "answer": "b", "choices": ["b"]}"#,
                "two texts or more",
            ),
            (
                r#"{"question": "a", "answer": "b", "choices": ["c", "d"]}"#,
                "among them",
            ),
            (
                r#"{"question": "a", "answer": "b", "choices": ["b", "B"]}"#,
                "each once",
            ),
            (
                r#"{"question": "a", "answer": ["b"], "choices": ["b", "c"]}"#,
                "one of the choices",
            ),
            (
                r#"{"id": [], "question": "a", "answer": "b"}"#,
                "\"id\" must be",
            ),
            (r#"{"answer": "b"}"#, "give either \"question\""),
            (
                r#"{"question": "a", "messages": [], "answer": "b"}"#,
                "give either \"question\"",
            ),
            (
                r#"{"messages": [{"role": "assistant", "content": "a"}], "answer": "b"}"#,
                "\"messages\" must alternate",
            ),
            (
                r#"{"messages": [{"role": "user", "text": "a"}], "answer": "b"}"#,
                "unknown field `text`",
            ),
            (
                r#"{"question": "a", "answer": {"python": ""}}"#,
                "\"python\" is empty",
            ),
            (
                r#"{"question": "a", "answer": {"prefix": "b"}}"#,
                "{\"python\"",
            ),
            (
                r#"{"question": "a", "answer": {"open": false}}"#,
                "{\"open\": true}",
            ),
        ] {
            let said = error(&format!("{good}\n{line}"));
            assert!(
                said.starts_with("mine.jsonl, line 2: ") && said.contains(says),
                "{said}"
            );
        }
        assert!(error("\n \n").contains("no question in it"));
        let missing = read(Path::new("no-such-file.jsonl"))
            .unwrap_err()
            .to_string();
        assert!(missing.contains("no-such-file.jsonl"), "{missing}");
    }

    #[test]
    fn hostile_patterns_are_refused_or_harmless() {
        let pattern = |pattern: &str| {
            let line = serde_json::json!({"question": "q", "answer": {"regex": pattern}});
            parse(Path::new("mine.jsonl"), &line.to_string())
        };
        for large in [
            "((a{100}){100}){100}".to_owned(),
            r"\w{5000}".to_owned(),
            "(".repeat(2000) + &")".repeat(2000),
        ] {
            assert!(pattern(&large).is_err(), "{large}");
        }
        // Exponential where an engine goes back.
        let task = &pattern("^(a+)+$").unwrap()[0];
        assert!(!task.check(&("a".repeat(100_000) + "b")));
    }
}
