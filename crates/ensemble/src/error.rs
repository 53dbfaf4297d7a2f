//! What can be wrong with the numbers of a round.

/// A round that can't be decided. `verifier` and `candidate` are positions among the active
/// members.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoundError {
    /// Not a row for every verifier.
    #[error(
        "{found} rows of scores for {members} active members: give one row for each active verifier"
    )]
    Rows {
        /// Rows given.
        found: usize,
        /// Active members.
        members: usize,
    },
    /// Not a score for every candidate.
    #[error(
        "verifier {verifier} scored {found} of {members} candidates: give one score for each active member's candidate"
    )]
    Row {
        /// The row.
        verifier: usize,
        /// Scores in it.
        found: usize,
        /// Active members.
        members: usize,
    },
    /// A score that is NaN or infinite.
    #[error(
        "verifier {verifier} gave candidate {candidate} a score that is not a finite number: its logits are broken, reload that member or leave it out"
    )]
    NotFinite {
        /// The row.
        verifier: usize,
        /// The column.
        candidate: usize,
    },
    /// A share that isn't between 0 and 1.
    #[error(
        "the share of candidate {candidate} in row {verifier} is not between 0 and 1: normalise the scores first"
    )]
    NotAShare {
        /// The row.
        verifier: usize,
        /// The column.
        candidate: usize,
    },
    /// A winner that isn't among the candidates.
    #[error("winner {winner} of {candidates} candidates: give the winner that the selection named")]
    Winner {
        /// The position given.
        winner: usize,
        /// Candidates of the round.
        candidates: usize,
    },
    /// The last member would leave.
    #[error("no member would be left to answer: keep at least one")]
    Nobody,
}
