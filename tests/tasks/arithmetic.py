"""Arithmetic in words: stories with small whole numbers, of one step and of two."""

import re

NAMES = ["Tom", "Anna", "Ben", "Lucy", "Omar", "Mia", "Sam", "Nina", "Leo", "Ella", "Max", "Ruth"]
THINGS = ["apples", "books", "coins", "stamps", "marbles", "pencils", "cards", "shells", "stickers", "eggs"]

ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen
fifteen sixteen seventeen eighteen nineteen""".split()
TENS = "_ _ twenty thirty forty fifty sixty seventy eighty ninety".split()

# Stories: the question, ranges of its numbers, and its steps, the last of which is the answer. {n} and {m}
# are two people, {t} is a countable thing.
ONE_STEP = [
    ("{n} has {a} {t} and gets {b} more. How many {t} does {n} have now?", (2, 9), (2, 9), lambda a, b: [a + b]),
    ("{n} has {a} {t} and {m} has {b} {t}. How many {t} do they have together?",
     (2, 12), (2, 9), lambda a, b: [a + b]),
    ("There are {a} big {t} and {b} small {t} in a box. How many {t} are in the box?",
     (3, 20), (3, 12), lambda a, b: [a + b]),
    ("{n} is {a} years old. How old will {n} be in {b} years?", (5, 30), (2, 10), lambda a, b: [a + b]),
    ("{n} reads {a} pages in the morning and {b} pages in the evening. How many pages does {n} read in all?",
     (5, 30), (5, 20), lambda a, b: [a + b]),
    ("A cup costs {a} dollars and a plate costs {b} dollars. How much do they cost together, in dollars?",
     (2, 9), (3, 12), lambda a, b: [a + b]),
    ("{n} has {a} {t} and gives {b} of them to {m}. How many {t} does {n} have left?",
     (7, 15), (2, 6), lambda a, b: [a - b]),
    ("There were {a} birds in a tree. Then {b} flew away. How many birds are still in the tree?",
     (8, 20), (2, 7), lambda a, b: [a - b]),
    ("{n} has {a} dollars and spends {b} dollars. How many dollars does {n} have left?",
     (10, 30), (2, 9), lambda a, b: [a - b]),
    ("A book has {a} pages. {n} has read {b} pages. How many pages are left to read?",
     (30, 60), (10, 25), lambda a, b: [a - b]),
    ("{n} is {a} years old and {m} is {b} years old. How many years older is {n}?",
     (12, 20), (4, 10), lambda a, b: [a - b]),
    ("There are {a} chairs in a room and {b} people sit down, one on each chair. How many chairs are empty?",
     (10, 25), (3, 9), lambda a, b: [a - b]),
    ("There are {a} bags with {b} {t} in each bag. How many {t} are there in all?",
     (2, 6), (2, 6), lambda a, b: [a * b]),
    ("One ticket costs {b} dollars. How many dollars do {a} tickets cost?", (2, 6), (3, 10), lambda a, b: [a * b]),
    ("{n} walks {b} kilometres every day. How many kilometres does {n} walk in {a} days?",
     (2, 7), (2, 6), lambda a, b: [a * b]),
    ("A table has {b} legs. How many legs do {a} such tables have?", (2, 9), (3, 4), lambda a, b: [a * b]),
    ("{n} shares {c} {t} equally among {a} friends. How many {t} does each friend get?",
     (2, 5), (2, 6), lambda a, b: [b]),
    ("{c} {t} are put into boxes of {a}. How many boxes are filled?", (2, 6), (3, 7), lambda a, b: [b]),
    ("A rope of {c} metres is cut into {a} equal pieces. How many metres long is each piece?",
     (2, 5), (3, 10), lambda a, b: [b]),
    ("What is half of {d}?", (3, 20), (2, 2), lambda a, b: [a]),
    ("What is twice {a}?", (3, 25), (2, 2), lambda a, b: [2 * a]),
    ("What is {a} plus {b}?", (3, 30), (3, 20), lambda a, b: [a + b]),
    ("What is {a} minus {b}?", (12, 30), (3, 9), lambda a, b: [a - b]),
    ("What is {a} times {b}?", (3, 9), (3, 9), lambda a, b: [a * b]),
    ("What is {c} divided by {a}?", (2, 6), (3, 9), lambda a, b: [b]),
]
TWO_STEPS = [
    ("{n} has {a} {t}, gets {b} more and then loses {e}. How many {t} does {n} have now?",
     (3, 9), (3, 9), lambda a, b, e: [a + b, a + b - e]),
    ("There are {a} people on a bus. At a stop {e} get off and {b} get on. How many people are on the bus now?",
     (8, 15), (3, 9), lambda a, b, e: [a - e, a - e + b]),
    ("{n} buys {a} pens for {b} dollars each and a bag for {e} dollars. How many dollars does {n} pay in all?",
     (2, 5), (2, 5), lambda a, b, e: [a * b, a * b + e]),
    ("{n} has {a} boxes with {b} {t} each and gives away {e} {t}. How many {t} does {n} have left?",
     (3, 5), (3, 6), lambda a, b, e: [a * b, a * b - e]),
    ("{n} has {a} {t}. {m} has {b} more than {n}. How many {t} do they have together?",
     (3, 8), (2, 5), lambda a, b, e: [a + b, 2 * a + b]),
    ("A shop has {a} cakes. It bakes {b} more and sells {e}. How many cakes are left?",
     (5, 12), (4, 9), lambda a, b, e: [a + b, a + b - e]),
]
ONE_STEP_EACH, TWO_STEPS_EACH = 4, 4
IN_WORDS_EVERY = 4


def words(number):
    """English words of a number from 0 to 99."""
    if number < 20:
        return ONES[number]
    return TENS[number // 10] + (f"-{ONES[number % 10]}" if number % 10 else "")


def answer(number):
    """Pattern of a number in digits or words, not as part of another: 8 isn't in 18, 8.5, -8 or forty-eight."""
    digits = rf"(^|[^\d.,-]){number}(\.0+)?($|[^\d.,]|[.,]($|\D))"
    spelt = words(number).replace("-", r"[\s-]")
    return {"regex": rf"(?i){digits}|(^|[^\w-]){spelt}($|[^\w-])"}


def told(story, ranges, steps, rng, in_words):
    """A story with random numbers; None if its answer is stated, an intermediate result, or easily guessed."""
    a, b = (rng.randint(*span) for span in ranges)
    e = rng.randint(2, 6)
    n, m = rng.sample(NAMES, 2)
    numbers = {"a": a, "b": b, "c": a * b, "d": 2 * a, "e": e}
    *passed, result = steps(a, b, e) if steps.__code__.co_argcount == 3 else steps(a, b)
    numbers = {key: numbers[key] for key in re.findall(r"\{([a-e])\}", story)}
    shown = set(numbers.values())
    if result in shown | set(passed) or not 3 < result < 100 or len(shown) < len(numbers):
        return None
    spelled = {key: words(value) if in_words else value for key, value in numbers.items()}
    question = story.format(n=n, m=m, t=rng.choice(THINGS), **spelled)
    # Listing consecutive numbers isn't an answer, so at least one neighbour of the right one must be
    # absent, unless it is itself an intermediate result.
    beside = [
        number for number in (result - 1, result + 1)
        if number > 3 and number not in shown | set(passed) and all(number % given for given in shown)
    ]
    if not beside:
        return None
    question = question[0].upper() + question[1:]
    return {"question": question, "answer": answer(result), "not": [str(number) for number in beside]}


def questions(rng):
    stories = [story for story in ONE_STEP for _ in range(ONE_STEP_EACH)]
    stories += [story for story in TWO_STEPS for _ in range(TWO_STEPS_EACH)]
    seen, rows = set(), []
    for number, (story, *ranges, steps) in enumerate(stories):
        question = None
        while question is None or question["question"] in seen:
            question = told(story, ranges, steps, rng, number % IN_WORDS_EVERY == 3)
        seen.add(question["question"])
        rows.append(question)
    return rows
