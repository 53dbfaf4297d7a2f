//! A document as it grows: by the accepted text, and by the tokens of a draft behind it.

use llguidance::{Matcher, TokenParser};

use crate::GrammarError;
use crate::schema::told;

/// A document of a schema, as far as the members have accepted it.
pub struct Document {
    accepted: Matcher,
    /// The same, with what is drafted behind it.
    drafted: Option<(Matcher, Vec<u32>)>,
    tokens: u32,
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let drafted = self.drafted.as_ref().map(|(_, tokens)| tokens);
        f.debug_struct("Document")
            .field("drafted", &drafted)
            .finish()
    }
}

impl Document {
    pub(crate) fn new(parser: TokenParser, tokens: u32) -> Self {
        Self {
            accepted: Matcher::new(Ok(parser)),
            drafted: None,
            tokens,
        }
    }

    /// Goes on behind `text`, which all members have accepted.
    ///
    /// # Errors
    /// [`GrammarError::Text`] where no document of the schema goes on like that, after which there
    /// is nothing to go on from; [`GrammarError::Involved`].
    pub fn accept(&mut self, text: &str) -> Result<(), GrammarError> {
        self.drafted = None;
        let first = self.tokens + 1;
        let bytes: Vec<u32> = text.bytes().map(|byte| first + u32::from(byte)).collect();
        let taken = self.accepted.try_consume_tokens(&bytes).map_err(involved)?;
        match taken == bytes.len() {
            true => Ok(()),
            false => Err(GrammarError::Text {
                text: text.chars().take(80).collect(),
            }),
        }
    }

    /// Which tokens may follow the accepted text and `drawn`, tokens that earlier masks allowed: of
    /// token t bit t % 32 of word t / 32; the bit behind the last token's is the end's, set where
    /// the document is whole. What is behind that bit means nothing.
    ///
    /// # Errors
    /// [`GrammarError::NoToken`] where the vocabulary can't go on; [`GrammarError::Involved`].
    pub fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, GrammarError> {
        let (mut behind, before) = match self.drafted.take() {
            // Mostly a token longer than the last time.
            Some((matcher, before)) if drawn.starts_with(&before) => (matcher, before),
            _ => (self.accepted.clone(), Vec::new()),
        };
        if drawn.iter().any(|&token| token >= self.tokens) {
            return Err(GrammarError::NoToken);
        }
        behind
            .consume_tokens(&drawn[before.len()..])
            .map_err(involved)?;
        let mask = behind.compute_mask_or_eos().map_err(involved)?;
        self.drafted = Some((behind, drawn.to_vec()));
        let words = self.tokens as usize / 32 + 1;
        let mut allowed = mask.as_slice()[..words].to_vec();
        // Single bytes begin behind the end's bit.
        let last = u32::MAX >> (31 - self.tokens % 32);
        allowed[words - 1] &= last;
        if allowed.iter().all(|&word| word == 0) {
            return Err(GrammarError::NoToken);
        }
        Ok(allowed)
    }

    /// Whether the accepted text is a whole document.
    pub fn is_whole(&mut self) -> bool {
        self.accepted.is_stopped() || self.accepted.is_accepting().unwrap_or(false)
    }
}

fn involved(error: impl std::fmt::Display) -> GrammarError {
    match told(&error) {
        // The one error of a mask that is no limit: it would allow nothing.
        told if told.starts_with("NoExtensionBias") => GrammarError::NoToken,
        told => GrammarError::Involved(told),
    }
}
