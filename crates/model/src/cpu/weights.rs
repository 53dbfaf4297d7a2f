//! Weights as the CPU's products read them.

use conclave_cpu::{Matrix, Threads, Upload};
use conclave_weights::Format;

use crate::error::ModelError;
use crate::formats::kept_on_cpu;
use crate::fused::Unjoined;
use crate::reading::WeightSink;

/// A vector.
pub type Vector = Vec<f32>;

/// Layout that joins no matrices: products share their rounded input, and threads share the
/// products.
pub type CpuLayout = Unjoined<Matrix, Vector>;

/// Keeps weights as the CPU's products read them.
#[derive(Debug)]
pub struct CpuWeights {
    /// Format that plain numbers are rounded to.
    pub quantise: Option<Format>,
    /// Threads that pack them.
    pub threads: Threads,
}

impl WeightSink for CpuWeights {
    type Matrix = Matrix;
    type Vector = Vector;
    type Upload = Upload;

    fn format(&self, stored: Format, cols: usize) -> Option<Format> {
        Some(kept_on_cpu(stored, cols, self.quantise))
    }

    fn begin(&self, format: Format, rows: usize, cols: usize) -> Result<Upload, ModelError> {
        Ok(Upload::begin(format, rows, cols)?)
    }

    fn push(&self, upload: &mut Upload, rows: &[u8]) -> Result<(), ModelError> {
        Ok(self.threads.run(|| upload.push(rows))?)
    }

    fn finish(&self, upload: Upload) -> Result<Matrix, ModelError> {
        Ok(upload.finish()?)
    }

    fn vector(&self, values: Vec<f32>) -> Result<Vector, ModelError> {
        Ok(values)
    }
}
