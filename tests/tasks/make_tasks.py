"""Writes the question files made from tables, beside this file and in development/.

    python3 tests/tasks/make_tasks.py

The output is deterministic: every kind of question has its own generator with a fixed seed. Files in
development/ are written for the kinds that have a `development`. The other files are written by hand
or by make_benchmarks.py, and stay as they are.
"""

import json
import random
from pathlib import Path

import arithmetic
import conversations
import copying
import instructions

HERE = Path(__file__).parent
SEED = 20261121


def write(path, name, questions, rng):
    rng.shuffle(questions)  # so that the first few of a file are a fair sample of it
    lines = [
        json.dumps({"id": f"{name}-{number:03}", **question}, ensure_ascii=False)
        for number, question in enumerate(questions, 1)
    ]
    path.write_text("\n".join(lines) + "\n", "utf-8")
    print(f"{path.relative_to(HERE)}: {len(lines)} questions")


def main():
    for kind in (arithmetic, conversations, copying, instructions):
        name = kind.__name__
        rng = random.Random(f"{SEED} {name}")
        write(HERE / f"{name}.jsonl", name, list(kind.questions(rng)), rng)
        if hasattr(kind, "development"):
            rng = random.Random(f"{SEED} {name} development")
            write(HERE / "development" / f"{name}.jsonl", name, kind.development(rng), rng)


if __name__ == "__main__":
    main()
