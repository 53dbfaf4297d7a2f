//! The tokens that may be drawn next, as decided outside of the model.

use crate::error::ModelError;

/// Function from the tokens drawn so far to those that may be drawn next.
pub type Mask<'a> = &'a mut dyn FnMut(&[u32]) -> Allowed;

/// The tokens that may be drawn next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    words: Vec<u32>,
    vocabulary: usize,
}

impl Allowed {
    /// Bit t % 32 of word t / 32 says whether token t may be drawn. The bit after the last token's
    /// says whether the text may end, by any of its end tokens. Missing bits allow nothing.
    pub fn new(words: Vec<u32>, vocabulary: usize) -> Self {
        Self { words, vocabulary }
    }

    fn has(&self, bit: usize) -> bool {
        let word = self.words.get(bit / 32);
        word.is_some_and(|word| word >> (bit % 32) & 1 == 1)
    }

    /// Whether the text has to end: the mask allows the end and no token.
    pub(crate) fn end_alone(&self) -> bool {
        self.has(self.vocabulary) && !(0..self.vocabulary).any(|token| self.has(token))
    }

    /// Excludes all other tokens from the draw, by setting their `logits` `[vocabulary]` to −∞.
    ///
    /// # Errors
    /// [`ModelError::Order`] where none are left.
    pub(crate) fn apply(&self, logits: &mut [f32], end_ids: &[u32]) -> Result<(), ModelError> {
        let mut left = false;
        for (token, logit) in logits.iter_mut().enumerate() {
            let bit = match end_ids.contains(&(token as u32)) {
                true => self.vocabulary,
                false => token,
            };
            if self.has(bit) {
                left = true;
            } else {
                *logit = f32::NEG_INFINITY;
            }
        }
        match left {
            true => Ok(()),
            false => Err(ModelError::Order("a mask has to allow a token")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The tokens left of 40, of which 3 and 39 end a text.
    fn left(words: &[u32]) -> Vec<usize> {
        let mut logits = [0.5; 40];
        let allowed = Allowed::new(words.to_vec(), 40);
        let applied = allowed.apply(&mut logits, &[3, 39]);
        let left: Vec<_> = (0..40).filter(|&token| logits[token] == 0.5).collect();
        assert_eq!(applied.is_ok(), !left.is_empty());
        left
    }

    #[test]
    fn ends_are_allowed_by_the_bit_behind_the_last_token() {
        assert_eq!(left(&[0b1010, 1]), [1, 32]);
        assert_eq!(left(&[0b0010, 1 << 8]), [1, 3, 39]);
        assert_eq!(left(&[0b0010]), [1]);
        assert_eq!(left(&[0b1000, 1 << 7]), [0; 0]);
        assert_eq!(left(&[]), [0; 0]);
    }

    #[test]
    fn the_end_is_alone_where_no_token_may_follow() {
        let alone = |words: &[u32]| Allowed::new(words.to_vec(), 40).end_alone();
        assert!(alone(&[0, 1 << 8]));
        assert!(!alone(&[1, 1 << 8]));
        assert!(!alone(&[0, 0]));
        assert!(alone(&[0, 1 << 8 | 1 << 9]), "what follows means nothing");
    }
}
