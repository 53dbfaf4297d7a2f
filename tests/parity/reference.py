"""Results of transformers: logits of prompts, and a greedy continuation with clear choices only."""

import json

import torch

PROMPTS, GREEDY = (5, 37, 300), 24
# Lower ids are control tokens of some tokenizer here.
FIRST = 8
# Minimum distance between experts, relative to a logit's limit, at which rounding can't swap them. With many experts few are farther apart.
CLEAR = 0.2


def logits(model, tokens):
    """`[prompts][tokens][vocabulary]`, each prompt computed separately and in full."""
    with torch.no_grad():
        return model(input_ids=torch.tensor(tokens), use_cache=False).logits.float()


def compute(model, seed, limit):
    """Prompts, their logits `[rows, vocabulary]`, and the greedy text."""
    vocabulary = model.config.get_text_config().vocab_size
    draw = torch.Generator().manual_seed(seed)
    prompts = [torch.randint(FIRST, vocabulary, (length,), generator=draw) for length in PROMPTS]
    prompts = [clearly_routed(model, tokens, draw, vocabulary, limit).tolist() for tokens in prompts]
    rows = torch.cat([logits(model, [tokens])[0] for tokens in prompts])
    assert torch.isfinite(rows).all()
    return prompts, rows.numpy(), greedy(model, draw, vocabulary, limit)


def margins(model, tokens):
    """`[prompts][tokens]`: distance between a token's last chosen expert and the first not chosen."""
    routers = [module for module in model.modules() if type(module).__name__.endswith("TopKRouter")]
    found = []

    def hear(router, inputs, outputs):
        # A softmax preserves the order of its logits, whose errors count.
        bias = inputs[1] if len(inputs) > 1 else None
        keys = outputs[0] if bias is None else outputs[0].sigmoid() + bias
        last = keys.float().topk(router.top_k + 1).values[..., -2:]
        found.append((last[..., 0] - last[..., 1]).reshape(tokens.shape))

    hooks = [router.register_forward_hook(hear) for router in routers]
    with torch.no_grad():
        model(input_ids=tokens, use_cache=False)
    for hook in hooks:
        hook.remove()
    return torch.stack(found).amin(0) if found else None


def clearly_routed(model, tokens, draw, vocabulary, limit):
    """Replaces tokens of the prompt where rounding could choose another expert."""
    for _ in range(400):
        apart = margins(model, tokens[None])
        if apart is None or apart.min() > CLEAR * limit:
            return tokens
        # Earlier tokens are unaffected.
        first = int((apart[0] <= CLEAR * limit).nonzero()[0])
        tokens[first] = torch.randint(FIRST, vocabulary, (1,), generator=draw)[0]
    raise RuntimeError("no prompt has clear experts")


def greedy(model, draw, vocabulary, limit):
    """A prompt whose continuation has no close choice: a margin beyond twice the `limit` of a logit."""
    for _ in range(100):
        tokens = continued(model, torch.randint(FIRST, vocabulary, (64, PROMPTS[0]), generator=draw))
        variety = torch.tensor([len(set(row[PROMPTS[0]:])) for row in tokens.tolist()])
        tokens = tokens[variety >= 6]
        if not len(tokens):
            continue
        # In full and without a cache, like all references.
        last = logits(model, tokens.tolist())[:, PROMPTS[0] - 1:-1]
        best = last.topk(2)
        clear = ((best.values[..., 0] - best.values[..., 1]) / last.abs().amax(2)).amin(1)
        clear *= (best.indices[..., 0] == tokens[:, PROMPTS[0]:]).all(1)
        apart = margins(model, tokens)
        if apart is not None:
            clear *= apart.amin(1) > CLEAR * limit
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
