//! Prior strength of a member.
//!
//! A vote counts by its voter's reliability. Independent judges that are right at a rate p should
//! be weighted by ln(p / (1 − p)) (Nitzan and Paroush 1982). Votes here are levelled shares, not
//! yes or no, and members are not independent; weights in proportion to the odds p / (1 − p) did as
//! well as any in our measurements (`tests/eval-log.md`). The strength of a model that was not
//! measured is estimated from its size.

/// Strength of a model of `parameters`, m of them in millions: m + 400·m / (m + 20), half of that
/// for a base model (`chats` is false), which has learnt to continue texts and not to answer. Above
/// a billion, strengths are proportional to size; smaller ones are closer to each other, since a
/// model of 135 million knows nearly as many plain facts as one of 500; a toy of a million has next
/// to none.
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

/// Strength of a member that answered `right` of `asked` questions correctly: the odds of a correct
/// answer, (right + ½) / (wrong + ½). Comparable among members with the same questions.
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
