//! The interface of a backend: it loads weights into a decoder, which runs tokens and scores others
//! by the hidden states that they leave.

use std::fmt::Debug;
use std::future::{Future, ready};
use std::hash::DefaultHasher;
use std::pin::Pin;

use conclave_cpu::Threads;
use conclave_kernels::Draws;
use conclave_weights::{Checkpoint, Format, Source};

use crate::config::Config;
use crate::error::ModelError;
use crate::pass::{Pass, Run, TargetScore};
use crate::plan::Plan;
use crate::prefill::CPU_CHUNK;
use crate::reading::{self, WeightSink};
use crate::weights::Weights;

/// A future result. Not `Send`: in a page everything lives on one thread.
pub type Wait<'a, T> = Pin<Box<dyn Future<Output = Result<T, ModelError>> + 'a>>;

/// A device that runs models.
pub trait Backend: Debug {
    /// Loads a model there.
    ///
    /// # Errors
    /// [`ModelError`] for files that cannot be read, or where the device has no room.
    fn load<'a>(&'a self, loading: Loading<'a>) -> Wait<'a, Box<dyn Decoder>>;
}

/// A model on its way to a backend.
pub struct Loading<'a> {
    /// Its configuration.
    pub config: &'a Config,
    /// Tokens of context.
    pub context: usize,
    /// Format that matrices of plain numbers are rounded to.
    pub quantise: Option<Format>,
    pub(crate) digest: &'a mut DefaultHasher,
    pub(crate) plan: &'a Plan,
    pub(crate) checkpoint: &'a Checkpoint,
    pub(crate) source: &'a dyn Source,
    pub(crate) progress: &'a mut dyn FnMut(u64),
}

impl Debug for Loading<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loading")
            .field("config", self.config)
            .field("context", &self.context)
            .field("quantise", &self.quantise)
            .finish_non_exhaustive()
    }
}

impl Loading<'_> {
    /// Reads its weights into `sink`, a few megabytes at a time.
    ///
    /// # Errors
    /// [`ModelError::File`] where the source fails, [`ModelError::Tensor`] for numbers that cannot
    /// be kept, and what `sink` reports.
    pub async fn weights<K: WeightSink>(
        self,
        sink: &K,
    ) -> Result<Weights<K::Matrix, K::Vector>, ModelError> {
        let (plan, checkpoint) = (self.plan, self.checkpoint);
        let (digest, progress) = (self.digest, self.progress);
        reading::read(plan, checkpoint, self.source, sink, digest, progress).await
    }
}

/// A value that may move to another thread. In a page that is any value: a member's worker has one
/// thread that runs models.
#[cfg(target_family = "wasm")]
pub trait Moves {}
#[cfg(target_family = "wasm")]
impl<T> Moves for T {}

/// A value that may move to another thread.
#[cfg(not(target_family = "wasm"))]
pub trait Moves: Send {}
#[cfg(not(target_family = "wasm"))]
impl<T: Send> Moves for T {}

/// Error for a save from a decoder that does not support it.
const GIVES_NONE: ModelError = ModelError::Order("this decoder gives no rows away");

/// Sizes of a text's rows and states in a decoder, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footprint {
    /// Name of the layout of its rows. Saved bytes of another layout are refused.
    pub layout: &'static str,
    /// Bytes of a token's rows, over all layers that keep rows.
    pub token: usize,
    /// Bytes of a recurrent state, over all layers that have one; 0 if none does.
    pub state: usize,
}

impl Footprint {
    /// Bytes of a part; `None` on overflow.
    pub fn bytes(&self, part: Part) -> Option<usize> {
        match part {
            Part::Rows(rows) => self.token.checked_mul(rows),
            Part::State(_) => Some(self.state),
        }
    }
}

/// A part of a text's footprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The given number of first rows, of all caches.
    Rows(usize),
    /// The recurrent state in a slot.
    State(usize),
}

/// A transformer with its KV cache.
///
/// Hidden states lie in *slots* ([`crate::slots`]): a pass leaves those of its tokens in order, and
/// the logits after a token can be asked for until another takes its slot. Callers have checked
/// ids, places and slots. Recurrent states lie in slots of their own ([`crate::states`]), which
/// passes name.
pub trait Decoder: Debug + Moves {
    /// Runs a pass: writes its KV rows, and leaves the hidden states of its tokens in the slots
    /// from `slot` on. Recurrent layers begin each of the pass's [runs](crate::pass::Run) from the
    /// state in slot `from` and leave the state after the run in slot `to`. The first pass that
    /// names a state slot makes room for it.
    ///
    /// # Errors
    /// The device's.
    fn run(&mut self, pass: &Pass, slot: usize) -> Result<(), ModelError>;

    /// Makes the state in `slot` that of the prefix's last token.
    ///
    /// # Errors
    /// The device's.
    fn keep_state(&mut self, slot: usize) -> Result<(), ModelError>;

    /// Logits `[slots][vocabulary]` after the tokens in these slots.
    ///
    /// # Errors
    /// The device's, for all that ran since the last wait.
    fn logits<'a>(&'a mut self, slots: &'a [usize]) -> Wait<'a, Vec<Vec<f32>>>;

    /// States `[slots][hidden]` after the tokens in these slots, by the final norm.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    fn hidden<'a>(&'a mut self, slots: &'a [usize]) -> Wait<'a, Vec<Vec<f32>>>;

    /// Scores of `targets[i]` under the logits after the token in `slots[i]`. A raw logit takes one
    /// row of the output matrix, a log-probability (`logprobs`) the whole matrix.
    ///
    /// # Errors
    /// As [`logits`](Self::logits).
    fn scores<'a>(
        &'a mut self,
        slots: &'a [usize],
        targets: &'a [u32],
        logprobs: bool,
    ) -> Wait<'a, Vec<TargetScore>>;

    /// Moves KV rows `from .. from + count` to `to ..`, `to < from`.
    ///
    /// # Errors
    /// The device's.
    fn move_rows(&mut self, from: usize, to: usize, count: usize) -> Result<(), ModelError>;

    /// Takes the short or the long frequencies, where a rotary embedding has both.
    ///
    /// # Errors
    /// The device's.
    fn set_ropes(&mut self, long: bool) -> Result<(), ModelError>;

    /// Frees the KV cache and recurrent states; the next pass makes them anew.
    fn release(&mut self);

    /// Threads that share its passes, the calling one among them; that one alone if it only waits
    /// for a device.
    fn threads(&self) -> Threads {
        Threads::ONE
    }

    /// Sizes of a text's parts here; `None` where none can be saved.
    fn footprint(&self) -> Option<Footprint> {
        None
    }

    /// Bytes of a part; [`Footprint`] gives their number. The part must exist.
    ///
    /// # Errors
    /// [`ModelError::Order`] if there is no such part, or the device's.
    fn save(&mut self, _part: Part) -> Wait<'_, Vec<u8>> {
        Box::pin(ready(Err(GIVES_NONE)))
    }

    /// Writes bytes that `save` returned back to a part of the same size.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    fn restore(&mut self, _part: Part, _bytes: &[u8]) -> Result<(), ModelError> {
        Err(GIVES_NONE)
    }

    /// Draws a token for each number of `random`, after a prefix of `prefix` tokens and the tokens
    /// `begun` of a draft. All tokens of `begun` but the last have run. A draft has at most
    /// [`MOST_DRAFTED`](crate::slots::MOST_DRAFTED) tokens. The hidden states of all its tokens but
    /// the last are left in the slots of a draft. In a recurrent model `begun` is empty, and all
    /// tokens but the last run between the states of `states`. Returns `None`, without running
    /// anything, if the decoder has to return to the CPU after each token.
    ///
    /// # Errors
    /// [`ModelError::NotFinite`], or the device's.
    fn draft<'a>(
        &'a mut self,
        _prefix: usize,
        _begun: &'a [u32],
        _draws: Draws,
        _random: &'a [u32],
        _states: Option<Run>,
    ) -> Wait<'a, Option<Vec<u32>>> {
        Box::pin(ready(Ok(None)))
    }

    /// Waits until everything has run.
    ///
    /// # Errors
    /// Any error since the last wait.
    fn settle(&self) -> Wait<'_, ()> {
        Box::pin(ready(Ok(())))
    }

    /// Tokens of a prompt to run in one step.
    fn prefill_chunk(&self) -> usize {
        CPU_CHUNK
    }

    /// Length of a pass, in tokens, that makes results reproducible: if all passes from a text's
    /// first token on have it, a token's sums are always the same. `None` if sums are the same for
    /// passes of any length.
    fn even_chunk(&self) -> Option<usize> {
        Some(CPU_CHUNK)
    }
}
