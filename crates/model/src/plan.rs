//! Which tensors of a checkpoint make which weights: the names of both worlds, parts of fused
//! tensors, and every shape checked before anything is read.

use std::ops::Range;

use conclave_weights::{Checkpoint, Tensor};

use crate::config::{Bias, Config, QkNorm};
use crate::error::ModelError;
use crate::family::Family;
use crate::weights::{Block, Linear, Weights};

/// The rows of a tensor that make a matrix.
#[derive(Debug, Clone)]
pub struct MatrixPart {
    /// The tensor.
    pub tensor: Tensor,
    /// Its rows that are wanted.
    pub rows: Range<u64>,
    /// Their length in numbers.
    pub cols: usize,
    /// Their order.
    pub order: Order,
}

/// The numbers of a tensor that make a vector.
#[derive(Debug, Clone)]
pub struct VectorPart {
    /// The tensor, one row.
    pub tensor: Tensor,
    /// Its numbers that are wanted.
    pub numbers: Range<usize>,
    /// Their order.
    pub order: Order,
    /// Added to each number.
    pub offset: f32,
    /// Multiplies each number then.
    pub scale: f32,
}

/// The order of rows, or of a vector's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they are stored.
    Stored,
    /// Heads of `width`, whose first `turning` come as neighbouring pairs and are wanted as halves.
    Pairs {
        /// Rows of a head.
        width: usize,
        /// How many of them rotate.
        turning: usize,
    },
}

/// The plan of a checkpoint's weights.
pub type Plan = Weights<MatrixPart, VectorPart>;

/// A weight's name within its block: in GGUF, and in a Hugging Face folder.
#[derive(Clone, Copy)]
struct Name(&'static str, &'static str);

const QUERY: Name = Name("attn_q", "self_attn.q_proj");
const KEY: Name = Name("attn_k", "self_attn.k_proj");
const VALUE: Name = Name("attn_v", "self_attn.v_proj");
const QKV: Name = Name("attn_qkv", "self_attn.qkv_proj");
const OUTPUT: Name = Name("attn_output", "self_attn.o_proj");
const QUERY_NORM: Name = Name("attn_q_norm", "self_attn.q_norm");
const KEY_NORM: Name = Name("attn_k_norm", "self_attn.k_norm");
const GATE: Name = Name("ffn_gate", "mlp.gate_proj");
const UP: Name = Name("ffn_up", "mlp.up_proj");
/// GGUF calls gate and up in one tensor as it calls up alone.
const GATE_UP: Name = Name("ffn_up", "mlp.gate_up_proj");
const DOWN: Name = Name("ffn_down", "mlp.down_proj");
/// What folders of Granite 4 call them, gate above up.
const SHARED_GATE_UP: Name = Name("ffn_up", "shared_mlp.input_linear");
const SHARED_DOWN: Name = Name("ffn_down", "shared_mlp.output_linear");

/// What may stand before a Hugging Face tensor's name: a causal model's, a bare one's, and those
/// of models that also see, as transformers 4 and 5 write them.
const PREFIXES: [&str; 4] = [
    "model.",
    "",
    "language_model.model.",
    "model.language_model.",
];

/// Finds the embedding, whose rows are the vocabulary.
///
/// # Errors
/// [`ModelError::Tensor`] where it is missing or has more rows than any model.
pub fn embedding(checkpoint: &Checkpoint, gguf: bool) -> Result<(&Tensor, usize), ModelError> {
    let name = Names::of(checkpoint, gguf).embedding();
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
        names: Names::of(checkpoint, gguf),
    };
    let c = config;
    let embedding = planner.names.embedding();
    let mut norm = planner.norm(planner.names.norm(), c.hidden)?;
    norm.scale = c.logit_scale;
    Ok(Weights {
        embedding: planner.matrix(&embedding, c.vocabulary, c.hidden)?,
        blocks: (0..c.layers.len())
            .map(|layer| planner.block(layer))
            .collect::<Result<_, _>>()?,
        norm,
        head: planner.head()?,
    })
}

/// Whole names in one checkpoint.
#[derive(Clone, Copy)]
struct Names {
    gguf: bool,
    prefix: &'static str,
}

impl Names {
    fn of(checkpoint: &Checkpoint, gguf: bool) -> Self {
        let has = |prefix: &&str| {
            let name = format!("{prefix}embed_tokens.weight");
            checkpoint.has(&name)
        };
        let prefix = PREFIXES.into_iter().find(has).unwrap_or(PREFIXES[0]);
        Self { gguf, prefix }
    }

    fn embedding(self) -> String {
        self.outside("token_embd", "embed_tokens") + ".weight"
    }

    fn norm(self) -> String {
        self.outside("output_norm", "norm")
    }

    fn outside(self, gguf: &str, hugging_face: &str) -> String {
        if self.gguf {
            gguf.to_owned()
        } else {
            format!("{}{hugging_face}", self.prefix)
        }
    }

    fn inside(self, layer: usize, name: Name) -> String {
        if self.gguf {
            format!("blk.{layer}.{}", name.0)
        } else {
            format!("{}layers.{layer}.{}", self.prefix, name.1)
        }
    }
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

    fn block(&self, layer: usize) -> Result<Block<MatrixPart, VectorPart>, ModelError> {
        let c = self.config;
        let norms = self.family.norms;
        let norm = |name: Option<&'static str>, gguf: &'static str, width: usize| {
            name.map(|name| self.norm(self.names.inside(layer, Name(gguf, name)), width))
                .transpose()
        };
        let (query, kv) = (c.query_width(), c.kv_width());
        let (query_norm, key_norm) = match c.qk_norm {
            QkNorm::None => (None, None),
            QkNorm::PerHead => (Some(c.head_dim), Some(c.head_dim)),
            QkNorm::Whole => (Some(query), Some(kv)),
        };
        let qk_norm = |name: Name, width: Option<usize>| {
            let part = |width| {
                let mut part = self.norm(self.names.inside(layer, name), width)?;
                part.order = self.pairs();
                Ok::<_, ModelError>(part)
            };
            width.map(part).transpose()
        };
        let qkv = [query, kv, kv];
        let part = |names: &[Name], fused, sizes: &[usize], which, order, bias| {
            self.part(layer, names, fused, sizes, which, order, bias)
        };
        let heads = |which, order| part(&[QUERY, KEY, VALUE], QKV, &qkv, which, order, c.qkv_bias);
        let shared = format!("{}.weight", self.names.inside(layer, SHARED_DOWN));
        let (gate_up, down) = match !self.names.gguf && self.has(&shared) {
            true => (SHARED_GATE_UP, SHARED_DOWN),
            false => (GATE_UP, DOWN),
        };
        let two = [c.feed_forward; 2];
        let gated = |which| {
            let names = [GATE, UP];
            let bias = c.feed_forward_bias;
            part(&names, gate_up, &two, which, Order::Stored, bias)
        };
        Ok(Block {
            attention_norm: norm(norms.attention, "attn_norm", c.hidden)?,
            query: heads(0, self.pairs())?,
            key: heads(1, self.pairs())?,
            value: heads(2, Order::Stored)?,
            query_norm: qk_norm(QUERY_NORM, query_norm)?,
            key_norm: qk_norm(KEY_NORM, key_norm)?,
            output: self.linear(layer, OUTPUT, [c.hidden, query], c.output_bias)?,
            attention_post_norm: norm(norms.attention_post, "post_attention_norm", c.hidden)?,
            feed_forward_norm: norm(norms.feed_forward, "ffn_norm", c.hidden)?,
            gate: gated(0)?,
            up: gated(1)?,
            down: self.linear(layer, down, [c.hidden, c.feed_forward], c.feed_forward_bias)?,
            feed_forward_post_norm: norm(norms.feed_forward_post, "post_ffw_norm", c.hidden)?,
        })
    }

    /// The order of query and key rows.
    fn pairs(&self) -> Order {
        match (self.config.interleaved, self.config.ropes.first()) {
            (true, Some(rope)) => Order::Pairs {
                width: self.config.head_dim,
                turning: rope.rotary_dim,
            },
            _ => Order::Stored,
        }
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

    /// Weight and bias number `which` of `names`, from tensors of their own or from `fused`, in
    /// which all of them lie below each other with as many rows as `sizes` say.
    #[expect(clippy::too_many_arguments, reason = "one table row each")]
    fn part(
        &self,
        layer: usize,
        names: &[Name],
        fused: Name,
        sizes: &[usize],
        which: usize,
        order: Order,
        bias: Bias,
    ) -> Result<Linear<MatrixPart, VectorPart>, ModelError> {
        let cols = self.config.hidden;
        let all: usize = sizes.iter().sum();
        let first: usize = sizes[..which].iter().sum();
        let range = first..first + sizes[which];
        let fused = self.names.inside(layer, fused);
        // The first alone tells: in GGUF, gate and up in one tensor have the name of up.
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
            cols,
            order: Order::Stored,
        })
    }

    /// Some numbers of a tensor, checked to be one row of `length`.
    fn vector(
        &self,
        name: String,
        numbers: Range<usize>,
        length: usize,
    ) -> Result<VectorPart, ModelError> {
        let tensor = find(self.checkpoint, &name)?;
        if tensor.rows() != 1 || tensor.cols() != length as u64 {
            let found = tensor.elements();
            let problem = format!("has {found} numbers where {length} belong");
            return Err(wrong(&name, &problem));
        }
        Ok(VectorPart {
            tensor: tensor.clone(),
            numbers,
            order: Order::Stored,
            offset: 0.0,
            scale: 1.0,
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
