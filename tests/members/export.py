"""Writes a member as GGUF in llama.cpp's conventions: matrices Q8_0, norms F32.

Llama's query and key rows are permuted for llama.cpp's interleaved rotary order,
Gemma's norm weights are stored with their offset of one added, a tied output is left out.
"""

import os

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name):
    """GGUF name of a Hugging Face parameter."""
    fixed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    if name in fixed:
        return fixed[name]
    _, _, number, rest = name.split(".", 3)
    part, kind = rest.rsplit(".", 1)
    return f"blk.{number}.{LAYER_NAMES[part]}.{kind}"


def interleave(weight, heads):
    """Reorders rows of a Llama projection from rotary halves to rotary pairs, as llama.cpp stores them."""
    shape = weight.shape
    return weight.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def tensor_for(name, weight, architecture, heads, kv_heads):
    """Array that GGUF stores for a Hugging Face parameter."""
    array = weight.detach().float().numpy()
    if architecture == "llama" and (".q_proj." in name or ".k_proj." in name):
        array = interleave(array, heads if ".q_proj." in name else kv_heads)
    if architecture == "gemma" and name.endswith("norm.weight"):
        array = array + 1.0
    return np.ascontiguousarray(array)


def add_shape(writer, m):
    """Writes the hyper-parameters; `m` has the fields of `roster.Roster`."""
    writer.add_context_length(m.context)
    writer.add_embedding_length(m.hidden)
    writer.add_block_count(m.layers)
    writer.add_feed_forward_length(m.ffn)
    writer.add_head_count(m.heads)
    writer.add_head_count_kv(m.kv_heads)
    writer.add_key_length(m.head_dim)
    writer.add_value_length(m.head_dim)
    writer.add_layer_norm_rms_eps(m.epsilon)
    if m.architecture != "gemma":
        writer.add_rope_freq_base(m.rope_theta)
    if m.architecture == "llama":
        writer.add_rope_dimension_count(m.head_dim)
        writer.add_vocab_size(m.vocabulary)


def write(path, model, vocabulary):
    m = model.member
    partial = f"{path}.partial"
    writer = gguf.GGUFWriter(partial, m.architecture)
    writer.add_name(m.name)
    writer.add_description(m.description)
    writer.add_license("MIT OR Apache-2.0")
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_Q8_0)
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    add_shape(writer, m)
    writer.add_tokenizer_model(vocabulary.model)
    writer.add_tokenizer_pre(vocabulary.pre)
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    if vocabulary.scores is not None:
        writer.add_token_scores(vocabulary.scores)
        writer.add_unk_token_id(0)
        writer.add_add_space_prefix(False)
    if vocabulary.merges is not None:
        writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(vocabulary.special["<|bos|>"])
    writer.add_eos_token_id(vocabulary.special["<|end|>"])
    writer.add_eot_token_id(vocabulary.special["<|end|>"])
    writer.add_add_bos_token(m.add_bos)
    writer.add_add_eos_token(False)
    writer.add_chat_template(TEMPLATE)
    for name, weight in model.state_dict().items():
        if m.tied and name == "lm_head.weight":
            continue
        array = tensor_for(name, weight, m.architecture, m.heads, m.kv_heads)
        if array.ndim == 2:
            quantised = gguf.quants.quantize(array, Type.Q8_0)
            writer.add_tensor(gguf_name(name), quantised, raw_shape=quantised.shape, raw_dtype=Type.Q8_0)
        else:
            writer.add_tensor(gguf_name(name), array.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(partial, path)


@torch.no_grad()
def quantise(model):
    """Quantises the matrices of `model` in place as its GGUF file does."""
    for _, weight in model.named_parameters():
        if weight.ndim == 2:
            blocks = gguf.quants.quantize(weight.float().numpy(), Type.Q8_0)
            weight.copy_(torch.from_numpy(gguf.quants.dequantize(blocks, Type.Q8_0)))
