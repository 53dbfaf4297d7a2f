"""Texts for both engines: 20 prompts, conversations, and candidates after a prefix."""

import pathlib

FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures" / "published"

# H. G. Wells, The Time Machine (1895), chapters I to III; the longer prompts begin at different paragraphs.
NOVEL = (FIXTURES / "time-machine.txt").read_text().strip().split("\n\n")
# Washington Irving, The Legend of Sleepy Hollow (1820), its beginning.
FORETOLD = (FIXTURES / "sleepy-hollow.txt").read_text().strip()

LONGEST = 1500

SHORT = {
    "capital": "The capital of France is",
    "sums": "2 + 2 = 4\n3 + 5 = 8\n7 + 6 =",
    "code": "def fibonacci(n):\n    if n < 2:\n        return n\n    return",
    "rhyme": "Roses are red,\nviolets are blue,\nsugar is sweet,\nand so are",
    "languages": "Guten Morgen! ¿Qué tal? C'est très bien, merci. Доброе утро. おはようございます。早上好。 صباح الخير "
                 "καλημέρα שלום नमस्ते 안녕하세요",
    "emoji": "🌤️ + 🌧️ = 🌈! 👩‍👩‍👧‍👦 family, 🇫🇷 flag, e\u0301 accent, ﬁ ligature, ½ ≠ ⅓, ∑ᵢ xᵢ²",
    "spaces": "a  b   c    d\t\te\n\n\nf \n g\r\nh      i        j",
    "numbers": "0 1 12 123 1234 12345 3.14159 -2,718,281 1e-9 0x7ffF 1/2 50% $19.99 2026-11-22 07:45:30 192.168.0.1",
    "json": '{"name": "Ada", "born": 1815, "tags": ["first", "programmer"], "nested": {"a": null, "b": [true, false, 1.5e3]},',
    "table": "| city | river | people |\n|---|---|---:|\n| Paris | Seine | 2,100,000 |\n| Vienna | Danube | 2,000,000 |\n| London |",
    "problem": "A baker has 24 rolls. In the morning she sells 9 of them, at noon 7 more, and then she bakes another "
               "dozen. How many rolls does she have in the evening? Let us think step by step. She begins with",
    "sonnet": "Shall I compare thee to a summer's day?\nThou art more lovely and more temperate:\nRough winds do shake "
              "the darling buds of May,\nAnd summer's lease hath all too short a date:\nSometime too hot the eye of "
              "heaven shines,\nAnd often is his gold complexion dimm'd;\nAnd every fair from fair sometime declines,\n"
              "By chance or nature's changing course untrimm'd;\nBut thy eternal summer shall not fade\nNor lose "
              "possession of that fair thou owest;",
    "markup": "<ul>\n  <li><a href=\"index.html?q=1&amp;r=2\">Home</a></li>\n  <li class='on'>Tom &amp; Jerry</li>\n</ul>\n"
              "<!-- <|im_start|> and <start_of_turn> are text here -->\n<p>",
    "again": "tick tock " * 90,
    "list": "\n".join(f"{n}. {n} squared is {n * n}, and {n} cubed is {n ** 3}." for n in range(1, 16)) + "\n16.",
}

# (name, first paragraph of the novel, maximum tokens): around and beyond Gemma's window of 512 tokens.
LONG = [("supper", 24, 300), ("window", 10, 512), ("beyond", 40, 640), ("club", 3, 900), ("longest", 0, LONGEST)]

# Conversations, rendered with the model's chat template, or the plain one if it has none.
CONVERSATIONS = [
    [("user", "What is the capital of France?")],
    [("system", "Answer in one word."), ("user", "Which planet is known as the red one?"),
     ("assistant", "Mars"), ("user", "And which is the largest?")],
    [("user", "Write <|im_end|> and <end_of_turn>, please.")],
    *[[("user", question)] for question in [
        "What is 2 + 2?", "Name the three primary colors.", "Who wrote Romeo and Juliet?", "What do bees make?",
        "How many days are there in a week?", "Which animal says meow?", "What is the opposite of hot?"]],
]

# Prompts of which, besides the first words of the novel's paragraphs, the clearest greedy texts with enough different tokens are kept.
GREEDY = ["capital", "sums", "code", "rhyme", "table", "problem", "sonnet", "list", "markup", "json", "again", "supper"]
GREEDY_WORDS, GREEDY_TOKENS, GREEDY_VARIETY, GREEDY_KEPT = 12, 24, 10, 6

# Prefixes and candidates after each: whole words, half a word, other languages, one token, many.
CANDIDATES = {
    "capital": [" Paris.", " the city of Paris, which lies on the Seine and has two million people.", " Lyon",
                " Berlin, of course", "\n\nA. London\nB. Paris"],
    "problem": [" 24 rolls.", " 24 rolls, sells 9 and has 15 left; 15 - 7 = 8, and 8 + 12 = 20.", " vingt-quatre", "!"],
    "window": [" He said nothing.", " And then, with a sudden start, the Medical Man rose from his chair and looked "
               "into the fire.", "The", " 3.14159 \n\n\t日本"],
}
# After this one the pass exceeds Gemma's window.
CANDIDATES["beyond"] = CANDIDATES["window"]


def prompts(ids):
    """`{name: text}` of the 20 prompts. `ids` tokenises a text: long prompts are cut between words to a number of ids."""
    found = dict(SHORT)
    for name, first, most in LONG:
        words = "\n\n".join(NOVEL[first:]).split(" ")
        low, high = 1, len(words)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if len(ids(" ".join(words[:middle]))) <= most else (low, middle - 1)
        found[name] = " ".join(words[:low])
    assert len(found) == 20
    return found
