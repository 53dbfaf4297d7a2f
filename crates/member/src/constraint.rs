//! A constraint on a member's drafts, usually a grammar.

use conclave_model::Moves;

/// Follows one answer, over the vocabulary of one member.
pub trait Constraint: Moves {
    /// The tokens that may follow the accepted text and `drawn`, the draft so far: token t is bit t
    /// % 32 of word t / 32. The bit after the last token of the model's vocabulary is set where the
    /// text may end; if no other bit is set, the text is over.
    ///
    /// # Errors
    /// The reason, for people, why the mask is unknown.
    fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, String>;

    /// Whether any text may follow the accepted one, so that it ends and begins as an answer
    /// without a constraint does.
    fn is_free(&self) -> bool {
        false
    }

    /// Advances past `text`, a segment that all members have accepted.
    ///
    /// # Errors
    /// The reason, for people, why it cannot.
    fn accept(&mut self, text: &str) -> Result<(), String>;
}
