//! Thinking aloud before an answer: the marks by which a model does it, and the setting that allows
//! it.
//!
//! A thought is its member's own. It stays in that member's prefix until the answer is over, is
//! reported to a listener, and neither crosses to other members nor is scored.

use conclave_text::{ChatTemplate, Decoder, TextError, Tokenizer};
use serde::{Deserialize, Serialize};

/// Whether members that can think aloud before they answer do so; `auto`: each model's chat
/// template decides.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Thinking {
    /// They answer at once.
    #[default]
    Off,
    /// They think first.
    On,
    /// Each model's chat template decides by its default.
    Auto,
}

impl Thinking {
    /// The value of `enable_thinking` for templates.
    pub fn enabled(self) -> Option<bool> {
        match self {
            Self::Off => Some(false),
            Self::On => Some(true),
            Self::Auto => None,
        }
    }
}

/// A member's thought.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Thought {
    /// The thought without its marks.
    pub text: String,
    /// Its number of tokens, including its marks.
    pub tokens: usize,
    /// It was stopped, and the answer with it.
    pub stopped: bool,
}

/// A family's marks of thoughts.
#[derive(Debug, Clone, Copy)]
struct Convention {
    open: &'static str,
    /// Text after the opening mark: the name of a channel.
    name: &'static str,
    close: &'static str,
    /// Text between a thought and its answer, where the model has not written it.
    gap: &'static str,
}

impl Convention {
    const fn new(open: &'static str, close: &'static str) -> Self {
        Self {
            open,
            name: "",
            close,
            gap: "\n\n",
        }
    }
}

/// The known families' marks of thoughts.
const KNOWN: [Convention; 5] = [
    Convention::new("<think>", "</think>"),
    Convention::new("[THINK]", "[/THINK]"),
    Convention::new("<thinking>", "</thinking>"),
    Convention::new("<seed:think>", "</seed:think>"),
    // Gemma 4's channels.
    Convention {
        open: "<|channel>",
        name: "thought\n",
        close: "<channel|>",
        gap: "",
    },
];

/// The marks of one model.
#[derive(Debug)]
pub struct Marks {
    as_in: Convention,
    open_id: Option<u32>,
    close_id: Option<u32>,
}

impl Marks {
    /// The marks known to a model's tokenizer or chat template; `None` if it does not think.
    pub fn find(tokenizer: &Tokenizer, template: &ChatTemplate) -> Option<Self> {
        let known = |one: &Convention| {
            tokenizer.special(one.open).is_some() || template.source().contains(one.open)
        };
        let as_in = KNOWN.into_iter().find(known)?;
        Some(Self {
            as_in,
            open_id: tokenizer.special(as_in.open),
            close_id: tokenizer.special(as_in.close),
        })
    }

    /// Whether a prompt ends within a thought that its template has opened.
    pub fn end(&self, prompt: &str) -> bool {
        let Convention { open, name, .. } = self.as_in;
        let before_name = prompt.trim_end().strip_suffix(name.trim_end());
        before_name.is_some_and(|before| before.ends_with(open))
    }

    /// The number of a text's first tokens that open a thought; `None` if it begins otherwise. A
    /// control token has no text, so ids are checked too.
    pub fn opening(&self, tokenizer: &Tokenizer, tokens: &[u32]) -> Option<usize> {
        let mut decoder = tokenizer.decoder();
        let mut text = String::new();
        for (index, &id) in tokens.iter().enumerate() {
            text.push_str(&decoder.push(id));
            let begun = text.trim_start();
            let open = self.as_in.open;
            if (Some(id) == self.open_id && begun.len() <= open.len()) || begun.starts_with(open) {
                return Some(index + 1);
            }
            if !open.starts_with(begun) {
                return None;
            }
        }
        None
    }

    /// The number of `tokens` up to the end of a thought that began with `text`, from `decoder`;
    /// appends their text.
    pub fn closing(
        &self,
        decoder: &mut Decoder,
        tokens: &[u32],
        text: &mut String,
    ) -> Option<usize> {
        for (index, &id) in tokens.iter().enumerate() {
            text.push_str(&decoder.push(id));
            if Some(id) == self.close_id || text.contains(self.as_in.close) {
                return Some(index + 1);
            }
        }
        None
    }

    /// A thought's text without its channel's name and its closing mark.
    pub fn without_marks<'a>(&self, text: &'a str) -> &'a str {
        let Convention { name, close, .. } = self.as_in;
        let (name, text) = (
            name.trim_end(),
            text.split(close).next().unwrap_or(text).trim(),
        );
        match text.strip_prefix(name) {
            Some(rest) => rest.trim(),
            // The name is incomplete.
            None if name.starts_with(text) => "",
            None => text,
        }
    }

    /// The ids of an empty thought.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn empty(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, TextError> {
        let Convention {
            open,
            name,
            close,
            gap,
        } = self.as_in;
        tokenizer.encode_written(&format!("{open}{name}{gap}{close}{gap}"))
    }

    /// The ids that end an interrupted thought.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn ending(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, TextError> {
        let Convention { close, gap, .. } = self.as_in;
        tokenizer.encode_written(&format!("{gap}{close}{gap}"))
    }

    /// The ids between a completed thought and its answer.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn gap(&self, tokenizer: &Tokenizer) -> Result<Vec<u32>, TextError> {
        tokenizer.encode_written(self.as_in.gap)
    }
}
