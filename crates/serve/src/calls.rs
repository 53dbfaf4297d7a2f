//! Finds the calls in an answer's text as it arrives. Its form is that of [`conclave_rounds::Calls`].

use conclave_rounds::OPEN;

/// Text between a call's name and its arguments.
const BETWEEN: &str = "\", \"arguments\": ";

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
    /// Complete calls.
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
    /// A reader of an answer that may have calls.
    pub fn with_calls(calls: bool) -> Self {
        let state = if calls { State::Text } else { State::Plain };
        Self {
            state,
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

    /// Returns the rest: text that might have begun a call.
    pub fn rest(&mut self) -> Option<Piece> {
        let rest = std::mem::take(&mut self.held);
        let is_text = self.state == State::Text && !rest.is_empty();
        is_text.then_some(Piece::Text(rest))
    }

    /// Makes one step; returns whether another one is possible.
    fn step(&mut self, pieces: &mut Vec<Piece>) -> bool {
        match self.state {
            State::Plain => false,
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

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWER: &str = "Well <b>:\n<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": \"}\\\"]é\", \"b\": [1, {}]}}\n</tool_call>\n<tool_call>{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

    /// All parts, with neighbours of one kind joined.
    fn read(texts: &[&str]) -> (Vec<Piece>, CallReader) {
        let mut reader = CallReader::with_calls(true);
        let mut all: Vec<Piece> = Vec::new();
        for text in texts {
            for piece in reader.push(text) {
                match (all.last_mut(), piece) {
                    (Some(Piece::Text(before)), Piece::Text(text))
                    | (Some(Piece::Arguments(before)), Piece::Arguments(text)) => {
                        before.push_str(&text)
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
                (2, false, None)
            );
        }
        let (_, reader) = read(&[&ANSWER[..60]]);
        assert!(reader.is_within());
    }

    #[test]
    fn text_that_begins_no_call_is_whole() {
        let (pieces, mut reader) = read(&["5 <", " 7 <tool", "_call \n"]);
        assert_eq!(pieces, [Piece::Text("5 < 7 <tool_call".to_owned())]);
        assert_eq!(reader.rest(), Some(Piece::Text(" \n".to_owned())));
        let mut plain = CallReader::with_calls(false);
        assert_eq!(plain.push(ANSWER), [Piece::Text(ANSWER.to_owned())]);
    }
}
