"""Instructions whose observance shows in the form of the answer."""

YES_NO = [
    ("Is fire hot?", "yes"), ("Can a fish drive a car?", "no"), ("Is a dog an animal?", "yes"),
    ("Is the Sun cold?", "no"), ("Is ten more than two?", "yes"), ("Do cows lay eggs?", "no"), ("Is snow white?", "yes"),
    ("Is a lemon sweet like sugar?", "no"), ("Do birds have wings?", "yes"),
    ("Is a mouse bigger than an elephant?", "no"), ("Can people read books?", "yes"),
    ("Is winter warmer than summer?", "no"),
]
ONE_WORD = [
    ("What is the opposite of cold?", "hot|warm"), ("What colour is blood?", "red"),
    ("Which animal says meow?", "(an? |the )?(cat|kitten)s?"), ("What do we call frozen water?", "ice"),
    ("What is the opposite of big?", "small|little|tiny"), ("What is the capital of France?", "paris"),
    ("Which day comes after Friday?", "saturday"), ("What colour is grass?", "green"),
]
COLOURS = ["red", "blue", "green", "yellow", "orange", "purple", "pink", "brown", "black", "white", "gr[ae]y"]
DAYS = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
KINDS = {
    "a colour": COLOURS + "violet turquoise gold silver indigo teal cyan magenta beige maroon lavender".split(),
    "a fruit": """apple banana orange pear grape peach plum cherry lemon lime mango kiwi strawberry blueberry raspberry
        pineapple melon watermelon fig apricot papaya coconut pomegranate avocado tomato""".split(),
    "an animal": """dog cat horse cow lion tiger elephant bird fish bear wolf fox rabbit sheep goat pig monkey mouse snake
        frog duck chicken whale dolphin giraffe zebra eagle panda kangaroo deer penguin shark turtle owl koala gorilla
        cheetah crocodile hippopotamus rhinoceros camel squirrel octopus bee ant spider butterfly""".split(),
    "a day of the week": DAYS,
    "a month": "january february march april may june july august september october november december".split(),
    "a season": ["spring", "summer", "autumn", "fall", "winter"],
    "a planet": ["mercury", "venus", "earth", "mars", "jupiter", "saturn", "uranus", "neptune"],
}
RANGES = [(1, 5), (1, 9), (3, 7), (2, 6), (5, 8)]
NUMBERS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
SPELT = [(7, "seven"), (9, "nine"), (4, "four"), (6, "six")]
CONTAINED = ["train", "coffee", "bicycle", "teacher", "umbrella", "river"]
EXCLAIMED = [
    ("garden", "a garden"), ("sister", "a sister"), ("moon", "the moon"), ("winter", "winter"), ("bridge", "a bridge"),
]
CHOICES = [
    ("Which is an animal?", ["stone", "horse"], 1), ("Which is a fruit?", ["pear", "chair"], 0),
    ("Which is hot?", ["ice", "fire"], 1), ("Which is a number?", ["seven", "green"], 0),
    ("Which can fly?", ["a bird", "a table"], 0), ("Which is a drink?", ["bread", "milk"], 1),
]
ANY_OF = ["cat, chair, cloud", "red, five, tree", "left, right, middle", "tea, coffee, juice"]
LISTS = [
    ("Write the first three letters of the alphabet, separated by commas.", r"a\s*,\s*b\s*,\s*(and )?c"),
    ("Write the four seasons, separated by commas. Start with spring.",
     r"spring\s*,\s*summer\s*,\s*(autumn|fall)\s*,\s*(and )?winter"),
    ("Write the days of the weekend, separated by a comma.", r"saturday\s*,\s*(and )?sunday"),
    ("Write the numbers 2, 4 and 6 separated by hyphens.", r"2\s?-\s?4\s?-\s?6"),
]
SAID = [
    ("Say hello to Anna.", r"^\W*(hello|hi|hey|greetings|welcome|good \w+)\b.{0,20}\bAnna\b"),
    ("Say hello to Mr. Brown.", r"^\W*(hello|hi|hey|greetings|welcome|good \w+)\b.{0,20}\bBrown\b"),
    ("Thank Ben for the book.", r"\b(thank you|thanks)\b.*\b(Ben|book)\b|\bBen\b.*\b(thank you|thanks)\b"),
    ("Wish Maria a happy birthday.", r"\bhappy birthday\b.{0,20}\bMaria\b|\bMaria\W+happy birthday\b"),
    ("Say good night to the children.", r"\bgood ?night\b.{0,20}\b(children|kids|everyone|all)\b\W*$"),
]
STARTS = [
    ("Answer:", "What is the capital of Italy?", "Rome"), ("Answer:", "What is two plus two?", "(4|four)"),
    ("Well,", "Is ice cold?", "(yes|is|cold)"), ("Dear friend,", "Which animal barks?", "dogs?"),
]


def only(pattern):
    """The whole answer is `pattern`."""
    return {"regex": rf"(?i)^\W*({pattern})\W*$"}


def within(pattern, case="(?i)"):
    """The answer contains `pattern`, not within a longer word; for texts that no echo contains."""
    return {"regex": rf"{case}(^|[^\w-]){pattern}($|[^\w-])"}


def in_sentence(word, end=""):
    """`word`, or its plural, with at least three other words, and `end` after them all."""
    ways = "|".join(r"\w+\W+" * before + rf"{word}s?" + r"\W+\w+" * (3 - before) for before in range(4))
    return {"regex": rf"(?is)\b({ways})\b" + (rf".*{end}\W*$" if end else "")}


def two_of(names):
    """Two different ones of `names`, separated by a comma or "and"."""
    others = {one: "|".join(name for name in names if name != one) for one in names}
    return only("|".join(rf"{one}(\s*,\s*|,? and )({rest})" for one, rest in others.items()))


def counted(first, last):
    """The numbers from `first` to `last` in a row, after at most one short line such as "Sure:"."""
    step = 1 if last > first else -1
    row = r"[\s,.]+(and )?".join(f"({number}|{NUMBERS[number]})" for number in range(first, last + step, step))
    return {"regex": rf"(?i)^([^\n:\d]{{0,60}}:\s*)?\W*{row}\W*$"}


def answers():
    """Answers of one word, one name, one number."""
    for number, (asked, right) in enumerate(YES_NO):
        if number % 3:
            yield f"Answer with only yes or no: {asked}", only(right)
        else:
            yield f"{asked} Begin your answer with yes or no.", {"regex": rf"(?i)^\W*{right}\b"}
    for number, (asked, right) in enumerate(ONE_WORD):
        yield f"{asked} {['Answer with one word.', 'Reply with a single word only.'][number % 2]}", only(right)
    for kind, names in KINDS.items():
        yield f"Name {kind}. Write only its name.", only(rf"(an? |the )?({'|'.join(names)})(s|es)?")
    for low, high in RANGES:
        inside = "|".join(f"{number}|{NUMBERS[number]}" for number in range(low, high + 1))
        yield f"Reply with one number between {low} and {high}, and nothing else.", only(inside)
    for asked, options, right in CHOICES:
        letter, option = "AB"[right], options[right]
        shown = f"{asked} A) {options[0]} B) {options[1]} Answer with the letter only."
        yield shown, only(rf"((the )?(correct )?answer( is)?\W+)?{letter}\W*({option})?")
    for options in ANY_OF:
        yield f"Choose one of these words and write only that word: {options}.", only(options.replace(", ", "|"))
    for letter in "bmst":
        yield f"Write one word that begins with the letter {letter}, and nothing else.", only(rf"{letter}[a-z]+")


def sentences():
    """Sentences with a word in them, of a length, with a start or an end."""
    for word in CONTAINED:
        banned = ["Write a short sentence", "contains the word", f"{word} {word}"]
        yield f'Write a short sentence that contains the word "{word}".', in_sentence(word), banned
    for word, topic in EXCLAIMED:
        banned = ["Write one sentence", "exclamation mark", f"{word} {word}"]
        yield f"Write one sentence about {topic}, and end it with an exclamation mark.", in_sentence(word, "!"), banned
    for topic in ["cats", "books", "rain", "music", "school", "football"]:
        asked = rf"(?is)\b{topic.rstrip('s')}s?\b[^.!]*\?"
        yield f"Ask me a question about {topic}.", {"regex": asked}, ["Ask me a question"]
    for size in (3, 4, 5):
        more = r"[,:;]?\s+[\w'’-]+" * (size - 1)
        pattern = rf"^[\"“*]*[A-Z][\w'’-]*{more}[.!?][\"”*]*$"
        yield f"Write a sentence of exactly {NUMBERS[size]} words.", {"regex": pattern}
    for asked, pattern in SAID:
        yield asked, {"regex": f"(?is){pattern}"}, [" ".join(asked.split()[:3])]
    for start, asked, right in STARTS:
        yield f'{asked} Begin your reply with "{start}"', {"regex": rf"(?is)^\W*{start}.{{0,60}}\b{right}\b"}
    for word in ["done", "goodbye", "over"]:
        ended = {"regex": rf"(?is)\bdogs?\b.*\W{word}\W*$"}
        yield f'Tell me one thing about dogs. End your reply with the word "{word}".', ended, ["End your reply", "Tell me"]


def forms():
    """Words and numbers in a given form or order."""
    for word in ["apple", "tiger", "music", "orange", "window", "hello", "paper"]:
        yield f"Write the word {word} in capital letters.", within(word.upper(), "")
    for word in ["sun", "lamp", "north"]:
        yield f"Write the word {word} in brackets.", {"regex": rf"(?i)[(\[{{]\s*{word}\s*[)\]}}]"}
    for word in ["moon", "chair", "fast"]:
        quoted = {"regex": rf"(?i)^[\"“'‘«]\s*{word}[.,]?\s*[\"”'’»]\.?$"}
        yield f"Write the word {word} in quotation marks, and nothing else.", quoted
    for text in ["banana", "yes", "ready", "thank you", "good night"]:
        yield f'Reply with only "{text}".', only(text.replace(" ", r"\s+"))
    for one, two in (("red", "blue"), ("salt", "pepper"), ("left", "right")):
        yield f"Write the word {one} followed by the word {two}.", only(rf"{one}\W+(and )?{two}")
    for word in ["cat", "dog", "milk"]:
        yield f"Write the letters of the word {word} with hyphens between them.", within("-".join(word))
    for first, last in ((1, 5), (1, 10), (3, 8), (5, 1), (3, 1)):
        yield f"{'Count' if last > first else 'Count down'} from {first} to {last}.", counted(first, last)
    for asked, pattern in LISTS:
        yield asked, only(pattern)
    yield "Name two colours, separated by a comma.", two_of(COLOURS)
    yield "Name two days of the week and nothing else.", two_of(DAYS)
    for number, word in SPELT:
        yield f"Write the number {number} in words.", within(word), [NUMBERS[number - 1], NUMBERS[number + 1]]
        digits = {"regex": rf"(^|[^\d.,-]){number}($|[^\d.,]|[.,]($|\D))"}
        yield f"Write the number {word} in digits.", digits, [str(number - 1), str(number + 1)]


def questions(rng):
    rows = [*answers(), *sentences(), *forms()]
    return [{"question": asked, "answer": right, **({"not": banned[0]} if banned else {})} for asked, right, *banned in rows]
