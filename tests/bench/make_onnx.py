"""Makes an ONNX folder for transformers.js out of a GGUF file, with the same weights.

    make_onnx.py MODEL.gguf FOLDER [--dtype q4|q8]

The graph is that of published models for transformers.js (made by onnxruntime's own builder): GroupQueryAttention with rotary embeddings inside, packed q/k/v where the family has no
norms between, SkipSimplifiedLayerNormalization, logits, `past_key_values.*` to `present.*`.

q4 (and Q8_0 files): MatMulNBits with the file's own blocks of 32, regrouped and not rounded again,
and an embedding table in f32, as published q4 models have. q8: the same graph in f32, made 8-bit by
onnxruntime's dynamic quantiser, as `dtype: "q8"` means there; its weights are rounded
once more, per tensor.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import onnx
from gguf import GGMLQuantizationType, GGUFReader
from gguf.quants import dequantize
from onnx import TensorProto, helper, numpy_helper

BLOCK = 32
MICROSOFT = "com.microsoft"


class Graph:
    """Nodes and weights of a decoder under construction."""

    def __init__(self, gguf: GGUFReader, plain: bool):
        self.tensors = {tensor.name: tensor for tensor in gguf.tensors}
        self.fields = gguf.fields
        self.arch = self.field("general.architecture")
        # Matrices in f32, for a later quantiser.
        self.plain = plain
        self.nodes, self.weights = [], []

    def field(self, key):
        return self.fields[key].contents()

    def size(self, key, default=None):
        key = f"{self.arch}.{key}"
        return self.field(key) if key in self.fields else default

    def node(self, op, inputs, outputs=1, domain="", **attributes):
        name = f"/{op}_{len(self.nodes)}"
        names = [f"{name}/output_{i}" for i in range(outputs)] if isinstance(outputs, int) else outputs
        self.nodes.append(helper.make_node(op, inputs, names, name, domain=domain, **attributes))
        return names[0]

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def floats(self, name):
        """Tensor of the file in f32, rows first."""
        tensor = self.tensors[name]
        return dequantize(tensor.data, tensor.tensor_type).astype(np.float32)

    def blocks(self, name, order=None):
        """Scales `[rows, blocks]` in f32, unsigned integers `[rows, blocks, 32]`, and their bits."""
        tensor = self.tensors[name]
        rows = tensor.data.shape[0] if order is None else len(order)
        data = tensor.data if order is None else tensor.data[order]
        match tensor.tensor_type:
            case GGMLQuantizationType.Q4_0:
                data = data.reshape(rows, -1, 18)
                packed = data[..., 2:]
                bits, numbers = 4, np.concatenate([packed & 15, packed >> 4], axis=-1)
            case GGMLQuantizationType.Q8_0:
                data = data.reshape(rows, -1, 34)
                bits, numbers = 8, data[..., 2:] ^ 0x80
            case other:
                raise SystemExit(f"{name} is {other.name}; only Q4_0 and Q8_0 are regrouped")
        scales = np.ascontiguousarray(data[..., :2]).view(np.float16)[..., 0].astype(np.float32)
        return scales, numbers, bits

    def product(self, value, output, names, orders=None):
        """`value` times the transpose of the file's matrices, stacked."""
        orders = orders or [None] * len(names)
        if self.plain:
            parts = [self.floats(name) if order is None else self.floats(name)[order] for name, order in zip(names, orders)]
            return self.node("MatMul", [value, self.weight(f"{output}.weight", np.concatenate(parts).T)])
        parts = [self.blocks(name, order) for name, order in zip(names, orders)]
        scales = np.concatenate([part[0] for part in parts])
        numbers = np.concatenate([part[1] for part in parts])
        bits = parts[0][2]
        if bits == 4:
            numbers = numbers[..., 0::2] | (numbers[..., 1::2] << 4)
        rows, count = scales.shape
        inputs = [value, self.weight(f"{output}.weight_q", numbers), self.weight(f"{output}.scales", scales.reshape(-1))]
        # Without zero points the middle of the range is zero, as in the file.
        return self.node("MatMulNBits", inputs, domain=MICROSOFT, K=count * BLOCK, N=rows, bits=bits, block_size=BLOCK, accuracy_level=4)


def halves(rows, head):
    """Order that turns rows with adjacent rotary pairs, as in Llama's GGUF files, back into halves."""
    return np.arange(rows).reshape(-1, head // 2, 2).swapaxes(1, 2).reshape(-1)


def rotary(head, base, length):
    angles = np.outer(np.arange(length), base ** (-np.arange(0, head, 2) / head))
    return np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)


def decoder(graph, length):
    arch = graph.arch
    layers, hidden = graph.size("block_count"), graph.size("embedding_length")
    heads, kv_heads = graph.size("attention.head_count"), graph.size("attention.head_count_kv")
    head = graph.size("attention.key_length", hidden // heads)
    epsilon = graph.size("attention.layer_norm_rms_epsilon")
    vocabulary = graph.tensors["token_embd.weight"].data.shape[0]

    # Lengths for attention, from the mask.
    one = graph.weight("one", np.array([1], np.int64))
    total = graph.node("ReduceSum", ["attention_mask", one], keepdims=0)
    last = graph.node("Cast", [graph.node("Sub", [total, one])], to=TensorProto.INT32)
    extent = graph.node("Gather", [graph.node("Shape", ["attention_mask"]), graph.weight("axis", np.array(1, np.int64))], axis=0)
    extent = graph.node("Cast", [extent], to=TensorProto.INT32)
    cos, sin = rotary(head, graph.size("rope.freq_base", 10_000.0), length)
    caches = [graph.weight("cos_cache", cos), graph.weight("sin_cache", sin)]

    def norm(value, name):
        attributes = dict(axis=-1, epsilon=epsilon, stash_type=1)
        return graph.node("SimplifiedLayerNormalization", [value, graph.weight(name, graph.floats(name))], **attributes)

    def skip_norm(value, residual, name):
        inputs = [value, residual, graph.weight(name, graph.floats(name))]
        normed = graph.node("SkipSimplifiedLayerNormalization", inputs, [f"/{name}/n", "", "", f"/{name}/sum"], domain=MICROSOFT, epsilon=epsilon)
        return normed, f"/{name}/sum"

    def head_norm(value, name, count):
        shape = graph.weight(f"{name}.heads", np.array([0, -1, count, head], np.int64))
        flat = graph.weight(f"{name}.flat", np.array([0, -1, count * head], np.int64))
        return graph.node("Reshape", [norm(graph.node("Reshape", [value, shape]), name), flat])

    residual = graph.node("Gather", [graph.weight("embed_tokens", graph.floats("token_embd.weight")), "input_ids"])
    value = norm(residual, "blk.0.attn_norm.weight")
    outputs = []
    for layer in range(layers):
        block = f"blk.{layer}"
        names = [f"{block}.attn_{part}.weight" for part in "qkv"]
        order = [None] * 3
        if arch == "llama":
            order = [halves(heads * head, head), halves(kv_heads * head, head), None]
        biased, normed = f"{block}.attn_q.bias" in graph.tensors, f"{block}.attn_q_norm.weight" in graph.tensors
        if biased or normed:
            parts = []
            for part, name, rows in zip("qkv", names, order):
                got = graph.product(value, f"layers.{layer}.{part}", [name], [rows])
                if biased:
                    bias = f"{block}.attn_{part}.bias"
                    got = graph.node("Add", [got, graph.weight(bias, graph.floats(bias))])
                if normed and part != "v":
                    got = head_norm(got, f"{block}.attn_{part}_norm.weight", heads if part == "q" else kv_heads)
                parts.append(got)
        else:
            parts = [graph.product(value, f"layers.{layer}.qkv", names, order), "", ""]
        past = [f"past_key_values.{layer}.{part}" for part in ("key", "value")]
        present = [f"present.{layer}.{part}" for part in ("key", "value")]
        outputs += present
        attended = f"/layers.{layer}/attended"
        graph.node("GroupQueryAttention", [*parts, *past, last, extent, *caches], [attended, *present], domain=MICROSOFT,
                   num_heads=heads, kv_num_heads=kv_heads, scale=head**-0.5, do_rotary=1, rotary_interleaved=0)
        value = graph.product(attended, f"layers.{layer}.o", [f"{block}.attn_output.weight"])
        value, residual = skip_norm(residual, value, f"{block}.ffn_norm.weight")
        gate = graph.product(value, f"layers.{layer}.gate", [f"{block}.ffn_gate.weight"])
        up = graph.product(value, f"layers.{layer}.up", [f"{block}.ffn_up.weight"])
        gated = graph.node("Mul", [graph.node("Mul", [gate, graph.node("Sigmoid", [gate])]), up])
        value = graph.product(gated, f"layers.{layer}.down", [f"{block}.ffn_down.weight"])
        following = f"blk.{layer + 1}.attn_norm.weight" if layer + 1 < layers else "output_norm.weight"
        value, residual = skip_norm(residual, value, following)
    head_name = "output.weight" if "output.weight" in graph.tensors else "token_embd.weight"
    graph.nodes[-1].output[3] = ""
    logits = graph.product(value, "lm_head", [head_name])
    graph.nodes[-1].output[0] = "logits"

    ids = ["batch_size", "sequence_length"]
    kv = lambda name, span: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch_size", kv_heads, span, head])
    inputs = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ids),
              helper.make_tensor_value_info("attention_mask", TensorProto.INT64, ["batch_size", "total_sequence_length"])]
    inputs += [kv(f"past_key_values.{layer}.{part}", "past_sequence_length") for layer in range(layers) for part in ("key", "value")]
    results = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [*ids, vocabulary])]
    results += [kv(name, "total_sequence_length") for name in outputs]
    body = helper.make_graph(graph.nodes, "decoder", inputs, results, graph.weights)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": hidden, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "head_dim": head, "vocab_size": vocabulary,
        "intermediate_size": graph.size("feed_forward_length"), "max_position_embeddings": length,
        "rms_norm_eps": epsilon, "bos_token_id": None, "eos_token_id": vocabulary - 1, "transformers.js_config": {},
    }
    return helper.make_model(body, opset_imports=opsets, ir_version=10), config


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("gguf", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dtype", choices=["q4", "q8"], default="q4")
    options = parser.parse_args()
    graph = Graph(GGUFReader(options.gguf), plain=options.dtype == "q8")
    model, config = decoder(graph, length=8192)
    onnx_folder = options.folder / "onnx"
    onnx_folder.mkdir(parents=True, exist_ok=True)
    (options.folder / "config.json").write_text(json.dumps(config, indent=1))
    (options.folder / "generation_config.json").write_text(json.dumps({"eos_token_id": config["eos_token_id"]}))
    if options.dtype == "q4":
        onnx.save(model, onnx_folder / "model_q4.onnx")
        return
    from onnxruntime.quantization import QuantType, quantize_dynamic

    plain = onnx_folder / "plain.onnx"
    onnx.save(model, plain)
    quantize_dynamic(plain, onnx_folder / "model_quantized.onnx", weight_type=QuantType.QInt8, extra_options={"DefaultTensorType": TensorProto.FLOAT})
    plain.unlink()


if __name__ == "__main__":
    main()
