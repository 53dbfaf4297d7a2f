//! Launches that are recorded once and run any number of times: a replayed one costs the
//! CPU a pipeline, a bind group and a dispatch. What differs from run to run lies in buffers.

use std::sync::{Arc, Mutex, PoisonError};

use crate::launch::Use;
use crate::queue::Dispatch;
use crate::{Buffer, Gpu, GpuError};

/// Launches in their order, on the buffers they were recorded with, which they keep alive.
#[derive(Debug, Default)]
pub struct Recorded {
    dispatches: Vec<Dispatch>,
    /// Each once.
    buffers: Vec<Buffer>,
}

impl Recorded {
    /// How many launches there are.
    pub fn len(&self) -> usize {
        self.dispatches.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.dispatches.is_empty()
    }

    pub(crate) fn dispatches(&self) -> &[Dispatch] {
        &self.dispatches
    }

    pub(crate) fn buffers(&self) -> &[Buffer] {
        &self.buffers
    }
}

/// What a recording [`Gpu`] puts its launches on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tape(Arc<Mutex<Recorded>>);

impl Tape {
    pub fn push(&self, dispatch: Dispatch, buffers: &[Use<'_>]) {
        let mut recorded = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        recorded.dispatches.push(dispatch);
        for used in buffers {
            let buffer = used.buffer();
            if !recorded.buffers.iter().any(|known| known.same(buffer)) {
                recorded.buffers.push(buffer.clone());
            }
        }
    }

    fn take(self) -> Recorded {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Gpu {
    /// Record what `launches` launches on the device that it is given, instead of running it.
    /// Reads and writes there are not recorded; they happen at once.
    ///
    /// # Errors
    /// Those of `launches`.
    pub fn record<E>(&self, launches: impl FnOnce(&Gpu) -> Result<(), E>) -> Result<Recorded, E> {
        let tape = Tape::default();
        launches(&self.with_tape(tape.clone()))?;
        Ok(tape.take())
    }

    /// Queue recorded launches once more.
    ///
    /// # Errors
    /// [`GpuError::DeviceLost`].
    pub fn replay(&self, recorded: &Recorded) -> Result<(), GpuError> {
        self.check_lost()?;
        self.run_all(recorded);
        Ok(())
    }
}
