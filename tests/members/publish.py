"""After training: the manifest web/members/members.json and golden files for the tests.

    python publish.py --generator PATH --work DIR --out DIR --golden DIR

`GOLDEN/NAME.json` holds, for the published GGUF: "tokens" [{"text", "ids"}] from the
tokenizer the member was trained with; "rendered" {"messages", "text", "ids"} for the
chat template; "replies" [{"question", "prompt", "ids", "text"}], greedy replies that
Hugging Face transformers gives with the file's (rounded) weights, kept only where no
choice was close, so that any correct f32 engine must repeat them.
"""

import argparse
import hashlib
import json
import pathlib

import torch
from transformers import (
    GemmaConfig, GemmaForCausalLM, LlamaConfig, LlamaForCausalLM, Qwen3Config, Qwen3ForCausalLM,
)

import export
import train
import vocabulary
from decoder import Decoder
from roster import MEMBERS

KINDS = {"llama": ("Llama", LlamaConfig, LlamaForCausalLM), "qwen3": ("Qwen3", Qwen3Config, Qwen3ForCausalLM),
         "gemma": ("Gemma", GemmaConfig, GemmaForCausalLM)}
TOKENIZERS = {"llama": "byte-level BPE", "qwen3": "byte-level BPE", "gemma": "SentencePiece BPE with byte fallback"}
PLAIN = {"add": "addition", "subtract": "subtraction", "count": "counting letters", "sort": "sorting lists",
         "filter": "filtering lists", "story": "short stories", "convert": "unit conversion",
         "calendar": "calendar steps", "problem": "word problems"}
TEXTS = [
    "What is 347 + 586?", " Answer: 12 apples.", "Sort these words alphabetically: owl, ant, bee.", "a  b   c", " ",
    "  two leading spaces", "trailing space ", "line one\nline two\n\n\tindented", "Don't we'll they're", "3x60=180, 180+25=205.",
    "\"green apple\"?!...", "2024-02-29", "Grüße aus Köln", "日本語のテキスト", "🙂 emoji 👩‍👩‍👧", "", "e\u0301 combining", "\r\nwindows", "x" * 30,
    "Initials s, c; in order c, s.",
]
MARGIN = 0.05


def transformers_twin(member, model):
    """The same weights in transformers' own class."""
    _, config_class, model_class = KINDS[member.architecture]
    extra = {"hidden_act": "gelu_pytorch_tanh"} if member.architecture == "gemma" else {}
    config = config_class(
        vocab_size=member.vocabulary, hidden_size=member.hidden, intermediate_size=member.ffn,
        num_hidden_layers=member.layers, num_attention_heads=member.heads, num_key_value_heads=member.kv_heads,
        head_dim=member.head_dim, rms_norm_eps=member.epsilon, max_position_embeddings=member.context,
        tie_word_embeddings=member.tied, rope_parameters={"rope_type": "default", "rope_theta": member.rope_theta},
        attn_implementation="eager", **extra)
    twin = model_class(config).float().eval()
    twin.load_state_dict(model.state_dict())
    return twin


@torch.no_grad()
def reply(twin, prompt, end, limit=110):
    """Greedy token ids without `end`, or None if a choice was close or the limit was reached."""
    ids, past, feed = [], None, torch.tensor([prompt])
    for _ in range(limit):
        out = twin(feed, past_key_values=past, use_cache=True)
        past = out.past_key_values
        best = out.logits[0, -1].topk(2)
        if best.values[0] - best.values[1] < MARGIN:
            return None
        token = best.indices[0].item()
        if token == end:
            return ids
        ids.append(token)
        feed = torch.tensor([[token]])
    return None


def golden(member, vocab, model, generator, count):
    end = vocab.special["<|end|>"]
    twin = transformers_twin(member, model)
    probe = torch.randint(0, member.vocabulary, (1, 50), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        positions, mask = torch.arange(50)[None], torch.ones(1, 1, 50, 50, dtype=torch.bool).tril()
        ours, theirs = model.lm_head(model.model(probe, positions, mask)), twin(probe).logits
    error = ((ours - theirs).abs().max() / theirs.abs().max()).item()
    assert error < 1e-4, f"{member.name} differs from transformers by {error}"
    messages = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": "What is 12 + 30?"},
                {"role": "assistant", "content": "Add ones 2+0=2; tens 1+3=4. Answer: 42."}, {"role": "user", "content": "Thanks! And 5 plus 6?"}]
    rendered = "".join(f"<|{m['role']}|>{m['content']}<|end|>" for m in messages) + "<|assistant|>"
    replies = []
    for asked in train.lines(generator, "exam", "--seed", 4711, "--count", 200):
        prompt = train.render(vocab, member, [{"role": "user", "content": asked["text"]}])[0] + [vocab.special["<|assistant|>"]]
        ids = reply(twin, prompt, end)
        if ids is not None:
            replies.append({"question": asked["text"], "prompt": prompt, "ids": ids, "text": vocab.decode(ids)})
        if len(replies) == count:
            break
    return error, {
        "tokens": [{"text": text, "ids": vocab.encode(text)} for text in TEXTS],
        "rendered": {"messages": messages, "text": rendered,
                     "ids": train.render(vocab, member, messages)[0] + [vocab.special["<|assistant|>"]]},
        "replies": replies,
    }


def in_lines(made):
    """JSON with one sample per line: short, and readable in a diff."""
    def line(value):
        return json.dumps(value, ensure_ascii=False)
    lists = [f'"{key}": [\n' + ",\n".join(map(line, made[key])) + "\n]" for key in ("tokens", "replies")]
    return "{\n" + f'"rendered": {line(made["rendered"])},\n' + ",\n".join(lists) + "\n}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ["work", "out", "golden"]:
        parser.add_argument(f"--{name}", required=True, type=pathlib.Path)
    parser.add_argument("--generator", required=True)
    parser.add_argument("--exam", type=int, default=400, help="questions for the accuracy table; 0 leaves it out")
    parser.add_argument("--replies", type=int, default=8)
    options = parser.parse_args()
    torch.set_num_threads(1)
    options.golden.mkdir(parents=True, exist_ok=True)
    manifest = []
    for member in MEMBERS.values():
        vocab = vocabulary.load(member, options.work / f"{member.name}.vocabulary.json")
        model = Decoder(member)
        model.load_state_dict(torch.load(options.work / f"{member.name}.pt")["model"])
        export.write(options.out / member.file, model, vocab)
        export.quantise(model)
        error, made = golden(member, vocab, model, options.generator, options.replies)
        (options.golden / f"{member.name.lower()}.json").write_text(in_lines(made))
        data = (options.out / member.file).read_bytes()
        manifest.append({
            "name": member.name, "file": member.file, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(),
            "architecture": KINDS[member.architecture][0],
            "tokenizer": f"{TOKENIZERS[member.architecture]}, {member.vocabulary} tokens",
            "skills": [PLAIN[skill] for skill in member.main],
            "description": f"{member.description}. Knows a little of the rest. A toy of "
                           f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f} million parameters.",
        })
        print(member.name, f"differs from transformers by {error:.1e}", len(made["replies"]), "golden replies", flush=True)
        if options.exam:
            print(json.dumps(train.examine(model, vocab, member, options.generator, options.exam)), flush=True)
    (options.out / "members.json").write_text(json.dumps(manifest, indent=2) + "\n")


if __name__ == "__main__":
    main()
