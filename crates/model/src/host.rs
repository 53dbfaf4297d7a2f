//! Logits by slot for decoders on the host, which keep hidden states of their last pass only: what
//! was computed for a draft or the prefix stays until another token takes its slot.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::ModelError;
use crate::pass::TargetScore;

/// What is known after which token.
#[derive(Debug, Default)]
pub struct Host {
    /// Slots of the last pass.
    last: Range<usize>,
    logits: BTreeMap<usize, Vec<f32>>,
}

impl Host {
    /// A pass of `count` tokens took the slots from `slot` on.
    pub fn ran(&mut self, slot: usize, count: usize) {
        self.last = slot..slot + count;
        self.logits.retain(|known, _| !self.last.contains(known));
    }

    /// Keeps logits for a slot.
    pub fn keep(&mut self, slot: usize, logits: Vec<f32>) {
        self.logits.insert(slot, logits);
    }

    /// The last pass's rows in those of `slots` whose logits are not known.
    ///
    /// # Errors
    /// [`ModelError::Order`] for a slot without a state.
    pub fn rows(&self, slots: &[usize]) -> Result<Vec<usize>, ModelError> {
        let unknown = slots.iter().filter(|slot| !self.logits.contains_key(slot));
        unknown
            .map(|slot| match self.last.contains(slot) {
                true => Ok(slot - self.last.start),
                false => Err(ModelError::Order(
                    "no pass has run whose logits could be read",
                )),
            })
            .collect()
    }

    /// The targets of those of `slots` whose logits are not known.
    pub fn targets(&self, slots: &[usize], targets: &[u32]) -> Vec<u32> {
        let all = slots.iter().zip(targets);
        let unknown = all.filter(|(slot, _)| !self.logits.contains_key(slot));
        unknown.map(|(_, &target)| target).collect()
    }

    /// The logits of all `slots`, of which `computed` were not known. Those of a single slot stay
    /// known: a draft asks for one after the other, and is judged by them later.
    ///
    /// # Errors
    /// [`ModelError::Order`] where `computed` are too few.
    pub fn join(
        &mut self,
        slots: &[usize],
        computed: Vec<Vec<f32>>,
    ) -> Result<Vec<Vec<f32>>, ModelError> {
        let mut computed = computed.into_iter();
        let mut all = Vec::with_capacity(slots.len());
        for slot in slots {
            all.push(match self.logits.get(slot) {
                Some(known) => known.clone(),
                None => computed.next().ok_or(MISSING)?,
            });
        }
        if let ([slot], [logits]) = (slots, all.as_slice()) {
            self.logits.entry(*slot).or_insert_with(|| logits.clone());
        }
        Ok(all)
    }

    /// The scores of all `slots`, of which `computed` were not known; with log-probabilities or
    /// without.
    ///
    /// # Errors
    /// [`ModelError::Order`] where `computed` are too few.
    pub fn judge(
        &self,
        slots: &[usize],
        targets: &[u32],
        computed: Vec<TargetScore>,
        logprobs: bool,
    ) -> Result<Vec<TargetScore>, ModelError> {
        let mut computed = computed.into_iter();
        let score = |(slot, &target): (&usize, &u32)| match self.logits.get(slot) {
            Some(known) => Ok(TargetScore::of(known, target, logprobs)),
            None => computed.next().ok_or(MISSING),
        };
        slots.iter().zip(targets).map(score).collect()
    }
}

const MISSING: ModelError = ModelError::Order("the pass left fewer logits than were asked for");
