//! Slots of recurrent states, which stand for all tokens of a text in layers that keep no rows.
//!
//! Rows can be cut where two texts differ, a state cannot. So no pass overwrites a state that may
//! be needed again: it begins from one slot and ends in another, and the session changes the
//! prefix's slot. A prompt that shares only a part of the prefix goes on from the nearest
//! *checkpoint*, a state that stays while the text goes on.

use crate::error::ModelError;

/// The error of a pass that begins from a state that no pass has left.
pub const NO_STATE: ModelError = ModelError::Order("no pass has left that recurrent state");

/// Checkpoints of a session, at most: one where what is new in a prompt begins, for the next that
/// begins alike, and one near its end, for the one that follows. A state is 18 MiB and more.
pub const CHECKPOINTS: usize = 2;

/// Tokens before a prompt's end where its checkpoint is: as many as may open an answer and are
/// left out, or written otherwise, once it is part of the next prompt.
pub const OPENING: usize = 8;

/// Different candidates whose states [`Memory`](crate::Memory) counts; more take more.
const CANDIDATES: usize = 3;

/// States that [`Memory`](crate::Memory) counts: the prefix's, a draft's, the checkpoints' and the
/// candidates'.
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
    /// After the prefix; `None` at the beginning.
    prefix: Option<usize>,
    /// After the tokens that the last draft has run.
    draft: Option<usize>,
    /// In the order of their tokens, the least first; the prefix's own may be among them.
    checkpoints: Vec<Kept>,
    /// Lengths of the prefix that are to become checkpoints.
    wanted: Vec<usize>,
    /// A length that is to become one in the next prompt, whatever else does.
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

    /// Slots that hold none of them, the least first.
    pub fn free(&self) -> impl Iterator<Item = usize> {
        let kept = self.checkpoints.iter().map(|kept| kept.slot);
        let taken: Vec<usize> = kept.chain(self.prefix).chain(self.draft).collect();
        (0..).filter(move |slot| !taken.contains(slot))
    }

    /// Slots that a pass after the prefix begins from and ends in; the state it leaves becomes the
    /// prefix's by [`extend`](Self::extend).
    pub fn after_prefix(&self) -> (Option<usize>, usize) {
        (self.prefix, self.free().next().unwrap_or_default())
    }

    /// Makes the state in `slot` the prefix's, after `tokens` of them.
    pub fn extend(&mut self, slot: usize, tokens: usize) {
        self.prefix = Some(slot);
        if self.wanted.contains(&tokens) {
            self.keep(Kept { slot, tokens });
        }
    }

    /// Slots that the next step of a draft begins from and ends in: the first from the prefix, all
    /// others in place.
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

    /// Goes back to the nearest state, of the prefix of `length` tokens or of a checkpoint, that
    /// has seen no more than the first `shared` of a prompt of `count`, and returns the number of
    /// tokens it has seen. Frees the states of another text, and wants checkpoints of this prompt.
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

    /// Wants a checkpoint after the first `tokens` of the next prompt.
    pub fn mark(&mut self, tokens: usize) {
        self.mark = Some(tokens);
    }

    /// The nearest state that has seen no more than the first `shared` tokens of a prefix of
    /// `length`.
    fn nearest(&self, length: usize, shared: usize) -> Option<Kept> {
        let before = |kept: &&Kept| kept.tokens <= shared;
        self.all_of(length).iter().rfind(before).copied()
    }

    /// Number of tokens that [`resume`](Self::resume) would go on after.
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

    /// Those of a prefix that was put back: each in the slot of its place in the list. The last is
    /// the prefix's own, the others are checkpoints.
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

    /// Keeps a state while the text goes on; of too many, the first gives way.
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
