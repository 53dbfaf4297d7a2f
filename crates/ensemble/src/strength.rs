//! The strength of a member before it has said anything.
//!
//! A vote counts by how far its voter can be trusted. Judges that are right independently of each
//! other, each at a rate p, are to be heard by ln(p / (1 − p)) (Nitzan and Paroush 1982). Votes
//! here are levelled shares, not yes or no, and members are not independent; weights in proportion
//! to the odds p / (1 − p) did as well as any where it was measured, and for models of which nobody
//! has measured anything their size stands for them.

/// The strength of a model of so many `parameters`: with m of them in millions, half of that for a
/// base model, which has learnt to continue texts and not to answer (`chats` is false), m + 400·m /
/// (m + 20). Strengths of models above a billion are as their sizes; the smaller ones are closer to
/// each other, since one of 135 million knows nearly as many plain facts as one of 500; a toy of a
/// million has next to none.
///
/// ```
/// use conclave_ensemble::strength::prior;
///
/// assert_eq!(prior(270_000_000, false), prior(135_000_000, true));
/// assert!(prior(1_500_000_000, true) > 2.0 * prior(500_000_000, true));
/// assert!(prior(500_000_000, true) < 2.0 * prior(135_000_000, true));
/// assert!(prior(1_000_000, true) < 0.05 * prior(135_000_000, true));
/// ```
pub fn prior(parameters: u64, chats: bool) -> f64 {
    let millions = parameters.max(1) as f64 / 1e6;
    let millions = if chats { millions } else { millions / 2.0 };
    millions + 400.0 * millions / (millions + 20.0)
}

/// The strength of a member that answered `right` of so many questions `asked`: the odds of its
/// being right, (right + ½) / (wrong + ½). Comparable with that of others that were asked the same.
///
/// ```
/// use conclave_ensemble::strength;
///
/// assert_eq!(strength::measured(75, 100), 75.5 / 25.5);
/// ```
pub fn measured(right: usize, asked: usize) -> f64 {
    let wrong = asked.saturating_sub(right);
    (right as f64 + 0.5) / (wrong as f64 + 0.5)
}
