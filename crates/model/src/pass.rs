//! Input of one run of tokens through the decoder.

use std::ops::Range;

use conclave_kernels::{Place, places_in_sequence, places_of_candidate};

use crate::about::About;
use crate::error::ModelError;

/// KV rows beyond the context, where candidates in line lie side by side until
/// one of them is kept.
pub(crate) const IN_LINE_ROWS: usize = 512;

/// Rows of a KV cache for a context of `context` tokens.
pub fn rows_of(context: usize) -> usize {
    context + IN_LINE_ROWS
}

/// Tokens of a pass that follow one another in a text, and the slots ([`crate::states`]) of the
/// recurrent states before and after them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Number of tokens.
    pub tokens: usize,
    /// Slot of the state before the first of them; `None` at the beginning of a text.
    pub from: Option<usize>,
    /// Slot for the state after the last of them: `from`, or a free one.
    pub to: usize,
}

/// Tokens to run, each with its [`Place`]: position, KV row, and the rows it sees.
///
/// A plain continuation is one candidate after the prefix. Verifying in line is several candidates,
/// and the positions of each restart after the prefix. KV rows of a pass are contiguous.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Token ids, `[tokens]`.
    pub tokens: Vec<u32>,
    /// Place of each token, `[tokens]`.
    pub places: Vec<Place>,
    /// Runs of tokens that follow one another, in order, for a model that has recurrent states;
    /// empty for others.
    pub runs: Vec<Run>,
}

impl Pass {
    /// `tokens` right after a prefix of `prefix` tokens.
    pub fn plain(prefix: usize, tokens: &[u32]) -> Self {
        Self {
            tokens: tokens.to_vec(),
            places: places_in_sequence(prefix as u32, tokens.len() as u32),
            runs: Vec::new(),
        }
    }

    /// The same pass as one run of a model with recurrent states: from the state in the first slot
    /// to one in the second. `None` for other models.
    #[must_use]
    pub fn between(mut self, states: Option<(Option<usize>, usize)>) -> Self {
        let tokens = self.len();
        self.runs = states
            .map(|(from, to)| Run { tokens, from, to })
            .into_iter()
            .collect();
        self
    }

    /// A pass without tokens.
    pub fn empty() -> Self {
        Self {
            tokens: Vec::new(),
            places: Vec::new(),
            runs: Vec::new(),
        }
    }

    /// Adds the rest of a candidate after the prefix. It sees the prefix and itself only. Its rows
    /// begin at `row`, and the first `drafted` of them have been computed before.
    pub fn append(&mut self, prefix: usize, row: usize, drafted: usize, tokens: &[u32]) {
        self.tokens.extend_from_slice(tokens);
        let places = places_of_candidate(
            prefix as u32,
            row as u32,
            drafted as u32,
            tokens.len() as u32,
        );
        self.places.extend(places);
    }

    /// The runs of a range of the pass's tokens, as a pass of its own after the earlier ones. A run
    /// that begins before the range continues from the slot in which it ends.
    pub fn runs_of(&self, tokens: Range<usize>) -> Vec<Run> {
        let mut first = 0;
        let of_part = |run: &Run| {
            let begin = first;
            first += run.tokens;
            let (start, end) = (begin.max(tokens.start), first.min(tokens.end));
            (start < end).then(|| Run {
                tokens: end - start,
                from: if start == begin {
                    run.from
                } else {
                    Some(run.to)
                },
                to: run.to,
            })
        };
        self.runs.iter().filter_map(of_part).collect()
    }

    /// Tokens in the pass.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there is nothing to run.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// KV row of the first token.
    pub fn first_row(&self) -> usize {
        self.places.first().map_or(0, |place| place.row as usize)
    }

    /// KV rows in use once the pass has run.
    pub fn rows(&self) -> usize {
        self.places.last().map_or(0, |place| place.row as usize + 1)
    }

    /// Tokens of the longest text that the pass makes of the prefix and one candidate.
    pub fn length(&self) -> usize {
        let positions = self.places.iter().map(|place| place.position as usize + 1);
        positions.max().unwrap_or(0)
    }

    /// Checks ids against the model's vocabulary, positions against its context and rows against
    /// the KV cache of [`rows_of`] the context.
    ///
    /// # Errors
    /// [`ModelError::Token`], [`ModelError::ContextFull`] and [`ModelError::InLine`].
    pub fn check(&self, about: &About) -> Result<(), ModelError> {
        let (vocabulary, context) = (about.config.vocabulary, about.context);
        let needed = self.length();
        if needed > context {
            return Err(about.context_full(needed));
        }
        if self.rows() > rows_of(context) {
            return Err(ModelError::InLine {
                tokens: self.len(),
                limit: rows_of(context) - self.first_row(),
            });
        }
        match self.tokens.iter().find(|&&id| id as usize >= vocabulary) {
            Some(&id) => Err(ModelError::Token { id, vocabulary }),
            None => Ok(()),
        }
    }
}

/// Raw logit of a target token at one position, and the normaliser of the logits there.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TargetScore {
    /// The target's raw logit.
    pub logit: f32,
    /// ln Σ exp of the whole row of logits, where log-probabilities were asked for.
    pub log_sum_exp: Option<f32>,
}

impl TargetScore {
    /// ln p(target), where it was asked for.
    pub fn logprob(&self) -> Option<f32> {
        self.log_sum_exp.map(|sum| self.logit - sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_is_cut_goes_on_from_its_own_state() {
        let run = |tokens, from, to| Run { tokens, from, to };
        let mut pass = Pass::empty();
        pass.runs = vec![run(3, None, 1), run(4, Some(0), 2), run(2, Some(0), 3)];
        assert_eq!(pass.runs_of(0..9), pass.runs);
        assert_eq!(pass.runs_of(0..5), [run(3, None, 1), run(2, Some(0), 2)]);
        assert_eq!(pass.runs_of(5..9), [run(2, Some(2), 2), run(2, Some(0), 3)]);
        assert_eq!(pass.runs_of(3..7), [run(4, Some(0), 2)]);
        assert_eq!(pass.runs_of(4..6), [run(2, Some(2), 2)]);
    }
}
