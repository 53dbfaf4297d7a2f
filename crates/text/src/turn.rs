//! Opening and closing of an assistant's turn, derived from the chat template.

use crate::fallback::{CLOSING, OPENINGS};
use crate::{ChatTemplate, Message, TextError, Tokenizer};

/// Texts of the conversations rendered as probes.
const ASKED: &str = "Well?";
const SAID: &str = "Yes.";
const NEXT: &str = "Then?";

/// An assistant's turn in a template.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Turn {
    /// White space between the prompt and an answer's first word: `" "` after `Answer:`.
    pub lead: String,
    /// Ids after an answer, such as `<|im_end|>`.
    pub end: Vec<u32>,
    /// Texts that begin another turn, for models where no token ends one.
    pub stops: Vec<String>,
}

impl Turn {
    /// The turn of `template`, in the ids of its model's `tokenizer`. If the template does not show
    /// its end (it refuses a conversation of three turns, say), the end is the tokenizer's
    /// end-of-text token, or else its first end token.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] if the tokenizers library fails.
    pub fn from_template(
        template: &ChatTemplate,
        tokenizer: &Tokenizer,
    ) -> Result<Self, TextError> {
        let mut turn = Self {
            lead: lead(template).unwrap_or_default(),
            ..Self::default()
        };
        if template.asks_questions() {
            turn.end = tokenizer.encode(CLOSING)?;
            turn.stops.push(CLOSING.to_owned());
            turn.stops.extend(OPENINGS.map(str::to_owned));
            return Ok(turn);
        }
        let closing = closing(template).unwrap_or_default();
        if let Some(id) = tokenizer.leading_control(closing.trim_start()) {
            turn.end.push(id);
        } else if !closing.trim().is_empty() {
            turn.end = tokenizer.encode(closing.trim_end())?;
            turn.stops.push(closing.trim_end().to_owned());
        } else {
            let end = tokenizer.eos().filter(|&id| tokenizer.is_end(id));
            turn.end
                .extend(end.or_else(|| tokenizer.end_ids().first().copied()));
        }
        Ok(turn)
    }

    /// Byte of `text`, which follows `before`, at which another turn begins; 0 if the stop already
    /// began in `before`.
    pub fn stop_in(&self, before: &str, text: &str) -> Option<usize> {
        let (whole, begin) = self.seam(before, text)?;
        let found = self.stops.iter().filter_map(|stop| whole.find(stop));
        Some(found.min()?.saturating_sub(begin))
    }

    /// Bytes of `text`, which follows `before`, that can be shown now: the rest may be the
    /// beginning of a stop. All if no stop begins.
    pub fn settled_in(&self, before: &str, text: &str) -> usize {
        let Some((whole, begin)) = self.seam(before, text) else {
            return text.len();
        };
        let begins = |at: &usize| {
            let rest = &whole[*at..];
            self.stops.iter().any(|stop| stop.starts_with(rest))
        };
        let places = whole.char_indices().map(|(at, _)| at);
        let found = places.into_iter().find(begins);
        found.map_or(text.len(), |at| at.saturating_sub(begin))
    }

    /// `text` with enough of `before` to contain any stop across the seam, and the offset of `text`
    /// in it; `None` without stops.
    fn seam(&self, before: &str, text: &str) -> Option<(String, usize)> {
        let longest = self.stops.iter().map(String::len).max()?;
        let mut from = before.len().saturating_sub(longest);
        while !before.is_char_boundary(from) {
            from -= 1;
        }
        // For stops, an answer begins on its own line.
        let whole = match before.is_empty() {
            true => format!("\n{text}"),
            false => format!("{}{text}", &before[from..]),
        };
        let begin = whole.len() - text.len();
        Some((whole, begin))
    }
}

/// Returns the text between the opening of an assistant's turn and its answer.
fn lead(template: &ChatTemplate) -> Option<String> {
    let user = Message::new("user", ASKED);
    let opened = template.render(std::slice::from_ref(&user), true).ok()?;
    let said = template
        .render(&[user, Message::new("assistant", SAID)], false)
        .ok()?;
    let rest = said.text().strip_prefix(opened.text())?;
    let (lead, _) = rest.split_once(SAID)?;
    lead.trim().is_empty().then(|| lead.to_owned())
}

/// Returns the text between an assistant's answer and the user's next message.
fn closing(template: &ChatTemplate) -> Option<String> {
    let turns = [("user", ASKED), ("assistant", SAID), ("user", NEXT)];
    let turns = turns.map(|(role, content)| Message::new(role, content));
    let prompt = template.render(&turns, false).ok()?;
    let (_, rest) = prompt.text().split_once(SAID)?;
    let (closing, _) = rest.split_once(NEXT)?;
    Some(closing.to_owned())
}
