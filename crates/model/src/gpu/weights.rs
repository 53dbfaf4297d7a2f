//! Weights as the GPU multiplies by them: quantised, and stacked where one product serves several.

use conclave_kernels::{
    Buffer, Format as GpuFormat, Gpu, Matrix, MatrixUpload, RecurrentHeads, RecurrentTaps,
};
use conclave_weights::Format;

use crate::config;
use crate::error::ModelError;
use crate::formats::on_gpu;
use crate::reading::WeightSink;
use crate::weights::{Block, Experts, FeedForward, Linear, Mixer, PerLayer, Weights};

/// One or more matrices with the same input, their outputs side by side, and their biases.
#[derive(Debug)]
pub struct Product {
    /// One, unless formats differ or rows do not fit.
    pub matrices: Vec<Matrix>,
    /// As many numbers as all matrices have rows.
    pub bias: Option<Buffer>,
}

/// The gate and what it lets through.
#[derive(Debug)]
pub enum Gate {
    /// One matrix, gate over up.
    Stacked(Product),
    /// Two products: formats differ, or one buffer does not hold both.
    Apart([Product; 2]),
}

/// What mixes tokens in a block.
#[derive(Debug)]
pub enum GpuMixer {
    /// Attention.
    Attention {
        /// Its heads.
        of: config::Attention,
        /// Norms of queries and keys; the queries' twice where it has no keys of its own.
        qk_norm: Option<[Buffer; 2]>,
    },
    /// A gated convolution.
    Convolution {
        /// Its taps.
        of: config::Convolution,
        /// Of each channel the oldest first.
        taps: Buffer,
        /// Of each channel.
        bias: Option<Buffer>,
    },
    /// A linear recurrence.
    Recurrence(GpuRecurrence),
}

/// The weights of a recurrence that are in no product.
#[derive(Debug)]
pub struct GpuRecurrence {
    /// Its rule and its heads.
    pub of: config::Recurrence,
    /// Its convolution's.
    pub taps: RecurrentTaps<Buffer>,
    /// Of each value head.
    pub heads: RecurrentHeads<Buffer>,
    /// Of the norm at the output's gate.
    pub norm: Buffer,
}

/// The weights of one block, as launches take them.
#[derive(Debug)]
pub struct GpuBlock {
    /// Before the mixer.
    pub mixer_norm: Option<Buffer>,
    /// What leads into it: queries, keys and values, with a recurrence's gates, or B, C and x.
    pub projection: Product,
    /// What mixes tokens.
    pub mixer: GpuMixer,
    /// The mixer's output.
    pub output: Product,
    /// After the mixer.
    pub mixer_post_norm: Option<Buffer>,
    /// Before the MLP.
    pub feed_forward_norm: Option<Buffer>,
    /// The MLP, or experts.
    pub feed_forward: GpuFeedForward,
    /// After the MLP.
    pub feed_forward_post_norm: Option<Buffer>,
    /// After all of that.
    pub per_layer: Option<GpuPerLayerInput>,
    /// One number, which multiplies the stream in the end.
    pub scale: Option<Buffer>,
}

/// What a token goes through by itself.
#[derive(Debug)]
pub enum GpuFeedForward {
    /// A gated MLP.
    Dense {
        /// Gate and up.
        gate: Gate,
        /// Down.
        down: Product,
    },
    /// A mixture of experts.
    Experts(Experts<Matrix, Buffer>),
}

/// What takes a layer's part of a token into the stream.
#[derive(Debug)]
pub struct GpuPerLayerInput {
    /// Its gate.
    pub gate: Product,
    /// Back to the stream.
    pub projection: Product,
    /// Behind the projection.
    pub norm: Option<Buffer>,
}

impl Product {
    /// Numbers that it makes of a row.
    pub fn width(&self) -> usize {
        self.matrices.iter().map(Matrix::rows).sum()
    }
}

impl GpuBlock {
    /// Stacks a block's weights.
    ///
    /// # Errors
    /// The device's.
    pub fn new(gpu: &Gpu, block: Block<Matrix, Buffer>) -> Result<Self, ModelError> {
        let feed_forward = match block.feed_forward {
            FeedForward::Dense(mlp) => {
                let gate = stack(gpu, vec![mlp.gate, mlp.up])?;
                GpuFeedForward::Dense {
                    gate: match <[Linear<Matrix, Buffer>; 2]>::try_from(gate) {
                        Ok(two) => Gate::Apart(two.map(alone)),
                        Err(one) => Gate::Stacked(join(gpu, one)?),
                    },
                    down: alone(mlp.down),
                }
            }
            FeedForward::Experts(experts) => GpuFeedForward::Experts(experts),
        };
        let (projection, mixer, output) = match block.mixer {
            Mixer::Attention(a) => {
                let (key_norm, own) = match a.own {
                    Some(own) => (own.key_norm, vec![own.key, own.value]),
                    None => (a.query_norm.clone(), Vec::new()),
                };
                let norms = a.query_norm.zip(key_norm);
                let mixer = GpuMixer::Attention {
                    of: a.of,
                    qk_norm: norms.map(|(query, key)| [query, key]),
                };
                let projection = std::iter::once(a.query).chain(own).collect();
                (projection, mixer, a.output)
            }
            Mixer::Convolution(c) => {
                let mixer = GpuMixer::Convolution {
                    of: c.of,
                    taps: c.taps,
                    bias: c.bias,
                };
                (vec![c.input], mixer, c.output)
            }
            Mixer::Recurrence(r) => {
                let mixer = GpuMixer::Recurrence(GpuRecurrence {
                    of: r.of,
                    taps: RecurrentTaps {
                        weight: r.taps,
                        bias: r.taps_bias,
                    },
                    heads: RecurrentHeads {
                        bias: r.decay_bias,
                        rate: r.decay_rate,
                        skip: r.skip,
                    },
                    norm: r.norm,
                });
                let projection = [r.input, r.gate].into_iter().chain(r.share);
                (projection.chain([r.decay]).collect(), mixer, r.output)
            }
        };
        Ok(Self {
            mixer_norm: block.mixer_norm,
            projection: join(gpu, stack(gpu, projection)?)?,
            mixer,
            output: alone(output),
            mixer_post_norm: block.mixer_post_norm,
            feed_forward_norm: block.feed_forward_norm,
            feed_forward,
            feed_forward_post_norm: block.feed_forward_post_norm,
            per_layer: block.per_layer.map(|of| GpuPerLayerInput {
                gate: alone(of.gate),
                projection: alone(of.projection),
                norm: Some(of.norm),
            }),
            scale: block.scale,
        })
    }
}

fn alone(linear: Linear<Matrix, Buffer>) -> Product {
    Product {
        matrices: vec![linear.weight],
        bias: linear.bias,
    }
}

/// All in one matrix with one bias, or all as they are.
fn stack(
    gpu: &Gpu,
    linears: Vec<Linear<Matrix, Buffer>>,
) -> Result<Vec<Linear<Matrix, Buffer>>, ModelError> {
    let matrices: Vec<&Matrix> = linears.iter().map(|linear| &linear.weight).collect();
    let Some(weight) = Matrix::stack(gpu, &matrices)? else {
        return Ok(linears);
    };
    let bias = biases(gpu, &linears)?;
    Ok(vec![Linear { weight, bias }])
}

/// Products side by side.
fn join(gpu: &Gpu, linears: Vec<Linear<Matrix, Buffer>>) -> Result<Product, ModelError> {
    let bias = match linears.as_slice() {
        [one] => one.bias.clone(),
        several => biases(gpu, several)?,
    };
    let matrices = linears.into_iter().map(|linear| linear.weight).collect();
    Ok(Product { matrices, bias })
}

/// The biases one behind another, zeros for those that are missing.
fn biases(gpu: &Gpu, linears: &[Linear<Matrix, Buffer>]) -> Result<Option<Buffer>, ModelError> {
    if linears.iter().all(|linear| linear.bias.is_none()) {
        return Ok(None);
    }
    let mut all = Vec::with_capacity(linears.len());
    for linear in linears {
        all.push(match &linear.bias {
            Some(bias) => bias.clone(),
            None => gpu.upload(&vec![0.0_f32; linear.weight.rows()])?,
        });
    }
    Ok(Some(gpu.concat(&all.iter().collect::<Vec<_>>())?))
}

/// Keeps weights on a GPU.
#[derive(Debug)]
pub struct GpuWeights<'a> {
    /// The device.
    pub gpu: &'a Gpu,
    /// What plain numbers are rounded to.
    pub quantise: Option<Format>,
}

impl WeightSink for GpuWeights<'_> {
    type Matrix = Matrix;
    type Vector = Buffer;
    type Upload = MatrixUpload;

    fn format(&self, stored: Format, cols: usize) -> Option<Format> {
        on_gpu(stored, cols, self.quantise).map(|(format, _)| format)
    }

    fn begin(&self, format: Format, rows: usize, cols: usize) -> Result<MatrixUpload, ModelError> {
        let format =
            GpuFormat::from_stored(format).ok_or(ModelError::Order("no kernel reads that format"))?;
        Ok(Matrix::begin(self.gpu, format, rows, cols)?)
    }

    fn push(&self, upload: &mut MatrixUpload, rows: &[u8]) -> Result<(), ModelError> {
        Ok(upload.push(rows)?)
    }

    fn finish(&self, upload: MatrixUpload) -> Result<Matrix, ModelError> {
        Ok(upload.finish()?)
    }

    fn vector(&self, values: Vec<f32>) -> Result<Buffer, ModelError> {
        Ok(self.gpu.upload(&values)?)
    }
}

/// All weights, as launches take them.
#[derive(Debug)]
pub struct GpuModel {
    /// `[vocabulary, hidden]`.
    pub embedding: Matrix,
    /// What gives each layer a part of its own. Its embedding is here in spite of its size (1.3 GB
    /// of Gemma 4 E2B in Q4_0): the ids of a draft do not leave the GPU, and rows from the CPU
    /// would be a wait a token.
    pub per_layer: Option<PerLayer<Matrix, Buffer>>,
    /// The blocks, one after another.
    pub blocks: Vec<GpuBlock>,
    /// The final norm's weight, `[hidden]`.
    pub norm: Buffer,
    /// The output matrix, if it is not the embedding.
    pub head: Option<Linear<Matrix, Buffer>>,
}

impl GpuModel {
    /// Stacks weights block by block, so that no more than one block is on the GPU twice.
    ///
    /// # Errors
    /// The device's.
    pub fn new(gpu: &Gpu, weights: Weights<Matrix, Buffer>) -> Result<Self, ModelError> {
        let blocks = weights.blocks.into_iter();
        Ok(Self {
            embedding: weights.embedding,
            per_layer: weights.per_layer,
            blocks: blocks
                .map(|block| GpuBlock::new(gpu, block))
                .collect::<Result<_, _>>()?,
            norm: weights.norm,
            head: weights.head,
        })
    }

    /// The output matrix and its bias.
    pub fn head(&self) -> (&Matrix, Option<&Buffer>) {
        match &self.head {
            Some(head) => (&head.weight, head.bias.as_ref()),
            None => (&self.embedding, None),
        }
    }
}
