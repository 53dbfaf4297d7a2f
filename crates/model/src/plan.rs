//! Maps a checkpoint's tensors to the decoder's weights: names in GGUF and in a folder, parts of
//! fused tensors, and a check of every shape before anything is read.

mod mixers;
mod names;

use std::ops::Range;

use conclave_kernels::Format as GpuFormat;
use conclave_weights::{Checkpoint, Format, Tensor};

use self::names::{
    CHOICE_BIAS, DOWN, EXPERT_DOWN, EXPERT_GATE, EXPERT_UP, EXPERTS_DOWN, EXPERTS_GATE_UP, GATE,
    GATE_UP, Name, Names, PER_LAYER_GATE, PER_LAYER_NORM, PER_LAYER_PROJECTION, ROUTER, SCALE,
    SHARED_DOWN, SHARED_GATE_UP, UP,
};
use crate::config::{self, Bias, Config};
use crate::error::ModelError;
use crate::family::Family;
use crate::formats::{kept_on_cpu, on_gpu};
use crate::weights::{
    Block, Experts, FeedForward, Linear, Mixer, Mlp, PerLayer, PerLayerInput, Weights,
};

/// The rows of a tensor, or of several, that make a matrix.
#[derive(Debug, Clone)]
pub struct MatrixPart {
    /// The first tensor.
    pub tensor: Tensor,
    /// Range of its rows that are read.
    pub rows: Range<u64>,
    /// Rows of further tensors that follow them, stored in the same format.
    pub more: Vec<(Tensor, Range<u64>)>,
    /// Numbers in a row.
    pub cols: usize,
    /// The order of each tensor's rows.
    pub order: Order,
    /// Whether its numbers are kept as F32, whatever other matrices are rounded to.
    pub exact: bool,
}

impl MatrixPart {
    /// Tensors of the matrix in order, each with the range of its rows that are read.
    pub fn pieces(&self) -> impl Iterator<Item = (&Tensor, &Range<u64>)> {
        let more = self.more.iter().map(|(tensor, rows)| (tensor, rows));
        std::iter::once((&self.tensor, &self.rows)).chain(more)
    }

    /// Number of rows.
    pub fn count(&self) -> u64 {
        self.pieces().map(|(_, rows)| rows.end - rows.start).sum()
    }

    /// Bytes of the file that are read for this matrix.
    pub fn bytes(&self) -> u64 {
        let of = |(tensor, rows): (&Tensor, &Range<u64>)| {
            tensor.bytes / tensor.rows().max(1) * (rows.end - rows.start)
        };
        self.pieces().map(of).sum()
    }

    /// Format in which the CPU keeps the matrix.
    pub fn kept_on_cpu(&self, quantise: Option<Format>) -> Format {
        match self.exact {
            true => Format::F32,
            false => kept_on_cpu(self.tensor.format, self.cols, quantise),
        }
    }

    /// Format in which the GPU keeps the matrix; `None` if no kernel reads its rows.
    pub fn kept_on_gpu(&self, quantise: Option<Format>) -> Option<GpuFormat> {
        let stored = match self.exact {
            true => return on_gpu(Format::F32, self.cols, None).map(|(_, format)| format),
            false => self.tensor.format,
        };
        on_gpu(stored, self.cols, quantise).map(|(_, format)| format)
    }
}

/// The numbers of a tensor that make a vector.
#[derive(Debug, Clone)]
pub struct VectorPart {
    /// The tensor; its rows are read as one vector.
    pub tensor: Tensor,
    /// Range of its numbers that are read.
    pub numbers: Range<usize>,
    /// Order of the numbers.
    pub order: Order,
    /// Whether the tensor stores logarithms: e is raised to each number first.
    pub logarithm: bool,
    /// Number added to each.
    pub offset: f32,
    /// Factor on each sum.
    pub scale: f32,
}

impl VectorPart {
    /// Bytes of the file that are read for this vector.
    pub fn bytes(&self) -> u64 {
        let wanted = (self.numbers.len() as u64).saturating_mul(self.tensor.bytes);
        wanted / self.tensor.elements().max(1)
    }
}

/// The order of rows, or of a vector's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they are stored.
    Stored,
    /// Heads of `width` rows. The first `turning` rows of each are stored as neighbouring pairs,
    /// and are reordered into halves.
    Pairs {
        /// Rows of a head.
        width: usize,
        /// Number of them that rotate.
        turning: usize,
    },
}

/// The plan of a checkpoint's weights.
pub type Plan = Weights<MatrixPart, VectorPart>;

/// Finds the embedding, whose rows are the vocabulary.
///
/// # Errors
/// [`ModelError::Tensor`] where it is missing or has more rows than any model.
pub fn embedding(checkpoint: &Checkpoint, gguf: bool) -> Result<(&Tensor, usize), ModelError> {
    let name = Names::new(checkpoint, gguf, &[]).embedding();
    let tensor = find(checkpoint, &name)?;
    let rows = usize::try_from(tensor.rows()).ok();
    match rows.filter(|&rows| rows <= crate::keys::LARGEST) {
        Some(rows) => Ok((tensor, rows)),
        None => Err(wrong(&name, "has more rows than any known model")),
    }
}

/// Plans the weights of a model.
///
/// # Errors
/// [`ModelError::Tensor`] for a tensor that is missing or has another shape than `config` asks for.
pub fn plan(
    checkpoint: &Checkpoint,
    family: &Family,
    config: &Config,
    gguf: bool,
) -> Result<Plan, ModelError> {
    let planner = Planner {
        checkpoint,
        family,
        config,
        names: Names::new(checkpoint, gguf, family.renamed),
    };
    let c = config;
    let embedding = planner.names.embedding();
    let mut norm = planner.norm(planner.names.norm(), c.hidden)?;
    norm.scale = c.logit_scale;
    Ok(Weights {
        embedding: planner.matrix(&embedding, c.vocabulary, c.hidden)?,
        per_layer: match c.per_layer {
            Some(width) => Some(planner.per_layer(width)?),
            None => None,
        },
        blocks: (0..c.layers.len())
            .map(|layer| planner.block(layer))
            .collect::<Result<_, _>>()?,
        norm,
        head: planner.head()?,
    })
}

/// Matrices that come from tensors of their own, or lie one below the other in one tensor.
struct Stacked<'a> {
    names: &'a [Name],
    /// Name of the one tensor.
    fused: Name,
    /// Number of rows of each matrix.
    sizes: &'a [usize],
}

struct Planner<'a> {
    checkpoint: &'a Checkpoint,
    family: &'a Family,
    config: &'a Config,
    names: Names,
}

impl Planner<'_> {
    fn has(&self, name: &str) -> bool {
        self.checkpoint.has(name)
    }

    fn head(&self) -> Result<Option<Linear<MatrixPart, VectorPart>>, ModelError> {
        let c = self.config;
        let names = if self.names.gguf {
            ["output", "output"]
        } else {
            ["lm_head", "language_model.lm_head"]
        };
        let name = names
            .into_iter()
            .find(|name| self.has(&format!("{name}.weight")));
        match (c.tied, name) {
            (Some(true), _) | (None, None) => Ok(None),
            (Some(false), None) => Err(wrong(
                &format!("{}.weight", names[0]),
                "is missing, and the model says that the embedding is not used in its place",
            )),
            (_, Some(name)) => Ok(Some(Linear {
                weight: self.matrix(&format!("{name}.weight"), c.vocabulary, c.hidden)?,
                bias: None,
            })),
        }
    }

    /// Plans the weights of the layers' own inputs.
    fn per_layer(&self, width: usize) -> Result<PerLayer<MatrixPart, VectorPart>, ModelError> {
        let (c, names) = (self.config, self.names);
        let all = c.layers.len() * width;
        let [embedding, projection, norm] = [
            ("per_layer_token_embd", "embed_tokens_per_layer"),
            ("per_layer_model_proj", "per_layer_model_projection"),
            ("per_layer_proj_norm", "per_layer_projection_norm"),
        ]
        .map(|(gguf, hugging_face)| names.outside(gguf, hugging_face));
        let mut norm = self.norm(norm, width)?;
        norm.scale = std::f32::consts::FRAC_1_SQRT_2;
        Ok(PerLayer {
            embedding: self.matrix(&format!("{embedding}.weight"), c.vocabulary, all)?,
            projection: self.matrix(&format!("{projection}.weight"), all, c.hidden)?,
            norm,
        })
    }

    fn block(&self, layer: usize) -> Result<Block<MatrixPart, VectorPart>, ModelError> {
        let c = self.config;
        let norms = self.family.norms;
        let norm = |name: Option<&'static str>, gguf: &'static str| {
            name.map(|name| self.norm(self.names.inside(layer, Name(gguf, name)), c.hidden))
                .transpose()
        };
        Ok(Block {
            mixer_norm: norm(norms.mixer, "attn_norm")?,
            mixer: match c.layers[layer].mixer {
                config::Mixer::Attention(of) => Mixer::Attention(self.attention(layer, of)?),
                config::Mixer::Convolution(of) => Mixer::Convolution(self.convolution(layer, of)?),
                config::Mixer::Recurrence(of) => Mixer::Recurrence(self.recurrence(layer, of)?),
            },
            mixer_post_norm: norm(norms.mixer_post, "post_attention_norm")?,
            feed_forward_norm: norm(norms.feed_forward, "ffn_norm")?,
            feed_forward: match c.layers[layer].feed_forward {
                config::FeedForward::Dense { width } => FeedForward::Dense(self.mlp(layer, width)?),
                config::FeedForward::Experts(of) => FeedForward::Experts(self.experts(layer, of)?),
            },
            feed_forward_post_norm: norm(norms.feed_forward_post, "post_ffw_norm")?,
            per_layer: match c.per_layer {
                Some(width) => Some(self.per_layer_input(layer, width)?),
                None => None,
            },
            scale: self.vector_if_there(self.names.inside(layer, SCALE), 1)?,
        })
    }

    fn mlp(&self, layer: usize, width: usize) -> Result<Mlp<MatrixPart, VectorPart>, ModelError> {
        let c = self.config;
        let shared = format!("{}.weight", self.names.inside(layer, SHARED_DOWN));
        let (gate_up, down) = match !self.names.gguf && self.has(&shared) {
            true => (SHARED_GATE_UP, SHARED_DOWN),
            false => (GATE_UP, DOWN),
        };
        let bias = c.feed_forward_bias;
        let gated = |which| {
            let stacked = Stacked {
                names: &[GATE, UP],
                fused: gate_up,
                sizes: &[width; 2],
            };
            self.part(layer, stacked, which, Order::Stored, bias)
        };
        Ok(Mlp {
            gate: gated(0)?,
            up: gated(1)?,
            down: self.linear(layer, down, [c.hidden, width], bias)?,
        })
    }

    fn experts(
        &self,
        layer: usize,
        of: config::Experts,
    ) -> Result<Experts<MatrixPart, VectorPart>, ModelError> {
        let (hidden, width) = (self.config.hidden, of.width);
        let router = self.names.inside(layer, ROUTER) + ".weight";
        let mut router = self.matrix(&router, of.count, hidden)?;
        // A rounded score is another expert.
        router.exact = true;
        let choice = self.names.inside(layer, CHOICE_BIAS);
        let choice_bias = match of.choice_bias {
            Bias::Never => None,
            Bias::Where => self.vector_if_there(choice, of.count)?,
            Bias::Always => Some(self.vector(choice, 0..of.count, of.count)?),
        };
        let gated = |name, which| {
            let all = self.names.inside(layer, EXPERTS_GATE_UP);
            let shape = [width, hidden];
            self.of_experts(layer, name, &of, (&all, [which, 2]), shape)
        };
        let down = self.names.inside(layer, EXPERTS_DOWN);
        let shape = [hidden, width];
        Ok(Experts {
            of,
            router,
            choice_bias,
            gate: gated(EXPERT_GATE, 0)?,
            up: gated(EXPERT_UP, 1)?,
            down: self.of_experts(layer, EXPERT_DOWN, &of, (&down, [0, 1]), shape)?,
        })
    }

    /// Matrices `[rows, cols]` of all experts, one below the other. GGUF has them in one tensor. A
    /// folder has one tensor for each expert, or the tensor `fused`, in which each expert has
    /// `each` matrices one below the other; `which` is the index of the wanted one.
    fn of_experts(
        &self,
        layer: usize,
        name: Name,
        of: &config::Experts,
        (fused, [which, each]): (&str, [usize; 2]),
        [rows, cols]: [usize; 2],
    ) -> Result<MatrixPart, ModelError> {
        let own = self.names.inside(layer, name) + ".weight";
        if self.names.gguf {
            return self.matrix(&own, of.count * rows, cols);
        }
        let piece = |expert: usize| {
            if !self.has(fused) {
                return self.matrix(&own.replace('*', &expert.to_string()), rows, cols);
            }
            let mut part = self.matrix(fused, of.count * each * rows, cols)?;
            let first = ((expert * each + which) * rows) as u64;
            part.rows = first..first + rows as u64;
            Ok(part)
        };
        let mut all = piece(0)?;
        for expert in 1..of.count {
            let MatrixPart { tensor, rows, .. } = piece(expert)?;
            if tensor.format != all.tensor.format {
                let problem = "is stored in another format than the first expert's";
                return Err(wrong(&tensor.name, problem));
            }
            all.more.push((tensor, rows));
        }
        Ok(all)
    }

    /// Plans the weights that add a layer's own input to the stream.
    fn per_layer_input(
        &self,
        layer: usize,
        width: usize,
    ) -> Result<PerLayerInput<MatrixPart, VectorPart>, ModelError> {
        let hidden = self.config.hidden;
        let projection = PER_LAYER_PROJECTION;
        Ok(PerLayerInput {
            gate: self.linear(layer, PER_LAYER_GATE, [width, hidden], Bias::Never)?,
            projection: self.linear(layer, projection, [hidden, width], Bias::Never)?,
            norm: self.norm(self.names.inside(layer, PER_LAYER_NORM), hidden)?,
        })
    }

    fn linear(
        &self,
        layer: usize,
        name: Name,
        [rows, cols]: [usize; 2],
        bias: Bias,
    ) -> Result<Linear<MatrixPart, VectorPart>, ModelError> {
        let name = self.names.inside(layer, name);
        let weight = self.matrix(&format!("{name}.weight"), rows, cols)?;
        let bias_name = format!("{name}.bias");
        let there = bias == Bias::Always || bias == Bias::Where && self.has(&bias_name);
        Ok(Linear {
            weight,
            bias: if there {
                Some(self.vector(bias_name, 0..rows, rows)?)
            } else {
                None
            },
        })
    }

    /// Weight and bias of matrix `which` of `stacked`.
    fn part(
        &self,
        layer: usize,
        Stacked {
            names,
            fused,
            sizes,
        }: Stacked<'_>,
        which: usize,
        order: Order,
        bias: Bias,
    ) -> Result<Linear<MatrixPart, VectorPart>, ModelError> {
        let cols = self.config.hidden;
        let all: usize = sizes.iter().sum();
        let first: usize = sizes[..which].iter().sum();
        let range = first..first + sizes[which];
        let fused = self.names.inside(layer, fused);
        // The first alone decides: in GGUF, gate and up in one tensor have the name of up.
        let separate = self.has(&format!("{}.weight", self.names.inside(layer, names[0])));
        let own = self.names.inside(layer, names[which]);
        let mut weight = if separate || !self.has(&format!("{fused}.weight")) {
            self.matrix(&format!("{own}.weight"), sizes[which], cols)?
        } else {
            let mut part = self.matrix(&format!("{fused}.weight"), all, cols)?;
            part.rows = range.start as u64..range.end as u64;
            part
        };
        weight.order = order;
        // A fused weight may have a bias of its own or those of its parts.
        let (own, fused) = (format!("{own}.bias"), format!("{fused}.bias"));
        let own_bias = self.has(&own) && (separate || own != fused);
        let mut bias = match bias {
            Bias::Never => None,
            _ if own_bias => Some(self.vector(own, 0..sizes[which], sizes[which])?),
            _ if !separate && self.has(&fused) => Some(self.vector(fused, range, all)?),
            Bias::Where => None,
            Bias::Always => return Err(wrong(&own, "is missing")),
        };
        if let Some(bias) = &mut bias {
            bias.order = order;
        }
        Ok(Linear { weight, bias })
    }

    fn norm(&self, name: String, width: usize) -> Result<VectorPart, ModelError> {
        // Left unread, a LayerNorm would pass for an RMS norm, and answer nonsense.
        let shift = format!("{name}.bias");
        if self.has(&shift) {
            return Err(wrong(&shift, "shifts a norm, which is not supported"));
        }
        let part = self.vector(name + ".weight", 0..width, width)?;
        Ok(VectorPart {
            offset: self.config.norm_offset,
            ..part
        })
    }

    /// A whole tensor, checked to be `[rows, cols]`.
    fn matrix(&self, name: &str, rows: usize, cols: usize) -> Result<MatrixPart, ModelError> {
        let tensor = find(self.checkpoint, name)?;
        if tensor.rows() != rows as u64 || tensor.cols() != cols as u64 {
            let (found, wide) = (tensor.rows(), tensor.cols());
            let problem =
                format!("has {found} rows of {wide} numbers where {rows} of {cols} belong");
            return Err(wrong(name, &problem));
        }
        Ok(MatrixPart {
            tensor: tensor.clone(),
            rows: 0..rows as u64,
            more: Vec::new(),
            cols,
            order: Order::Stored,
            exact: false,
        })
    }

    /// All numbers of a tensor, checked to be `[rows, cols]`.
    fn numbers(&self, name: String, [rows, cols]: [usize; 2]) -> Result<VectorPart, ModelError> {
        self.matrix(&name, rows, cols)?;
        self.list(name, rows * cols)
    }

    /// All numbers of a tensor of any shape, checked to be `count`. GGUF stores some vectors as a
    /// column, and some with a row for each group.
    fn list(&self, name: String, count: usize) -> Result<VectorPart, ModelError> {
        let tensor = find(self.checkpoint, &name)?;
        if tensor.elements() != count as u64 {
            let problem = format!("has {} numbers where {count} belong", tensor.elements());
            return Err(wrong(&name, &problem));
        }
        Ok(VectorPart {
            tensor: tensor.clone(),
            numbers: 0..count,
            order: Order::Stored,
            logarithm: false,
            offset: 0.0,
            scale: 1.0,
        })
    }

    /// All numbers of a tensor, checked to be one row of `length`; `None` where there is none.
    fn vector_if_there(
        &self,
        name: String,
        length: usize,
    ) -> Result<Option<VectorPart>, ModelError> {
        match self.has(&name) {
            true => self.vector(name, 0..length, length).map(Some),
            false => Ok(None),
        }
    }

    /// Some numbers of a tensor, checked to be one row of `length`.
    fn vector(
        &self,
        name: String,
        numbers: Range<usize>,
        length: usize,
    ) -> Result<VectorPart, ModelError> {
        if find(self.checkpoint, &name)?.rows() != 1 {
            return Err(wrong(&name, "has several rows where one belongs"));
        }
        Ok(VectorPart {
            numbers,
            ..self.list(name, length)?
        })
    }
}

fn find<'a>(checkpoint: &'a Checkpoint, name: &str) -> Result<&'a Tensor, ModelError> {
    if checkpoint.has(name) {
        return Ok(checkpoint.tensor(name)?);
    }
    Err(wrong(name, "is missing"))
}

/// An error about the tensor `name`.
pub fn wrong(name: &str, problem: &str) -> ModelError {
    ModelError::Tensor {
        name: name.to_owned(),
        problem: problem.to_owned(),
    }
}
