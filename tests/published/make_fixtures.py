"""Makes tests/fixtures/published: results of transformers and llama.cpp for the published models.

    cargo xtask models                      # fetches the models and prints where they are
    python make_fixtures.py FOLDER          # with the packages of requirements.txt; 20 minutes on two cores

MODEL.json has prompts, conversations, greedy texts, in-line scores and the perplexity of a text. Ids, rendered
conversations and the perplexity are llama.cpp's, logits are those of transformers on the dequantised weights
in f32, each prompt computed in full and without a cache. MODEL.f32 has the TOP largest and every STRIDE-th logit
of each row, little-endian, in the order of the rows; the stride of row n begins at n modulo STRIDE.
"""

import argparse
import json
import os
import pathlib
import re

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")

import numpy as np  # noqa: E402
import tokenizers  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

import llama_cpp  # noqa: E402
import models  # noqa: E402
import prompts  # noqa: E402

TOP, STRIDE = 32, 61
# Rows besides the last of a long prompt: around a window of 512, and within.
CUTS = [256, 511, 512, 513, 1024]
# Limit of our logits' error, relative to the row's largest magnitude.
LIMIT = 2e-3


def own_tokenizer(folder, file):
    """transformers' tokenizer of the file, with the pre-tokeniser that the file only names."""
    own = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
    if "SmolLM2" in file:
        # As in its makers' tokenizer.json; transformers does not know `smollm`, and joins digits.
        split = tokenizers.pre_tokenizers
        own.backend_tokenizer.pre_tokenizer = split.Sequence(
            [split.Digits(individual_digits=True), split.ByteLevel(add_prefix_space=False, use_regex=True)])
    return own


def rows(model, ids, count=1):
    """`[count][vocabulary]`: logits after the last `count` of the ids."""
    with torch.no_grad():
        found = model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=count).logits[0].float()
    assert torch.isfinite(found).all()
    return found


class Rows:
    """Stored rows of logits."""

    def __init__(self):
        self.kept = []

    def keep(self, length, row):
        """Stores a row; returns its JSON entry."""
        row = row.numpy()
        top = np.argsort(-row, kind="stable")[:TOP]
        self.kept.append(np.concatenate([row[top], row[len(self.kept) % STRIDE::STRIDE]]))
        return {"length": length, "largest": float(np.abs(row).max()), "top": top.tolist()}

    def write(self, path):
        np.concatenate(self.kept).astype("<f4").tofile(path)


def held(model, llama, own, texts, kept):
    """The prompts with their ids and stored rows."""
    found = []
    for name, text in texts.items():
        ids = llama.ids(text, begin=True)
        # Text that spells a control token stays text in a prompt.
        assert ids == own(text, split_special_tokens=True)["input_ids"], f"llama.cpp and transformers read {name} differently"
        assert llama.text(llama.ids(text)) == text, name
        lengths = sorted({length for length in CUTS if length < len(ids)} | {len(ids)}) if len(ids) > 500 else [len(ids)]
        found.append({"name": name, "text": text, "ids": ids,
                      "rows": [kept.keep(length, rows(model, ids[:length])[0]) for length in lengths]})
        print(f"  {name}: {len(ids)} tokens", flush=True)
    return found


def continued(model, ids, count):
    """A greedy continuation, and the smallest margin of a choice relative to its row's largest magnitude."""
    step, cache, found = torch.tensor([ids]), None, []
    with torch.no_grad():
        for _ in range(count):
            out = model(input_ids=step, past_key_values=cache, use_cache=True, logits_to_keep=1)
            step, cache = out.logits[:, -1].argmax(1, keepdim=True), out.past_key_values
            found.append(int(step))
            if found[-1] == model.config.eos_token_id:
                break
    whole = rows(model, ids + found, len(found) + 1)[:-1]
    best = whole.topk(2)
    assert best.indices[:, 0].tolist() == found
    lead = (best.values[:, 0] - best.values[:, 1]) / whole.abs().amax(1)
    return found, float(lead.min())


def greedy(model, llama, texts, conversations):
    """The clearest greedy texts, and all clear ones of conversations: with margins beyond twice LIMIT."""
    end = model.config.eos_token_id
    begun = [" ".join(paragraph.split(" ")[:prompts.GREEDY_WORDS]) for paragraph in prompts.NOVEL[::2]]
    candidates = [(text[:20], llama.ids(text, begin=True)) for text in [texts[name] for name in prompts.GREEDY] + begun]
    asked = [(None, conversation["ids"]) for conversation in conversations]
    found = []
    for name, ids in candidates + asked:
        continuation, lead = continued(model, ids, prompts.GREEDY_TOKENS)
        ended = continuation[-1] == end
        continuation = continuation[:-1] if ended else continuation
        print(f"  {name!r}: {lead:.4f} {llama.text(continuation)!r}", flush=True)
        various = len(set(continuation)) >= prompts.GREEDY_VARIETY or ended
        if lead > 2 * LIMIT and various:
            found.append((lead, name is None, {"prompt": ids, "ids": continuation, "ended": ended,
                                               "text": llama.text(continuation)}))
    found.sort(key=lambda one: (not one[1], -one[0]))
    count = prompts.GREEDY_KEPT + sum(one[1] for one in found)
    assert len(found) >= prompts.GREEDY_KEPT
    return [one[2] for one in found[:count]]


def in_line(model, llama, texts):
    """Scores of candidates after a prefix, each computed in its own pass."""
    found = []
    for name, candidates in prompts.CANDIDATES.items():
        prefix = llama.ids(texts[name], begin=True)
        scores = []
        for text in candidates:
            ids = llama.ids(text)
            judged = rows(model, prefix + ids, len(ids) + 1)[:-1]
            target = torch.tensor(ids)[:, None]
            scores.append({
                "text": text, "ids": ids,
                "mean_logit": float(judged.gather(1, target).double().mean()),
                "mean_logprob": float(judged.double().log_softmax(1).gather(1, target).mean()),
                "largest": float(judged.abs().amax(1).mean())})
        found.append({"prefix": prefix, "candidates": scores})
    return found


def conversations(llama, own):
    """Rendered conversations and their ids; none for a model without a template."""
    if own.chat_template is None:
        return []
    found = []
    for turns in prompts.CONVERSATIONS:
        messages = [{"role": role, "content": text} for role, text in turns]
        text = own.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert text == llama.rendered(messages)
        # Control tokens occur only where the template has written them.
        hidden = [{**message, "content": message["content"].replace("<|", "\ue000")} for message in messages]
        hidden = own.apply_chat_template(hidden, tokenize=False, add_generation_prompt=True)
        ids = []
        for piece in re.split(r"(<\|im_(?:start|end)\|>)", hidden):
            ids += llama.ids(piece.replace("\ue000", "<|"), controls=piece.startswith("<|im_"))
        assert hidden != text or ids == llama.ids(text, controls=True)
        found.append({"messages": messages, "text": text, "ids": ids})
    return found


def make(folder, name, file):
    print(name, flush=True)
    llama = llama_cpp.LlamaCpp(folder / file)
    own = own_tokenizer(folder, file)
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, gguf_file=file, dtype=torch.float32, attn_implementation="eager").eval()
    texts = prompts.prompts(lambda text: llama.ids(text, begin=True))
    kept = Rows()
    about = {"file": file, "vocabulary": model.config.vocab_size, "top": TOP, "stride": STRIDE,
             "prompts": held(model, llama, own, texts, kept)}
    about["conversations"] = conversations(llama, own)
    about["greedy"] = greedy(model, llama, texts, about["conversations"])
    about["in_line"] = in_line(model, llama, texts)
    ids = llama.ids(prompts.FORETOLD, begin=True)
    with torch.no_grad():
        # For comparison; the test uses llama.cpp's, which rounds activations.
        loss = model(input_ids=torch.tensor([ids]), labels=torch.tensor([ids]), use_cache=False).loss
    value = llama.perplexity(ids)
    print(f"  perplexity {value:.4f}, of transformers {loss.exp():.4f}, {len(ids)} tokens", flush=True)
    about["perplexity"] = {"text": "sleepy-hollow.txt", "tokens": len(ids), "value": value, "by": llama_cpp.VERSION,
                           "transformers": float(loss.exp())}
    (prompts.FIXTURES / f"{name}.json").write_text(
        json.dumps(about, indent=None, separators=(",", ":"), ensure_ascii=False).replace('},{"name"', '},\n{"name"') + "\n")
    kept.write(prompts.FIXTURES / f"{name}.f32")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=pathlib.Path)
    arguments.add_argument("--only", choices=[model.name for model in models.MODELS])
    chosen = arguments.parse_args()
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for model in models.MODELS:
        if chosen.only in (None, model.name):
            make(chosen.folder, model.name, model.file)


if __name__ == "__main__":
    main()
