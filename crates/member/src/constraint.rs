//! What a member's drafts are held to, whoever knows the form: a grammar, mostly.

/// Follows one answer, over the vocabulary of one member.
pub trait Constraint {
    /// Which tokens may follow the accepted text and `drawn`, the draft so far: of token t bit t %
    /// 32 of word t / 32; the bit behind the last one of the model's vocabulary is set where the
    /// text may end. Where no other is, it is over.
    ///
    /// # Errors
    /// Why it can't be told, for people.
    fn mask(&mut self, drawn: &[u32]) -> Result<Vec<u32>, String>;

    /// Goes on behind `text`, a segment that all members have accepted.
    ///
    /// # Errors
    /// Why it can't, for people.
    fn accept(&mut self, text: &str) -> Result<(), String>;
}
