//! A conversation, and its text as rendered by a template.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::tools::ToolCall;

/// One turn of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Message {
    /// Role of the speaker: `system`, `user`, `assistant` or `tool`.
    #[cfg_attr(feature = "ts", ts(type = "\"system\" | \"user\" | \"assistant\""))]
    pub role: String,
    /// Its text.
    pub content: String,
    /// Name of the speaker, for templates that write one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "ts", ts(skip))]
    pub name: Option<String>,
    /// Calls of functions in an assistant's message.
    #[serde(skip)]
    #[cfg_attr(feature = "ts", ts(skip))]
    pub tool_calls: Vec<ToolCall>,
    /// The call whose result this message is, for the role `tool`.
    #[serde(skip)]
    #[cfg_attr(feature = "ts", ts(skip))]
    pub tool_call_id: Option<String>,
}

impl Message {
    /// A message with `role` and `content`.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Self {
        Self {
            role: role.into(),
            content: content.into(),
            name: None,
            tool_calls: Vec::new(),
            tool_call_id: None,
        }
    }
}

/// Joins consecutive messages of one role. With `fold`, all roles but `assistant` become `user`,
/// and the user speaks first.
pub(crate) fn alternating(messages: &[Message], fold: bool) -> Vec<Message> {
    let mut turns: Vec<Message> = Vec::with_capacity(messages.len());
    for message in messages {
        let mut message = message.clone();
        if fold && message.role != "assistant" {
            "user".clone_into(&mut message.role);
        }
        match turns.last_mut() {
            Some(last) if last.role == message.role => {
                if !last.content.is_empty() && !message.content.is_empty() {
                    last.content.push_str("\n\n");
                }
                last.content.push_str(&message.content);
            }
            before => {
                if fold && before.is_none() && message.role == "assistant" {
                    turns.push(Message::new("user", ""));
                }
                turns.push(message);
            }
        }
    }
    turns
}

/// A rendered conversation: its text, and the ranges in which a message, not the template, wrote
/// the text of a control token. These are tokenised as plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    text: String,
    plain: Vec<Range<usize>>,
    whole: bool,
}

impl Prompt {
    /// A trusted prompt: every control token's text in it becomes that token.
    pub fn trusted(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            plain: Vec::new(),
            whole: false,
        }
    }

    /// `whole`: nothing is to be prepended, not even a missing BOS token.
    pub(crate) fn new(text: String, plain: Vec<Range<usize>>, whole: bool) -> Self {
        Self { text, plain, whole }
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// Its text, as from transformers' `apply_chat_template(…, tokenize=False)`.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Appends a message's text.
    #[must_use]
    pub fn followed_by(mut self, text: &str) -> Self {
        let start = self.text.len();
        self.text.push_str(text);
        self.plain.push(start..self.text.len());
        self
    }

    /// Returns the prompt before the last occurrence of `text`; `None` if there is none.
    pub fn before(&self, text: &str) -> Option<Self> {
        let end = self.text.rfind(text)?;
        Some(Self {
            text: self.text[..end].to_owned(),
            plain: self.plain.clone(),
            whole: self.whole,
        })
    }

    /// Whether a message wrote the control token found at `place`.
    pub(crate) fn is_plain(&self, place: &Range<usize>) -> bool {
        self.plain
            .iter()
            .any(|plain| plain.start < place.end && place.start < plain.end)
    }
}

/// Text that a model has already run, with the ranges of its control tokens.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shown {
    pub(crate) text: String,
    /// Ranges of control tokens, in order.
    pub(crate) controls: Vec<Range<usize>>,
}

impl Shown {
    /// Appends plain text: the text of a control token in it is not that token.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_alternate_where_a_template_wants_them_to() {
        let said = |turns: &[(&str, &str)]| -> Vec<Message> {
            let turns = turns.iter();
            turns
                .map(|(role, text)| Message::new(*role, *text))
                .collect()
        };
        let all = said(&[
            ("system", "Be brief."),
            ("user", "One?"),
            ("user", "Two?"),
            ("assistant", "Both."),
            ("system", "Now shout."),
        ]);
        let joined = said(&[
            ("system", "Be brief."),
            ("user", "One?\n\nTwo?"),
            ("assistant", "Both."),
            ("system", "Now shout."),
        ]);
        assert_eq!(alternating(&all, false), joined);
        let folded = said(&[
            ("user", "Be brief.\n\nOne?\n\nTwo?"),
            ("assistant", "Both."),
            ("user", "Now shout."),
        ]);
        assert_eq!(alternating(&all, true), folded);
        let greeted = said(&[("assistant", "Hello!"), ("user", "Well?")]);
        assert_eq!(alternating(&greeted, true)[0], Message::new("user", ""));
        assert_eq!(alternating(&greeted, false), greeted);
    }

    #[test]
    fn what_stands_before_a_question_keeps_what_is_plain_in_it() {
        let prompt = Prompt {
            text: "<s>Why? <s> Why? Well,".to_owned(),
            plain: std::iter::once(8..11).collect(),
            whole: true,
        };
        let before = prompt.before("Why?").unwrap();
        assert_eq!(before.text(), "<s>Why? <s> ");
        assert!(before.is_plain(&(8..11)) && !before.is_plain(&(0..3)));
        assert!(before.is_whole());
        assert_eq!(prompt.before("How?"), None);
        let longer = prompt.followed_by(" <s>");
        assert_eq!(longer.text(), "<s>Why? <s> Why? Well, <s>");
        assert!(longer.is_plain(&(23..26)) && !longer.is_plain(&(0..3)));
    }
}
