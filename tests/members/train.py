"""Trains one member, resumably, and writes its GGUF.

    python train.py Ada --generator PATH --work DIR --out DIR --budget 55 [--slice 6]

Fresh conversations stream from the generator (`conversations train`), never a second
epoch, so that a member is unsure where it saw little. Loss on the assistant's tokens
only. The learning rate follows the share of the budget (in minutes of training) that
is used up: warm-up, constant, then linear decay. A run stops after `--slice` minutes
or when the budget is used, saves everything needed to resume, and writes the GGUF.
"""

import argparse
import json
import pathlib
import random
import subprocess
import time

import torch
import torch.nn.functional as F

import export
import vocabulary
from decoder import Decoder
from muon import Muon
from roster import MEMBERS

# Conversations are packed into rows, masked apart. Most fit short rows; the longer
# ones, mostly of several turns, are gathered for a step of their own.
SHORT, LONG, TOKENS = 160, 320, 3840  # tokens a short row, a long row, a step
PEAK, FLOOR, WARM_UP, CONSTANT = 4e-3, 0.02, 60, 0.40
EXAM_SEED = 90001


def lines(generator, *arguments):
    process = subprocess.Popen([generator, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    try:
        yield from map(json.loads, process.stdout)
    finally:
        process.kill()


def render(vocab, member, messages, rng=None):
    """Token ids of the rendered chat template, and which of them carry loss.

    With `rng`: 5 % of answers are split after a space, as a segment's end may fall, and
    one in ten conversations misses its BOS, so that neither surprises the member later.
    """
    special = vocab.special
    ids, wanted = [], []
    if member.add_bos and not (rng and rng.random() < 0.1):
        ids, wanted = [special["<|bos|>"]], [False]
    for message in messages:
        ids.append(special[f"<|{message['role']}|>"])
        wanted.append(False)
        answer = message["role"] == "assistant"
        text = message["content"]
        cut = text.find(" ", rng.randrange(len(text))) + 1 if rng and answer and rng.random() < 0.05 else 0
        for part in filter(None, (text[:cut], text[cut:])):
            new = vocab.encode(part)
            ids += new
            wanted += [answer] * len(new)
            if cut and part is not text[cut:]:
                wanted[-1] = False
        ids.append(special["<|end|>"])
        wanted.append(answer)
    return ids, wanted


class Shelf:
    """Rendered conversations waiting to be packed into rows of one width."""

    def __init__(self, width):
        self.width, self.waiting, self.tokens = width, [], 0

    def put(self, ids, wanted):
        self.waiting.append((ids, wanted))
        self.tokens += len(ids) - 1

    def row(self):
        """Packs (ids, targets or -100, document numbers), each `width` long; first fit, oldest first."""
        ids, targets, documents, number = [], [], [], 0
        while True:
            room = self.width - len(ids)
            place = next((n for n, (new, _) in enumerate(self.waiting) if len(new) - 1 <= room), None)
            if place is None:
                break
            new, wanted = self.waiting.pop(place)
            self.tokens -= len(new) - 1
            ids += new[:-1]
            targets += [i if w else -100 for i, w in zip(new[1:], wanted[1:])]
            documents += [number] * (len(new) - 1)
            number += 1
        missing = self.width - len(ids)
        return ids + [0] * missing, targets + [-100] * missing, documents + [-1] * missing


def batches(vocab, member, generator, first):
    """Yields a step's rows as tensors (ids, targets, documents) [rows, width], and the next index."""
    rng = random.Random(member.seed * 1_000_003 + first)
    source = lines(generator, "train", "--seed", member.seed, "--first", first, "--count", 10**9, "--mix", member.mix())
    short, long, taken = Shelf(SHORT), Shelf(LONG), first
    while True:
        shelf = long if long.tokens > 1.2 * TOKENS else short
        while shelf is short and short.tokens < 3 * TOKENS:
            ids, wanted = render(vocab, member, next(source)["messages"], rng)
            taken += 1
            if len(ids) <= LONG + 1:
                (short if len(ids) <= SHORT + 1 else long).put(ids, wanted)
        rows = [shelf.row() for _ in range(TOKENS // shelf.width)]
        yield [torch.tensor([row[part] for row in rows]) for part in range(3)], taken


def examine(model, vocab, member, generator, count):
    """Greedy accuracy by skill on examination questions."""
    asked = list(lines(generator, "exam", "--seed", EXAM_SEED, "--count", count))
    prompts = [render(vocab, member, [{"role": "user", "content": q["text"]}])[0] + [vocab.special["<|assistant|>"]]
               for q in asked]
    right, total = {}, {}
    for start in range(0, count, 80):
        for question, ids in zip(asked[start:], model.generate(prompts[start:start + 80], vocab.special["<|end|>"], 110)):
            said = vocab.decode(ids).lower().rsplit("answer:", 1)
            good = len(said) == 2 and said[1].strip().rstrip(". ") == question["final"]
            skill = question["skill"]
            right[skill] = right.get(skill, 0) + good
            total[skill] = total.get(skill, 0) + 1
    return {skill: round(right[skill] / total[skill], 3) for skill in total}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("member", choices=MEMBERS)
    parser.add_argument("--generator", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--budget", type=float, required=True, help="minutes of training in all")
    parser.add_argument("--slice", type=float, default=1e9, help="minutes of training in this run")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--exam", type=int, default=80)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    member = MEMBERS[options.member]
    torch.manual_seed(member.seed)
    options.work.mkdir(parents=True, exist_ok=True)

    vocab_path = options.work / f"{member.name}.vocabulary.json"
    if not vocab_path.exists():
        texts = [m["content"] for c in lines(options.generator, "train", "--seed", 5, "--count", 12000) for m in c["messages"]]
        vocabulary.train(member, texts).save(vocab_path)
    vocab = vocabulary.load(member, vocab_path)
    assert len(vocab.tokens) == member.vocabulary, len(vocab.tokens)

    model = Decoder(member)
    inner = [p for n, p in model.model.layers.named_parameters() if p.ndim == 2]
    known = {id(p) for p in inner}
    outer = [p for p in model.parameters() if id(p) not in known]
    optimizers = [Muon(inner, lr=PEAK), torch.optim.AdamW(outer, lr=PEAK, betas=(0.9, 0.95), weight_decay=0.01, fused=True)]
    state = {"minutes": 0.0, "step": 0, "next": 0, "tokens": 0, "loss_tokens": 0}
    saved = options.work / f"{member.name}.pt"
    if saved.exists():
        point = torch.load(saved)
        model.load_state_dict(point["model"])
        for optimizer, kept in zip(optimizers, point["optimizers"]):
            optimizer.load_state_dict(kept)
        state = point["state"]
    print(member.name, sum(p.numel() for p in model.parameters()), "parameters, mix", member.mix(), state, flush=True)

    compiled = torch.compile(model.model, dynamic=False)
    stream = batches(vocab, member, options.generator, state["next"])
    began, last, used = None, time.time(), state["minutes"]
    total = 0.0
    while True:
        if began is not None:
            used = state["minutes"] + (time.time() - began) / 60
            if used >= options.budget or used - state["minutes"] >= options.slice:
                break
        (ids, targets, documents), state["next"] = next(stream)
        width = ids.shape[1]
        causal = torch.ones(width, width, dtype=torch.bool).tril()
        positions = torch.arange(width).expand(ids.shape)
        mask = ((documents[:, :, None] == documents[:, None, :]) & causal)[:, None]
        part = used / options.budget
        rate = min(1.0, (state["step"] + 1) / WARM_UP) * min(1.0, FLOOR + (1 - FLOOR) * (1 - part) / (1 - CONSTANT))
        for optimizer in optimizers:
            for group in optimizer.param_groups:
                group["lr"] = PEAK * rate
        with torch.autocast("cpu", torch.bfloat16):
            states = compiled(ids, positions, mask)
            where = targets >= 0
            logits = model.lm_head(states[where])
        loss = F.cross_entropy(logits.float(), targets[where])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(outer, 1.0)
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        began = began or time.time()  # compilation and its first step are no training time
        total += loss.item()
        state["step"] += 1
        state["tokens"] += int((documents >= 0).sum())
        state["loss_tokens"] += int(where.sum())
        if state["step"] % 50 == 0:
            now = time.time()
            print(f"{member.name} step {state['step']} loss {total / 50:.4f} rate {rate:.2f} minutes {used:.1f} "
                  f"tokens {state['tokens'] / 1e6:.2f}M ({50 * TOKENS / (now - last):.0f}/s)", flush=True)
            total, last = 0.0, now
    state["minutes"] = used
    partial = saved.with_suffix(".partial")
    torch.save({"model": model.state_dict(), "optimizers": [o.state_dict() for o in optimizers], "state": state}, partial)
    partial.replace(saved)

    options.out.mkdir(parents=True, exist_ok=True)
    export.write(options.out / member.file, model, vocab)
    export.quantise(model)
    accuracy = examine(model, vocab, member, options.generator, options.exam)
    mean = sum(accuracy.values()) / len(accuracy)
    report = {"name": member.name, **state, "budget": options.budget, "accuracy": accuracy, "mean": round(mean, 3)}
    with open(options.work / "log.jsonl", "a") as log:
        log.write(json.dumps(report) + "\n")
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
