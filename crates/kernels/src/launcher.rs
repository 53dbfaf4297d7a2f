//! A device with what is chosen and what is proved on it.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_gpu::{Kernel, Notes};

use crate::proving::Proofs;
use crate::{AdapterChoice, Choices, Gpu, GpuError};

struct State {
    choices: Mutex<Choices>,
    proofs: Mutex<Proofs>,
    /// Held by the self-test under way, however often it waits.
    proving: async_lock::Mutex<()>,
}

/// The [`Gpu`] that members share, and which kernels are launched there. Cloning is cheap.
#[derive(Clone)]
pub struct Launcher {
    gpu: Gpu,
    state: Arc<State>,
}

impl Launcher {
    /// Opens the device, with the [usual](Choices::usual) choices of its adapter.
    ///
    /// # Errors
    /// As [`Gpu::init`].
    pub async fn init(choice: AdapterChoice) -> Result<Self, GpuError> {
        let gpu = Gpu::init(choice).await?;
        let state = State {
            choices: Mutex::new(Choices::usual(gpu.adapter().software)),
            proofs: Mutex::default(),
            proving: async_lock::Mutex::default(),
        };
        Ok(Self {
            gpu,
            state: Arc::new(state),
        })
    }

    /// Which kernels are launched where there is a choice.
    pub fn choices(&self) -> Choices {
        *held(&self.state.choices)
    }

    /// Launch other kernels where there is a choice.
    pub fn choose(&self, choices: Choices) {
        *held(&self.state.choices) = choices;
    }

    /// Which kernels have passed their self-test.
    pub(crate) fn proofs(&self) -> MutexGuard<'_, Proofs> {
        held(&self.state.proofs)
    }

    /// Waits until no self-test is under way.
    pub(crate) async fn only_test(&self) -> async_lock::MutexGuard<'_, ()> {
        self.state.proving.lock().await
    }

    /// The kernels that `launches` launches on the device that it is given, in their order;
    /// nothing is run.
    pub(crate) fn noted(
        &self,
        launches: impl FnOnce(&Self) -> Result<(), GpuError>,
    ) -> Result<Vec<Kernel>, GpuError> {
        let notes = Notes::default();
        launches(&Self {
            gpu: self.gpu.with_notes(notes.clone()),
            state: self.state.clone(),
        })?;
        Ok(notes.take())
    }
}

impl Deref for Launcher {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        &self.gpu
    }
}

impl std::fmt::Debug for Launcher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Launcher")
            .field("gpu", &self.gpu)
            .field("choices", &self.choices())
            .finish_non_exhaustive()
    }
}

/// What lies behind a lock, also after a thread panicked with it: plain data.
fn held<T>(behind: &Mutex<T>) -> MutexGuard<'_, T> {
    behind.lock().unwrap_or_else(PoisonError::into_inner)
}
