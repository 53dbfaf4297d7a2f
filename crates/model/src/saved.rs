//! A prefix apart from its session: its tokens, rows and recurrent states, bit for bit, so that a
//! text which begins alike need not run again.
//!
//! Its bytes name the model and all lengths; bytes that do not fit are refused, so that they may
//! lie in a file that others can write to.

use std::hash::{DefaultHasher, Hasher};

use crate::decoder::Part;
use crate::error::ModelError;
use crate::session::{Session, shared};
use crate::states::{CHECKPOINTS, States};

/// First bytes of the file. The last character is the version.
const MAGIC: [u8; 8] = *b"CLVPFIX2";

/// Words after it: fingerprint, digest of what follows, whether the long frequencies ran, tokens,
/// states, bytes of the rows and of a state.
const WORDS: usize = 7;

/// A part of a prefix, saved from a [`Session`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    fingerprint: u64,
    /// Whether it was computed with the long frequencies of a rotary embedding with two sets.
    long: bool,
    tokens: Vec<u32>,
    /// Rows of all layers that keep some, as their decoder lays them out.
    rows: Vec<u8>,
    /// Recurrent states, each with the number of tokens that it has seen, ascending; the last has
    /// seen all.
    states: Vec<(usize, Vec<u8>)>,
}

const DAMAGED: ModelError = ModelError::Saved("is damaged");
const OTHER: ModelError = ModelError::Saved("is of another model, or of another build of this one");

impl Saved {
    /// Its tokens.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Bytes of memory, except for some hundred.
    pub fn bytes(&self) -> usize {
        let states: usize = self.states.iter().map(|(_, state)| state.len()).sum();
        size_of_val(&self.tokens[..]) + self.rows.len() + states
    }

    /// Number of a prompt's first tokens that need not run in a session that has restored this
    /// prefix, if both use the same rotary frequencies.
    pub fn keeps(&self, tokens: &[u32]) -> usize {
        let shared = shared(&self.tokens, tokens);
        match self.states.is_empty() {
            true => shared,
            false => {
                let mut seen = self.states.iter().map(|(seen, _)| *seen);
                seen.rfind(|&seen| seen <= shared).unwrap_or_default()
            }
        }
    }

    /// The same as bytes, which [`from_bytes`](Self::from_bytes) reads. Another build of this crate
    /// may refuse them.
    pub fn to_bytes(&self) -> Vec<u8> {
        let begin = MAGIC.len() + 8 * WORDS;
        let mut bytes = Vec::with_capacity(begin + 8 * self.states.len() + self.bytes());
        bytes.resize(begin, 0);
        for token in &self.tokens {
            bytes.extend_from_slice(&token.to_le_bytes());
        }
        for (seen, _) in &self.states {
            bytes.extend_from_slice(&(*seen as u64).to_le_bytes());
        }
        bytes.extend_from_slice(&self.rows);
        for (_, state) in &self.states {
            bytes.extend_from_slice(state);
        }
        let state = self.states.first().map_or(0, |(_, state)| state.len());
        let words = [
            self.fingerprint,
            0,
            u64::from(self.long),
            self.tokens.len() as u64,
            self.states.len() as u64,
            self.rows.len() as u64,
            state as u64,
        ];
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        for (word, into) in words.iter().zip(bytes[MAGIC.len()..].chunks_exact_mut(8)) {
            into.copy_from_slice(&word.to_le_bytes());
        }
        let digest = digest(&bytes);
        bytes[DIGEST].copy_from_slice(&digest.to_le_bytes());
        bytes
    }

    /// Reads what [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    /// [`ModelError::Saved`] for anything else, down to a bit. [`Session::restore`] checks the
    /// model.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ModelError> {
        let (magic, rest) = bytes.split_at_checked(MAGIC.len()).ok_or(DAMAGED)?;
        if magic != MAGIC {
            return Err(ModelError::Saved("is of another version, or no prefix"));
        }
        let (head, mut rest) = rest.split_at_checked(8 * WORDS).ok_or(DAMAGED)?;
        let mut words = [0_u64; WORDS];
        for (word, bytes) in words.iter_mut().zip(head.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        let [fingerprint, expected, long, tokens, states, rows, state] = words;
        if digest(bytes) != expected || states > 1 + CHECKPOINTS as u64 {
            return Err(DAMAGED);
        }
        // Never takes more than there is.
        let mut take = |count: u64, each: u64| {
            let count = count.checked_mul(each);
            let count = count.and_then(|count| usize::try_from(count).ok());
            let (taken, others) = rest.split_at_checked(count?)?;
            rest = others;
            Some(taken)
        };
        let tokens = take(tokens, 4).ok_or(DAMAGED)?;
        let seen = take(states, 8).ok_or(DAMAGED)?;
        let rows = take(rows, 1).ok_or(DAMAGED)?.to_vec();
        let mut states = Vec::new();
        for seen in seen.as_chunks().0 {
            let seen = usize::try_from(u64::from_le_bytes(*seen)).map_err(|_| DAMAGED)?;
            states.push((seen, take(state, 1).ok_or(DAMAGED)?.to_vec()));
        }
        if !rest.is_empty() {
            return Err(DAMAGED);
        }
        let tokens = tokens.as_chunks().0.iter();
        Ok(Self {
            fingerprint,
            long: long != 0,
            tokens: tokens.map(|bytes| u32::from_le_bytes(*bytes)).collect(),
            rows,
            states,
        })
    }
}

/// Position of the digest.
const DIGEST: std::ops::Range<usize> = MAGIC.len() + 8..MAGIC.len() + 16;

/// Digest of everything but itself.
fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes[..DIGEST.start]);
    hasher.write(&bytes[DIGEST.end..]);
    hasher.finish()
}

impl Session {
    /// Number of a prompt's tokens that need not run here; the last may run nevertheless.
    pub fn keeps(&self, tokens: &[u32]) -> usize {
        let shared = shared(&self.prefix, tokens);
        match &self.states {
            _ if self.model.rotates_differently(tokens.len()) => 0,
            Some(states) => states.resumes(self.prefix.len(), shared),
            None => shared,
        }
    }

    /// The same after restoring a saved prefix.
    pub fn keeps_of(&self, saved: &Saved, tokens: &[u32]) -> usize {
        match self.model.needs_other_rope(saved.long, tokens.len()) {
            true => 0,
            false => saved.keeps(tokens),
        }
    }

    /// Identifies the model, its weights and the layout of its rows: with the tokens, the key of a
    /// [`save`](Self::save)d prefix.
    pub fn fingerprint(&self) -> u64 {
        self.model.fingerprint()
    }

    /// Largest number of bytes that the first `tokens` of a prefix take when saved; `None` if the
    /// decoder cannot save.
    pub fn bytes_apart(&self, tokens: usize) -> Option<usize> {
        let of = self.model.footprint()?;
        let states = self.states.as_ref();
        let states = states.map_or(0, |states| states.all(self.prefix.len()).count());
        Some(tokens * (size_of::<u32>() + of.token) + states * of.state)
    }

    /// Copies the first `most` tokens of the prefix, or the whole prefix if it is shorter. A
    /// recurrent model has states at a few places only, so that its copy ends at the last of these
    /// places. `None` if no token is left to copy, memory does not suffice, or the decoder cannot
    /// save. The prefix does not change.
    ///
    /// # Errors
    /// The backend's.
    pub async fn save(&mut self, most: usize) -> Result<Option<Saved>, ModelError> {
        let mut end = most.min(self.prefix.len());
        let mut states = Vec::new();
        if let Some(all) = &self.states {
            let all = all.all(self.prefix.len());
            states.extend(all.filter(|&(_, seen)| seen <= end));
            end = states.last().map_or(0, |&(_, seen)| seen);
        }
        // Without memory nothing is saved, and nothing fails.
        let room = self.bytes_apart(end).filter(|_| end > 0);
        let there_is = |&bytes: &usize| Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
        if room.filter(there_is).is_none() {
            return Ok(None);
        }
        let mut saved = Saved {
            fingerprint: self.fingerprint(),
            long: self.model.is_long(),
            tokens: self.prefix[..end].to_vec(),
            rows: self.model.save(Part::Rows(end)).await?,
            states: Vec::new(),
        };
        for (slot, seen) in states {
            let state = self.model.save(Part::State(slot)).await?;
            saved.states.push((seen, state));
        }
        Ok(Some(saved))
    }

    /// Replaces this session's prefix by a saved one. There are no logits until the next prompt has
    /// run; at least the last token of that prompt runs.
    ///
    /// # Errors
    /// [`ModelError::Saved`] for another model's prefix, or one that leaves no room; the session's
    /// prefix then does not change. The backend's.
    pub fn restore(&mut self, saved: &Saved) -> Result<(), ModelError> {
        self.check(saved)?;
        self.forget_prefix();
        self.model.set_long(saved.long)?;
        self.model
            .restore(Part::Rows(saved.tokens.len()), &saved.rows)?;
        for (slot, (_, state)) in saved.states.iter().enumerate() {
            self.model.restore(Part::State(slot), state)?;
        }
        let seen = saved.states.iter().map(|(seen, _)| *seen);
        self.become_of(&saved.tokens, States::of_restored(seen));
        Ok(())
    }

    /// Refuses a saved prefix that is not this model's.
    ///
    /// # Errors
    /// [`ModelError::Saved`].
    pub fn check(&self, saved: &Saved) -> Result<(), ModelError> {
        let of = self.model.footprint().ok_or(OTHER)?;
        if saved.fingerprint != self.fingerprint() {
            return Err(OTHER);
        }
        let (count, about) = (saved.tokens.len(), self.about());
        if count > about.context {
            return Err(ModelError::Saved("is longer than the context"));
        }
        let known = |&id: &u32| (id as usize) < about.config.vocabulary;
        let seen = saved.states.iter().map(|(seen, _)| *seen);
        let whole = match self.states {
            Some(_) => seen.clone().next_back() == Some(count) && seen.is_sorted_by(|a, b| a < b),
            None => saved.states.is_empty(),
        };
        let rows = of.bytes(Part::Rows(count)) == Some(saved.rows.len());
        let states = saved
            .states
            .iter()
            .all(|(_, state)| state.len() == of.state);
        match count > 0 && rows && states && whole && saved.tokens.iter().all(known) {
            true => Ok(()),
            false => Err(DAMAGED),
        }
    }
}
