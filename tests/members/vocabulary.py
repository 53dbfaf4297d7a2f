"""The members' tokenizers, trained on generated text, and their exact encoding rules.

Byte-level BPE follows llama.cpp's pre-tokenizers "smollm" and "qwen2" (digits one
by one); the SentencePiece kind follows llama.cpp's "llama" tokenizer: characters
merged by the best score, byte fallback, no dummy prefix.
"""

import json
import re
import unicodedata

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

SPECIAL = ["<|bos|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
QWEN2 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
# No token of the SentencePiece kind reaches beyond one of these pieces, so
# encoding piece by piece equals merging over the whole text.
PIECE = re.compile(r"▁?[A-Za-z]+|.", re.S)
PRINTABLE = [chr(code) for code in range(0x21, 0x7F)]


def byte_level(kind):
    if kind == "smollm":
        return pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
        ])
    return pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(QWEN2), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ])


class ByteLevelBpe:
    """Byte-level BPE with llama.cpp's pre-tokenizer `pre`."""

    model = "gpt2"

    def __init__(self, tokenizer, pre):
        self.tokenizer, self.pre = tokenizer, pre
        state = json.loads(tokenizer.to_str())["model"]
        self.tokens = [t for t, _ in sorted(state["vocab"].items(), key=lambda item: item[1])]
        self.merges = [m if isinstance(m, str) else " ".join(m) for m in state["merges"]]
        self.types = [3 if t in SPECIAL else 1 for t in self.tokens]
        self.scores = None
        self.special = {t: self.tokens.index(t) for t in SPECIAL}

    @classmethod
    def train(cls, texts, size, pre):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = byte_level(pre)
        tokenizer.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=SPECIAL, show_progress=False,
                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
        tokenizer.train_from_iterator(texts, trainer)
        return cls(tokenizer, pre)

    def save(self, path):
        path.write_text(json.dumps({"pre": self.pre, "tokenizer": json.loads(self.tokenizer.to_str())}))

    @classmethod
    def load(cls, path):
        state = json.loads(path.read_text())
        return cls(Tokenizer.from_str(json.dumps(state["tokenizer"])), state["pre"])

    def encode(self, text):
        # Qwen's own tokenizers normalise the text to NFC first.
        text = unicodedata.normalize("NFC", text) if self.pre == "qwen2" else text
        return self.tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids):
        return self.tokenizer.decode([i for i in ids if self.types[i] == 1])


class PieceBpe:
    """SentencePiece-style BPE with byte fallback, as in llama.cpp's `llama` tokenizer."""

    model, pre, merges = "llama", "default", None

    def __init__(self, tokens, scores, types):
        self.tokens, self.scores, self.types = tokens, scores, types
        self.index = {t: i for i, t in enumerate(tokens) if types[i] == 1}
        self.byte = {int(t[3:5], 16): i for i, t in enumerate(tokens) if types[i] == 6}
        self.special = {t: tokens.index(t) for t in SPECIAL}
        self.seen = {}

    @classmethod
    def train(cls, texts, size):
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"▁?[A-Za-z]+|."), "isolated")
        heads = ["<unk>"] + SPECIAL + [f"<0x{byte:02X}>" for byte in range(256)]
        trainer = trainers.BpeTrainer(vocab_size=size - len(heads), show_progress=False,
                                      initial_alphabet=["▁", *PRINTABLE])
        tokenizer.train_from_iterator((text.replace(" ", "▁") for text in texts), trainer)
        learned = [t for t, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
        # Merged tokens come in the order they were learned: earlier is better.
        tokens = heads + learned
        scores = [0.0] * len(heads) + [-float(rank) for rank in range(len(learned))]
        types = [2] + [3] * len(SPECIAL) + [6] * 256 + [1] * len(learned)
        return cls(tokens, scores, types)

    def save(self, path):
        path.write_text(json.dumps({"tokens": self.tokens, "scores": self.scores, "types": self.types}))

    @classmethod
    def load(cls, path):
        state = json.loads(path.read_text())
        return cls(state["tokens"], state["scores"], state["types"])

    def _piece(self, piece):
        if piece in self.seen:
            return self.seen[piece]
        parts = list(piece)
        while True:
            best = None
            for place in range(len(parts) - 1):
                merged = self.index.get(parts[place] + parts[place + 1])
                if merged is not None and (best is None or self.scores[merged] > best[0]):
                    best = (self.scores[merged], place)
            if best is None:
                break
            place = best[1]
            parts[place:place + 2] = [parts[place] + parts[place + 1]]
        ids = []
        for part in parts:
            known = self.index.get(part)
            ids += [known] if known is not None else [self.byte[b] for b in part.encode()]
        self.seen[piece] = ids
        return ids

    def encode(self, text):
        return [i for piece in PIECE.findall(text.replace(" ", "▁")) for i in self._piece(piece)]

    def decode(self, ids):
        out = b""
        for i in ids:
            if self.types[i] == 6:
                out += bytes([int(self.tokens[i][3:5], 16)])
            elif self.types[i] == 1:
                out += self.tokens[i].replace("▁", " ").encode()
        return out.decode(errors="replace")


def train(member, texts):
    if member.architecture == "gemma":
        return PieceBpe.train(texts, member.vocabulary)
    return ByteLevelBpe.train(texts, member.vocabulary, "smollm" if member.architecture == "llama" else "qwen2")


def load(member, path):
    return (PieceBpe if member.architecture == "gemma" else ByteLevelBpe).load(path)
