//! End of an answer: the method's own settings, a number of tokens, and stop texts.

use serde::{Deserialize, Serialize};

/// Reason why an answer is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub enum Stop {
    /// The winner ended with an end-of-answer token.
    Ended,
    /// [`Settings::max_rounds`](crate::Settings::max_rounds) rounds are over.
    Rounds,
    /// The answer has reached [`Settings::max_characters`](crate::Settings::max_characters).
    Length,
    /// The round added no text, so the next would draft from where this one did.
    Silence,
    /// Every candidate of [`Settings::max_repeats`](crate::Settings::max_repeats) rounds in a row
    /// only repeats.
    Repetition,
    /// The context of the last remaining member is full.
    Context,
    /// The answer has reached [`Limits::tokens`] tokens.
    Tokens,
    /// The answer contains one of the texts in [`Limits::stop`].
    #[serde(rename = "stop")]
    Text,
    /// The caller stopped it.
    Stopped,
}

impl Stop {
    /// Name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ended => "ended",
            Self::Rounds => "rounds",
            Self::Length => "length",
            Self::Silence => "silence",
            Self::Repetition => "repetition",
            Self::Context => "context",
            Self::Tokens => "tokens",
            Self::Text => "stop",
            Self::Stopped => "stopped",
        }
    }
}

/// Limits of one answer beside the method's settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Limits {
    /// Maximum tokens of the answer, each segment's in its writer's own tokenisation; `None`: no
    /// limit.
    pub tokens: Option<usize>,
    /// Stop texts: the answer ends before the first; empty ones are ignored.
    pub stop: Vec<String>,
    /// Mark that opens a call of a function, which is no text of the answer: stop texts count
    /// before the first mark only.
    #[serde(skip)]
    pub call: Option<&'static str>,
}

/// Applies [`Limits`] to an answer, segment by segment.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    limits: Limits,
    /// Tokens of the accepted segments.
    pub tokens: usize,
    /// End of the accepted text, withheld while it may begin a stop text.
    withheld: String,
    /// A call has begun.
    called: bool,
}

impl Ending {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            tokens: 0,
            withheld: String::new(),
            called: false,
        }
    }

    /// Maximum tokens of the next segment, at most `segment_tokens`.
    pub fn most(&self, segment_tokens: usize) -> usize {
        match self.limits.tokens {
            Some(limit) => segment_tokens.min(limit.saturating_sub(self.tokens)),
            None => segment_tokens,
        }
    }

    /// Adds an accepted segment. Returns the text that is now final, and [`Stop::Text`] or
    /// [`Stop::Tokens`] if the segment ends the answer.
    pub fn take(&mut self, segment: &str, tokens: usize) -> (String, Option<Stop>) {
        // A drawn segment may be divided otherwise, and into more tokens, where it is read.
        self.tokens += self.most(tokens);
        let mut text = std::mem::take(&mut self.withheld);
        text.push_str(segment);
        let spent = self.limits.tokens.is_some_and(|limit| self.tokens >= limit);
        let over = spent.then_some(Stop::Tokens);
        if self.called {
            return (text, over);
        }
        let mark = self.limits.call.unwrap_or_default();
        let opened = text.find(mark).filter(|_| !mark.is_empty());
        // The end of the text may begin a mark, and then is no stop text.
        let certain = opened.unwrap_or(text.len() - overlap(&text, mark));
        if let Some(found) = self.stopped(&text[..certain]) {
            text.truncate(found);
            return (text, Some(Stop::Text));
        }
        self.called = opened.is_some();
        if !self.called {
            let begun = self.stops().map(|stop| text.len() - overlap(&text, stop));
            let begun = begun.chain(self.stopped(&text)).min();
            let certain = begun.map_or(certain, |begun| begun.min(certain));
            self.withheld = text.split_off(certain);
        }
        (text, over)
    }

    /// Takes the withheld text, which is part of the answer once it ends.
    pub fn rest(&mut self) -> String {
        let mut text = std::mem::take(&mut self.withheld);
        if let Some(found) = self.stopped(&text) {
            text.truncate(found);
        }
        text
    }

    fn stops(&self) -> impl Iterator<Item = &str> {
        let stops = self.limits.stop.iter().map(String::as_str);
        stops.filter(|stop| !stop.is_empty())
    }

    /// Start of the first stop text in `text`.
    fn stopped(&self, text: &str) -> Option<usize> {
        self.stops().filter_map(|stop| text.find(stop)).min()
    }
}

/// Bytes at the end of `text` that begin `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let begins = stop.char_indices().map(|(at, _)| at).rev();
    // The shortest beginning is empty.
    let mut begins = begins.filter(|&length| text.ends_with(&stop[..length]));
    begins.next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Final text after each segment, joined by `|`; one token a character.
    fn certain(segments: &[&str], stop: &[&str]) -> String {
        let limits = Limits {
            tokens: None,
            stop: stop.iter().map(|&text| text.to_owned()).collect(),
            call: Some("<call>"),
        };
        let mut ending = Ending::new(limits);
        let mut texts = Vec::new();
        for segment in segments {
            let (text, over) = ending.take(segment, segment.chars().count());
            texts.push(text);
            if over == Some(Stop::Text) {
                return format!("{}|{} stop", texts.join("|"), ending.rest());
            }
        }
        format!("{}|{}", texts.join("|"), ending.rest())
    }

    #[test]
    fn an_answer_ends_before_a_text_wherever_segments_part_it() {
        let stop = ["\n\n", "User:"];
        assert_eq!(certain(&["one two", " three"], &stop), "one two| three|");
        assert_eq!(certain(&["one\n\ntwo"], &stop), "one| stop");
        assert_eq!(certain(&["one\n", "\ntwo"], &stop), "one|| stop");
        assert_eq!(certain(&["one\n", "two"], &stop), "one|\ntwo|");
        assert_eq!(certain(&["one Us", "er", ": two"], &stop), "one ||| stop");
        assert_eq!(certain(&["one User:\n\n"], &stop), "one | stop");
        assert_eq!(certain(&["one\n"], &stop), "one|\n");
        assert_eq!(certain(&["aaab"], &["aab"]), "a| stop");
        assert_eq!(certain(&["aa", "ab"], &["aab"]), "|a| stop");
        assert_eq!(certain(&["né", "ü!"], &["éü"]), "n|| stop");
        assert_eq!(certain(&["one"], &[""]), "one|");
    }

    #[test]
    fn a_call_is_not_searched_for_stop_texts() {
        let answer = "\n<call>{\"a\": 1}\n</call>";
        for stop in [["<"], ["call"], ["{"], ["}\n<"], ["\n</"]] {
            assert_eq!(certain(&[answer], &stop), format!("{answer}|"));
            let letters: Vec<&str> = answer.split("").collect();
            assert_eq!(certain(&letters, &stop).replace('|', ""), answer);
        }
        assert_eq!(certain(&["a\n\n<call>"], &["\n\n"]), "a| stop");
        // The beginning of a mark is text where no mark comes of it.
        assert_eq!(certain(&["a <", "ca"], &["<"]), "a ||");
        assert_eq!(certain(&["a <ca", "ll]"], &["c"]), "a |<| stop");
    }

    #[test]
    fn segments_are_as_short_as_the_tokens_that_are_left() {
        let limits = Limits {
            tokens: Some(12),
            ..Limits::default()
        };
        let mut ending = Ending::new(limits);
        assert_eq!(ending.most(10), 10);
        assert_eq!(ending.take("ten tokens", 10), ("ten tokens".into(), None));
        assert_eq!(ending.most(10), 2);
        assert_eq!(ending.take("!!", 3), ("!!".into(), Some(Stop::Tokens)));
        assert_eq!((ending.most(10), ending.tokens), (0, 12));
        assert_eq!(Ending::new(Limits::default()).most(10), 10);
    }
}
