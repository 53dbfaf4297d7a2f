//! Splitting of text into words before merging in byte-level tokenizers, by the names in GGUF files
//! (`tokenizer.ggml.pre`). Each row follows the family's own `tokenizer.json`.
//!
//! The expressions are compiled by `fancy-regex` here and by Oniguruma in Python. Both were run
//! over a line of text around each of 922,496 code points (all but private use and the inner part
//! of the Han and Hangul blocks) and split every line at the same places.

use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::punctuation::Punctuation;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

use crate::TextError;
use crate::words::Steps;

pub(crate) struct PreTokeniser {
    names: &'static [&'static str],
    splits: Splits,
    /// Text is first normalised to NFC.
    composed: bool,
    /// A word that is itself a token is that token, whatever the merges say.
    pub whole_words: bool,
    /// Whether a prompt begins with the BOS token if the file does not say.
    pub bos: bool,
}

enum Splits {
    /// GPT-2's own expression.
    Gpt2,
    /// Every digit alone, then GPT-2's expression.
    DigitsThenGpt2,
    /// Punctuation, GPT-2's expression, runs of digits, then of three digits.
    Falcon,
    /// Expressions, each applied to what those before have left whole.
    Regex(&'static [&'static str]),
    /// Expressions, then every digit alone.
    RegexThenDigits(&'static [&'static str]),
}

/// Rules that most families share except for the splitting.
const PLAIN: PreTokeniser = PreTokeniser {
    names: &[],
    splits: Splits::Gpt2,
    composed: false,
    whole_words: false,
    bos: false,
};

const KNOWN: [PreTokeniser; 18] = [
    PreTokeniser {
        names: &["gpt-2", "default", "phi-2", "granite-docling", "exaone4"],
        ..PLAIN
    },
    PreTokeniser {
        names: &["olmo", "mpt"],
        composed: true,
        ..PLAIN
    },
    PreTokeniser {
        names: &["smollm", "refact", "starcoder", "codeshell"],
        splits: Splits::DigitsThenGpt2,
        ..PLAIN
    },
    PreTokeniser {
        names: &["command-r"],
        splits: Splits::DigitsThenGpt2,
        composed: true,
        ..PLAIN
    },
    PreTokeniser {
        names: &["falcon"],
        splits: Splits::Falcon,
        ..PLAIN
    },
    PreTokeniser {
        names: &["qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "kormo"],
        splits: Splits::Regex(&[QWEN2]),
        composed: true,
        ..PLAIN
    },
    PreTokeniser {
        names: &["qwen35"],
        splits: Splits::Regex(&[QWEN35]),
        composed: true,
        ..PLAIN
    },
    PreTokeniser {
        names: &[
            "llama-bpe",
            "llama3",
            "llama-v3",
            "falcon3",
            "falcon-h1",
            "lfm2",
            "pixtral",
            "midm-2.0",
        ],
        splits: Splits::Regex(&[CL100K]),
        whole_words: true,
        bos: true,
        ..PLAIN
    },
    PreTokeniser {
        names: &["glm4", "glm5"],
        splits: Splits::Regex(&[CL100K]),
        whole_words: true,
        ..PLAIN
    },
    PreTokeniser {
        names: &["dbrx", "smaug-bpe", "chatglm-bpe"],
        splits: Splits::Regex(&[CL100K]),
        ..PLAIN
    },
    PreTokeniser {
        names: &["minicpm5"],
        splits: Splits::Regex(&[r"\p{N}{1,3}", MINICPM5]),
        whole_words: true,
        ..PLAIN
    },
    PreTokeniser {
        names: &["tekken"],
        splits: Splits::Regex(&[TEKKEN]),
        whole_words: true,
        bos: true,
        ..PLAIN
    },
    PreTokeniser {
        names: &["gpt-4o", "llama4", "kanana2"],
        splits: Splits::Regex(&[O200K]),
        ..PLAIN
    },
    PreTokeniser {
        names: &["granite-embed-multi-97m"],
        splits: Splits::Regex(&[O200K]),
        whole_words: true,
        ..PLAIN
    },
    PreTokeniser {
        names: &["seed-coder"],
        splits: Splits::Regex(&[SEED]),
        ..PLAIN
    },
    PreTokeniser {
        names: &["deepseek-llm"],
        splits: Splits::RegexThenDigits(&[
            "[\r\n]",
            DEEPSEEK_LETTERS,
            DEEPSEEK_MARKS,
            r"\s+$",
            DEEPSEEK_HAN,
        ]),
        ..PLAIN
    },
    PreTokeniser {
        names: &["deepseek-coder"],
        splits: Splits::RegexThenDigits(&["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", DEEPSEEK_HAN]),
        ..PLAIN
    },
    PreTokeniser {
        names: &["deepseek-v3", "hunyuan-dense"],
        splits: Splits::Regex(&[r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK3]),
        ..PLAIN
    },
];

const CL100K: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN2: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
);
const QWEN35: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}|",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
);
const MINICPM5: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
);
const TEKKEN: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|",
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
);
const O200K: &str = concat!(
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*",
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|",
    r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
);
const SEED: &str = concat!(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
);
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+";
const DEEPSEEK_MARKS: &str = "\\s?[!-/:-~！-／：-～‘-‟　-。]+";
const DEEPSEEK_HAN: &str = "[一-龥ࠀ-一가-\u{d7ff}]+";
const DEEPSEEK3: &str = concat!(
    r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"##,
    r" ?[\p{P}\p{S}]+[\r\n]*|",
    r"\s*[\r\n]+|\s+(?!\S)|\s+",
);

impl PreTokeniser {
    pub(crate) fn named(name: &str) -> Result<&'static Self, TextError> {
        KNOWN
            .iter()
            .find(|known| known.names.contains(&name))
            .ok_or_else(|| TextError::UnknownPre {
                pre: name.to_owned(),
                known: KNOWN
                    .iter()
                    .flat_map(|known| known.names)
                    .copied()
                    .collect::<Vec<_>>()
                    .join(", "),
            })
    }

    /// Splitting steps; the last maps bytes to their letters.
    fn build(&self) -> Result<PreTokenizerWrapper, TextError> {
        let bytes = |gpt2| PreTokenizerWrapper::from(ByteLevel::new(false, true, gpt2));
        let digits = |individual| PreTokenizerWrapper::from(Digits::new(individual));
        let steps = match self.splits {
            Splits::Gpt2 => vec![bytes(true)],
            Splits::DigitsThenGpt2 => vec![digits(true), bytes(true)],
            Splits::Falcon => vec![
                Punctuation::new(SplitDelimiterBehavior::Contiguous).into(),
                bytes(true),
                digits(false),
                split("[0-9][0-9][0-9]")?,
            ],
            Splits::Regex(expressions) | Splits::RegexThenDigits(expressions) => {
                let mut steps = Vec::new();
                for expression in expressions {
                    steps.push(split(expression)?);
                }
                if matches!(self.splits, Splits::RegexThenDigits(_)) {
                    steps.push(digits(true));
                }
                steps.push(bytes(false));
                steps
            }
        };
        Ok(Sequence::new(steps).into())
    }

    /// Steps before merging.
    pub(crate) fn steps(&self) -> Result<Steps, TextError> {
        Ok(Steps {
            normalisers: if self.composed {
                vec![NFC.into()]
            } else {
                Vec::new()
            },
            pre_tokeniser: Some(self.build()?),
            ..Steps::default()
        })
    }
}

/// Every match of an expression is a word, and so is the text between matches.
fn split(expression: &str) -> Result<PreTokenizerWrapper, TextError> {
    let pattern = SplitPattern::Regex(expression.to_owned());
    Split::new(pattern, SplitDelimiterBehavior::Isolated, false)
        .map(Into::into)
        .map_err(|error| TextError::Tokenizer {
            reason: error.to_string(),
        })
}
