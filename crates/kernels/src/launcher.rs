//! A device with its kernel choices and self-test results.

use std::ops::Deref;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use conclave_gpu::{Kernel, Notes};

use crate::proving::Proofs;
use crate::{AdapterChoice, Choices, Gpu, GpuError};

struct State {
    choices: Mutex<Choices>,
    proofs: Mutex<Proofs>,
    /// Locked by the running self-test across its waits.
    proving: async_lock::Mutex<()>,
}

/// The [`Gpu`] that members share, with its choice of kernels. Cloning is cheap.
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

    /// The current choice of kernels.
    pub fn choices(&self) -> Choices {
        *lock(&self.state.choices)
    }

    /// Sets the choice of kernels.
    pub fn choose(&self, choices: Choices) {
        *lock(&self.state.choices) = choices;
    }

    /// Results of self-tests.
    pub(crate) fn proofs(&self) -> MutexGuard<'_, Proofs> {
        lock(&self.state.proofs)
    }

    /// Waits until no self-test is running.
    pub(crate) async fn only_test(&self) -> async_lock::MutexGuard<'_, ()> {
        self.state.proving.lock().await
    }

    /// The kernels that `launches` launches on the device it is given, in order, without running
    /// them.
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

/// Locks, also after a panic: the data is plain.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
