//! What ends an answer beside the method's own settings: a number of tokens, and texts that it ends
//! before. The same as `web/src/worker/ending.ts`.

/// Limits of one answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Limits {
    /// Tokens of the answer, each segment's in its writer's own; no limit if `None`.
    pub tokens: Option<usize>,
    /// Texts of which none is in the answer; an empty one is none.
    pub stop: Vec<String>,
}

/// Which limit an answer has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Stop,
    Tokens,
}

/// Follows an answer as its segments come.
#[derive(Debug)]
pub(crate) struct Ending<'a> {
    limits: &'a Limits,
    /// Tokens of the accepted segments.
    pub tokens: usize,
    /// The end of what was accepted, which may be the beginning of a text to stop before.
    held: String,
}

impl<'a> Ending<'a> {
    pub fn new(limits: &'a Limits) -> Self {
        Self {
            limits,
            tokens: 0,
            held: String::new(),
        }
    }

    /// The most tokens that the next segment may have, of those it would have otherwise.
    pub fn most(&self, segment_tokens: usize) -> usize {
        match self.limits.tokens {
            Some(limit) => segment_tokens.min(limit.saturating_sub(self.tokens)),
            None => segment_tokens,
        }
    }

    /// Takes an accepted segment: what is certain now to be in the answer, and why that is over, if
    /// it is.
    pub fn take(&mut self, segment: &str, tokens: usize) -> (String, Option<Over>) {
        self.tokens += tokens;
        let mut text = std::mem::take(&mut self.held);
        text.push_str(segment);
        let stops = || self.limits.stop.iter().filter(|stop| !stop.is_empty());
        if let Some(found) = stops().filter_map(|stop| text.find(stop.as_str())).min() {
            text.truncate(found);
            return (text, Some(Over::Stop));
        }
        let held = stops().map(|stop| overlap(&text, stop)).max().unwrap_or(0);
        self.held = text.split_off(text.len() - held);
        let spent = self.limits.tokens.is_some_and(|limit| self.tokens >= limit);
        (text, spent.then_some(Over::Tokens))
    }

    /// What was held back when nothing more comes: it is in the answer after all.
    pub fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// How many bytes at the end of `text` begin `stop`.
fn overlap(text: &str, stop: &str) -> usize {
    let begins = stop.char_indices().map(|(at, _)| at).rev();
    // The shortest beginning is no text at all.
    let mut begins = begins.filter(|&length| text.ends_with(&stop[..length]));
    begins.next().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told of these segments, a token a character; `|` stands between them.
    fn told(segments: &[&str], stop: &[&str]) -> String {
        let limits = Limits {
            tokens: None,
            stop: stop.iter().map(|&text| text.to_owned()).collect(),
        };
        let mut ending = Ending::new(&limits);
        let mut texts = Vec::new();
        for segment in segments {
            let (text, over) = ending.take(segment, segment.chars().count());
            texts.push(text);
            if over == Some(Over::Stop) {
                return format!("{}|{} stop", texts.join("|"), ending.rest());
            }
        }
        format!("{}|{}", texts.join("|"), ending.rest())
    }

    #[test]
    fn an_answer_ends_before_a_text_wherever_segments_part_it() {
        let stop = ["\n\n", "User:"];
        assert_eq!(told(&["one two", " three"], &stop), "one two| three|");
        assert_eq!(told(&["one\n\ntwo"], &stop), "one| stop");
        assert_eq!(told(&["one\n", "\ntwo"], &stop), "one|| stop");
        assert_eq!(told(&["one\n", "two"], &stop), "one|\ntwo|");
        assert_eq!(told(&["one Us", "er", ": two"], &stop), "one ||| stop");
        assert_eq!(told(&["one User:\n\n"], &stop), "one | stop");
        assert_eq!(told(&["one\n"], &stop), "one|\n");
        assert_eq!(told(&["aaab"], &["aab"]), "a| stop");
        assert_eq!(told(&["aa", "ab"], &["aab"]), "|a| stop");
        assert_eq!(told(&["né", "ü!"], &["éü"]), "n|| stop");
        assert_eq!(told(&["one"], &[""]), "one|");
    }

    #[test]
    fn segments_are_as_short_as_the_tokens_that_are_left() {
        let limits = Limits {
            tokens: Some(12),
            ..Limits::default()
        };
        let mut ending = Ending::new(&limits);
        assert_eq!(ending.most(10), 10);
        assert_eq!(ending.take("ten tokens", 10), ("ten tokens".into(), None));
        assert_eq!(ending.most(10), 2);
        assert_eq!(ending.take("!!", 2), ("!!".into(), Some(Over::Tokens)));
        assert_eq!(ending.most(10), 0);
        assert_eq!(Ending::new(&Limits::default()).most(10), 10);
    }
}
