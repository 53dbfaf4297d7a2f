"""Conversations of two to four turns, whose last question hangs on what was said before.

The tables are in conversation_facts.py, conversation_people.py and conversation_forms.py.
"""

import arithmetic
import conversation_facts as facts
import conversation_forms as forms
import conversation_people as people

AGAIN = ["And {}?", "What about {}?", "And {}?", "Okay, and {}?"]
SLIPPED = ["No, I meant {}.", "Sorry, I meant {}.", "Oops, I wanted to ask about {}.",
           "I meant {}, sorry."]
PREPOSITIONS = ("of ", "in ", "for ", "after ", "through ")
CORRECTED_EVERY = 4  # one of so many conversations about a relation is a correction
LANGUAGES = ["Spanish", "German", "French"]
ADDED = [
    ("What is {a} plus {b}?", lambda a, b: a + b),
    ("What is {a} minus {b}?", lambda a, b: a - b),
    ("What is {a} times {b}?", lambda a, b: a * b),
    ("Tom has {a} apples and buys {b}. How many has he got?", lambda a, b: a + b),
]
THEN = [
    ("Now add {c}.", lambda sum_, c: sum_ + c),
    ("Take {c} away from that.", lambda sum_, c: sum_ - c),
    ("And twice that?", lambda sum_, c: 2 * sum_),
    ("And {c} more makes how many?", lambda sum_, c: sum_ + c),
]


def said(turns, answer, banned=()):
    """A task line: turns of the user and the model, the user's first and last."""
    roles = ("user", "assistant")
    messages = [{"role": roles[place % 2], "content": turn} for place, turn in enumerate(turns)]
    line = {"messages": messages, "answer": answer}
    return {**line, "not": list(banned)} if banned else line


def either(alternatives):
    return alternatives[0] if len(alternatives) == 1 else alternatives


def lines(table):
    """Lines of a table; a line that begins with spaces continues the one before."""
    return table.strip().replace("\n  ", " ").split("\n")


def parsed(line):
    """Parses a table's line into turns, right answers or their pattern, and texts that must be absent."""
    talk, _, rest = line.rpartition(" = ")
    right, *banned = rest.split(" ! ")
    pattern = right.startswith("/") and right.endswith("/")
    answer = {"regex": right[1:-1]} if pattern else either(right.split("|"))
    return talk.split(" / "), answer, banned[0].split("|") if banned else []


def relations(table):
    """One or two facts asked for, then another asked for elliptically, or instead."""
    for number, line in enumerate(lines(table)):
        relation, chain = line.split(": ", 1)
        asked, answered, again = facts.RELATIONS[relation]
        chain = [fact.split(" = ") for fact in chain.split(" > ")]
        corrected = len(chain) == 2 and number % CORRECTED_EVERY == CORRECTED_EVERY - 1
        turns = []
        for place, (key, value) in enumerate(chain):
            short = (SLIPPED if corrected else AGAIN)[number // 4 % 4]
            about = again.format(key)
            if not short.lower().endswith("and {}?") and about.startswith(PREPOSITIONS):
                about = about.split(" ", 1)[1]
            turns.append(short.format(about) if place else asked.format(key))
            reply = answered.format(key, value) if number % 3 else f"{value}."
            turns.append(reply[0].upper() + reply[1:])
        before = [value.removeprefix("a ").removeprefix("an ") for _, value in chain[:-1]]
        yield said(turns[:-1], either(chain[-1][1].split("|")), before)


def sums(rng, count):
    """A sum, and another one with its result."""
    seen = set()
    while len(seen) < count:
        number = len(seen)
        a, b, c = rng.randint(6, 20), rng.randint(2, 6), rng.randint(2, 9)
        (first, result), (second, after) = ADDED[number % 4], THEN[(number + number // 4) % 4]
        passed = result(a, b)
        right = after(passed, c)
        shown = {a, b, c, passed}
        if len(shown) < 4 or right in shown or not 3 < right < 100 or (a, b, c) in seen:
            continue
        seen.add((a, b, c))
        turns = [first.format(a=a, b=b), f"{passed}.", second.format(c=c)]
        yield (a, b, c), said(turns, arithmetic.answer(right))


def corrected_sums(rng, count, taken):
    """A sum with another number in place of the given one."""
    done = 0
    while done < count:
        a, b, c = rng.randint(5, 20), rng.randint(2, 9), rng.randint(2, 9)
        shown = {a, b, c, a + b}
        if len(shown) < 4 or a + c in shown or (a, b, c) in taken:
            continue
        taken.add((a, b, c))
        done += 1
        turns = [f"What is {a} plus {b}?", f"{a + b}.", f"Sorry, I meant {a} plus {c}."]
        yield said(turns, arithmetic.answer(a + c), [str(a + b)])


def ages(table):
    for number, line in enumerate(lines(table)):
        name, pronoun, born, did, year = line.split("|")
        reply = people.AGE_REPLIES[number % len(people.AGE_REPLIES)]
        turns = [f"{name} was born in {born} and {did} in {year}.", reply,
                 f"How old was {pronoun} then?"]
        yield said(turns, arithmetic.answer(int(year) - int(born)))


def recalled(table, asides):
    """Something that the user said none, one or two questions ago."""
    for number, line in enumerate(lines(table)):
        (first, reply, last), answer, banned = parsed(line)
        between = [asides[(number + more) % len(asides)] for more in range(number % 3)]
        turns = [first, reply, *(turn for aside in between for turn in aside), last]
        yield said(turns, answer, banned)


def formed(table):
    """A form of all answers, agreed in the first turn, or in the first and shown in the second."""
    for line in lines(table):
        rule, own, asked, right = line.split("|", 3)
        wanted, reply, pattern = forms.RULES[rule]
        between = []
        if rule == "yes":
            question, _, shown = own.rpartition(" ")
            wanted, reply, between = f"{wanted} {question}", shown, []
        names = {"start": own, "end": own}
        turns = [wanted.format(**names), reply.format(**names), *between, asked]
        yield said(turns, {"regex": pattern.format(right, **names)})


def translated(table):
    for number, line in enumerate(lines(table)):
        english, *words = line.split()
        first, second = number % 3, (number + 1 + number % 2) % 3
        word = words[first]
        turns = [f'What is "{english}" in {LANGUAGES[first]}?', f"{word[0].upper()}{word[1:]}.",
                 f"And in {LANGUAGES[second]}?"]
        right = words[second]
        ways = [right, right.replace("ß", "ss")] if "ß" in right else [right]
        yield said(turns, either(ways), [word])


def plainly(table):
    return [said(*parsed(line)) for line in lines(table)]


def half(rng, ending, chains, corrections):
    """The conversations of one half; `ending` is the suffix of its tables' names."""
    table = lambda module, name: getattr(module, f"{name}_{ending}")
    chained = list(sums(rng, chains))
    taken = {numbers for numbers, _ in chained}
    return [
        *relations(getattr(facts, ending)),
        *(line for _, line in chained),
        *corrected_sums(rng, corrections, taken),
        *plainly(table(people, "SLIPS")),
        *plainly(table(people, "PRONOUNS")),
        *ages(table(people, "AGES")),
        *recalled(table(people, "RECALL"), table(people, "ASIDES")),
        *formed(getattr(forms, ending)),
        *translated(table(facts, "WORDS")),
        *plainly(table(facts, "UNITS")),
        *plainly(table(facts, "CHANGES")),
    ]


def development(rng):
    return half(rng, "DEVELOPMENT", chains=8, corrections=3)


def questions(rng):
    return half(rng, "HELD_OUT", chains=16, corrections=6)
