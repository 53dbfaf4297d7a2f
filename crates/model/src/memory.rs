//! How much GPU memory a model takes, from the same sizes the GPU decoder allocates: known from
//! its configuration alone, before anything is downloaded.

use conclave_kernels::Format as GpuFormat;
use conclave_weights::Format;
use serde::Serialize;

use crate::config::Config;
use crate::error::ModelError;
use crate::formats::on_gpu;
use crate::gpu_room::Room;
use crate::plan::Plan;

/// Bytes of GPU memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Matrices, norms, biases and rotary tables.
    pub weights: u64,
    /// Keys and values of the whole context.
    pub kv: u64,
    /// Activations of the largest pass, and logits.
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
        Self::around(matrices + 4 * numbers, config, context)
    }

    /// What a model takes whose matrices are all stored in one format: an estimate for one that
    /// is known by its configuration only.
    pub fn of_format(config: &Config, context: usize, format: Format) -> Self {
        let c = config;
        let (hidden, wide) = (c.hidden as u64, c.feed_forward as u64);
        let (query, kv) = (c.query_width() as u64, c.kv_width() as u64);
        let matrix = |rows: u64, cols: u64| {
            let kept = on_gpu(format, cols as usize, None);
            kept.map_or(0, |(_, format)| matrix_bytes(format, rows, cols as usize))
        };
        let block = matrix(query, hidden)
            + 2 * matrix(kv, hidden)
            + matrix(hidden, query)
            + 2 * matrix(wide, hidden)
            + matrix(hidden, wide)
            + 4 * 4 * hidden;
        let vocabulary = matrix(c.vocabulary as u64, hidden);
        let heads = if c.tied == Some(true) { 1 } else { 2 };
        let weights = heads * vocabulary + c.layers.len() as u64 * block;
        Self::around(weights, config, context)
    }

    fn around(weights: u64, c: &Config, context: usize) -> Self {
        let ropes = c.ropes.iter().map(|rope| rope.rotary_dim as u64);
        let tables: u64 = ropes.map(|width| 4 * context as u64 * width).sum();
        let [kv, scratch] = Room::bytes(c, context);
        Self {
            weights: weights + tables,
            kv,
            scratch,
        }
    }
}

/// Bytes of a matrix on the GPU.
fn matrix_bytes(format: GpuFormat, rows: u64, cols: usize) -> u64 {
    rows * (cols / format.block() * format.block_bytes()) as u64
}

/// Checks that the kernels read heads of the model's width.
///
/// # Errors
/// [`ModelError::HeadWidth`].
pub fn check_heads(config: &Config) -> Result<(), ModelError> {
    let width = config.head_dim;
    if width.is_multiple_of(4) && width <= 256 {
        Ok(())
    } else {
        Err(ModelError::HeadWidth { width })
    }
}
