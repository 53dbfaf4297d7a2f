//! Pipelines before their first launch: records the ones that launches need, and builds them
//! together.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Gpu;
use crate::bindings::Kinds;
use crate::launch::{Shader, Use};

/// A kernel with its kinds of arguments.
#[derive(Debug, Clone, Copy)]
pub struct Kernel {
    /// Its WGSL.
    pub shader: &'static Shader,
    pub(crate) kinds: Kinds,
}

/// Kernels of recorded launches.
#[derive(Debug, Clone, Default)]
pub struct Notes(Arc<Mutex<Vec<Kernel>>>);

impl Notes {
    /// Takes the kernels recorded so far, in order.
    pub fn take(&self) -> Vec<Kernel> {
        std::mem::take(&mut *self.lock())
    }

    pub(crate) fn note(&self, shader: &'static Shader, buffers: &[Use<'_>]) {
        let kinds = Kinds::from_uses(buffers);
        self.lock().push(Kernel { shader, kinds });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Kernel>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Builds the missing pipelines of these kernels; see [`Gpu::build`].
pub(crate) async fn build(gpu: &Gpu, kernels: &[Kernel]) -> Vec<(&'static str, String)> {
    let mut fresh: Vec<Kernel> = Vec::new();
    for &kernel in kernels {
        let same = |other: &Kernel| {
            std::ptr::eq(other.shader, kernel.shader) && other.kinds == kernel.kinds
        };
        if !fresh.iter().any(same) && !gpu.queue().has_built(kernel) {
            fresh.push(kernel);
        }
    }
    #[cfg(target_family = "wasm")]
    return crate::compiling::build(gpu, &fresh).await;
    #[cfg(not(target_family = "wasm"))]
    build_in_turn(gpu, &fresh).await
}

#[cfg(not(target_family = "wasm"))]
async fn build_in_turn(gpu: &Gpu, kernels: &[Kernel]) -> Vec<(&'static str, String)> {
    let mut refused = Vec::new();
    for &kernel in kernels {
        let filters = [wgpu::ErrorFilter::Internal, wgpu::ErrorFilter::Validation];
        let [outer, inner] = filters.map(|filter| gpu.device().push_error_scope(filter));
        gpu.queue().build(kernel);
        let errors = [inner.pop(), outer.pop()];
        for error in errors {
            if let Some(error) = error.await {
                refused.push((kernel.shader.name, error.to_string()));
            }
        }
    }
    refused
}
