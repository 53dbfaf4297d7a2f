"""Makes tests/golden/embeddings.json: transformers' embeddings by the fixtures of tests/fixtures/parity.

    python make_embeddings.py

For each prompt of a fixture's reference.json: the states of the last layer after the final norm, pooled (`mean`,
`first`, `last`), with a length of 1. Needs the packages of requirements.txt.
"""

import json
import os
import pathlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import torch  # noqa: E402
import transformers  # noqa: E402

TESTS = pathlib.Path(__file__).parent.parent
# Attention with windows, convolutions and a recurrence: each has its own way through a prompt.
FIXTURES = ["qwen2-window-hf", "gemma3-layers-hf", "lfm2-hf", "granite4-h-hf"]
POOLINGS = {
    "mean": lambda states: states.mean(0),
    "first": lambda states: states[0],
    "last": lambda states: states[-1],
}


def embeddings(name):
    folder = TESTS / "fixtures" / "parity" / name
    model = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager").eval().get_decoder()
    prompts = json.loads((folder / "reference.json").read_text())["prompts"]
    made = {pooling: [] for pooling in POOLINGS}
    for tokens in prompts:
        with torch.no_grad():
            states = model(input_ids=torch.tensor([tokens]), use_cache=False).last_hidden_state[0].double()
        for pooling, pool in POOLINGS.items():
            vector = torch.nn.functional.normalize(pool(states), dim=0)
            made[pooling].append([round(one, 6) for one in vector.tolist()])
    return made


transformers.utils.logging.set_verbosity_error()
lines = [f"{json.dumps(name)}: {json.dumps(embeddings(name))}" for name in FIXTURES]
(TESTS / "golden" / "embeddings.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
