//! From a plan to weights that run: rows are read in pieces of a few megabytes, put in order,
//! converted, and handed on, so that a model is never whole in memory on its way to a GPU.

use std::hash::{DefaultHasher, Hasher};
use std::ops::Range;

use conclave_weights::{Checkpoint, Format, Source, Tensor, convert, dequantise};

use crate::decoder::Wait;
use crate::error::ModelError;
use crate::plan::{MatrixPart, Order, Plan, VectorPart, wrong};
use crate::weights::{
    Attention, Block, Convolution, Experts, FeedForward, KeysAndValues, Linear, Mixer, Mlp,
    PerLayer, PerLayerInput, Recurrence, Weights,
};

/// Bytes of a matrix that are read at once. One row, or one head whose rows are reordered, may have
/// more.
const PIECE: u64 = 4 << 20;

/// Bytes at the beginning and at the end of each piece that go into the digest of the weights.
const SAMPLE: usize = 256;

/// Storage of a decoder's weights.
pub trait WeightSink {
    /// A complete matrix.
    type Matrix;
    /// A complete vector.
    type Vector;
    /// A matrix that arrives piece by piece.
    type Upload;

    /// Format for a matrix with rows of `cols` numbers that is stored as `stored`; `None` if the
    /// backend has none for that width.
    fn format(&self, stored: Format, cols: usize) -> Option<Format>;

    /// Begins a matrix `[rows, cols]`.
    ///
    /// # Errors
    /// The device's.
    fn begin(&self, format: Format, rows: usize, cols: usize) -> Result<Self::Upload, ModelError>;

    /// Adds whole rows.
    ///
    /// # Errors
    /// The device's.
    fn push(&self, upload: &mut Self::Upload, rows: &[u8]) -> Result<(), ModelError>;

    /// Ends a matrix.
    ///
    /// # Errors
    /// The device's.
    fn finish(&self, upload: Self::Upload) -> Result<Self::Matrix, ModelError>;

    /// Keeps a vector.
    ///
    /// # Errors
    /// The device's.
    fn vector(&self, values: Vec<f32>) -> Result<Self::Vector, ModelError>;
}

/// Reads all weights of `plan` into `sink`, samples of them into `digest`. `progress` is called
/// with the number of bytes read so far.
///
/// # Errors
/// [`ModelError::File`] where the source fails, [`ModelError::Tensor`] for numbers that cannot be
/// kept, and what `sink` reports.
pub async fn read<K: WeightSink>(
    plan: &Plan,
    checkpoint: &Checkpoint,
    source: &dyn Source,
    sink: &K,
    digest: &mut DefaultHasher,
    progress: &mut dyn FnMut(u64),
) -> Result<Weights<K::Matrix, K::Vector>, ModelError> {
    let mut reader = Reader {
        checkpoint,
        source,
        sink,
        digest,
        progress,
        bytes: 0,
        stored: Vec::new(),
        ordered: Vec::new(),
        converted: Vec::new(),
    };
    let embedding = reader.matrix(&plan.embedding).await?;
    let per_layer = match &plan.per_layer {
        Some(plan) => Some(PerLayer {
            embedding: reader.matrix(&plan.embedding).await?,
            projection: reader.matrix(&plan.projection).await?,
            norm: reader.vector(&plan.norm).await?,
        }),
        None => None,
    };
    let mut blocks = Vec::with_capacity(plan.blocks.len());
    for block in &plan.blocks {
        blocks.push(reader.block(block).await?);
    }
    Ok(Weights {
        embedding,
        per_layer,
        blocks,
        norm: reader.vector(&plan.norm).await?,
        head: match &plan.head {
            Some(head) => Some(reader.linear(head).await?),
            None => None,
        },
    })
}

/// Reads a tensor of numbers whole, as f32.
///
/// # Errors
/// [`ModelError::File`] where it is missing or the source fails, [`ModelError::Tensor`] unless it
/// has `length` numbers that are finite and above 0.
pub async fn divisors(
    checkpoint: &Checkpoint,
    source: &dyn Source,
    name: &str,
    length: usize,
) -> Result<Vec<f32>, ModelError> {
    let tensor = checkpoint.tensor(name)?;
    if tensor.elements() != length as u64 || tensor.rows() != 1 {
        let problem = format!("has {} numbers where {length} belong", tensor.elements());
        return Err(wrong(name, &problem));
    }
    let mut stored = Vec::new();
    checkpoint
        .read_rows(source, tensor, 0..1, &mut stored)
        .await?;
    let mut values = vec![0.0; length];
    dequantise(tensor.read_as(), &stored, &mut values)
        .map_err(|error| wrong(name, &error.to_string()))?;
    if values.iter().all(|value| value.is_normal() && *value > 0.0) {
        Ok(values)
    } else {
        Err(wrong(name, "holds what no frequency can be divided by"))
    }
}

struct Reader<'a, K> {
    checkpoint: &'a Checkpoint,
    source: &'a dyn Source,
    sink: &'a K,
    digest: &'a mut DefaultHasher,
    progress: &'a mut dyn FnMut(u64),
    /// Bytes read so far.
    bytes: u64,
    stored: Vec<u8>,
    ordered: Vec<u8>,
    converted: Vec<u8>,
}

/// Reads one weight in a boxed future: inlined, every call would repeat all of the code.
impl<K: WeightSink> Reader<'_, K> {
    async fn block(
        &mut self,
        plan: &Block<MatrixPart, VectorPart>,
    ) -> Result<Block<K::Matrix, K::Vector>, ModelError> {
        Ok(Block {
            mixer_norm: self.optional(&plan.mixer_norm).await?,
            mixer: match &plan.mixer {
                Mixer::Attention(plan) => Mixer::Attention(Attention {
                    of: plan.of,
                    query: self.linear(&plan.query).await?,
                    query_norm: self.optional(&plan.query_norm).await?,
                    own: match &plan.own {
                        Some(plan) => Some(KeysAndValues {
                            key: self.linear(&plan.key).await?,
                            key_norm: self.optional(&plan.key_norm).await?,
                            value: self.linear(&plan.value).await?,
                        }),
                        None => None,
                    },
                    output: self.linear(&plan.output).await?,
                }),
                Mixer::Convolution(plan) => Mixer::Convolution(Convolution {
                    of: plan.of,
                    input: self.linear(&plan.input).await?,
                    taps: self.vector(&plan.taps).await?,
                    bias: self.optional(&plan.bias).await?,
                    output: self.linear(&plan.output).await?,
                }),
                Mixer::Recurrence(plan) => Mixer::Recurrence(Recurrence {
                    of: plan.of,
                    input: self.linear(&plan.input).await?,
                    gate: self.linear(&plan.gate).await?,
                    share: match &plan.share {
                        Some(plan) => Some(self.linear(plan).await?),
                        None => None,
                    },
                    decay: self.linear(&plan.decay).await?,
                    decay_bias: self.vector(&plan.decay_bias).await?,
                    decay_rate: self.vector(&plan.decay_rate).await?,
                    taps: self.vector(&plan.taps).await?,
                    taps_bias: self.optional(&plan.taps_bias).await?,
                    skip: self.optional(&plan.skip).await?,
                    norm: self.vector(&plan.norm).await?,
                    output: self.linear(&plan.output).await?,
                }),
            },
            mixer_post_norm: self.optional(&plan.mixer_post_norm).await?,
            feed_forward_norm: self.optional(&plan.feed_forward_norm).await?,
            feed_forward: match &plan.feed_forward {
                FeedForward::Dense(plan) => FeedForward::Dense(Mlp {
                    gate: self.linear(&plan.gate).await?,
                    up: self.linear(&plan.up).await?,
                    down: self.linear(&plan.down).await?,
                }),
                FeedForward::Experts(plan) => FeedForward::Experts(Experts {
                    of: plan.of,
                    router: self.matrix(&plan.router).await?,
                    choice_bias: self.optional(&plan.choice_bias).await?,
                    gate: self.matrix(&plan.gate).await?,
                    up: self.matrix(&plan.up).await?,
                    down: self.matrix(&plan.down).await?,
                }),
            },
            feed_forward_post_norm: self.optional(&plan.feed_forward_post_norm).await?,
            per_layer: match &plan.per_layer {
                Some(plan) => Some(PerLayerInput {
                    gate: self.linear(&plan.gate).await?,
                    projection: self.linear(&plan.projection).await?,
                    norm: self.vector(&plan.norm).await?,
                }),
                None => None,
            },
            scale: self.optional(&plan.scale).await?,
        })
    }

    fn linear<'a>(
        &'a mut self,
        plan: &'a Linear<MatrixPart, VectorPart>,
    ) -> Wait<'a, Linear<K::Matrix, K::Vector>> {
        Box::pin(async move {
            Ok(Linear {
                weight: self.matrix(&plan.weight).await?,
                bias: self.optional(&plan.bias).await?,
            })
        })
    }

    fn optional<'a>(&'a mut self, part: &'a Option<VectorPart>) -> Wait<'a, Option<K::Vector>> {
        Box::pin(async move {
            match part {
                Some(part) => Ok(Some(self.vector(part).await?)),
                None => Ok(None),
            }
        })
    }

    fn matrix<'a>(&'a mut self, part: &'a MatrixPart) -> Wait<'a, K::Matrix> {
        Box::pin(async move {
            let cols = part.cols;
            let kept = match part.exact {
                true => Some(Format::F32),
                false => self.sink.format(part.tensor.format, cols),
            };
            let Some(kept) = kept else {
                let problem =
                    format!("has rows of {cols} numbers, which the GPU cannot hold; use the CPU");
                return Err(wrong(&part.tensor.name, &problem));
            };
            let mut upload = self.sink.begin(kept, part.count() as usize, cols)?;
            for (tensor, rows) in part.pieces() {
                let piece = (tensor, rows.clone(), part.order);
                self.rows(piece, cols, kept, &mut upload).await?;
            }
            self.sink.finish(upload)
        })
    }

    /// Adds rows of a tensor to a matrix that is kept in the format `kept`.
    async fn rows(
        &mut self,
        (tensor, rows, order): (&Tensor, Range<u64>, Order),
        cols: usize,
        kept: Format,
        upload: &mut K::Upload,
    ) -> Result<(), ModelError> {
        // Rows with scales are read as F32, four times as long as they are stored.
        let stored = tensor.read_as();
        let row_bytes = tensor.bytes / tensor.rows().max(1);
        let long = stored.bytes_of(cols).unwrap_or_default() as u64;
        let at_once = (PIECE / long.max(1)).max(1);
        let at_once = match order {
            Order::Stored => at_once,
            Order::Pairs { width, .. } => (at_once / width as u64).max(1) * width as u64,
        };
        let mut next = rows.start;
        while next < rows.end {
            let end = rows.end.min(next.saturating_add(at_once));
            self.checkpoint
                .read_rows(self.source, tensor, next..end, &mut self.stored)
                .await?;
            self.sample();
            let mut piece = &self.stored;
            if let Order::Pairs { width, turning } = order {
                let unit = piece.len() / (end - next) as usize;
                halves(piece, unit, width, turning, &mut self.ordered);
                piece = &self.ordered;
            }
            if kept != stored {
                convert(stored, piece, kept, &mut self.converted)
                    .map_err(|error| wrong(&tensor.name, &error.to_string()))?;
                piece = &self.converted;
            }
            self.sink.push(upload, piece)?;
            self.bytes += row_bytes.saturating_mul(end - next);
            (self.progress)(self.bytes);
            next = end;
        }
        Ok(())
    }

    /// Adds both ends of the bytes read last to the digest.
    fn sample(&mut self) {
        let (stored, sample) = (&self.stored, self.stored.len().min(SAMPLE));
        self.digest.write(&(stored.len() as u64).to_le_bytes());
        self.digest.write(&stored[..sample]);
        self.digest.write(&stored[stored.len() - sample..]);
    }

    fn vector<'a>(&'a mut self, part: &'a VectorPart) -> Wait<'a, K::Vector> {
        Box::pin(async move {
            let tensor = &part.tensor;
            self.checkpoint
                .read_rows(self.source, tensor, 0..tensor.rows(), &mut self.stored)
                .await?;
            self.sample();
            let mut values = vec![0.0; tensor.elements() as usize];
            dequantise(tensor.read_as(), &self.stored, &mut values)
                .map_err(|error| wrong(&tensor.name, &error.to_string()))?;
            let mut values: Vec<f32> = values[part.numbers.clone()]
                .iter()
                .map(|&value| if part.logarithm { value.exp() } else { value })
                .map(|value| (value + part.offset) * part.scale)
                .collect();
            if let Order::Pairs { width, turning } = part.order {
                let stored = bytemuck::cast_slice(&values);
                halves(stored, size_of::<f32>(), width, turning, &mut self.ordered);
                values = bytemuck::pod_collect_to_vec(&self.ordered);
            }
            self.bytes += part.bytes();
            (self.progress)(self.bytes);
            self.sink.vector(values)
        })
    }
}

/// Reorders the turning rows of each head, `unit` bytes each, from pairs (2i, 2i + 1) to halves
/// (i, i + turning / 2): the inverse of what llama.cpp's converter does to the llama family.
fn halves(stored: &[u8], unit: usize, width: usize, turning: usize, out: &mut Vec<u8>) {
    out.clear();
    out.reserve(stored.len());
    for head in stored.chunks_exact(width * unit) {
        for row in 0..width {
            let half = turning / 2;
            let from = if row < turning {
                2 * (row % half) + row / half
            } else {
                row
            };
            out.extend_from_slice(&head[from * unit..][..unit]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::halves;

    #[test]
    fn pairs_become_halves_within_each_head() {
        // Two heads of four rows, one byte a row: stored (a0 b0 a1 b1).
        let stored = [0, 10, 1, 11, 100, 110, 101, 111];
        let mut out = Vec::new();
        halves(&stored, 1, 4, 4, &mut out);
        assert_eq!(out, [0, 1, 10, 11, 100, 101, 110, 111]);
        // Only the first two rows of each head rotate: they are in order already.
        halves(&stored, 1, 4, 2, &mut out);
        assert_eq!(out, stored);
    }
}
