//! Errors in the numbers of a round.

/// A round that can't be decided. `verifier` and `candidate` are positions among the active
/// members.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoundError {
    /// Number of rows is not that of the verifiers.
    #[error(
        "{found} rows of scores for {members} active members: give one row for each active verifier"
    )]
    Rows {
        /// Rows found.
        found: usize,
        /// Number of active members.
        members: usize,
    },
    /// A row that lacks scores of some candidates.
    #[error(
        "verifier {verifier} scored {found} of {candidates} candidates: give one score for each, \
         or none where it abstains"
    )]
    Row {
        /// The row.
        verifier: usize,
        /// Number of scores in it.
        found: usize,
        /// Number of candidates of the round.
        candidates: usize,
    },
    /// Drafters out of range, out of order or repeated.
    #[error(
        "drafters must be positions among the {members} active members, ascending, each once and \
         at least one: correct them"
    )]
    Drafters {
        /// Number of active members.
        members: usize,
    },
    /// A number of strengths other than that of the members, or a strength not above 0.
    #[error(
        "give a strength above 0 for each of the {members} members, or NaN where nothing is known, \
         and say of each whether it chats"
    )]
    Strengths {
        /// Number of members of the query.
        members: usize,
    },
    /// A row without a score, of mixed kinds, or with a preference that is not positive.
    #[error(
        "verifier {verifier} has no score of candidate {candidate} that stands beside its others: \
         give scores of one kind in a row, preferences above 0"
    )]
    Kind {
        /// The row.
        verifier: usize,
        /// The column.
        candidate: usize,
    },
    /// A score that is NaN or infinite.
    #[error(
        "verifier {verifier} gave candidate {candidate} a score that is not a finite number: its \
         logits are broken, reload that member or leave it out"
    )]
    NotFinite {
        /// The row.
        verifier: usize,
        /// The column.
        candidate: usize,
    },
    /// A share that isn't between 0 and 1.
    #[error(
        "the share of candidate {candidate} in row {verifier} is not between 0 and 1: normalise \
         the scores first"
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
        /// The index found.
        winner: usize,
        /// Number of candidates of the round.
        candidates: usize,
    },
    /// No active member drafts.
    #[error("the members that are left can't draft, they only judge: add one that drafts")]
    NoDrafter,
    /// An event that does not answer the last move.
    #[error("this event does not answer the last move: report what the members made of that")]
    Event,
    /// No member would be left.
    #[error("no member would be left to answer: keep at least one")]
    Nobody,
}
