//! Drafts that do not repeat: the way out of a circle.

use conclave_ensemble::Draft;

use super::Member;
use crate::constraint::Constraint;
use crate::error::MemberError;

/// Tokens of a run that may occur once in an answer: about as many as the four words by which
/// [`conclave_ensemble::repetition`] tells a candidate that repeats.
const RUN: usize = 6;

/// Allows no token that would complete a run of [`RUN`] tokens that the answer has already: the
/// no-repeat n-grams of summarisers (arXiv 1705.04304, section 2.5).
struct Novel {
    /// The answer so far.
    answer: Vec<u32>,
    /// Tokens of the answer that begin with a space, with those of the same word without it, which
    /// a model likes next: " sun" must not become "sun" after a word.
    bare: Vec<(u32, u32)>,
    /// Tokens that are text, as bits: control tokens are none.
    text: Vec<u32>,
}

impl Constraint for Novel {
    fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, String> {
        let mut words = self.text.clone();
        let mut text = self.answer.clone();
        text.extend_from_slice(drawn);
        let tail = &text[text.len().saturating_sub(RUN - 1)..];
        for run in text.windows(RUN).filter(|run| run.starts_with(tail)) {
            let mut bar = |token: u32| words[token as usize / 32] &= !(1 << (token % 32));
            let next = run[RUN - 1];
            bar(next);
            if let Some(&(_, bare)) = self.bare.iter().find(|&&(token, _)| token == next) {
                bar(bare);
            }
        }
        Ok(words)
    }

    fn is_free(&self) -> bool {
        true
    }

    fn accept(&mut self, _text: &str) -> Result<(), String> {
        Ok(())
    }
}

impl Member {
    /// As [`draft`](Self::draft), but no token completes a run of six tokens that the answer
    /// already contains. Under a constraint, or with a model that thinks, the draft is an ordinary
    /// one.
    ///
    /// # Errors
    /// As [`draft`](Self::draft).
    pub(super) async fn draft_novel(&mut self, limit: usize) -> Result<Draft, MemberError> {
        let free = self.constraint.is_none() && self.marks.is_none();
        let Some(begin) = self.answer_at.filter(|_| free) else {
            return self.draft(limit).await;
        };
        // One that was given its beginning has that in the prompt.
        let mut answer = match self.beginning() {
            None => Vec::new(),
            Some(text) => self.tokenizer.encode(&text)?,
        };
        answer.extend_from_slice(&self.session.prefix()[begin..]);
        let bare = answer
            .iter()
            .filter_map(|&token| Some((token, self.bare(token)?)));
        self.constraint = Some(Box::new(Novel {
            bare: bare.collect(),
            answer,
            text: self.text_tokens(),
        }));
        let draft = self.draft_constrained(limit).await;
        self.constraint = None;
        draft
    }

    /// The tokens that are text and, after them, the end, as bits.
    fn text_tokens(&self) -> Vec<u32> {
        let vocabulary = self.about().config.vocabulary;
        let mut words = vec![0; vocabulary / 32 + 1];
        let mut bytes = Vec::new();
        for token in 0..=vocabulary {
            bytes.clear();
            self.tokenizer.spell(token as u32, &mut bytes);
            if token == vocabulary || !bytes.is_empty() {
                words[token / 32] |= 1 << (token % 32);
            }
        }
        words
    }

    /// The token of the same word without the space that it begins with.
    fn bare(&self, token: u32) -> Option<u32> {
        let text = self.tokenizer.decode(&[token]);
        let ids = self.tokenizer.encode(text.strip_prefix(' ')?).ok()?;
        match ids[..] {
            [bare] if bare != token => Some(bare),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens of 40 that may not follow.
    fn barred(answer: &[u32], drawn: &[u32]) -> Vec<u32> {
        let mut novel = Novel {
            answer: answer.to_vec(),
            bare: vec![(36, 37)],
            text: vec![u32::MAX; 2],
        };
        let words = novel.mask(drawn).unwrap();
        let allowed = |token: u32| words[token as usize / 32] >> (token % 32) & 1 == 1;
        assert!(allowed(40), "the answer may end");
        (0..40).filter(|&token| !allowed(token)).collect()
    }

    #[test]
    fn a_run_occurs_once() {
        let line = [1, 2, 3, 4, 5, 36];
        assert_eq!(barred(&line, &[1, 2, 3, 4, 5]), [36, 37], "in neither form");
        assert_eq!(barred(&line, &[1, 2, 3, 4]), [0; 0], "too short to tell");
        assert_eq!(barred(&line, &[9, 2, 3, 4, 5]), [0; 0]);
        // Two ways to go on are both taken.
        let both = [&line[..], &[1, 2, 3, 4, 5, 7]].concat();
        assert_eq!(barred(&both, &[1, 2, 3, 4, 5]), [7, 36, 37]);
        // A run may lie across what is accepted and drawn, or in the draft alone.
        assert_eq!(barred(&[8, 8, 8], &[8, 8, 8]), [8]);
        assert_eq!(barred(&[], &[8; 6]), [8]);
        assert_eq!(barred(&[], &[]), [0; 0]);
    }
}
