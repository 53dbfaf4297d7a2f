//! Weights as burn's devices hold them: matrices quantised as in the file, vectors as tensors.

use std::cell::RefCell;
use std::sync::Arc;

use burn::tensor::{Device, Int, Tensor, TensorData};
use conclave_kernels::{Format as GpuFormat, Heard};
use conclave_model::ModelError;
use conclave_model::formats::on_gpu;
use conclave_model::reading::WeightSink;
use conclave_weights::Format;

use crate::device::Burn;
use crate::operations::{self, Share};
use crate::proof::Sample;

/// Number of bytes of a matrix that are collected before they go to the GPU.
const SHARE: usize = 32 << 20;

/// A matrix `[n, k]` on a device, in shares of some rows.
#[derive(Debug, Clone)]
pub struct Matrix {
    shape: [usize; 2],
    format: GpuFormat,
    shares: Vec<(Tensor<1, Int>, Share)>,
}

impl Matrix {
    /// `x · Wᵀ`: `[m, k]` to `[m, n]`.
    pub fn product(&self, x: Tensor<2>) -> Tensor<2> {
        let [m, _] = x.dims();
        let mut out = Tensor::empty([m, self.shape[0]], &x.device());
        for (planes, share) in &self.shares {
            out = operations::product(out, x.clone(), planes.clone(), share.clone());
        }
        out
    }

    /// `x · Wᵀ` for each of the `chosen` experts, `[choices, n / count]`. This matrix `[n, k]`
    /// holds the rows of `count` experts, one expert below the other. `x` is `[m, k]`; each of its
    /// rows serves an equal number of choices.
    pub fn of_experts(&self, x: &Tensor<2>, chosen: &Tensor<1, Int>, count: usize) -> Tensor<2> {
        let [choices] = chosen.dims();
        let mut out = Tensor::empty([choices, self.shape[0] / count], &x.device());
        for (planes, share) in &self.shares {
            let (x, chosen) = (x.clone(), chosen.clone());
            out = operations::experts(out, x, chosen, planes.clone(), share.clone(), count);
        }
        out
    }

    /// Rows by their ids: `[m]` to `[m, k]`.
    pub fn rows(&self, ids: Tensor<1, Int>) -> Tensor<2> {
        let [m] = ids.dims();
        let mut out = Tensor::empty([m, self.shape[1]], &ids.device());
        for (planes, share) in &self.shares {
            out = operations::embed(out, ids.clone(), planes.clone(), share.clone());
        }
        out
    }

    /// Whether keys and values stay exact beside a matrix of this format.
    pub fn is_exact(&self) -> bool {
        conclave_model::memory::exact_with(self.format)
    }
}

/// Keeps weights on a device of burn's.
#[derive(Debug)]
pub struct BurnWeights<'a> {
    /// The device.
    pub burn: &'a Burn,
    /// Listener for the device's errors.
    pub heard: Heard,
    /// Format that plain numbers are rounded to.
    pub quantise: Option<Format>,
    /// First rows of each format, to try its kernels with.
    pub samples: RefCell<Vec<Rows>>,
}

/// Rows in GGUF's layout.
#[derive(Debug)]
pub struct Rows {
    /// Format of the rows.
    pub format: GpuFormat,
    /// Numbers in a row.
    pub cols: usize,
    /// Bytes of all rows.
    pub bytes: Vec<u8>,
}

/// Most rows of a sample.
const SAMPLE: usize = 40;

impl BurnWeights<'_> {
    /// Keeps the first rows of a format as a sample.
    fn sample(&self, upload: &Upload, rows: &[u8]) {
        let (format, cols) = (upload.format, upload.shape[1]);
        let mut samples = self.samples.borrow_mut();
        if samples.iter().all(|known| known.format != format) {
            let bytes = SAMPLE * (cols / format.block() * format.block_bytes());
            let bytes = rows[..rows.len().min(bytes)].to_vec();
            samples.push(Rows {
                format,
                cols,
                bytes,
            });
        }
    }

    /// Collects rows, and sends a share to the GPU when it is full.
    fn collect(&self, upload: &mut Upload, rows: &[u8]) -> Result<(), ModelError> {
        let room = self.burn.binding().unwrap_or(0).min(SHARE as u64) as usize;
        match &mut upload.waiting {
            Waiting::Host(host) => return Ok(host.push(rows)?),
            Waiting::Rows(waiting) if waiting.len() + rows.len() <= room => {
                waiting.extend_from_slice(rows);
                return Ok(());
            }
            Waiting::Rows(_) => {}
        }
        upload.flush(self.burn.device());
        if let Waiting::Rows(waiting) = &mut upload.waiting {
            waiting.extend_from_slice(rows);
        }
        self.burn.check(&self.heard)
    }

    /// Samples to try the kernels with.
    ///
    /// # Errors
    /// The device's.
    pub fn proofs(&self) -> Result<Vec<Sample>, ModelError> {
        let samples = self.samples.take();
        let uploaded = samples.into_iter().map(|rows| {
            let Rows {
                format,
                cols,
                bytes,
            } = rows;
            let row_bytes = cols / format.block() * format.block_bytes();
            let mut upload = self.begin(format.stored(), bytes.len() / row_bytes, cols)?;
            self.collect(&mut upload, &bytes)?;
            Ok(Sample {
                format,
                cols,
                rows: bytes,
                matrix: self.finish(upload)?,
            })
        });
        uploaded.collect()
    }
}

/// A matrix whose rows are still arriving.
#[derive(Debug)]
pub struct Upload {
    shape: [usize; 2],
    format: GpuFormat,
    waiting: Waiting,
    shares: Vec<(Tensor<1, Int>, Share)>,
}

#[derive(Debug)]
enum Waiting {
    /// Whole rows on their way to a GPU.
    Rows(Vec<u8>),
    /// A matrix on the CPU.
    Host(conclave_cpu::Upload),
}

impl Upload {
    /// Completes a share with the rows collected so far.
    fn flush(&mut self, device: &Device) {
        let Waiting::Rows(rows) = &mut self.waiting else {
            return;
        };
        if rows.is_empty() {
            return;
        }
        let row_bytes = self.shape[1] / self.format.block() * self.format.block_bytes();
        let first = self.shares.last().map_or(0, |(_, share)| share.rows.end);
        let words: Vec<i32> = bytemuck::pod_collect_to_vec(&self.format.pack(rows));
        let share = Share {
            format: self.format,
            shape: self.shape,
            rows: first..first + rows.len() / row_bytes,
            host: None,
        };
        rows.clear();
        let length = words.len();
        let planes = Tensor::from_data(TensorData::new(words, [length]), device);
        self.shares.push((planes, share));
    }
}

impl WeightSink for BurnWeights<'_> {
    type Matrix = Matrix;
    type Vector = Tensor<1>;
    type Upload = Upload;

    fn format(&self, stored: Format, cols: usize) -> Option<Format> {
        on_gpu(stored, cols, self.quantise).map(|(format, _)| format)
    }

    fn begin(&self, format: Format, rows: usize, cols: usize) -> Result<Upload, ModelError> {
        let of_kernels = GpuFormat::from_stored(format)
            .ok_or_else(|| ModelError::Burn(format!("no kernel reads {}", format.name())))?;
        Ok(Upload {
            shape: [rows, cols],
            format: of_kernels,
            waiting: match self.burn.binding() {
                Some(_) => Waiting::Rows(Vec::new()),
                None => Waiting::Host(conclave_cpu::Upload::begin(format, rows, cols)?),
            },
            shares: Vec::new(),
        })
    }

    fn push(&self, upload: &mut Upload, rows: &[u8]) -> Result<(), ModelError> {
        if let Waiting::Rows(_) = upload.waiting {
            self.sample(upload, rows);
        }
        self.collect(upload, rows)
    }

    fn finish(&self, mut upload: Upload) -> Result<Matrix, ModelError> {
        upload.flush(self.burn.device());
        let Upload {
            shape,
            format,
            waiting,
            mut shares,
        } = upload;
        if let Waiting::Host(host) = waiting {
            let none = Tensor::from_data(TensorData::new(vec![0_i32], [1]), self.burn.device());
            let share = Share {
                format,
                shape,
                rows: 0..shape[0],
                host: Some(Arc::new(host.finish()?)),
            };
            shares.push((none, share));
        }
        Ok(Matrix {
            shape,
            format,
            shares,
        })
    }

    fn vector(&self, values: Vec<f32>) -> Result<Tensor<1>, ModelError> {
        let length = values.len();
        let data = TensorData::new(values, [length]);
        Ok(Tensor::from_data(data, self.burn.device()))
    }
}
