"""Writes arithmetic.jsonl, copying.jsonl and instructions.jsonl beside this file.

    python3 tests/tasks/make_tasks.py

The same files come out each time: every kind of question draws from a generator of its own with
a fixed seed. facts.jsonl and reading.jsonl are written by hand and stay as they are.
"""

import json
import random
from pathlib import Path

import arithmetic
import copying
import instructions

SEED = 20261121


def main():
    for kind in (arithmetic, copying, instructions):
        name = kind.__name__
        rng = random.Random(f"{SEED} {name}")
        questions = list(kind.questions(rng))
        rng.shuffle(questions)  # so that the first few of a file are a fair sample of it
        lines = [
            json.dumps({"id": f"{name}-{number:03}", **question}, ensure_ascii=False)
            for number, question in enumerate(questions, 1)
        ]
        Path(__file__).with_name(f"{name}.jsonl").write_text("\n".join(lines) + "\n", "utf-8")
        print(f"{name}: {len(lines)} questions")


if __name__ == "__main__":
    main()
