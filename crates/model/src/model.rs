//! A model on its backend: loaded from a checkpoint, and run with every id, place and slot checked.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hasher};

use conclave_cpu::Threads;
use conclave_kernels::Draws;
use conclave_weights::{Checkpoint, Source};

use crate::about::{About, LoadOptions, describe};
use crate::decoder::{Backend, Decoder, Footprint, Loading, Part};
use crate::error::ModelError;
use crate::pass::{Pass, Run, TargetScore};
use crate::reading;
use crate::rope::Factors;
use crate::slots::{MOST_DRAFTED, check_slots};

/// A model on its backend, with its KV cache.
#[derive(Debug)]
pub struct Model {
    about: About,
    decoder: Box<dyn Decoder>,
    /// Whether the long frequencies of a rotary embedding with two sets are in use.
    long: bool,
    fingerprint: u64,
}

/// Digest of formatted text: a `fmt::Write` that feeds a hasher.
struct TextDigest<'a>(&'a mut DefaultHasher);

impl Write for TextDigest<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Model {
    /// Loads the model of a checkpoint, tensor by tensor, from the source that the checkpoint was
    /// opened from. `progress` is called with the number of bytes read so far, of [`About::bytes`].
    ///
    /// # Errors
    /// [`ModelError`] for an unknown architecture, damaged files, or a device without the memory.
    pub async fn load(
        checkpoint: &Checkpoint,
        source: &dyn Source,
        backend: &dyn Backend,
        options: LoadOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, ModelError> {
        let (mut about, plan) = describe(checkpoint, options)?;
        for rope in &mut about.config.ropes {
            let pairs = rope.rotary_dim / 2;
            for factors in rope.factors_mut() {
                if let Factors::Tensor(name) = factors {
                    let read = reading::divisors(checkpoint, source, name, pairs).await?;
                    *factors = Factors::Listed(read);
                }
            }
        }
        let mut digest = DefaultHasher::new();
        let loading = Loading {
            digest: &mut digest,
            config: &about.config,
            context: about.context,
            quantise: options.quantise,
            plan: &plan,
            checkpoint,
            source,
            progress,
        };
        let decoder = backend.load(loading).await?;
        // All that rows depend on besides the weights. A digest takes any text, without error.
        let (config, quantise, footprint) = (&about.config, options.quantise, decoder.footprint());
        let _ = write!(
            TextDigest(&mut digest),
            "{config:?} {quantise:?} {footprint:?}"
        );
        Ok(Self {
            about,
            decoder,
            long: false,
            fingerprint: digest.finish(),
        })
    }

    /// Identifies the model, its weights (by samples) and the layout of its rows in this build of
    /// the crate: saved rows are of use only under the same fingerprint.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// [`Decoder::footprint`].
    pub fn footprint(&self) -> Option<Footprint> {
        self.decoder.footprint()
    }

    /// [`Decoder::save`].
    ///
    /// # Errors
    /// The decoder's.
    pub async fn save(&mut self, part: Part) -> Result<Vec<u8>, ModelError> {
        self.decoder.save(part).await
    }

    /// [`Decoder::restore`].
    ///
    /// # Errors
    /// The decoder's.
    pub fn restore(&mut self, part: Part, bytes: &[u8]) -> Result<(), ModelError> {
        self.decoder.restore(part, bytes)
    }

    /// Threads that share its passes; one if these only wait for a device.
    pub fn threads(&self) -> Threads {
        self.decoder.threads()
    }

    /// The model's description.
    pub fn about(&self) -> &About {
        &self.about
    }

    /// Whether a text of `length` tokens needs the rotary frequencies that are not in use. Its KV
    /// rows would have to be computed again.
    pub fn rotates_differently(&self, length: usize) -> bool {
        self.needs_other_rope(self.long, length)
    }

    /// Whether a text of `length` tokens needs other rotary frequencies than the long ones
    /// (`long`), or than the short ones.
    pub fn needs_other_rope(&self, long: bool, length: usize) -> bool {
        let switch = self.about.config.rope_switches_at();
        switch.is_some_and(|last| (length > last) != long)
    }

    /// Whether a text that grows to `length` tokens needs the long frequencies, and the short ones
    /// are in use.
    pub fn needs_long_rope(&self, length: usize) -> bool {
        !self.long && self.rotates_differently(length)
    }

    /// Whether the long frequencies are in use.
    pub fn is_long(&self) -> bool {
        self.long
    }

    /// Switches to the long frequencies, or the short ones; KV rows that are present were computed
    /// with the others.
    ///
    /// # Errors
    /// The decoder's.
    pub fn set_long(&mut self, long: bool) -> Result<(), ModelError> {
        if long != self.long {
            self.decoder.set_ropes(long)?;
            self.long = long;
        }
        Ok(())
    }

    /// Switches to the rotary frequencies for texts of `length` tokens; KV rows that are present
    /// may have been computed with others.
    ///
    /// # Errors
    /// The decoder's.
    pub fn rotate_for(&mut self, length: usize) -> Result<(), ModelError> {
        match self.rotates_differently(length) {
            true => self.set_long(!self.long),
            false => Ok(()),
        }
    }

    /// Runs a pass: its KV rows are written, and the states of its tokens lie in the slots from
    /// `slot` on.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`], [`ModelError::InLine`], [`ModelError::Token`],
    /// [`ModelError::Order`] where not all of a recurrent model's tokens are in runs, or the
    /// decoder's.
    pub fn run(&mut self, pass: &Pass, slot: usize) -> Result<(), ModelError> {
        pass.check(&self.about)?;
        let in_runs: usize = pass.runs.iter().map(|run| run.tokens).sum();
        if self.about.config.is_recurrent() && in_runs != pass.len() {
            return Err(ModelError::Order("a token runs from no recurrent state"));
        }
        check_slots(slot, pass.len())?;
        self.decoder.run(pass, slot)
    }

    /// [`Decoder::draft`]; `None` for more tokens than it can draw.
    ///
    /// # Errors
    /// The decoder's.
    pub async fn draft(
        &mut self,
        prefix: usize,
        begun: &[u32],
        draws: Draws,
        random: &[u32],
        states: Option<Run>,
    ) -> Result<Option<Vec<u32>>, ModelError> {
        match begun.len() + random.len() {
            ..=MOST_DRAFTED => {
                let drawn = self.decoder.draft(prefix, begun, draws, random, states);
                drawn.await
            }
            _ => Ok(None),
        }
    }

    /// Makes the state in `slot` that of the prefix's last token.
    ///
    /// # Errors
    /// [`ModelError::InLine`] for a missing slot, or the decoder's.
    pub fn keep_state(&mut self, slot: usize) -> Result<(), ModelError> {
        check_slots(slot, 1)?;
        self.decoder.keep_state(slot)
    }

    /// Logits `[slots][vocabulary]` after the tokens in these slots.
    ///
    /// # Errors
    /// As [`keep_state`](Self::keep_state).
    pub async fn logits(&mut self, slots: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        slots.iter().try_for_each(|&slot| check_slots(slot, 1))?;
        self.decoder.logits(slots).await
    }

    /// [`Decoder::hidden`].
    ///
    /// # Errors
    /// As [`keep_state`](Self::keep_state).
    pub async fn hidden(&mut self, slots: &[usize]) -> Result<Vec<Vec<f32>>, ModelError> {
        slots.iter().try_for_each(|&slot| check_slots(slot, 1))?;
        self.decoder.hidden(slots).await
    }

    /// Scores of `targets[i]` under the logits after the token in `slots[i]`; the whole output
    /// matrix is run for `logprobs` only.
    ///
    /// # Errors
    /// As [`keep_state`](Self::keep_state).
    pub async fn scores(
        &mut self,
        slots: &[usize],
        targets: &[u32],
        logprobs: bool,
    ) -> Result<Vec<TargetScore>, ModelError> {
        slots.iter().try_for_each(|&slot| check_slots(slot, 1))?;
        self.decoder.scores(slots, targets, logprobs).await
    }

    /// Tokens of a prompt to run in one step.
    pub fn prefill_chunk(&self) -> usize {
        self.decoder.prefill_chunk()
    }

    /// Length of a pass, in tokens, that makes results reproducible: if all passes from a text's
    /// first token on have it, a token's sums are always the same. `None` if sums are the same for
    /// passes of any length.
    pub(crate) fn even_chunk(&self) -> Option<usize> {
        self.decoder.even_chunk()
    }

    /// Waits until everything has run; fails with any error since the last wait.
    ///
    /// # Errors
    /// The decoder's.
    pub async fn settle(&self) -> Result<(), ModelError> {
        self.decoder.settle().await
    }

    /// Moves KV rows `from .. from + count` to `to ..`, `to <= from`.
    ///
    /// # Errors
    /// The decoder's.
    pub fn move_rows(&mut self, from: usize, to: usize, count: usize) -> Result<(), ModelError> {
        match from == to {
            true => Ok(()),
            false => self.decoder.move_rows(from, to, count),
        }
    }

    /// Frees the KV cache.
    pub fn release(&mut self) {
        self.decoder.release();
    }
}
