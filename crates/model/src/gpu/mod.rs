//! The decoder as launches of our WGSL kernels.

mod caches;
mod decoder;
mod launched;
mod operations;
pub(crate) mod scratch;
mod weights;

use conclave_kernels::Launcher;
use futures_lite::future::try_zip;

use self::decoder::GpuDecoder;
use self::launched::launched;
use self::weights::GpuWeights;
use crate::decoder::{Backend, Decoder, Loading, Wait};
use crate::error::ModelError;
use crate::memory::check_heads;

impl Backend for Launcher {
    fn load<'a>(&'a self, loading: Loading<'a>) -> Wait<'a, Box<dyn Decoder>> {
        Box::pin(async move {
            let (config, context) = (loading.config, loading.context);
            check_heads(config)?;
            let sink = GpuWeights {
                gpu: self,
                quantise: loading.quantise,
            };
            // Kernels are built and tried while the weights are still on their way.
            let tried = try_kernels(self, &loading);
            let ((), weights) = try_zip(tried, loading.weights(&sink)).await?;
            let decoder = GpuDecoder::new(weights, config, context, self)?;
            Ok(Box::new(decoder) as Box<dyn Decoder>)
        })
    }
}

/// Builds the kernels that a model launches and tries them against their twins.
fn try_kernels(
    gpu: &Launcher,
    loading: &Loading<'_>,
) -> impl Future<Output = Result<(), ModelError>> + use<> {
    let Loading {
        plan,
        config,
        context,
        quantise,
        ..
    } = loading;
    let (gpu, kernels) = (gpu.clone(), launched(plan, config, *context, *quantise));
    async move {
        // Where there are none, the read ends in an error that says which matrix it is.
        if let Some(kernels) = kernels {
            gpu.self_test(&kernels).await?;
            // What the default rule judges by: the first answer waits for no kernel.
            gpu.self_test_scores(kernels.head).await?;
        }
        Ok(())
    }
}
