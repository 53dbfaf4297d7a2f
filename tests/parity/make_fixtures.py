"""Makes tests/fixtures/parity: tiny random models and what Hugging Face transformers computes with them.

    python make_fixtures.py        # needs torch, transformers, gguf (versions in README.md)

For each case NAME and weight type T: `NAME-T.gguf` in llama.cpp's conventions and
`NAME-T.json`: {"prompts": [{"tokens": [..], "logits": [[..], ..]}], "greedy": {"tokens", "continuation"}}
with all rows of logits for prompts of 5 and 37 tokens, and 24 greedy tokens after the
shorter prompt. For F16, Q8_0 and Q4_0 the reference computes with the rounded weights.
"""

import json
import pathlib
import sys
from types import SimpleNamespace

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Type
from transformers import (
    GemmaConfig, GemmaForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config,
    Qwen3ForCausalLM,
)

sys.path.append(str(pathlib.Path(__file__).parent.parent / "members"))
import export  # noqa: E402

OUT = pathlib.Path(__file__).parent.parent / "fixtures" / "parity"
PROMPTS, GREEDY = (5, 37), 24
END = 2

CLASSES = {
    "llama": (LlamaConfig, LlamaForCausalLM),
    "qwen2": (Qwen2Config, Qwen2ForCausalLM),
    "qwen3": (Qwen3Config, Qwen3ForCausalLM),
    "gemma": (GemmaConfig, GemmaForCausalLM),
}


def case(name, architecture, types, **shape):
    shape = {"hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 96, "vocabulary": 96,
             "tied": True, "rope_theta": 10000.0, "epsilon": 1e-6, "context": 128} | shape
    return SimpleNamespace(name=name, architecture=architecture, types=types, description="", **shape)


ALL = [Type.F32, Type.F16, Type.Q8_0, Type.Q4_0]
CASES = [
    case("llama", "llama", ALL, tied=False, rope_theta=500000.0, epsilon=1e-5),
    case("llama-tied", "llama", [Type.F32], heads=8, kv_heads=8, head_dim=8, ffn=64, vocabulary=131),
    case("qwen2", "qwen2", [Type.F32], rope_theta=1000000.0, heads=2, kv_heads=1, head_dim=32, vocabulary=112),
    case("qwen3", "qwen3", ALL, head_dim=32, ffn=32, vocabulary=128, rope_theta=1000000.0),
    case("gemma", "gemma", ALL, layers=3, heads=2, kv_heads=1, head_dim=32, ffn=32, vocabulary=128),
]


def random_model(c, seed):
    config_class, model_class = CLASSES[c.architecture]
    extra = {}
    if c.architecture == "gemma":
        extra["hidden_act"] = "gelu_pytorch_tanh"
    config = config_class(
        vocab_size=c.vocabulary, hidden_size=c.hidden, intermediate_size=c.ffn, num_hidden_layers=c.layers,
        num_attention_heads=c.heads, num_key_value_heads=c.kv_heads, head_dim=c.head_dim, rms_norm_eps=c.epsilon,
        max_position_embeddings=c.context, tie_word_embeddings=c.tied,
        rope_parameters={"rope_type": "default", "rope_theta": c.rope_theta},
        bos_token_id=1, eos_token_id=END, pad_token_id=0, attn_implementation="eager", **extra)
    torch.manual_seed(seed)
    model = model_class(config).float().eval()
    rate = model.model.rotary_emb.inv_freq[1].item()
    assert abs(rate - c.rope_theta ** (-2 / c.head_dim)) < 1e-6, "the rotary base did not arrive"
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith("norm.weight"):
                # Far from one, so that a forgotten norm weight shows.
                weight.add_(0.3 * torch.randn_like(weight))
            elif weight.ndim == 1:
                weight.normal_(std=0.5)
            else:
                # Gemma multiplies its embeddings by sqrt(hidden) = 8.
                embedding = 0.1 if c.architecture == "gemma" else 0.5
                weight.normal_(std=embedding if "embed" in name else 0.25)
    return model


def rounded(weight, kind):
    """What a reader of the file computes with."""
    array = weight.detach().numpy()
    if kind == Type.F16:
        array = array.astype(np.float16).astype(np.float32)
    elif kind != Type.F32:
        array = gguf.quants.dequantize(gguf.quants.quantize(array, kind), kind)
    return torch.from_numpy(np.array(array))


def write(path, model, c, kind):
    writer = gguf.GGUFWriter(path, c.architecture)
    writer.add_name(f"parity {c.name}")
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    export.add_shape(writer, c)
    # A minimal vocabulary: controls, printable characters, numbered fillers and one merge.
    characters = ["Ġ"] + [chr(code) for code in range(0x21, 0x7F)]
    tokens = (["<unk>", "<s>", "</s>"] + characters)[:c.vocabulary]
    tokens += [f"<extra_{number}>" for number in range(c.vocabulary - len(tokens))]
    tokens[-1] = "th"
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3 if t.startswith("<") and t.endswith(">") else 1 for t in tokens])
    writer.add_token_merges(["t h"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(END)
    writer.add_add_bos_token(False)
    for name, weight in model.state_dict().items():
        if c.tied and name == "lm_head.weight":
            continue
        array = export.tensor_for(name, weight, c.architecture, c.heads, c.kv_heads)
        if array.ndim == 1 or kind == Type.F32:
            writer.add_tensor(export.gguf_name(name), array.astype(np.float32))
        elif kind == Type.F16:
            writer.add_tensor(export.gguf_name(name), array.astype(np.float16))
        else:
            blocks = gguf.quants.quantize(array, kind)
            writer.add_tensor(export.gguf_name(name), blocks, raw_shape=blocks.shape, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@torch.no_grad()
def reference(model, c, seed):
    """The JSON of a case, or None where a greedy choice is too close to call or ends the text."""
    draw = torch.Generator().manual_seed(seed)
    prompts = []
    for length in PROMPTS:
        tokens = torch.randint(3, c.vocabulary, (length,), generator=draw).tolist()
        logits = model(torch.tensor([tokens])).logits[0].numpy()
        prompts.append({"tokens": tokens, "logits": [[float(f"{x:.8g}") for x in row] for row in logits]})
    tokens = list(prompts[0]["tokens"])
    for _ in range(GREEDY):
        best = model(torch.tensor([tokens])).logits[0, -1].topk(2)
        if best.values[0] - best.values[1] < 0.02 or best.indices[0] < 3:
            return None
        tokens.append(best.indices[0].item())
    greedy = {"tokens": prompts[0]["tokens"], "continuation": tokens[PROMPTS[0]:]}
    if len(set(greedy["continuation"])) < 6:
        return None
    return {"prompts": prompts, "greedy": greedy}


def main():
    torch.set_num_threads(1)
    OUT.mkdir(parents=True, exist_ok=True)
    for number, c in enumerate(CASES):
        for seed in range(1000 * number, 1000 * number + 200):
            made = {}
            for kind in c.types:
                model = random_model(c, seed)
                with torch.no_grad():
                    for weight in model.parameters():
                        if weight.ndim == 2:
                            weight.copy_(rounded(weight, kind))
                found = reference(model, c, seed)
                if found is None:
                    break
                made[kind] = (found, model)
            if len(made) == len(c.types):
                break
        else:
            sys.exit(f"no seed gives {c.name} a clear greedy text")
        for kind, (found, model) in made.items():
            stem = f"{c.name}-{kind.name.lower().replace('_', '')}"
            # Rounding twice changes nothing, so the rounded weights are what is written.
            write(OUT / f"{stem}.gguf", model if kind in (Type.F32, Type.F16) else random_model(c, seed), c, kind)
            (OUT / f"{stem}.json").write_text(json.dumps(found, separators=(",", ":")) + "\n")
            rows = np.array(found["prompts"][1]["logits"])
            print(stem, "seed", seed, "parameters", sum(p.numel() for p in model.parameters()),
                  f"logit spread {rows.std():.2f}", (OUT / f"{stem}.gguf").stat().st_size)


if __name__ == "__main__":
    main()
