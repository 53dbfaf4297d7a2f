//! Slots of recurrent states, which stand for all tokens of a text in layers that keep no rows.
//!
//! Rows can be cut where two texts differ, a state cannot. So no pass overwrites a state that may
//! be needed again: it begins from one slot and ends in another, and the session changes the
//! prefix's slot. A prompt that shares only a part of the prefix goes on from the nearest
//! *checkpoint*, a state that stays while the text goes on.

use crate::error::ModelError;

/// Error of a pass that begins from a state that no pass has left.
pub const NO_STATE: ModelError = ModelError::Order("no pass has left that recurrent state");

/// Most checkpoints of a session: one where the new part of a prompt begins, for the next prompt
/// that begins alike, and one near the prompt's end, for the prompt that continues it. A state
/// takes 18 MiB or more.
pub const CHECKPOINTS: usize = 2;

/// Number of tokens between a prompt's checkpoint and its end. A template may open an answer with
/// as many tokens, and leave them out or write others once the answer is part of the next prompt.
pub const OPENING: usize = 8;

/// Number of distinct candidates whose recurrent states [`Memory`](crate::Memory) includes. A round
/// with more of them takes more memory.
const CANDIDATES: usize = 3;

/// Number of states that [`Memory`](crate::Memory) includes: the prefix's, a draft's, the
/// checkpoints' and the candidates'.
pub const COUNTED: usize = 2 + CHECKPOINTS + CANDIDATES;

/// A state in its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Kept {
    slot: usize,
    /// Tokens that it has seen, from the text's beginning.
    tokens: usize,
}

/// The slots of a session's states.
#[derive(Debug, Default)]
pub struct States {
    /// Slot of the state after the prefix; `None` at the beginning of a text.
    prefix: Option<usize>,
    /// Slot of the state after the tokens that the last draft has run.
    draft: Option<usize>,
    /// Checkpoints by ascending number of tokens; the prefix's own state may be among them.
    checkpoints: Vec<Kept>,
    /// Lengths of the prefix that are to become checkpoints.
    wanted: Vec<usize>,
    /// Length of the next prompt's beginning after which a checkpoint is kept in any case.
    mark: Option<usize>,
}

impl States {
    /// Slot of the prefix's state.
    pub fn prefix(&self) -> Option<usize> {
        self.prefix
    }

    /// Slot of the state after the tokens that the last draft has run.
    pub fn draft(&self) -> Option<usize> {
        self.draft
    }

    /// Slots that hold no state, the lowest first.
    pub fn free(&self) -> impl Iterator<Item = usize> {
        let kept = self.checkpoints.iter().map(|kept| kept.slot);
        let taken: Vec<usize> = kept.chain(self.prefix).chain(self.draft).collect();
        (0..).filter(move |slot| !taken.contains(slot))
    }

    /// Slots in which a pass after the prefix begins and ends. The state that it leaves becomes the
    /// prefix's by [`extend`](Self::extend).
    pub fn after_prefix(&self) -> (Option<usize>, usize) {
        (self.prefix, self.free().next().unwrap_or_default())
    }

    /// Makes the state in `slot` that of the prefix, which now has `tokens` tokens.
    pub fn extend(&mut self, slot: usize, tokens: usize) {
        self.prefix = Some(slot);
        if self.wanted.contains(&tokens) {
            self.keep(Kept { slot, tokens });
        }
    }

    /// Slots in which the next step of a draft begins and ends. The first step begins in the
    /// prefix's slot; later ones begin and end in the draft's.
    pub fn step(&mut self) -> (Option<usize>, usize) {
        match self.draft {
            Some(slot) => (Some(slot), slot),
            None => {
                let (from, to) = self.after_prefix();
                self.draft = Some(to);
                (from, to)
            }
        }
    }

    /// Frees the draft's state.
    pub fn forget_draft(&mut self) {
        self.draft = None;
    }

    /// Goes back to the latest state that has seen no more than the first `shared` tokens of a
    /// prompt of `count` tokens, and returns the number of tokens that it has seen. It is the state
    /// of the prefix of `length` tokens, or a checkpoint. Frees the checkpoints that have seen
    /// more, and plans those of this prompt.
    pub fn resume(&mut self, length: usize, shared: usize, count: usize) -> usize {
        let from = self.nearest(length, shared);
        self.checkpoints.retain(|kept| kept.tokens <= shared);
        self.prefix = from.map(|kept| kept.slot);
        let begin = from.map_or(0, |kept| kept.tokens);
        self.wanted.clear();
        let mark = self.mark.take();
        if begin < count {
            if let Some(from) = from {
                self.keep(from);
            }
            let near_end = count.saturating_sub(OPENING);
            let mark = mark.filter(|&mark| mark > begin && mark < near_end);
            self.wanted.extend(mark);
            // What was run again once is likely to be wanted again.
            let again = shared > begin + OPENING && shared < near_end;
            self.wanted.extend(again.then_some(shared));
            self.wanted.extend((near_end > begin).then_some(near_end));
        }
        begin
    }

    /// Plans a checkpoint after the first `tokens` tokens of the next prompt.
    pub fn mark(&mut self, tokens: usize) {
        self.mark = Some(tokens);
    }

    /// The latest state that has seen no more than the first `shared` tokens of a prefix of
    /// `length`.
    fn nearest(&self, length: usize, shared: usize) -> Option<Kept> {
        let before = |kept: &&Kept| kept.tokens <= shared;
        self.all_of(length).iter().rfind(before).copied()
    }

    /// Number of tokens after which [`resume`](Self::resume) would continue.
    pub fn resumes(&self, length: usize, shared: usize) -> usize {
        self.nearest(length, shared).map_or(0, |kept| kept.tokens)
    }

    /// The checkpoints of a prefix of `length` tokens, and its own state: slots, and the tokens
    /// that each has seen, the least first.
    pub fn all(&self, length: usize) -> impl Iterator<Item = (usize, usize)> {
        let all = self.all_of(length).into_iter();
        all.map(|kept| (kept.slot, kept.tokens))
    }

    fn all_of(&self, length: usize) -> Vec<Kept> {
        let mut all = self.checkpoints.clone();
        let own = self.prefix.map(|slot| Kept {
            slot,
            tokens: length,
        });
        if let Some(own) = own.filter(|own| all.last() != Some(own)) {
            all.push(own);
        }
        all
    }

    /// States of a restored prefix, by the number of tokens before each. The slot of a state is its
    /// index in the list. The last is the prefix's own state, the others are checkpoints.
    pub fn of_restored(tokens: impl Iterator<Item = usize>) -> Self {
        let kept = |(slot, tokens)| Kept { slot, tokens };
        let mut checkpoints: Vec<Kept> = tokens.enumerate().map(kept).collect();
        Self {
            prefix: checkpoints.pop().map(|own| own.slot),
            checkpoints,
            ..Self::default()
        }
    }

    /// Number of the `count` tokens after a prefix of `length` that can run before the next
    /// checkpoint.
    pub fn until_checkpoint(&self, length: usize, count: usize) -> usize {
        let ahead = self.wanted.iter().filter(|&&wanted| wanted > length);
        ahead.map(|wanted| wanted - length).fold(count, usize::min)
    }

    /// Adds a checkpoint; drops the first ones if there are too many.
    fn keep(&mut self, state: Kept) {
        if self.checkpoints.last() != Some(&state) {
            self.checkpoints.push(state);
        }
        let beyond = self.checkpoints.len().saturating_sub(CHECKPOINTS);
        self.checkpoints.drain(..beyond);
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}
