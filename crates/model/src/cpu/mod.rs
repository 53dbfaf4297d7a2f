//! The decoder in our products on the CPU, natively and in wasm SIMD.

mod decoder;

pub(crate) use self::decoder::scratch_bytes;
use self::decoder::{CpuDecoder, CpuWeights};
use crate::decoder::{Backend, Decoder, Loading, Wait};

/// The CPU.
#[derive(Debug, Clone, Copy)]
pub struct Cpu;

impl Backend for Cpu {
    fn load<'a>(&'a self, loading: Loading<'a>) -> Wait<'a, Box<dyn Decoder>> {
        Box::pin(async move {
            let (config, context) = (loading.config, loading.context);
            let sink = CpuWeights {
                quantise: loading.quantise,
            };
            let weights = loading.weights(&sink).await?;
            Ok(Box::new(CpuDecoder::new(weights, config, context)) as Box<dyn Decoder>)
        })
    }
}
