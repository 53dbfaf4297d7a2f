"""Makes tests/fixtures/published: what transformers and llama.cpp compute from the published models.

    cargo xtask models                      # fetches the models and prints where they are
    python make_fixtures.py FOLDER          # with the packages of requirements.txt; 20 minutes on two cores

MODEL.json has prompts, conversations, greedy texts, in-line scores and the perplexity of a text. Ids, rendered
conversations and the perplexity are llama.cpp's, logits are those of transformers on the dequantised weights
in f32, each prompt computed whole and without a cache; those after its first tokens are of the same pass, which
looks ahead at nothing. MODEL.f32 has of each row of logits the TOP largest and
every STRIDE-th, little-endian, in the order of the rows; row n begins its stride at n modulo STRIDE.
"""

import argparse
import json
import os
import pathlib
import re
import unicodedata

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
# Beside the last token of a long prompt: around a window of 512, and within.
CUTS = [256, 511, 512, 513, 1024]
# Of these models the tests would take minutes: longer prompts have ids alone, scores in line come after
# shorter prefixes, and fewer prompts are tried for greedy texts.
BRIEF = {"qwen_coder"}
BRIEF_TOKENS, BRIEF_GREEDY = 400, 8
# How far a logit of ours may be off, relative to its row's largest magnitude.
LIMIT = 2e-3
# A greedy choice is clear where it leads by more, relative to the same.
CLEAR = 2 * LIMIT


def own_tokenizer(folder, file):
    """transformers' tokenizer of the file, with the splitting that the file only names."""
    own = transformers.AutoTokenizer.from_pretrained(folder, gguf_file=file)
    if "SmolLM2" in file:
        # As in the tokenizer.json that its makers publish; transformers does not know `smollm`, and joins digits.
        split = tokenizers.pre_tokenizers
        own.backend_tokenizer.pre_tokenizer = split.Sequence(
            [split.Digits(individual_digits=True), split.ByteLevel(add_prefix_space=False, use_regex=True)])
    if "qwen" in file:
        # As in the same file of its makers; llama.cpp, too, reads a text as it is.
        own.backend_tokenizer.normalizer = tokenizers.normalizers.NFC()
    return own


def read(own, text):
    """The text as the tokenizer reads it."""
    normalizer = own.backend_tokenizer.normalizer
    return unicodedata.normalize("NFC", text) if isinstance(normalizer, tokenizers.normalizers.NFC) else text


def rows(model, ids, keep):
    """`[count][vocabulary]`: logits after the last `keep` of the ids, or after those at the indices `keep`."""
    with torch.no_grad():
        found = model(input_ids=torch.tensor([ids]), use_cache=False, logits_to_keep=keep).logits[0].float()
    assert torch.isfinite(found).all()
    return found


class Rows:
    """Rows of logits as they are kept."""

    def __init__(self):
        self.kept = []

    def keep(self, length, row):
        """Keeps a row; answers what JSON says of it."""
        row = row.numpy()
        top = np.argsort(-row, kind="stable")[:TOP]
        self.kept.append(np.concatenate([row[top], row[len(self.kept) % STRIDE::STRIDE]]))
        return {"length": length, "largest": float(np.abs(row).max()), "top": top.tolist()}

    def write(self, path):
        np.concatenate(self.kept).astype("<f4").tofile(path)


def held(model, llama, own, texts, kept, most):
    """The prompts with their ids and the rows that are kept of each, none of one of more than `most` tokens."""
    found = []
    for name, text in texts.items():
        as_read = read(own, text)
        ids = llama.ids(as_read, begin=True)
        # What spells a control token in a prompt is text.
        assert ids == own(text, split_special_tokens=True)["input_ids"], f"llama.cpp and transformers read {name} differently"
        assert llama.text(llama.ids(as_read)) == as_read, name
        lengths = sorted({length for length in CUTS if length < len(ids)} | {len(ids)}) if len(ids) > 500 else [len(ids)]
        lengths = lengths if len(ids) <= most else []
        after = rows(model, ids, torch.tensor(lengths) - 1) if lengths else []
        composed = {} if as_read == text else {"read": as_read}
        found.append({"name": name, "text": text, **composed, "ids": ids,
                      "rows": [kept.keep(length, row) for length, row in zip(lengths, after, strict=True)]})
        print(f"  {name}: {len(ids)} tokens", flush=True)
    return found


def leads(logits):
    """`[rows]`: how far the best of each row leads, relative to the row's largest magnitude."""
    best = logits.topk(2).values
    return (best[:, 0] - best[:, 1]) / logits.abs().amax(1)


def continued(model, ids, count):
    """A greedy continuation, and the least lead of a choice; it ends with a choice that is not clear."""
    step, cache, found = torch.tensor([ids]), None, []
    with torch.no_grad():
        for _ in range(count):
            out = model(input_ids=step, past_key_values=cache, use_cache=True, logits_to_keep=1)
            step, cache = out.logits[:, -1].argmax(1, keepdim=True), out.past_key_values
            found.append(int(step))
            lead = float(leads(out.logits[:, -1]))
            if lead <= CLEAR:
                return found, lead
            if found[-1] == model.config.eos_token_id:
                break
    whole = rows(model, ids + found, len(found) + 1)[:-1]
    assert whole.argmax(1).tolist() == found
    return found, float(leads(whole).min())


def begun(texts, brief):
    """The texts that greedy ones may go on with."""
    named = [texts[name] for name in prompts.GREEDY]
    if brief:
        return named[:BRIEF_GREEDY]
    return named + [" ".join(paragraph.split(" ")[:prompts.GREEDY_WORDS]) for paragraph in prompts.NOVEL[::2]]


def greedy(model, llama, texts, conversations):
    """The clearest greedy texts after `texts`, and those of all conversations that are clear."""
    end = model.config.eos_token_id
    candidates = [(text[:20], llama.ids(text, begin=True)) for text in texts]
    asked = [(None, conversation["ids"]) for conversation in conversations]
    found = []
    for name, ids in candidates + asked:
        continuation, lead = continued(model, ids, prompts.GREEDY_TOKENS)
        ended = continuation[-1] == end
        continuation = continuation[:-1] if ended else continuation
        print(f"  {name!r}: {lead:.4f} {llama.text(continuation)!r}", flush=True)
        various = len(set(continuation)) >= prompts.GREEDY_VARIETY or ended
        if lead > CLEAR and various:
            found.append((lead, name is None, {"prompt": ids, "ids": continuation, "ended": ended,
                                               "text": llama.text(continuation)}))
    found.sort(key=lambda one: (not one[1], -one[0]))
    count = prompts.GREEDY_KEPT + sum(one[1] for one in found)
    assert len(found) >= prompts.GREEDY_KEPT
    return [one[2] for one in found[:count]]


def in_line(model, llama, texts, most):
    """Scores of candidates after a prefix of at most `most` tokens, each computed in a pass of its own."""
    found = []
    for name, candidates in prompts.CANDIDATES.items():
        prefix = llama.ids(texts[name], begin=True)
        if len(prefix) > most:
            continue
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
    """Rendered conversations and their ids; of a model without a template of its own none."""
    if own.chat_template is None:
        return []
    found = []
    for turns in prompts.CONVERSATIONS:
        messages = [{"role": role, "content": text} for role, text in turns]
        text = own.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        assert text == llama.rendered(messages)
        # Control tokens stand only where the template has written them.
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
    kept, brief = Rows(), name in BRIEF
    most = BRIEF_TOKENS if brief else prompts.LONGEST
    about = {"file": file, "vocabulary": model.config.vocab_size, "top": TOP, "stride": STRIDE,
             "prompts": held(model, llama, own, texts, kept, most)}
    about["conversations"] = conversations(llama, own)
    about["greedy"] = greedy(model, llama, begun(texts, brief), about["conversations"])
    about["in_line"] = in_line(model, llama, texts, most)
    ids = llama.ids(prompts.FORETOLD, begin=True)
    with torch.no_grad():
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
