"""Instructions whose being followed can be seen in the form of the answer."""

YES_NO = [
    ("Is fire hot?", "yes"), ("Can a fish drive a car?", "no"), ("Is a dog an animal?", "yes"), ("Is the Sun cold?", "no"),
    ("Is ten more than two?", "yes"), ("Do cows lay eggs?", "no"), ("Is snow white?", "yes"), ("Is a lemon sweet like sugar?", "no"),
    ("Do birds have wings?", "yes"), ("Is a mouse bigger than an elephant?", "no"), ("Can people read books?", "yes"), ("Is winter warmer than summer?", "no"),
]
ONE_WORD = [
    ("What is the opposite of cold?", "hot|warm"), ("What colour is blood?", "red"), ("Which animal says meow?", "(an? |the )?(cat|kitten)s?"),
    ("What do we call frozen water?", "ice"), ("What is the opposite of big?", "small|little|tiny"), ("What is the capital of France?", "paris"),
    ("Which day comes after Friday?", "saturday"), ("What colour is grass?", "green"),
]
COLOURS = ["red", "blue", "green", "yellow", "orange", "purple", "pink", "brown", "black", "white", "gr[ae]y"]
KINDS = {
    "a colour": "|".join([*COLOURS, "violet", "turquoise", "gold", "silver", "indigo", "teal", "cyan", "magenta", "beige", "maroon", "lavender"]),
    "a fruit": "apple|banana|orange|pear|grape|peach|plum|cherry|lemon|lime|mango|kiwi|strawberry|blueberry|raspberry|pineapple|melon|watermelon|fig|apricot|papaya|coconut|pomegranate|avocado|tomato",
    "an animal": "dog|cat|horse|cow|lion|tiger|elephant|bird|fish|bear|wolf|fox|rabbit|sheep|goat|pig|monkey|mouse|snake|frog|duck|chicken|whale|dolphin|giraffe|zebra|eagle|panda|kangaroo|deer|penguin|shark|turtle|owl|koala|gorilla|cheetah|crocodile|hippopotamus|rhinoceros|camel|squirrel|octopus|bee|ant|spider|butterfly",
    "a day of the week": "monday|tuesday|wednesday|thursday|friday|saturday|sunday",
    "a month": "january|february|march|april|may|june|july|august|september|october|november|december",
    "a season": "spring|summer|autumn|fall|winter",
    "a planet": "mercury|venus|earth|mars|jupiter|saturn|uranus|neptune",
}
RANGES = [(1, 5), (1, 9), (3, 7), (2, 6), (5, 8)]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
TOPICS = ["garden", "train", "sister", "coffee", "moon", "bicycle", "winter", "teacher", "bridge", "umbrella"]
CHOICES = [
    ("Which is an animal?", ["stone", "horse"], 1), ("Which is a fruit?", ["pear", "chair"], 0), ("Which is hot?", ["ice", "fire"], 1),
    ("Which is a number?", ["seven", "green"], 0), ("Which can fly?", ["a bird", "a table"], 0), ("Which is a drink?", ["bread", "milk"], 1),
]


def only(pattern):
    """The whole answer is `pattern`."""
    return {"regex": rf"(?i)^\W*({pattern})\W*$"}


def exactly(pattern):
    """The answer contains `pattern` as whole words, in that case; for texts that no echo contains."""
    return {"regex": rf"(^|\W){pattern}($|\W)"}


def in_sentence(word, end=""):
    """`word`, or its plural, among at least three other words."""
    around = [(before, 3 - before) for before in range(4)]
    ways = "|".join(rf"(\w+\W+){{{before}}}{word}s?(\W+\w+){{{after}}}" for before, after in around)
    return {"regex": rf"(?is)\b({ways})\b" + (rf".*{end}\W*$" if end else "")}


def two_of(kinds):
    """Two different ones of `kinds`, with a comma or "and" between."""
    pairs = "|".join(rf"{one}(\s*,\s*(and )?|,? and ){'(' + '|'.join(k for k in kinds if k != one) + ')'}" for one in kinds)
    return {"regex": rf"(?i)^\W*({pairs})\W*$"}


def counted(first, last, separator=r"[\s,.]+(and )?"):
    step = 1 if last > first else -1
    return only(separator.join(rf"({n}|{NUMBERS[n]})" for n in range(first, last + step, step)))


def questions(rng):
    for number, (asked, right) in enumerate(YES_NO):
        if number % 3:
            yield {"question": f"Answer with only yes or no: {asked}", "answer": only(right)}
        else:
            yield {"question": f"{asked} Begin your answer with yes or no.", "answer": {"regex": rf"(?i)^\W*{right}\b"}}
    for number, (asked, right) in enumerate(ONE_WORD):
        tail = ["Answer with one word.", "Reply with a single word only."][number % 2]
        yield {"question": f"{asked} {tail}", "answer": only(right)}
    for kind, names in KINDS.items():
        yield {"question": f"Name {kind}. Write only its name.", "answer": only(rf"(an? |the )?({names})(s|es)?")}
    for low, high in RANGES:
        inside = "|".join(f"{n}|{NUMBERS[n]}" for n in range(low, high + 1))
        yield {"question": f"Reply with one number between {low} and {high}, and nothing else.", "answer": only(inside)}

    for number, topic in enumerate(TOPICS):
        if number % 2:
            yield {"question": f'Write a short sentence that contains the word "{topic}".', "answer": in_sentence(topic), "not": ["Write a short sentence", "contains the word"]}
        else:
            yield {"question": f"Write one sentence about a {topic}, and end it with an exclamation mark." if topic != "coffee" else "Write one sentence about coffee, and end it with an exclamation mark.",
                   "answer": in_sentence(topic, "!"), "not": ["Write one sentence", "exclamation mark"]}
    for topic in ["cats", "books", "rain", "music", "school", "football"]:
        yield {"question": f"Ask me a question about {topic}.", "answer": {"regex": rf"(?is)\b{topic.rstrip('s')}s?\b[^.!]*\?"}, "not": "Ask me a question"}

    for word in ["apple", "tiger", "music", "orange", "window", "hello", "paper"]:
        yield {"question": f"Write the word {word} in capital letters.", "answer": exactly(word.upper())}
    for word in ["sun", "lamp", "north"]:
        yield {"question": f"Write the word {word} in brackets.", "answer": {"regex": rf"(?i)[(\[]\s*{word}\s*[)\]]"}}
    for word in ["moon", "chair", "fast"]:
        yield {"question": f"Write the word {word} in quotation marks, and nothing else.", "answer": {"regex": rf"(?i)^[\"“'‘«]\s*{word}[.,]?\s*[\"”'’»]\.?$"}}
    for word in ["banana", "yes", "ready", "thank you", "good night"]:
        yield {"question": f'Reply with only "{word}".', "answer": only(word.replace(" ", r"\s+"))}
    for word in ["cat", "dog", "milk"]:
        yield {"question": f"Write the letters of the word {word} with hyphens between them.", "answer": {"regex": rf"(?i)(^|[^\w-]){'-'.join(word)}($|[^\w-])"}}

    for first, last in ((1, 5), (1, 10), (3, 8), (5, 1), (3, 1)):
        way = "Count from" if last > first else "Count down from"
        yield {"question": f"{way} {first} to {last}.", "answer": counted(first, last)}
    yield {"question": "Write the first three letters of the alphabet, separated by commas.", "answer": only(r"a\s*,\s*b\s*,\s*(and )?c")}
    yield {"question": "Write the four seasons, separated by commas. Start with spring.", "answer": only(r"spring\s*,\s*summer\s*,\s*(autumn|fall)\s*,\s*(and )?winter")}
    yield {"question": "Write the days of the weekend, separated by a comma.", "answer": only(r"saturday\s*,\s*(and )?sunday")}
    yield {"question": "Write the numbers 2, 4 and 6 separated by hyphens.", "answer": {"regex": r"(^|[^\d-])2\s?-\s?4\s?-\s?6($|[^\d-])"}}
    yield {"question": "Name two colours, separated by a comma.", "answer": two_of(COLOURS)}
    yield {"question": "Name two days of the week and nothing else.", "answer": two_of([f"{day}days?" for day in "mon tues wednes thurs fri satur sun".split()])}

    for number, word in ((7, "seven"), (12, "twelve"), (20, "twenty"), (3, "three")):
        yield {"question": f"Write the number {number} in words.", "answer": {"regex": rf"(?i)(^|[^\w-]){word}($|[^\w-])"}}
        yield {"question": f"Write the number {word} in digits.", "answer": {"regex": rf"(^|[^\d.,-]){number}($|[^\d.,]|[.,]($|\D))"}}
    for asked, options, right in CHOICES:
        letter = "AB"[right]
        shown = f"A) {options[0]} B) {options[1]}"
        yield {"question": f"{asked} {shown} Answer with the letter only.", "answer": only(rf"((the )?(correct )?answer( is)?\W+)?{letter}\W*({options[right]})?")}
    for options in (["cat", "chair", "cloud"], ["red", "five", "tree"], ["left", "right", "middle"], ["tea", "coffee", "juice"]):
        yield {"question": f"Choose one of these words and write only that word: {', '.join(options)}.", "answer": only("|".join(options))}

    for name in ["Anna", "Mr. Brown", "Lee"]:
        hello = r"(hello|hi|hey|dear|greetings|welcome|good (morning|day|afternoon|evening))"
        yield {"question": f"Say hello to {name}.", "answer": {"regex": rf"(?is)^\W*{hello}\b.{{0,20}}\b{name.split()[-1]}\b"}}
    for start, asked, right in (("Answer:", "What is the capital of Italy?", "Rome"), ("Answer:", "What is two plus two?", r"(4|four)"), ("Well,", "Is ice cold?", "(yes|is|cold)")):
        yield {"question": f'{asked} Begin your reply with "{start}"', "answer": {"regex": rf"(?is)^\W*{start}.*\b{right}\b"}}
    for word in ["done", "goodbye", "over"]:
        yield {"question": f'Tell me one thing about dogs. End your reply with the word "{word}".', "answer": {"regex": rf"(?is)\bdogs?\b.*\W{word}\W*$"}, "not": ["End your reply", "Tell me one thing"]}
    for size in (3, 4, 5):
        yield {"question": f"Write a sentence of exactly {NUMBERS[size]} words.", "answer": {"regex": rf"^\W*([\w'’-]+[\s,:;]+){{{size - 1}}}[\w'’-]+\W*$"}}
