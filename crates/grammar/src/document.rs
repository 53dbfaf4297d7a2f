//! A growing document: the accepted text, followed by the tokens of a draft.

use llguidance::{Matcher, TokenParser};

use crate::GrammarError;
use crate::schema::first_line;

/// Document of a schema, up to what the members have accepted.
pub struct Document {
    accepted: Matcher,
    /// State after the drafted tokens.
    drafted: Option<(Matcher, Vec<u32>)>,
    tokens: u32,
}

impl std::fmt::Debug for Document {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let drafted = self.drafted.as_ref().map(|(_, tokens)| tokens);
        f.debug_struct("Document")
            .field("drafted", &drafted)
            .finish_non_exhaustive()
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

    /// Advances by `text`, which all members have accepted.
    ///
    /// # Errors
    /// [`GrammarError::Text`] if no document of the schema continues so; the document is then
    /// unusable. [`GrammarError::Involved`].
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

    /// Bit mask of the tokens that may follow the accepted text and `drawn`, tokens that earlier
    /// masks allowed. Token t is bit t % 32 of word t / 32; the bit after the last token's is the
    /// end's, set if the document is complete. Further bits are unspecified.
    ///
    /// # Errors
    /// [`GrammarError::NoToken`] if no token fits; [`GrammarError::Involved`].
    pub fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, GrammarError> {
        let (mut matcher, before) = match self.drafted.take() {
            // Usually one token longer than in the last call.
            Some((matcher, before)) if drawn.starts_with(&before) => (matcher, before),
            _ => (self.accepted.clone(), Vec::new()),
        };
        if drawn.iter().any(|&token| token >= self.tokens) {
            return Err(GrammarError::NoToken);
        }
        matcher
            .consume_tokens(&drawn[before.len()..])
            .map_err(involved)?;
        let mask = matcher.compute_mask_or_eos().map_err(involved)?;
        self.drafted = Some((matcher, drawn.to_vec()));
        let words = self.tokens as usize / 32 + 1;
        let mut allowed = mask.as_slice()[..words].to_vec();
        // Clears the single-byte tokens after the end's bit.
        let last = u32::MAX >> (31 - self.tokens % 32);
        allowed[words - 1] &= last;
        if allowed.iter().all(|&word| word == 0) {
            return Err(GrammarError::NoToken);
        }
        Ok(allowed)
    }

    /// Returns whether the accepted text is a complete document.
    pub fn is_whole(&mut self) -> bool {
        self.accepted.is_stopped() || self.accepted.is_accepting().unwrap_or(false)
    }
}

fn involved(error: impl std::fmt::Display) -> GrammarError {
    match first_line(&error) {
        // Not a limit: the mask would allow nothing.
        message if message.starts_with("NoExtensionBias") => GrammarError::NoToken,
        message => GrammarError::Involved(message),
    }
}
