"""Small tokenizers of every kind in use, trained by the makers' own trainers.

`train(recipe, size, folder)` writes tokenizer.json, tokenizer_config.json and the chat template,
and for SentencePiece kinds the tokenizer.model that llama.cpp's converter reads.
"""

import io
import random

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GemmaTokenizer, LlamaTokenizer, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import generate_merges

# Published pre-tokenisers of the byte-level families.
SPLITS = {
    "llama-bpe": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "qwen2": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "glm4": r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "gpt-4o": r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}

# The first two are the beginning and end of text.
CONTROLS = {
    "llama-bpe": ["<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>"],
    "qwen2": ["<|endoftext|>", "<|im_end|>", "<|im_start|>"],
    "glm4": ["<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>"],
    "gpt-4o": ["<|endoftext|>", "<|end|>", "<|user|>", "<|assistant|>"],
    "gpt2": ["<|endoftext|>", "<|im_end|>", "<|im_start|>"],
}

TEMPLATE = (
    "{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def sentences(count=400):
    """Training text: words of a few scripts, numbers, code."""
    draw = random.Random(7)
    words = ("the of and to in is that for it as was with be by on not he his but at are this have from or had an "
             "they which one you were all her she there would their we him been has when who will no more if out "
             "so up said what its about than into them can only other time new some could these two may first then "
             "straße café naïve überall été señor Москва привет мир 東京 日本語 한국어 سلام שלום def return self for "
             "print() x = [1, 2, 3] 3.14 2026 1000000 don't I'm we've").split()
    return [" ".join(draw.choice(words) for _ in range(draw.randrange(4, 14))) + draw.choice(".!?") for _ in range(count)]


def train(recipe, size, folder):
    """Trains a tokenizer of at most `size` tokens, exactly `size` for the SentencePiece kinds, into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    made = sentencepiece_kind(recipe, size, folder) if recipe in ("spm", "gemma") else byte_level(recipe, size)
    made.chat_template = TEMPLATE
    made.save_pretrained(folder)


def byte_level(recipe, size):
    inner = Tokenizer(models.BPE())
    if recipe == "gpt2":
        inner.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)])
    else:
        inner.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(SPLITS[recipe]), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    inner.decoder = decoders.ByteLevel()
    controls = CONTROLS[recipe]
    trainer = trainers.BpeTrainer(
        vocab_size=size - 3, special_tokens=[AddedToken(c, special=True) for c in controls],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), show_progress=False)
    inner.train_from_iterator(sentences(), trainer)
    # Phi-4's folder says GPT2Tokenizer, which distinguishes it from Phi-3's for the converter.
    made = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token=controls[0], eos_token=controls[1],
                                   pad_token=controls[0], clean_up_tokenization_spaces=False)
    return made


def sentencepiece_kind(recipe, size, folder):
    ids = dict(pad_id=0, eos_id=1, bos_id=2, unk_id=3) if recipe == "gemma" else dict(pad_id=-1, unk_id=0, bos_id=1, eos_id=2)
    names = dict(bos_piece="<bos>", eos_piece="<eos>", pad_piece="<pad>") if recipe == "gemma" else {}
    file = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences()), model_writer=file, vocab_size=size, model_type="bpe", byte_fallback=True,
        split_digits=True, allow_whitespace_only_pieces=True, normalization_rule_name="identity",
        remove_extra_whitespaces=False, add_dummy_prefix=recipe != "gemma", minloglevel=2, num_threads=1, **ids, **names)
    (folder / "tokenizer.model").write_bytes(file.getvalue())
    pieces = sentencepiece.SentencePieceProcessor(model_proto=file.getvalue())
    vocabulary = {pieces.id_to_piece(i): i for i in range(pieces.get_piece_size())}
    scores = {pieces.id_to_piece(i): pieces.get_score(i) for i in range(pieces.get_piece_size())}
    merges = generate_merges(vocabulary, scores)
    return (GemmaTokenizer if recipe == "gemma" else LlamaTokenizer)(vocab=vocabulary, merges=merges)
