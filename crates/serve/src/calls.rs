//! Finds the calls in an answer's text as it arrives. Its form is that of
//! [`conclave_rounds::Calls`].

use std::sync::Arc;

use conclave_rounds::{CLOSE, Calls, OPEN};
use serde_json::Value;

/// Text between a call's name and its arguments.
const BETWEEN: &str = "\", \"arguments\": ";

/// Mark before a block of JSON.
const BLOCK: &str = "```json";

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    Text(String),
    /// A call of this function begins.
    Call(String),
    /// Further JSON text of the call's arguments.
    Arguments(String),
    /// The call's arguments are complete.
    Called,
}

/// Reader of one answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallReader {
    /// Text that is not yet decided.
    held: String,
    state: State,
    /// Form of the answer, where it may have calls.
    form: Option<Arc<Calls>>,
    /// Text has been told.
    begun: bool,
    /// Number of complete calls.
    pub calls: usize,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// All is text: no call is possible.
    #[default]
    Plain,
    Text,
    /// After the mark that opens a call, before its name.
    Head,
    Arguments(Nesting),
    /// After the arguments, up to the next mark that opens a call.
    After,
}

/// Place in a JSON document.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Nesting {
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Nesting {
    /// Takes a letter; returns whether it completes the document.
    fn takes(&mut self, letter: char) -> bool {
        match letter {
            _ if self.escaped => self.escaped = false,
            '\\' if self.in_text => self.escaped = true,
            '"' => self.in_text = !self.in_text,
            _ if self.in_text => {}
            '{' | '[' => self.depth += 1,
            '}' | ']' => {
                self.depth = self.depth.saturating_sub(1);
                return self.depth == 0;
            }
            _ => {}
        }
        false
    }
}

impl CallReader {
    /// A reader of an answer of this form; `None` if it can't have calls.
    pub fn new(form: Option<Arc<Calls>>) -> Self {
        let state = match form {
            Some(_) => State::Text,
            None => State::Plain,
        };
        Self {
            state,
            form,
            ..Self::default()
        }
    }

    /// Whether a call has begun and is not complete.
    pub fn is_within(&self) -> bool {
        matches!(self.state, State::Head | State::Arguments(_))
    }

    /// Takes further text; returns the parts that are certain now.
    pub fn push(&mut self, text: &str) -> Vec<Piece> {
        if self.state == State::Plain {
            return vec![Piece::Text(text.to_owned())];
        }
        self.held.push_str(text);
        let mut pieces = Vec::new();
        while self.step(&mut pieces) {}
        pieces
    }

    /// Returns the rest: text that might have begun a call, or a call without its marks.
    pub fn rest(&mut self) -> Vec<Piece> {
        let rest = std::mem::take(&mut self.held);
        if self.state != State::Text || rest.is_empty() {
            return Vec::new();
        }
        // Text before the mark of a call that has to come is a part of the mark.
        let required = self.form.as_ref().is_some_and(|form| form.required);
        match self.bare(&rest) {
            None if required => Vec::new(),
            Some((name, arguments)) => {
                self.calls += 1;
                vec![
                    Piece::Call(name),
                    Piece::Arguments(arguments),
                    Piece::Called,
                ]
            }
            None => vec![Piece::Text(rest)],
        }
    }

    /// Name and arguments of an answer that is nothing but a valid call without its marks: some
    /// models write calls so, usually as a block of JSON.
    fn bare(&self, answer: &str) -> Option<(String, String)> {
        let form = self.form.as_ref().filter(|_| !self.begun)?;
        let answer = answer.trim();
        let block = answer.strip_prefix(BLOCK);
        let block = block.and_then(|block| block.strip_suffix("```"));
        let call: Value = serde_json::from_str(block.unwrap_or(answer)).ok()?;
        let name = call.get("name")?.as_str()?.to_owned();
        let arguments = call.get("arguments")?.to_string();
        let written =
            format!("{OPEN}\n{{\"name\": \"{name}\", \"arguments\": {arguments}}}\n{CLOSE}");
        form.takes(&written).then_some((name, arguments))
    }

    /// Makes one step; returns whether another one is possible.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> bool {
        match self.state {
            State::Plain => false,
            State::Text if !self.begun && may_be_bare(&self.held) => false,
            State::Text => {
                let opened = self.held.find(OPEN);
                let end = opened.unwrap_or_else(|| settled(&self.held));
                let text: String = self.held.drain(..end).collect();
                let text = if opened.is_some() {
                    text.trim_end()
                } else {
                    &text
                };
                if !text.is_empty() {
                    self.begun = true;
                    pieces.push(Piece::Text(text.to_owned()));
                }
                if opened.is_some() {
                    self.held.drain(..OPEN.len());
                    self.state = State::Head;
                }
                opened.is_some()
            }
            State::Head => {
                let Some((head, rest)) = self.held.split_once(BETWEEN) else {
                    return false;
                };
                let name = head.rsplit('"').next().unwrap_or_default().to_owned();
                pieces.push(Piece::Call(name));
                self.held = rest.to_owned();
                self.state = State::Arguments(Nesting::default());
                true
            }
            State::Arguments(mut nesting) => {
                let end = self
                    .held
                    .char_indices()
                    .find(|&(_, letter)| nesting.takes(letter));
                let end = end.map(|(at, letter)| at + letter.len_utf8());
                let text: String = self.held.drain(..end.unwrap_or(self.held.len())).collect();
                if !text.is_empty() {
                    pieces.push(Piece::Arguments(text));
                }
                self.state = match end {
                    None => State::Arguments(nesting),
                    Some(_) => {
                        pieces.push(Piece::Called);
                        self.calls += 1;
                        State::After
                    }
                };
                end.is_some()
            }
            State::After => match self.held.split_once(OPEN) {
                Some((_, rest)) => {
                    self.held = rest.to_owned();
                    self.state = State::Head;
                    true
                }
                None => false,
            },
        }
    }
}

/// Bytes of `text` that can't belong to a mark, or to white space before it.
fn settled(text: &str) -> usize {
    let begins = |&at: &usize| OPEN.starts_with(&text[at..]);
    let marks = text.char_indices().map(|(at, _)| at).find(begins);
    text[..marks.unwrap_or(text.len())].trim_end().len()
}

/// Whether `text`, the beginning of an answer, may begin a call without its marks. Such a call is a
/// JSON object with `name` as its first key, in a block of JSON or not.
fn may_be_bare(text: &str) -> bool {
    let mut rest = text.trim_start();
    rest = rest.strip_prefix(BLOCK).unwrap_or(rest).trim_start();
    for part in ["{", "\"name\""] {
        match rest.strip_prefix(part) {
            Some(after) => rest = after.trim_start(),
            None => return part.starts_with(rest) || BLOCK.starts_with(rest),
        }
    }
    !rest.contains(OPEN)
}

#[cfg(test)]
mod tests {
    use conclave_rounds::Function;
    use serde_json::json;

    use super::*;

    const ANSWER: &str = "Well <b>:\n<tool_call>\n\
        {\"name\": \"add\", \"arguments\": {\"a\": \"}\\\"]é\", \"b\": [1, {}]}}\n</tool_call>\n\
        <tool_call>{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

    /// All parts, with neighbours of one kind joined.
    fn read(texts: &[&str]) -> (Vec<Piece>, CallReader) {
        let function = |name: &str, parameters: Value| Function {
            name: name.to_owned(),
            parameters,
            strict: false,
        };
        let form = Calls {
            functions: vec![
                function("add", json!({ "type": "object" })),
                function(
                    "now",
                    json!({ "type": "object", "properties": { "utc": { "type": "boolean" } } }),
                ),
            ],
            required: false,
            several: true,
            document: None,
        };
        let mut reader = CallReader::new(Some(Arc::new(form)));
        let mut all: Vec<Piece> = Vec::new();
        for text in texts {
            for piece in reader.push(text) {
                match (all.last_mut(), piece) {
                    (Some(Piece::Text(before)), Piece::Text(text))
                    | (Some(Piece::Arguments(before)), Piece::Arguments(text)) => {
                        before.push_str(&text);
                    }
                    (_, piece) => all.push(piece),
                }
            }
        }
        (all, reader)
    }

    #[test]
    fn calls_are_found_however_the_text_is_cut() {
        let wanted = [
            Piece::Text("Well <b>:".to_owned()),
            Piece::Call("add".to_owned()),
            Piece::Arguments("{\"a\": \"}\\\"]é\", \"b\": [1, {}]}".to_owned()),
            Piece::Called,
            Piece::Call("now".to_owned()),
            Piece::Arguments("{}".to_owned()),
            Piece::Called,
        ];
        let letters: Vec<String> = ANSWER.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        for texts in [&letters[..], &[ANSWER], &[&ANSWER[..60], &ANSWER[60..]]] {
            let (pieces, mut reader) = read(texts);
            assert_eq!(pieces, wanted);
            assert_eq!(
                (reader.calls, reader.is_within(), reader.rest()),
                (2, false, vec![])
            );
        }
        let (_, reader) = read(&[&ANSWER[..60]]);
        assert!(reader.is_within());
    }

    #[test]
    fn text_that_begins_no_call_is_whole() {
        let (pieces, mut reader) = read(&["5 <", " 7 <tool", "_call \n"]);
        assert_eq!(pieces, [Piece::Text("5 < 7 <tool_call".to_owned())]);
        assert_eq!(reader.rest(), [Piece::Text(" \n".to_owned())]);
        let mut plain = CallReader::new(None);
        assert_eq!(plain.push(ANSWER), [Piece::Text(ANSWER.to_owned())]);
    }

    #[test]
    fn an_answer_that_is_a_valid_call_without_marks_is_one() {
        for answer in [
            "```json\n{\n  \"name\": \"now\",\n  \"arguments\": {\"utc\": true}\n}\n```",
            "{\"name\": \"now\", \"arguments\": {\"utc\": true}}",
        ] {
            let letters: Vec<String> = answer.chars().map(String::from).collect();
            let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
            let (pieces, mut reader) = read(&letters);
            assert_eq!(pieces, []);
            let wanted = [
                Piece::Call("now".to_owned()),
                Piece::Arguments("{\"utc\":true}".to_owned()),
                Piece::Called,
            ];
            assert_eq!((reader.rest().as_slice(), reader.calls), (&wanted[..], 1));
        }
        for text in [
            "{\"name\": \"later\", \"arguments\": {}}",
            "{\"name\": \"now\", \"arguments\": {\"utc\": 5}}",
            "{\"name\": \"now\", \"arguments\": {}} it is",
            "```json\n{\"name\": \"Ann\"}\n```",
        ] {
            let (pieces, mut reader) = read(&[text]);
            assert_eq!(
                (pieces, reader.rest()),
                (vec![], vec![Piece::Text(text.to_owned())])
            );
        }
        for text in ["{\"sum\": ", "```python\nprint", "Well"] {
            assert_ne!(read(&[text]).0, [], "{text} is told at once");
        }
    }
}
