//! Names of weights, in GGUF and in a Hugging Face folder.

use conclave_weights::Checkpoint;

/// A weight's name within its block: in GGUF, and in a Hugging Face folder.
#[derive(Clone, Copy)]
pub(super) struct Name(pub &'static str, pub &'static str);

pub(super) const QUERY: Name = Name("attn_q", "self_attn.q_proj");
pub(super) const KEY: Name = Name("attn_k", "self_attn.k_proj");
pub(super) const VALUE: Name = Name("attn_v", "self_attn.v_proj");
pub(super) const QKV: Name = Name("attn_qkv", "self_attn.qkv_proj");
pub(super) const OUTPUT: Name = Name("attn_output", "self_attn.o_proj");
pub(super) const QUERY_NORM: Name = Name("attn_q_norm", "self_attn.q_norm");
pub(super) const KEY_NORM: Name = Name("attn_k_norm", "self_attn.k_norm");
pub(super) const GATE: Name = Name("ffn_gate", "mlp.gate_proj");
pub(super) const UP: Name = Name("ffn_up", "mlp.up_proj");
/// Gate and up matrices in one tensor, which has the name of up alone in GGUF.
pub(super) const GATE_UP: Name = Name("ffn_up", "mlp.gate_up_proj");
pub(super) const DOWN: Name = Name("ffn_down", "mlp.down_proj");
/// Gate and up, and down, in folders of Granite 4; gate above up.
pub(super) const SHARED_GATE_UP: Name = Name("ffn_up", "shared_mlp.input_linear");
pub(super) const SHARED_DOWN: Name = Name("ffn_down", "shared_mlp.output_linear");

pub(super) const ROUTER: Name = Name("ffn_gate_inp", "mlp.gate");
/// Bias on the scores for the choice of experts; with its suffix, as read.
pub(super) const CHOICE_BIAS: Name = Name("exp_probs_b.bias", "mlp.expert_bias");
/// Tensor of all experts in GGUF. A folder has a tensor for each expert, whose number replaces `*`.
pub(super) const EXPERT_GATE: Name = Name("ffn_gate_exps", "mlp.experts.*.gate_proj");
pub(super) const EXPERT_UP: Name = Name("ffn_up_exps", "mlp.experts.*.up_proj");
pub(super) const EXPERT_DOWN: Name = Name("ffn_down_exps", "mlp.experts.*.down_proj");
/// Tensors of a folder that hold all experts, with their suffix: gate above up for each expert, and
/// down.
pub(super) const EXPERTS_GATE_UP: Name = Name("", "mlp.experts.gate_up_proj");
pub(super) const EXPERTS_DOWN: Name = Name("", "mlp.experts.down_proj");

pub(super) const PER_LAYER_GATE: Name = Name("inp_gate", "per_layer_input_gate");
pub(super) const PER_LAYER_PROJECTION: Name = Name("proj", "per_layer_projection");
pub(super) const PER_LAYER_NORM: Name = Name("post_norm", "post_per_layer_input_norm");
/// Factor on the stream at the end of a block; with its suffix.
pub(super) const SCALE: Name = Name("layer_output_scale.weight", "layer_scalar");

pub(super) const CONVOLUTION_IN: Name = Name("shortconv.in_proj", "conv.in_proj");
pub(super) const CONVOLUTION: Name = Name("shortconv.conv", "conv.conv");
pub(super) const CONVOLUTION_OUT: Name = Name("shortconv.out_proj", "conv.out_proj");

pub(super) const DELTA_IN: Name = Name("attn_qkv", "linear_attn.in_proj_qkv");
pub(super) const DELTA_GATE: Name = Name("attn_gate", "linear_attn.in_proj_z");
pub(super) const DELTA_BETA: Name = Name("ssm_beta", "linear_attn.in_proj_b");
pub(super) const DELTA_DECAY: Name = Name("ssm_alpha", "linear_attn.in_proj_a");
pub(super) const DELTA_DECAY_BIAS: Name = Name("ssm_dt.bias", "linear_attn.dt_bias");
pub(super) const DELTA_DECAY_RATE: Name = Name("ssm_a", "linear_attn.A_log");
pub(super) const DELTA_TAPS: Name = Name("ssm_conv1d.weight", "linear_attn.conv1d.weight");
pub(super) const DELTA_NORM: Name = Name("ssm_norm.weight", "linear_attn.norm.weight");
pub(super) const DELTA_OUT: Name = Name("ssm_out", "linear_attn.out_proj");

/// Input projection of a state space: rows of the gate, then of the convolution's input, then of
/// the decay's.
pub(super) const SPACE_IN: Name = Name("ssm_in", "mamba.in_proj");
pub(super) const SPACE_DECAY_BIAS: Name = Name("ssm_dt.bias", "mamba.dt_bias");
pub(super) const SPACE_DECAY_RATE: Name = Name("ssm_a", "mamba.A_log");
pub(super) const SPACE_SKIP: Name = Name("ssm_d", "mamba.D");
pub(super) const SPACE_TAPS: Name = Name("ssm_conv1d", "mamba.conv1d");
pub(super) const SPACE_NORM: Name = Name("ssm_norm.weight", "mamba.norm.weight");
pub(super) const SPACE_OUT: Name = Name("ssm_out", "mamba.out_proj");

/// Prefixes of tensors' names in Hugging Face folders: a causal model's, a bare model's, and those
/// of multimodal models as transformers 4 and 5 write them.
pub(super) const PREFIXES: [&str; 4] = [
    "model.",
    "",
    "language_model.model.",
    "model.language_model.",
];

/// Full names of tensors in one checkpoint.
#[derive(Clone, Copy)]
pub(super) struct Names {
    pub gguf: bool,
    prefix: &'static str,
    /// Names that differ in the family, each after Llama's.
    renamed: &'static [(&'static str, &'static str)],
}

impl Names {
    pub fn new(
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

    pub fn embedding(self) -> String {
        self.outside("token_embd", "embed_tokens") + ".weight"
    }

    pub fn norm(self) -> String {
        self.outside("output_norm", "norm")
    }

    pub fn outside(self, gguf: &'static str, hugging_face: &'static str) -> String {
        if self.gguf {
            self.own(gguf).to_owned()
        } else {
            format!("{}{}", self.prefix, self.own(hugging_face))
        }
    }

    pub fn inside(self, layer: usize, name: Name) -> String {
        if self.gguf {
            format!("blk.{layer}.{}", self.own(name.0))
        } else {
            format!("{}layers.{layer}.{}", self.prefix, self.own(name.1))
        }
    }

    /// The family's name of the tensor that Llama calls `usual`.
    fn own(self, usual: &'static str) -> &'static str {
        let renamed = self.renamed.iter().find(|(name, _)| *name == usual);
        renamed.map_or(usual, |(_, own)| own)
    }
}
