//! The decoder in our products on the CPU, natively and in wasm SIMD.

mod decoder;
mod operations;
mod weights;

pub(crate) use self::decoder::scratch_bytes;
use conclave_cpu::Threads;

use self::decoder::CpuDecoder;
use self::weights::CpuWeights;
use crate::decoder::{Backend, Decoder, Loading, Wait};

/// The CPU, with as many threads as share each model's work.
#[derive(Debug, Clone, Copy)]
pub struct Cpu(pub Threads);

impl Cpu {
    /// The CPU with the thread that calls.
    pub const ALONE: Self = Self(Threads::ONE);
}

impl Backend for Cpu {
    fn load<'a>(&'a self, loading: Loading<'a>) -> Wait<'a, Box<dyn Decoder>> {
        Box::pin(async move {
            let (config, context) = (loading.config, loading.context);
            let sink = CpuWeights {
                quantise: loading.quantise,
                threads: self.0,
            };
            let weights = loading.weights(&sink).await?;
            let decoder = CpuDecoder::new(weights, config, context, self.0)?;
            Ok(Box::new(decoder) as Box<dyn Decoder>)
        })
    }
}
