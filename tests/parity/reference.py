"""What transformers computes: logits of prompts, and a greedy continuation whose every choice is clear."""

import json

import torch

PROMPTS, GREEDY = (5, 37, 300), 24
# Ids below are the controls of some tokenizer here.
FIRST = 8


def logits(model, tokens):
    """`[prompts][tokens][vocabulary]`, each prompt computed by itself and whole."""
    with torch.no_grad():
        return model(input_ids=torch.tensor(tokens), use_cache=False).logits.float()


def compute(model, seed, limit):
    """Prompts, their logits `[rows, vocabulary]`, and the greedy text."""
    vocabulary = model.config.get_text_config().vocab_size
    draw = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(FIRST, vocabulary, (length,), generator=draw).tolist() for length in PROMPTS]
    rows = torch.cat([logits(model, [tokens])[0] for tokens in prompts])
    assert torch.isfinite(rows).all()
    return prompts, rows.numpy(), greedy(model, draw, vocabulary, limit)


def greedy(model, draw, vocabulary, limit):
    """A prompt whose continuation has no close choice: twice what `limit` lets a logit differ, and a margin."""
    for _ in range(12):
        tokens = continued(model, torch.randint(FIRST, vocabulary, (64, PROMPTS[0]), generator=draw))
        variety = torch.tensor([len(set(row[PROMPTS[0]:])) for row in tokens.tolist()])
        tokens = tokens[variety >= 6]
        if not len(tokens):
            continue
        # Whole and without a cache, as all references.
        last = logits(model, tokens.tolist())[:, PROMPTS[0] - 1:-1]
        best = last.topk(2)
        clear = ((best.values[..., 0] - best.values[..., 1]) / last.abs().amax(2)).amin(1)
        clear *= (best.indices[..., 0] == tokens[:, PROMPTS[0]:]).all(1)
        if clear.max() > 3 * limit:
            row = tokens[int(clear.argmax())].tolist()
            return {"prompt": row[:PROMPTS[0]], "continuation": row[PROMPTS[0]:]}
    raise RuntimeError("no prompt gives a clear greedy text")


def continued(model, prompts):
    """`[prompts][PROMPTS[0] + GREEDY]`: each prompt with its greedy continuation."""
    tokens, step, cache = prompts, prompts, None
    with torch.no_grad():
        for _ in range(GREEDY):
            out = model(input_ids=step, past_key_values=cache, use_cache=True)
            step, cache = out.logits[:, -1].argmax(1, keepdim=True), out.past_key_values
            tokens = torch.cat([tokens, step], 1)
    return tokens


def write(stem, prompts, rows, greedy, kept=None, **more):
    """`stem.json` and `stem.f32`: little-endian f32 rows of all prompts, or of the rows in `kept` only.

    `kept` has one list of row numbers a prompt; `more` goes into the JSON.
    """
    about = {"vocabulary": rows.shape[1], "prompts": prompts, "greedy": greedy} | more
    if kept is not None:
        about["rows"] = kept
        starts = [sum(len(tokens) for tokens in prompts[:n]) for n in range(len(prompts))]
        rows = rows[[start + row for start, some in zip(starts, kept) for row in some]]
    stem.with_suffix(".json").write_text(json.dumps(about, separators=(",", ":")) + "\n")
    rows.astype("<f4").tofile(stem.with_suffix(".f32"))
