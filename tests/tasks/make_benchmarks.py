"""Writes gsm8k.jsonl, bbh.jsonl and code.jsonl, here and in development/, from their sources.

    python3 tests/tasks/make_benchmarks.py gsm8k GRADE-SCHOOL-MATH
    python3 tests/tasks/make_benchmarks.py bbh BIG-BENCH-HARD
    python3 tests/tasks/make_benchmarks.py code HUMAN-EVAL

The second argument is a checkout of github.com/openai/grade-school-math,
github.com/suzgunmirac/BIG-Bench-Hard or github.com/openai/human-eval (LICENSES.md says at which
commit). The output is deterministic. The ids in development/ select the development examples of
GSM8K and BIG-Bench Hard: those lines are rewritten from the data set, and the held-out ones are
drawn from the rest.
"""

import argparse
import gzip
import json
import random
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
SEED = 20261121

STEPS = '\nThink in short steps. End with "The answer is" and the number.'
GSM8K_HELD_OUT = 150

LETTER = "Answer with the letter of the right option."
NUMBER = "Answer with a number."
TASKS = {
    "boolean_expressions": "Answer True or False.",
    "date_understanding": LETTER,
    "disambiguation_qa": LETTER,
    "hyperbaton": LETTER,
    "logical_deduction_three_objects": LETTER,
    "movie_recommendation": LETTER,
    "navigate": "Answer Yes or No.",
    "object_counting": NUMBER,
    "penguins_in_a_table": LETTER,
    "reasoning_about_colored_objects": LETTER,
    "sports_understanding": "Answer yes or no.",
    "temporal_sequences": LETTER,
}
BBH_HELD_OUT_EACH = 15
ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen twenty""".split()

CODE_DEVELOPMENT = 64
CODE_ASKED = (
    "Complete this Python function. Answer with the code only, in one fenced block.\n\n"
    "```python\n{}\n```"
)


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def write(path, rows):
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text(text, "utf-8")
    print(f"{path.relative_to(HERE)}: {len(rows)} questions")


def last_number(number):
    """Pattern of an answer whose last number, with or without commas, is `number`."""
    groups = f"{int(number.replace(',', '')):,}".replace(",", ",?")
    return rf"(?:^|[^\d.,]){groups}(?:\.0+)?(?:[^\d]*)$"


def gsm8k_line(part, index, example, steps):
    number = example["answer"].split("####")[1].strip()
    pattern = f"(?s){last_number(number)}"
    asked = example["question"].strip()
    line = {
        "id": f"gsm8k-{part}-{index}",
        "question": asked + (STEPS if steps else ""),
        "answer": {"regex": pattern},
    }
    if re.search(pattern, asked):
        # The question's last number is its answer, so an echo must not count.
        line["not"] = re.split(r"[.?!]\s+", asked.rstrip(".?!"))[-1]
    return line


def gsm8k(checkout, rng):
    """Every other question asks for steps."""
    data = checkout / "grade_school_math" / "data"
    train, test = lines_of(data / "train.jsonl"), lines_of(data / "test.jsonl")
    ids = [row["id"] for row in lines_of(HERE / "development" / "gsm8k.jsonl")]
    chosen = [int(name.rsplit("-", 1)[1]) for name in ids]
    drawn = rng.sample(range(len(test)), GSM8K_HELD_OUT)
    development = [gsm8k_line("train", index, train[index], place % 2 == 0)
                   for place, index in enumerate(chosen)]
    held_out = [gsm8k_line("test", index, test[index], place % 2 == 0)
                for place, index in enumerate(drawn)]
    return development, held_out


def bbh_pattern(target, ending):
    """An answer that is `target`, or begins or ends with it."""
    if ending == LETTER:
        letter = target.strip("()")
        said = r"(?i:\banswer(?:\s+is)?|\boption\s+is)"
        return (rf"(?s)(?:\({letter}\)[^()]*$|^\W*{letter}(?:[.:)]|\W*$)"
                rf"|{said}\W{{1,4}}{letter}(?:[.:)][^\n]*|\W*)$)")
    if ending == NUMBER:
        word = ONES[int(target)]
        first = rf"^\W*(?:{target}|{word})\b\.?(?:[^\d.\n][^\d\n]*)?(?:\n|$)"
        return rf"(?is)(?:{first}|{last_number(target)}|\b{word}(?:\W+\w+)?\W*$)"
    return rf"(?is)(?:^\W*{target}\b|\b{target}\W*$)"


def bbh_line(task, index, example):
    ending = TASKS[task]
    return {
        "id": f"bbh-{task}-{index}",
        "question": f"{example['input']}\n{ending}",
        "answer": {"regex": bbh_pattern(example["target"], ending)},
        # Otherwise the question itself would be right wherever its last option is.
        "not": ending.rstrip("."),
    }


def bbh(checkout, rng):
    """Twelve tasks; no held-out question occurs in development, under any index."""
    examples = {
        task: json.loads((checkout / "bbh" / f"{task}.json").read_text("utf-8"))["examples"]
        for task in TASKS
    }
    rows = lines_of(HERE / "development" / "bbh.jsonl")
    chosen = [row["id"].removeprefix("bbh-").rsplit("-", 1) for row in rows]
    development = [bbh_line(task, int(index), examples[task][int(index)])
                   for task, index in chosen]
    asked = {row["question"] for row in development}
    held_out = []
    for task, ending in TASKS.items():
        others = {}
        for index, example in enumerate(examples[task]):
            if f"{example['input']}\n{ending}" not in asked:
                others.setdefault(example["input"], index)
        drawn = rng.sample(sorted(others.values()), BBH_HELD_OUT_EACH)
        held_out += [bbh_line(task, index, examples[task][index]) for index in drawn]
    rng.shuffle(held_out)
    return development, held_out


def passes(problem, written):
    """Whether `written`, after the prompt, passes the problem's test."""
    program = f"{problem['prompt']}{written}\n{problem['test']}\ncheck({problem['entry_point']})\n"
    try:
        run = [sys.executable, "-c", program]
        return subprocess.run(run, capture_output=True, timeout=60, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def code(checkout, rng):
    """Runs each problem's solution, as a body and as a whole function: tests that reject them, or that
    accept a function without a body, are dropped."""
    with gzip.open(checkout / "data" / "HumanEval.jsonl.gz", "rt", encoding="utf-8") as file:
        problems = [json.loads(line) for line in file if line.strip()]
    for problem in problems:
        solution = problem["canonical_solution"]
        right = passes(problem, solution) and passes(problem, f"\n{problem['prompt']}{solution}")
        if not right or passes(problem, "    pass\n"):
            raise SystemExit(f"{problem['task_id']}: its test doesn't tell right from wrong")
    rng.shuffle(problems)
    rows = [
        {
            "id": problem["task_id"].replace("HumanEval/", "humaneval-"),
            "question": CODE_ASKED.format(problem["prompt"].strip()),
            "answer": {
                "python": f"{problem['test'].strip()}\n\ncheck({problem['entry_point']})\n",
                "prefix": problem["prompt"],
            },
        }
        for problem in problems
    ]
    return rows[:CODE_DEVELOPMENT], rows[CODE_DEVELOPMENT:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["gsm8k", "bbh", "code"])
    parser.add_argument("checkout", type=Path)
    arguments = parser.parse_args()
    make = {"gsm8k": gsm8k, "bbh": bbh, "code": code}[arguments.kind]
    development, held_out = make(arguments.checkout, random.Random(f"{SEED} {arguments.kind}"))
    write(HERE / "development" / f"{arguments.kind}.jsonl", development)
    write(HERE / f"{arguments.kind}.jsonl", held_out)


if __name__ == "__main__":
    main()
