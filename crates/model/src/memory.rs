//! How much GPU memory a model takes, from the same sizes the GPU decoder allocates: known from
//! its configuration alone, before anything is downloaded.

use conclave_kernels::{Format as GpuFormat, Matrix};
use conclave_weights::Format;
use serde::Serialize;

use crate::config::{Attention, Config, Mixer};
use crate::error::ModelError;
use crate::formats::on_gpu;
use crate::gpu::scratch;
use crate::plan::Plan;
use crate::states::COUNTED;

/// Bytes of GPU memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Memory {
    /// Matrices, norms, biases and rotary tables.
    pub weights: u64,
    /// Keys and values of the whole context; recurrent states as of a round of three candidates.
    pub kv: u64,
    /// Activations and logits of the largest pass.
    pub scratch: u64,
}

impl Memory {
    /// All of it.
    pub fn total(&self) -> u64 {
        self.weights + self.kv + self.scratch
    }

    /// What a planned model takes with a context of `context` tokens.
    pub fn of_plan(plan: &Plan, config: &Config, context: usize, quantise: Option<Format>) -> Self {
        let matrix = |part: &crate::plan::MatrixPart| {
            let rows = part.rows.end - part.rows.start;
            let kept = on_gpu(part.tensor.format, part.cols, quantise);
            kept.map_or(0, |(_, format)| matrix_bytes(format, rows, part.cols))
        };
        let matrices: u64 = plan.matrices().map(matrix).sum();
        let numbers: u64 = plan.vectors().map(|part| part.numbers.len() as u64).sum();
        let apart = plan.blocks.iter().any(|block| {
            let parts = [&block.gate.weight, &block.up.weight];
            let format = |part: &crate::plan::MatrixPart| {
                let kept = on_gpu(part.tensor.format, part.cols, quantise)?;
                Some((kept.1, (part.rows.end - part.rows.start) as usize))
            };
            let of: Vec<_> = parts.into_iter().filter_map(format).collect();
            !Matrix::stacks(&of, config.hidden)
        });
        let mut kept = plan.matrices().filter_map(|part| {
            let kept = on_gpu(part.tensor.format, part.cols, quantise)?;
            Some(kept.1)
        });
        let exact = kept.all(exact_with);
        let ropes = config.ropes.iter().map(|rope| rope.rotary_dim as u64);
        let tables: u64 = ropes.map(|width| 4 * context as u64 * width).sum();
        let caches = config.layers.iter().map(|layer| match &layer.mixer {
            Mixer::Attention(of) => 2 * scratch::heads(of, context, exact).cache_bytes(),
            Mixer::Convolution(_) => scratch::channels(config, context, exact).cache_bytes(),
            Mixer::DeltaNet(of) => COUNTED * of.state() * size_of::<f32>(),
        });
        Self {
            weights: matrices + 4 * numbers + tables,
            kv: caches.map(|bytes| bytes as u64).sum(),
            scratch: scratch::bytes(config, context, apart),
        }
    }
}

/// Whether keys and values stay exact beside matrices of this format: rounding them costs less
/// than rounded weights do, and more than plain ones.
pub fn exact_with(format: GpuFormat) -> bool {
    matches!(format, GpuFormat::F32 | GpuFormat::F16 | GpuFormat::BF16)
}

/// Bytes of a matrix on the GPU.
fn matrix_bytes(format: GpuFormat, rows: u64, cols: usize) -> u64 {
    format.bytes(rows, cols)
}

/// Whether the kernels read heads of an attention's width.
pub fn reads_heads(of: &Attention) -> bool {
    of.head_dim.is_multiple_of(4) && of.head_dim <= 256
}

/// Checks that the kernels read heads of the model's widths.
///
/// # Errors
/// [`ModelError::HeadWidth`].
pub fn check_heads(config: &Config) -> Result<(), ModelError> {
    match config.attentions().find(|of| !reads_heads(of)) {
        Some(of) => Err(ModelError::HeadWidth { width: of.head_dim }),
        None => Ok(()),
    }
}
