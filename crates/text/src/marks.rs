//! Marks of control tokens' text in messages, so that a template's own tokens can be told from
//! them.

use crate::controls::Finder;
use crate::{Message, Prompt, Tool};

/// Marks that replace control tokens' text while a template runs: a number between two private
/// characters that occur neither in the messages nor in the template. They are neither space nor
/// punctuation, so that trimming and comparing treat them like the text.
pub(crate) struct Marks {
    open: char,
    close: char,
}

impl Marks {
    pub fn new(tools: &[Tool], messages: &[Message], source: &str) -> Self {
        let mut texts = vec![source.to_owned()];
        let mut keep = |text: &str| {
            texts.push(text.to_owned());
            String::new()
        };
        for tool in tools {
            tool.value(&mut keep);
        }
        for message in messages {
            message.value(false, &mut keep);
        }
        let free = |fence: &char| !texts.iter().any(|text| text.contains(*fence));
        // 65,534 characters: no conversation that fits a context has them all.
        let mut fences = ('\u{100000}'..='\u{10fffd}').filter(free);
        Self {
            open: fences.next().unwrap_or('\u{10fffc}'),
            close: fences.next().unwrap_or('\u{10fffd}'),
        }
    }

    fn mark(&self, number: usize) -> String {
        format!("{}{number}{}", self.open, self.close)
    }

    /// Replaces the text of each control token in `text` by a mark; `replaced` gets these texts.
    pub fn replace(&self, text: &str, controls: &Finder, replaced: &mut Vec<String>) -> String {
        let mut marked = String::with_capacity(text.len());
        let mut start = 0;
        while let Some(found) = controls.find(text, start) {
            let place = found.place;
            marked.push_str(&text[start..place.start]);
            marked.push_str(&self.mark(replaced.len()));
            replaced.push(text[place.clone()].to_owned());
            start = place.end;
        }
        marked.push_str(&text[start..]);
        marked
    }

    /// Restores the text of the marks and records its ranges. A mark that the template has cut is
    /// removed.
    pub fn resolve(&self, text: &str, replaced: &[String], whole: bool) -> Prompt {
        let mut resolved = String::with_capacity(text.len());
        let mut plain = Vec::new();
        let mut parts = text.split(self.open);
        let keep = |resolved: &mut String, text: &str| {
            resolved.extend(text.chars().filter(|&letter| letter != self.close));
        };
        keep(&mut resolved, parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.len() - part.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            let (number, rest) = part.split_at(digits);
            let original = number
                .parse()
                .ok()
                .and_then(|number: usize| replaced.get(number));
            if let (Some(original), true) = (original, rest.starts_with(self.close)) {
                plain.push(resolved.len()..resolved.len() + original.len());
                resolved.push_str(original);
            }
            keep(&mut resolved, rest);
        }
        Prompt::new(resolved, plain, whole)
    }
}
