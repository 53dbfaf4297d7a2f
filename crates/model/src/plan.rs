//! Which tensors of a checkpoint make which weights: the names of both worlds, parts of fused
//! tensors, and every shape checked before anything is read.

use std::ops::Range;

use conclave_kernels::Format as GpuFormat;
use conclave_weights::{Checkpoint, Format, Tensor};

use crate::config::{self, Bias, Config, QkNorm, Rule};
use crate::error::ModelError;
use crate::family::Family;
use crate::formats::{kept_on_cpu, on_gpu};
use crate::weights::{
    Attention, Block, Convolution, Experts, FeedForward, KeysAndValues, Linear, Mixer, Mlp,
    PerLayer, PerLayerInput, Recurrence, Weights,
};

/// The rows of a tensor, or of several, that make a matrix.
#[derive(Debug, Clone)]
pub struct MatrixPart {
    /// The first tensor.
    pub tensor: Tensor,
    /// Its rows that are wanted.
    pub rows: Range<u64>,
    /// Rows of other tensors that follow them, stored in the same format.
    pub behind: Vec<(Tensor, Range<u64>)>,
    /// Their length in numbers.
    pub cols: usize,
    /// The order of each tensor's rows.
    pub order: Order,
    /// Its numbers are kept as F32, whatever others are rounded to.
    pub exact: bool,
}

impl MatrixPart {
    /// Each tensor, and its rows that are wanted.
    pub fn pieces(&self) -> impl Iterator<Item = (&Tensor, &Range<u64>)> {
        let behind = self.behind.iter().map(|(tensor, rows)| (tensor, rows));
        std::iter::once((&self.tensor, &self.rows)).chain(behind)
    }

    /// How many rows it has.
    pub fn count(&self) -> u64 {
        self.pieces().map(|(_, rows)| rows.end - rows.start).sum()
    }

    /// Bytes that are read of it.
    pub fn bytes(&self) -> u64 {
        let of = |(tensor, rows): (&Tensor, &Range<u64>)| {
            tensor.bytes / tensor.rows().max(1) * (rows.end - rows.start)
        };
        self.pieces().map(of).sum()
    }

    /// The format in which the CPU keeps it.
    pub fn kept_on_cpu(&self, quantise: Option<Format>) -> Format {
        match self.exact {
            true => Format::F32,
            false => kept_on_cpu(self.tensor.format, self.cols, quantise),
        }
    }

    /// The format in which the GPU keeps it; `None` where no kernel reads its rows.
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
    /// The tensor, its rows one behind another.
    pub tensor: Tensor,
    /// Its numbers that are wanted.
    pub numbers: Range<usize>,
    /// Their order.
    pub order: Order,
    /// Their logarithms are stored: e is raised to each first.
    pub logarithm: bool,
    /// Added to each number.
    pub offset: f32,
    /// Multiplies each number then.
    pub scale: f32,
}

impl VectorPart {
    /// Bytes that are read of it.
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

const ROUTER: Name = Name("ffn_gate_inp", "mlp.gate");
/// Of the choice alone, with all of its name.
const CHOICE_BIAS: Name = Name("exp_probs_b.bias", "mlp.expert_bias");
/// Of all experts in GGUF; in a folder of each, whose number stands for the star.
const EXPERT_GATE: Name = Name("ffn_gate_exps", "mlp.experts.*.gate_proj");
const EXPERT_UP: Name = Name("ffn_up_exps", "mlp.experts.*.up_proj");
const EXPERT_DOWN: Name = Name("ffn_down_exps", "mlp.experts.*.down_proj");
/// Of all experts in a folder, with all of their names: of each gate above up, and down.
const EXPERTS_GATE_UP: Name = Name("", "mlp.experts.gate_up_proj");
const EXPERTS_DOWN: Name = Name("", "mlp.experts.down_proj");

const PER_LAYER_GATE: Name = Name("inp_gate", "per_layer_input_gate");
const PER_LAYER_PROJECTION: Name = Name("proj", "per_layer_projection");
const PER_LAYER_NORM: Name = Name("post_norm", "post_per_layer_input_norm");
/// Of a layer, with all of its name in a folder.
const SCALE: Name = Name("layer_output_scale.weight", "layer_scalar");

const CONVOLUTION_IN: Name = Name("shortconv.in_proj", "conv.in_proj");
const CONVOLUTION: Name = Name("shortconv.conv", "conv.conv");
const CONVOLUTION_OUT: Name = Name("shortconv.out_proj", "conv.out_proj");

const DELTA_IN: Name = Name("attn_qkv", "linear_attn.in_proj_qkv");
const DELTA_GATE: Name = Name("attn_gate", "linear_attn.in_proj_z");
const DELTA_BETA: Name = Name("ssm_beta", "linear_attn.in_proj_b");
const DELTA_DECAY: Name = Name("ssm_alpha", "linear_attn.in_proj_a");
const DELTA_DECAY_BIAS: Name = Name("ssm_dt.bias", "linear_attn.dt_bias");
const DELTA_DECAY_RATE: Name = Name("ssm_a", "linear_attn.A_log");
const DELTA_TAPS: Name = Name("ssm_conv1d.weight", "linear_attn.conv1d.weight");
const DELTA_NORM: Name = Name("ssm_norm.weight", "linear_attn.norm.weight");
const DELTA_OUT: Name = Name("ssm_out", "linear_attn.out_proj");

/// The gate, what is convolved, and what makes the decay below each other.
const SPACE_IN: Name = Name("ssm_in", "mamba.in_proj");
const SPACE_DECAY_BIAS: Name = Name("ssm_dt.bias", "mamba.dt_bias");
const SPACE_DECAY_RATE: Name = Name("ssm_a", "mamba.A_log");
const SPACE_SKIP: Name = Name("ssm_d", "mamba.D");
const SPACE_TAPS: Name = Name("ssm_conv1d", "mamba.conv1d");
const SPACE_NORM: Name = Name("ssm_norm.weight", "mamba.norm.weight");
const SPACE_OUT: Name = Name("ssm_out", "mamba.out_proj");

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
    let name = Names::of(checkpoint, gguf, &[]).embedding();
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
        names: Names::of(checkpoint, gguf, family.renamed),
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

/// Whole names in one checkpoint.
#[derive(Clone, Copy)]
struct Names {
    gguf: bool,
    prefix: &'static str,
    /// What the family calls otherwise.
    renamed: &'static [(&'static str, &'static str)],
}

impl Names {
    fn of(
        checkpoint: &Checkpoint,
        gguf: bool,
        renamed: &'static [(&'static str, &'static str)],
    ) -> Self {
        let has = |prefix: &&str| {
            let name = format!("{prefix}embed_tokens.weight");
            checkpoint.has(&name)
        };
        let prefix = PREFIXES.into_iter().find(has).unwrap_or(PREFIXES[0]);
        Self {
            gguf,
            prefix,
            renamed,
        }
    }

    fn embedding(self) -> String {
        self.outside("token_embd", "embed_tokens") + ".weight"
    }

    fn norm(self) -> String {
        self.outside("output_norm", "norm")
    }

    fn outside(self, gguf: &'static str, hugging_face: &'static str) -> String {
        if self.gguf {
            self.own(gguf).to_owned()
        } else {
            format!("{}{}", self.prefix, self.own(hugging_face))
        }
    }

    fn inside(self, layer: usize, name: Name) -> String {
        if self.gguf {
            format!("blk.{layer}.{}", self.own(name.0))
        } else {
            format!("{}layers.{layer}.{}", self.prefix, self.own(name.1))
        }
    }

    /// What the family calls a tensor that others call `usual`.
    fn own(self, usual: &'static str) -> &'static str {
        let renamed = self.renamed.iter().find(|(name, _)| *name == usual);
        renamed.map_or(usual, |(_, own)| own)
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

    /// What gives each layer its part of a token.
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
            let (names, sizes) = ([GATE, UP], [width; 2]);
            self.part(layer, &names, gate_up, &sizes, which, Order::Stored, bias)
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

    /// Matrices `[rows, cols]` of all experts below each other: in GGUF from one tensor, in a
    /// folder from one of each, or from the tensor `fused`, where each expert has so many matrices
    /// below each other, of which `which` is wanted.
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
            all.behind.push((tensor, rows));
        }
        Ok(all)
    }

    /// What takes a layer's part of a token into the stream.
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

    fn attention(
        &self,
        layer: usize,
        of: config::Attention,
    ) -> Result<Attention<MatrixPart, VectorPart>, ModelError> {
        let c = self.config;
        let (query, kv) = (of.query_width(), of.kv_width());
        let pairs = self.pairs(of);
        let norm = |name: Name, whole: usize| {
            let width = match c.qk_norm {
                QkNorm::None => return Ok(None),
                QkNorm::PerHead | QkNorm::Rotated => of.head_dim,
                QkNorm::Whole => whole,
            };
            let mut part = self.norm(self.names.inside(layer, name), width)?;
            part.order = pairs;
            Ok::<_, ModelError>(Some(part))
        };
        let sizes = [of.query_rows(), kv, kv];
        let heads = |which, order| {
            let names = [QUERY, KEY, VALUE];
            self.part(layer, &names, QKV, &sizes, which, order, c.qkv_bias)
        };
        Ok(Attention {
            of,
            query: heads(0, pairs)?,
            query_norm: norm(QUERY_NORM, query)?,
            own: match of.shares {
                None => Some(KeysAndValues {
                    key: heads(1, pairs)?,
                    key_norm: norm(KEY_NORM, kv)?,
                    value: heads(2, Order::Stored)?,
                }),
                Some(_) => None,
            },
            output: self.linear(layer, OUTPUT, [c.hidden, query], c.output_bias)?,
        })
    }

    fn convolution(
        &self,
        layer: usize,
        of: config::Convolution,
    ) -> Result<Convolution<MatrixPart, VectorPart>, ModelError> {
        let hidden = self.config.hidden;
        let taps = self.names.inside(layer, CONVOLUTION);
        Ok(Convolution {
            of,
            input: self.linear(layer, CONVOLUTION_IN, [3 * hidden, hidden], Bias::Where)?,
            taps: self.numbers(format!("{taps}.weight"), [hidden, of.taps])?,
            bias: self.vector_if_there(format!("{taps}.bias"), hidden)?,
            output: self.linear(layer, CONVOLUTION_OUT, [hidden; 2], Bias::Where)?,
        })
    }

    fn recurrence(
        &self,
        layer: usize,
        of: config::Recurrence,
    ) -> Result<Recurrence<MatrixPart, VectorPart>, ModelError> {
        match of.rule {
            Rule::Delta => self.delta_net(layer, of),
            Rule::StateSpace => self.state_space(layer, of),
        }
    }

    fn delta_net(
        &self,
        layer: usize,
        of: config::Recurrence,
    ) -> Result<Recurrence<MatrixPart, VectorPart>, ModelError> {
        let hidden = self.config.hidden;
        let of_stream = |name, rows| self.linear(layer, name, [rows, hidden], Bias::Never);
        let vector = |name, length| {
            let name = self.names.inside(layer, name);
            self.vector(name, 0..length, length)
        };
        let taps = self.names.inside(layer, DELTA_TAPS);
        Ok(Recurrence {
            of,
            input: of_stream(DELTA_IN, of.channels())?,
            gate: of_stream(DELTA_GATE, of.values())?,
            share: Some(of_stream(DELTA_BETA, of.value_heads)?),
            decay: of_stream(DELTA_DECAY, of.value_heads)?,
            decay_bias: vector(DELTA_DECAY_BIAS, of.value_heads)?,
            decay_rate: self.rate(vector(DELTA_DECAY_RATE, of.value_heads)?),
            taps: self.numbers(taps, [of.channels(), of.taps])?,
            taps_bias: None,
            skip: None,
            // Its weight is stored whole, whatever other norms lack of theirs.
            norm: vector(DELTA_NORM, of.value_width)?,
            output: self.linear(layer, DELTA_OUT, [hidden, of.values()], Bias::Never)?,
        })
    }

    fn state_space(
        &self,
        layer: usize,
        of: config::Recurrence,
    ) -> Result<Recurrence<MatrixPart, VectorPart>, ModelError> {
        let hidden = self.config.hidden;
        let behind_gate = of.values() + of.channels();
        let all = behind_gate + of.value_heads;
        let input = |range: Range<usize>| {
            let mut part = self.linear(layer, SPACE_IN, [all, hidden], Bias::Where)?;
            part.weight.rows = range.start as u64..range.end as u64;
            if let Some(bias) = &mut part.bias {
                bias.numbers = range;
            }
            Ok::<_, ModelError>(part)
        };
        let list = |name, count| self.list(self.names.inside(layer, name), count);
        let taps = self.names.inside(layer, SPACE_TAPS);
        Ok(Recurrence {
            of,
            input: input(of.values()..behind_gate)?,
            gate: input(0..of.values())?,
            share: None,
            decay: input(behind_gate..all)?,
            decay_bias: list(SPACE_DECAY_BIAS, of.value_heads)?,
            decay_rate: self.rate(list(SPACE_DECAY_RATE, of.value_heads)?),
            taps: self.numbers(format!("{taps}.weight"), [of.channels(), of.taps])?,
            taps_bias: self.vector_if_there(format!("{taps}.bias"), of.channels())?,
            skip: Some(list(SPACE_SKIP, of.value_heads)?),
            norm: list(SPACE_NORM, of.values())?,
            output: self.linear(layer, SPACE_OUT, [hidden, of.values()], Bias::Where)?,
        })
    }

    /// GGUF has the rates of decays, a folder ln of what they are below 0.
    fn rate(&self, stored: VectorPart) -> VectorPart {
        match self.names.gguf {
            true => stored,
            false => VectorPart {
                logarithm: true,
                scale: -1.0,
                ..stored
            },
        }
    }

    /// The order of query and key rows.
    fn pairs(&self, of: config::Attention) -> Order {
        let rope = self.config.ropes.get(of.rope.unwrap_or(0));
        match (self.config.interleaved, rope) {
            (true, Some(rope)) => Order::Pairs {
                width: of.head_dim,
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
            behind: Vec::new(),
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

    /// All numbers of a tensor of any shape, checked to be so many: GGUF has some in a column, or
    /// in as many rows as there are groups.
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
