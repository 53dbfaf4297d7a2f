//! Tokens of an answer that a stop text ended within a segment.

use crate::answer::{Answer, Ask};
use crate::taking_part::TakePart;

/// Returns the number of tokens up to and including the one that completes the stop text, with
/// which a member that writes token by token stops: each segment's in its writer's tokenisation.
/// A last segment that only remote members wrote counts as a whole: their tokens are unknown here.
pub(crate) fn tokens_to_stop<M: TakePart>(members: &[M], ask: &Ask<'_>, said: &Answer) -> usize {
    let segments = said.rounds.iter();
    let segments = segments.map(|round| round.candidates[round.winner].text.as_str());
    let whole: String = segments.collect();
    let shown = said.text.len();
    let stops = ask.limits.stop.iter().filter(|stop| !stop.is_empty());
    let begins = |stop: &&String| {
        whole
            .get(shown..)
            .is_some_and(|rest| rest.starts_with(*stop))
    };
    // Several may begin here: the shortest is complete first.
    let stop = stops.filter(begins).map(String::len).min();
    let end = shown + stop.unwrap_or(whole.len());
    let begun = match ask.question.conversation() {
        Ok((_, begun)) => !begun.is_empty(),
        Err(_) => true,
    };
    let (mut tokens, mut at) = (0, 0);
    for round in &said.rounds {
        let (text, count) = (
            &round.candidates[round.winner].text,
            round.tokens[round.winner],
        );
        if at + text.len() >= end {
            let first = at == 0 && !begun;
            // The winner's tokens were counted; another writer's may be fewer or more.
            let winner = std::iter::once(round.winner);
            let mut writers = winner.chain(round.writers.iter().copied());
            let before = writers.find_map(|candidate| {
                members[round.drafters[candidate]].tokens_before(text, end - at, first)
            });
            return tokens + before.map_or(count, |before| before.min(count));
        }
        tokens += count;
        at += text.len();
    }
    tokens
}
