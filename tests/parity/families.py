"""The models of the parity run: every family in small, deliberately awkward shapes.

A case is one configuration of one family. Its widths are drawn by seed from lists that satisfy
the formats (K-quants need widths that are multiples of 256, so most are; `smollm2` has nine
heads like its original, and falls back to other formats as that one does). `worlds` and `in_gguf`
state what only one of the two formats can express (GGUF can't express Mistral's window).
"""

import random
from dataclasses import dataclass, field

# Longer than the longest prompt and its continuation.
CONTEXT = 512


@dataclass
class Case:
    """A model to make: the classes of transformers, the vocabulary, and the configuration."""

    name: str
    family: str
    classes: str  # prefix of the Config and ForCausalLM classes
    vocabulary: str  # a recipe of vocabularies.py
    pre: str  # tokenizer.ggml.pre of its GGUF files
    config: dict
    # Formats that can express all of the configuration.
    worlds: tuple = ("hf", "gguf")
    # Changes to the configuration in a GGUF file that can't express all of it.
    in_gguf: dict = field(default_factory=dict)
    # Wrap the text model's configuration as vision models do.
    wrapped: bool = False


def default_rope(theta, **more):
    return {"rope_type": "default", "rope_theta": theta} | more


def longrope(draw, rotary, theta, original, partial=1.0):
    """Factors like Phi's: near one for the fast pairs, tens for the slow ones."""
    pairs = rotary // 2
    return {
        "rope_type": "longrope", "rope_theta": theta, "partial_rotary_factor": partial,
        "original_max_position_embeddings": original,
        "short_factor": [round(1 + 0.05 * i + 0.05 * draw.random(), 4) for i in range(pairs)],
        "long_factor": [round(1 + 0.9 * i + 0.5 * draw.random(), 4) for i in range(pairs)],
    }


def cases(seed=0, tiny=False):
    """All cases. `seed` draws the free shapes; `tiny` makes them small enough for fixtures in the repository."""
    draw = random.Random(f"shapes {seed}")
    width = 32 if tiny else 256
    # Seed 0 keeps to widths that fit all formats.
    wide = seed and not tiny
    vocabulary = (lambda: draw.randrange(59, 80)) if tiny else (lambda: draw.randrange(381, 560))

    def shape(heads=None, free_heads=True, layers=None, hidden=None, tiny_width=1, **more):
        """Widths of one case. `free_heads`: the heads together may be wider than the residual stream."""
        at = hidden or width
        if heads is None:
            choices = [(4, 2), (4, 1), (2, 1)] if tiny else [(8, 2), (8, 4), (4, 1), (4, 4), (8, 8), (16, 2)]
            if wide:
                # As Qwen2.5-0.5B, Phi-4-mini, Llama 3.2 3B and Gemma 3 1B: widths that no power of two divides.
                choices += [(14, 2), (6, 2), (3, 1), (5, 5), (12, 2)]
            heads = draw.choice(choices)
        queries, keys = heads
        if wide and hidden is None and (at % queries or not free_heads):
            at = queries * draw.choice([16, 20, 28, 32, 36, 48, 64])
        own = at // queries
        found = {
            "hidden_size": at, "num_attention_heads": queries, "num_key_value_heads": keys,
            "num_hidden_layers": layers or (2 if tiny else draw.choice([1, 2, 3] if wide else [2, 3])),
            "intermediate_size": 32 if tiny else draw.choice([256, 512, 352, 96] if wide else [256, 512]),
            "vocab_size": vocabulary(), "max_position_embeddings": CONTEXT,
            "rms_norm_eps": draw.choice([1e-5, 1e-6]),
        }
        if free_heads:
            found["head_dim"] = (own + 3) // 4 * 4 * (tiny_width if tiny else draw.choice([1, 2]))
        if wide and "hidden_activation" not in more and "hidden_act" not in more:
            # Every family but Gemma has both variants.
            more["tie_word_embeddings"] = draw.random() < 0.5
        return found | more

    made = []

    def case(name, classes, vocabulary, pre, config, **more):
        made.append(Case(name, more.pop("family", name), classes, vocabulary, pre, config, **more))

    llama3 = {"rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0,
              "high_freq_factor": 4.0, "original_max_position_embeddings": 256}
    case("llama", "Llama", "llama-bpe", "llama-bpe",
         shape(tie_word_embeddings=False, rope_parameters=llama3))
    case("tinyllama", "Llama", "spm", "default", family="llama", config=
         shape(heads=(4, 2) if tiny else (8, 2), tie_word_embeddings=False, rope_parameters=default_rope(10000.0)))
    case("smollm2", "Llama", "gpt2", "smollm", family="llama", config=
         shape(heads=(3, 1), hidden=48, tie_word_embeddings=True, rope_parameters=default_rope(100000.0)) if tiny else
         shape(heads=(9, 3), hidden=288, intermediate_size=800, free_heads=False,
               tie_word_embeddings=True, rope_parameters=default_rope(100000.0)))
    case("llama-bias", "Llama", "llama-bpe", "llama-bpe", family="llama", config=
         shape(tie_word_embeddings=True, attention_bias=True, mlp_bias=True,
               rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0}))
    case("mistral", "Mistral", "spm", "default", in_gguf={"sliding_window": None}, config=
         shape(tiny_width=2, tie_word_embeddings=False, sliding_window=47, rope_parameters=default_rope(1000000.0)))
    case("qwen2", "Qwen2", "qwen2", "qwen2",
         shape(free_heads=False, tie_word_embeddings=True, rope_parameters=default_rope(1000000.0)))
    case("qwen2-window", "Qwen2", "qwen2", "qwen2", family="qwen2", worlds=("hf",), config=
         shape(free_heads=False, layers=2 if tiny else 3, tie_word_embeddings=False, use_sliding_window=True, sliding_window=50,
               max_window_layers=1, rope_parameters=default_rope(1000000.0)))
    case("qwen3", "Qwen3", "qwen2", "qwen2",
         shape(tiny_width=2, tie_word_embeddings=True, rope_parameters=default_rope(1000000.0)))
    case("qwen3-yarn", "Qwen3", "qwen2", "qwen2", family="qwen3", config=
         shape(tie_word_embeddings=False, rope_parameters={
             "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "original_max_position_embeddings": 128}))
    gelu = {"hidden_activation": "gelu_pytorch_tanh"}
    case("gemma", "Gemma", "gemma", "default",
         shape(heads=(4, 1), hidden_act="gelu_pytorch_tanh", tie_word_embeddings=True,
               rope_parameters=default_rope(10000.0)))

    def gemma(scalar=None, **more):
        found = shape(tie_word_embeddings=True, tiny_width=2 if scalar else 1, **gelu, **more)
        return found | {"query_pre_attn_scalar": scalar or found["head_dim"]}

    case("gemma2", "Gemma2", "gemma", "default",
         gemma(layers=2 if tiny else 4, sliding_window=40, attn_logit_softcapping=6.0, final_logit_softcapping=9.0,
               rope_parameters=default_rope(10000.0)))
    case("gemma2-scalar", "Gemma2", "gemma", "default", family="gemma2", worlds=("hf",), config=
         gemma(scalar=144 if tiny else 100, layers=2 if tiny else 3, sliding_window=33, attn_logit_softcapping=50.0,
               final_logit_softcapping=30.0, rope_parameters=default_rope(10000.0)))
    both = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": default_rope(10000.0)}
    case("gemma3", "Gemma3Text", "gemma", "default",
         gemma(layers=7, heads=(4, 1) if tiny else (4, 2), sliding_window=33, rope_parameters=both))
    plain = {"full_attention": default_rope(1000000.0), "sliding_attention": default_rope(10000.0)}
    case("gemma3-layers", "Gemma3Text", "gemma", "default", family="gemma3", worlds=("hf",), config=
         gemma(layers=3, sliding_window=50, rope_parameters=plain,
               layer_types=["full_attention", "sliding_attention", "sliding_attention"]))
    case("gemma3-wrapped", "Gemma3", "gemma", "default", family="gemma3", wrapped=True, config=
         gemma(layers=6, sliding_window=64, rope_parameters=both))
    heads, at = (4, 2) if tiny else (8, 4), width + 128 * (seed % 3 if wide else 0)
    case("phi3", "Phi3", "spm", "default",
         shape(heads=heads, hidden=at, free_heads=False, tie_word_embeddings=False, sliding_window=90,
               original_max_position_embeddings=128,
               rope_parameters=longrope(draw, at // heads[0], 10000.0, 128)))
    case("phi3-short", "Phi3", "spm", "default", family="phi3", config=
         shape(free_heads=False, tie_word_embeddings=False, sliding_window=75,
               original_max_position_embeddings=CONTEXT, rope_parameters=default_rope(10000.0)))
    heads, at = (2, 1) if tiny else (4, 2), width + 128 * (seed % 3 if wide else 0)
    rotary = int(0.75 * at // heads[0])
    case("phi4-mini", "Phi3", "gpt-4o", "gpt-4o", family="phi3", config=
         shape(heads=heads, hidden=at, free_heads=False, tie_word_embeddings=True, sliding_window=262144,
               original_max_position_embeddings=128, partial_rotary_factor=0.75,
               rope_parameters=longrope(draw, rotary, 10000.0, 128, partial=0.75)))
    case("smollm3", "SmolLM3", "llama-bpe", "smaug-bpe",
         shape(layers=5, free_heads=False, tie_word_embeddings=True, rope_parameters=default_rope(2000000.0)))
    case("smollm3-layers", "SmolLM3", "llama-bpe", "smaug-bpe", family="smollm3", worlds=("hf",), config=
         shape(layers=3, free_heads=False, tie_word_embeddings=False, no_rope_layers=[0, 1, 0],
               rope_parameters=default_rope(50000.0)))
    case("olmo2", "Olmo2", "gpt-4o", "olmo",
         shape(free_heads=False, tie_word_embeddings=False, rope_parameters=default_rope(500000.0)))
    case("glm4", "Glm4", "glm4", "chatglm-bpe",
         shape(tie_word_embeddings=False, attention_bias=True,
               rope_parameters=default_rope(10000.0, partial_rotary_factor=0.5)))
    case("granite", "Granite", "gpt2", "refact",
         shape(free_heads=False, tie_word_embeddings=True, embedding_multiplier=12.0, residual_multiplier=0.22,
               attention_multiplier=0.0625 if tiny else 0.015625, logits_scaling=8.0,
               rope_parameters=default_rope(10000000.0)))
    case("ernie4_5", "Ernie4_5", "spm", "default",
         shape(tie_word_embeddings=True, use_bias=False, rope_parameters=default_rope(500000.0)))
    case("ernie4_5-bias", "Ernie4_5", "spm", "default", family="ernie4_5", worlds=("hf",), config=
         shape(tie_word_embeddings=False, use_bias=True, rope_parameters=default_rope(10000.0)))
    yarn = {"rope_type": "yarn", "rope_theta": 500000.0, "factor": 8.0, "original_max_position_embeddings": 64,
            "beta_fast": 32.0, "beta_slow": 1.0, "attention_factor": 1.2079441541679836}
    case("olmo3", "Olmo3", "gpt-4o", "olmo", family="olmo2", config=
         shape(free_heads=False, layers=5, tie_word_embeddings=False, sliding_window=45,
               rope_parameters={"full_attention": yarn, "sliding_attention": default_rope(500000.0)}))
    case("exaone4", "Exaone4", "gpt2", "exaone4",
         shape(layers=3, sliding_window=None, layer_types=["full_attention"] * 3,
               rope_parameters=llama3 | {"factor": 16.0}) | {"tie_word_embeddings": False})
    case("exaone4-window", "Exaone4", "gpt2", "exaone4", family="exaone4", worlds=("hf",), config=
         shape(layers=5, sliding_window=40, sliding_window_pattern=4,
               rope_parameters=default_rope(1000000.0)) | {"tie_word_embeddings": False})
    case("ministral3", "Ministral3", "llama-bpe", "llama-bpe",
         shape(tie_word_embeddings=False, rope_parameters={
             "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "original_max_position_embeddings": CONTEXT,
             "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1,
         }) | {"max_position_embeddings": 16 * CONTEXT})
    case("llama-dynamic", "Llama", "llama-bpe", "llama-bpe", family="llama", worlds=("hf",), config=
         shape(tie_word_embeddings=False, rope_parameters={
             "rope_type": "dynamic", "rope_theta": 10000.0, "factor": 4.0}))
    case("granite4", "GraniteMoeHybrid", "gpt2", "refact", family="granite", config=
         shape(free_heads=False, layers=3, tie_word_embeddings=True, embedding_multiplier=12.0, residual_multiplier=0.22,
               attention_multiplier=0.0625 if tiny else 0.015625, logits_scaling=8.0, num_local_experts=0,
               num_experts_per_tok=0, mamba_n_heads=1, shared_intermediate_size=32 if tiny else 512, layer_types=["attention"] * 3,
               position_embedding_type="rope", rope_parameters=default_rope(10000000.0)))

    def lfm2(kinds, **more):
        found = shape(free_heads=False, layers=len(kinds), rope_parameters=default_rope(1000000.0), **more)
        return found | {"norm_eps": found.pop("rms_norm_eps"), "block_multiple_of": 32,
                        "layer_types": [{"c": "conv", "a": "full_attention"}[kind] for kind in kinds]}

    case("lfm2", "Lfm2", "llama-bpe", "lfm2", lfm2("ccaca") | {"tie_word_embeddings": True})
    # The converter drops the biases of a convolution's input projection.
    case("lfm2-bias", "Lfm2", "llama-bpe", "lfm2", family="lfm2", worlds=("hf",), config=
         lfm2("acc", conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False) | {"tie_word_embeddings": False})
    case("hunyuan", "HunYuanDenseV1", "gpt2", "hunyuan-dense",
         shape(tie_word_embeddings=True, rope_parameters=default_rope(10000.0)))
    # The converter accepts only the published context for it.
    case("hunyuan-alpha", "HunYuanDenseV1", "gpt2", "hunyuan-dense", family="hunyuan", worlds=("hf",), config=
         shape(tie_word_embeddings=False, rope_parameters={
             "rope_type": "dynamic", "rope_theta": 10000.0, "alpha": 1000.0, "factor": 1.0}))
    def delta_net(keys, values, **more):
        """Number and width of the delta nets' heads."""
        return {"linear_num_key_heads": keys[0], "linear_key_head_dim": keys[1],
                "linear_num_value_heads": values[0], "linear_value_head_dim": values[1]} | more

    quarter = default_rope(10000000.0, partial_rotary_factor=0.25)
    case("qwen3_5", "Qwen3_5Text", "qwen2", "qwen35",
         shape(heads=(4, 2), layers=5, tiny_width=2, tie_word_embeddings=True, rope_parameters=quarter)
         | delta_net((2, 8), (4, 8)) if tiny else
         shape(heads=(4, 2), hidden=256, layers=5, tie_word_embeddings=True, rope_parameters=quarter)
         | delta_net((4, 32), (8, 32)))
    case("qwen3_5-layers", "Qwen3_5Text", "qwen2", "qwen35", family="qwen3_5", worlds=("hf",), config=
         shape(heads=(2, 1), hidden=width, layers=3, tiny_width=2, tie_word_embeddings=False, rope_parameters=quarter,
               layer_types=["full_attention", "linear_attention", "linear_attention"])
         | delta_net((2, 8), (6, 12), linear_conv_kernel_dim=3))
    def gemma4(wide, **more):
        """Heads of width `wide` in the layers with full attention."""
        both = {"full_attention": {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": 1000000.0},
                "sliding_attention": default_rope(10000.0)}
        found = shape(tie_word_embeddings=True, tiny_width=2, rope_parameters=both, **gelu, **more)
        return found | {"global_head_dim": wide, "vocab_size_per_layer_input": found["vocab_size"]}

    def kinds(text):
        return [{"s": "sliding_attention", "f": "full_attention"}[kind] for kind in text]

    # Two of the last three layers reuse the third layer's keys and values, one the fourth's.
    case("gemma4", "Gemma4Text", "gemma", "default",
         gemma4(32 if tiny else 512, heads=(4, 2), layers=7, sliding_window=33, layer_types=kinds("sfsfssf"),
                num_kv_shared_layers=3, use_double_wide_mlp=True, hidden_size_per_layer_input=32 if tiny else 256,
                final_logit_softcapping=9.0))
    # Heads wider than in the other layers, and no per-layer inputs.
    case("gemma4-wrapped", "Gemma4", "gemma", "default", family="gemma4", wrapped=True, config=
         gemma4(264 if tiny else 512, heads=(2, 1), layers=3, sliding_window=40, layer_types=kinds("fsf"),
                hidden_size_per_layer_input=0))

    def granite_h(kinds, space, **more):
        """State spaces by heads, groups and state width; a letter per layer gives its kind."""
        heads, groups, state = space
        found = shape(heads=(4, 2), free_heads=False, hidden=width, layers=len(kinds), tie_word_embeddings=True,
                      embedding_multiplier=12.0, residual_multiplier=0.22,
                      attention_multiplier=0.0625 if tiny else 0.015625, logits_scaling=8.0,
                      rope_parameters=default_rope(10000000.0))
        # The converter pads vocabularies to a multiple of eight, but not the embedding.
        return found | {
            "vocab_size": -(-found["vocab_size"] // 8) * 8, "num_local_experts": 0, "num_experts_per_tok": 0,
            "shared_intermediate_size": found["intermediate_size"], "position_embedding_type": "nope",
            "layer_types": [{"m": "mamba", "a": "attention"}[kind] for kind in kinds],
            "mamba_n_heads": heads, "mamba_n_groups": groups, "mamba_d_state": state} | more

    case("granite4-h", "GraniteMoeHybrid", "gpt2", "refact", family="granite4-h", config=
         granite_h("mmamm", (4, 1, 16) if tiny else (8, 1, 64)))
    case("granite4-h-groups", "GraniteMoeHybrid", "gpt2", "refact", family="granite4-h", worlds=("hf",), config=
         granite_h("ammm", (8, 2, 12) if tiny else (16, 2, 32), mamba_d_conv=3, mamba_conv_bias=False,
                   mamba_proj_bias=True, position_embedding_type="rope", tie_word_embeddings=False))
    # As published: a vision model around the text model.
    case("qwen3_5-wrapped", "Qwen3_5", "qwen2", "qwen35", family="qwen3_5", wrapped=True, config=
         shape(heads=(4, 2), hidden=width, layers=4, tiny_width=2, tie_word_embeddings=True, rope_parameters=quarter)
         | (delta_net((2, 8), (4, 8)) if tiny else delta_net((4, 32), (8, 32))))

    def mixture(**more):
        """Any number of experts, most of them idle."""
        count, used = (6, 2) if tiny else draw.choice([(32, 4), (12, 3), (20, 8)] if wide else [(32, 4), (16, 4)])
        return {"num_experts": count, "num_experts_per_tok": used} | more

    def lfm2_moe(text, **more):
        found = lfm2(text) | mixture(moe_intermediate_size=32 if tiny else draw.choice([256, 512]))
        del found["block_multiple_of"]
        return found | more

    case("lfm2_moe", "Lfm2Moe", "llama-bpe", "lfm2",
         lfm2_moe("cac" if tiny else "ccaca", tie_word_embeddings=True, num_dense_layers=1 if tiny else 2))
    # Settings that no GGUF file can express.
    case("lfm2_moe-plain", "Lfm2Moe", "llama-bpe", "lfm2", family="lfm2_moe", worlds=("hf",), config=
         lfm2_moe("aca", tie_word_embeddings=False, num_dense_layers=0, use_expert_bias=False, norm_topk_prob=False,
                  routed_scaling_factor=1.75))
    # The converter always writes this epsilon.
    case("olmoe", "Olmoe", "gpt-4o", "olmo",
         shape(free_heads=False, tie_word_embeddings=False, rope_parameters=default_rope(10000.0))
         | mixture(rms_norm_eps=1e-5))
    case("olmoe-norm", "Olmoe", "gpt-4o", "olmo", family="olmoe", worlds=("hf",), config=
         shape(free_heads=False, tie_word_embeddings=True, rope_parameters=default_rope(500000.0))
         | mixture(norm_topk_prob=True))
    return made
