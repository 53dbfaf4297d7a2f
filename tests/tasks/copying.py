"""Copying and rewriting: repeat, remove a word from a sentence, change one thing and leave the rest."""

import re

SENTENCES = """The green door is open
My brother plays the drums
The soup was too salty
We saw a boat on the lake
The old clock fell from the wall
Birds sing in the early morning
She keeps her shoes under the bed
The train to the north was late
He painted the fence white
Our teacher told a funny story
The cat sleeps on the kitchen chair
They planted roses near the gate
A cold wind came from the sea
Her sister works at a small bank
The boys kicked the ball into the river
Please close the window at night
The farmer sold two black horses
I forgot my hat at the station
The baby laughed at the dog
Rain fell on the quiet village""".split("\n")
STARTS = ["Repeat this sentence exactly", "Copy this sentence", "Write this sentence again", "Say this back to me"]
WORDS = """apple river candle stone garden window mountain paper
silver rabbit pocket thunder bottle winter hammer ladder""".split()
CODES = ["K7-42Q", "BX 3190", "5512-8846", "R2T9", "zeta-14-blue", "90210-AC", "m4n5p6", "TR-808"]
SWAPS = [
    ("red", "blue", "The red car is fast"), ("cat", "dog", "The cat ran up the hill"),
    ("milk", "water", "She drinks milk every day"), ("big", "small", "They live in a big house"),
    ("summer", "winter", "We met in summer"), ("Tom", "Anna", "Tom likes strong tea"),
    ("train", "bus", "The train leaves at noon"), ("happy", "tired", "The children were happy"),
    ("north", "south", "The birds flew north"), ("bread", "rice", "He bought bread and eggs"),
    ("doctor", "nurse", "The doctor opened the door"), ("three", "five", "I have three cousins"),
    ("Paris", "Oslo", "My aunt lives in Paris"), ("king", "queen", "The king wore a long coat"),
    ("garden", "forest", "They walked through the garden"),
]
EXTRA = [
    ("very", "The water is very cold"), ("old", "An uncle sold his old car"), ("never", "He never eats fish"),
    ("red", "She wore a red scarf"), ("quickly", "They quickly left the house"), ("really", "I really like this song"),
    ("small", "We rented a small boat"), ("often", "My father often sings"),
]
ADDED = [
    ("today", "We went to the park"), ("again", "The lights went out"), ("slowly", "The bear walked away"),
    ("outside", "The children are playing"), ("yesterday", "I met your cousin"), ("together", "They cooked dinner"),
]
PAST = [
    ("I walk to school", "I walked to school"), ("She plays the piano", "She played the piano"),
    ("They live in a village", "They lived in a village"), ("We eat fish", "We ate fish"),
    ("He goes to work", "He went to work"), ("The dog is hungry", "The dog was hungry"),
]
NEGATIVE = ["The door is open", "The tea is hot", "The shops are open today", "The road was long", "The keys were lost"]
ASKED = [
    ("She is happy", "Is she happy"), ("They are tired", "Are they tired"),
    ("It is late", "Is it late"), ("He can dance", "Can he dance"),
]
CAPITALS = "good morning, the green house, fresh fish, no parking, happy birthday, open daily, keep left".split(", ")
SMALL = ["THE SHOP IS CLOSED", "WELCOME HOME", "TICKETS HERE", "COLD WATER"]
PEOPLE = ["Anna Bell", "Mark Stone", "Lily Parker", "Hugo Weber"]
COUNTED = [
    ("We saw {} birds on the roof", 14), ("The ticket costs {} dollars", 35), ("He waited for {} minutes", 50),
    ("There are {} steps to the tower", 268), ("The box holds {} candles", 96),
]


def loose(text):
    """Regex of the words of `text`: any white space between them, punctuation escaped."""
    return r"\s+".join(map(re.escape, text.split())).replace(r"\-", "-")


def alone(text, case="(?i)"):
    """The whole answer is `text`, after at most one short line such as "Sure, here it is:"."""
    return {"regex": rf"{case}^([^\n:]{{0,60}}:\s*)?\W*{loose(text)}\W*$"}


def within(pattern, case="(?i)"):
    """The answer contains `pattern` as whole words; for texts that no echo of the question contains."""
    return {"regex": rf"{case}(^|\W){pattern}($|\W)"}


def named(word):
    """The answer is one word, alone, at the start of "W is the …" or after "is" in a sentence."""
    quote = "[\"“”'’*]*"
    return {"regex": rf"(?i)^\W*{word}{quote}(\W*$|\n|\s+is\s+the\b)|\bis:?\W+{word}{quote}([.,;\n]|$)"}


def questions(rng):
    sentences = iter(rng.sample(SENTENCES, len(SENTENCES)))
    words = lambda count: rng.sample(WORDS, count)

    for start in STARTS * (len(SENTENCES) // len(STARTS)):
        text = next(sentences)
        yield {"question": f"{start}: {text}.", "answer": alone(text, ""), "not": start}
    for code in CODES:
        yield {"question": f"Copy this code exactly: {code}", "answer": alone(code, ""), "not": "Copy this code"}

    sentences = rng.sample(SENTENCES, 18)
    for place, index in (("first", 0), ("last", -1), ("second", 1)):
        for text in sentences[:6]:
            word = text.split()[index]
            yield {"question": f"What is the {place} word of this sentence? {text}.", "answer": named(word)}
        sentences = sentences[6:]
    for text, number in COUNTED:
        yield {"question": f"Write only the number in this sentence: {text.format(number)}.", "answer": named(str(number))}
    for place, index in (("first", 0), ("second", 1), ("last", 2)):
        items = words(3)
        yield {"question": f"What is the {place} word in this list? {', '.join(items)}", "answer": named(items[index])}

    for old, new, text in SWAPS:
        target = " ".join(new if word == old else word for word in text.split())
        yield {"question": f'Replace the word "{old}" with "{new}": {text}.', "answer": within(loose(target))}
    for word, text in EXTRA:
        target = " ".join(part for part in text.split() if part != word)
        yield {"question": f'Remove the word "{word}" from this sentence: {text}.', "answer": within(loose(target))}
    for word, text in ADDED:
        target = rf"{loose(text)}[,.]?\s+[\"“]?{word}"
        yield {"question": f'Add the word "{word}" to the end of this sentence: {text}', "answer": within(target)}

    for text in CAPITALS:
        yield {"question": f"Write this in capital letters: {text}", "answer": within(loose(text.upper()), "")}
    for text in SMALL:
        yield {"question": f"Write this in small letters: {text}", "answer": within(loose(text.lower()), "")}
    for _ in range(5):
        one, two = words(2)
        turned = rf"(1\W+)?{two}\W+(and\s+|2\W+)?{one}"
        answer = {"regex": rf"(?i)^\W*{turned}\W*$|(\b(is|are)|:)\W*{turned}\W*$"}
        yield {"question": f"Write these two words in the opposite order: {one} {two}", "answer": answer}
    for word in words(4):
        thrice = rf"(1\W+)?{word}\W+(2\W+)?{word}\W+(3\W+)?{word}"
        yield {"question": f'Write the word "{word}" three times.', "answer": {"regex": rf"(?i)^\W*{thrice}\W*$"}}

    for text, target in PAST:
        yield {"question": f"Rewrite this sentence in the past tense: {text}.", "answer": within(loose(target))}
    for text in NEGATIVE:
        target = re.sub(r"\\s\+(is|are|was|were)\b", r"\\s+\1(\\s+not|n['’]t)", loose(text))
        yield {"question": f'Add the word "not" to this sentence: {text}.', "answer": within(target)}
    for text, target in ASKED:
        yield {"question": f"Turn this sentence into a question: {text}.", "answer": within(loose(target))}
    for name in PEOPLE:
        first, last = name.split()
        yield {"question": f"Write this name with the last name first: {name}", "answer": within(rf"{last},?\s+{first}")}
