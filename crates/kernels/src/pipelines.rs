//! Pipelines before their first launch: which ones launches will take, and all of them built at
//! once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bindings::Kinds;
use crate::launch::{Shader, Use};
use crate::{Gpu, GpuError};

/// A kernel as launches take it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kernel {
    pub shader: &'static Shader,
    pub kinds: Kinds,
}

/// The kernels of launches that are noted and not run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<Vec<Kernel>>>);

impl Notes {
    pub fn note(&self, shader: &'static Shader, buffers: &[Use<'_>]) {
        let kinds = Kinds::of(buffers);
        self.lock().push(Kernel { shader, kinds });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kernel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Gpu {
    /// The kernels that `launches` launches on the device that it is given, in their order;
    /// nothing is run.
    pub(crate) fn noted(
        &self,
        launches: impl FnOnce(&Gpu) -> Result<(), GpuError>,
    ) -> Result<Vec<Kernel>, GpuError> {
        let notes = Notes::default();
        launches(&self.with_notes(notes.clone()))?;
        Ok(std::mem::take(&mut *notes.lock()))
    }

    /// Builds what these kernels need, side by side where the platform can. Those that the driver
    /// refuses, and what it said.
    pub(crate) async fn build(&self, kernels: &[Kernel]) -> Vec<(&'static str, String)> {
        let mut fresh: Vec<Kernel> = Vec::new();
        for &kernel in kernels {
            let same = |other: &Kernel| {
                std::ptr::eq(other.shader, kernel.shader) && other.kinds == kernel.kinds
            };
            if !fresh.iter().any(same) && !self.queue().has_built(kernel) {
                fresh.push(kernel);
            }
        }
        #[cfg(target_family = "wasm")]
        return crate::compiling::build(self, &fresh).await;
        #[cfg(not(target_family = "wasm"))]
        self.build_in_turn(&fresh).await
    }

    #[cfg(not(target_family = "wasm"))]
    async fn build_in_turn(&self, kernels: &[Kernel]) -> Vec<(&'static str, String)> {
        let mut refused = Vec::new();
        for &kernel in kernels {
            let filters = [wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation];
            let [outer, inner] = filters.map(|filter| self.device().push_error_scope(filter));
            self.queue().build(kernel);
            let errors = [inner.pop(), outer.pop()];
            for error in errors {
                if let Some(error) = error.await {
                    refused.push((kernel.shader.name, error.to_string()));
                }
            }
        }
        refused
    }
}
