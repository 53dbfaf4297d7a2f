//! How byte-level tokenizers split text into words before merging, by the names that GGUF files
//! use for them (`tokenizer.ggml.pre`). Each line is what the family's own `tokenizer.json` says.
//!
//! The expressions are compiled by `fancy-regex` here and by Oniguruma in Python. Both were run
//! over a line of text around each of 922,496 code points (all but private use and the inner part
//! of the Han and Hangul blocks) and split every line at the same places.

use tokenizers::normalizers::NFC;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::digits::Digits;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

use crate::TextError;
use crate::words::Steps;

/// One family of splitting rules.
pub(crate) struct PreTokeniser {
    names: &'static [&'static str],
    splits: Splits,
    /// Text is brought to Unicode's composed form first.
    composed: bool,
    /// A word that is itself a token is that token, whatever the merges say.
    pub whole_words: bool,
    /// Whether a prompt begins with the BOS token where the file does not say.
    pub bos: bool,
}

enum Splits {
    /// GPT-2's own expression.
    Gpt2,
    /// Every digit alone, then GPT-2's expression.
    DigitsThenGpt2,
    /// One expression.
    Regex(&'static str),
}

const KNOWN: [PreTokeniser; 7] = [
    PreTokeniser {
        names: &["gpt-2", "default", "phi-2", "olmo"],
        splits: Splits::Gpt2,
        composed: false,
        whole_words: false,
        bos: false,
    },
    PreTokeniser {
        names: &["smollm", "refact", "starcoder"],
        splits: Splits::DigitsThenGpt2,
        composed: false,
        whole_words: false,
        bos: false,
    },
    PreTokeniser {
        names: &["qwen2", "deepseek-r1-qwen"],
        splits: Splits::Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        composed: true,
        whole_words: false,
        bos: false,
    },
    PreTokeniser {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "lfm2"],
        splits: Splits::Regex(CL100K),
        composed: false,
        whole_words: true,
        bos: true,
    },
    PreTokeniser {
        names: &["dbrx", "smaug-bpe"],
        splits: Splits::Regex(CL100K),
        composed: false,
        whole_words: false,
        bos: false,
    },
    PreTokeniser {
        names: &["tekken"],
        splits: Splits::Regex(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        composed: false,
        whole_words: true,
        bos: true,
    },
    PreTokeniser {
        names: &["gpt-4o"],
        splits: Splits::Regex(
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
        ),
        composed: false,
        whole_words: false,
        bos: false,
    },
];

const CL100K: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl PreTokeniser {
    /// The rules called `name`.
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

    /// The splitting steps; the last turns bytes into the letters that stand for them.
    fn build(&self) -> Result<PreTokenizerWrapper, TextError> {
        let bytes = |gpt2| PreTokenizerWrapper::from(ByteLevel::new(false, true, gpt2));
        Ok(match self.splits {
            Splits::Gpt2 => bytes(true),
            Splits::DigitsThenGpt2 => {
                Sequence::new(vec![Digits::new(true).into(), bytes(true)]).into()
            }
            Splits::Regex(expression) => {
                let pattern = SplitPattern::Regex(expression.to_owned());
                let split = Split::new(pattern, SplitDelimiterBehavior::Isolated, false).map_err(
                    |error| TextError::Tokenizer {
                        reason: error.to_string(),
                    },
                )?;
                Sequence::new(vec![split.into(), bytes(false)]).into()
            }
        })
    }

    /// The steps before merging.
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
