//! The `tokenizer.ggml.*` vocabulary: every token's text, kind and special role, checked.

use conclave_weights::{Metadata, Strings};

use crate::TextError;

pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";

/// Tokens that end an answer in the families in use, by their text. A file's `eos` is only one
/// of them: Llama 3 names `<|end_of_text|>` there, but ends its answers with `<|eot_id|>`.
const ENDS: [&str; 12] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end_of_text|>",
    "<|endoftext|>",
    "<|end_of_turn|>",
    "<end_of_turn>",
    "<turn|>",
    "<|end|>",
    "<|return|>",
    "<|eot|>",
    "<end_of_utterance>",
];

/// What a token is; the numbers are the file's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reached by splitting and merging text.
    Normal,
    /// Stands for text that no token covers.
    Unknown,
    /// Steers the model; shows as nothing, and only a template may write it.
    Control,
    /// Found in any text before that is split into words.
    UserDefined,
    /// Fills the vocabulary up; never used.
    Unused,
    /// One byte, written `<0x41>`.
    Byte,
}

/// The tokens of a model.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    texts: Strings,
    kinds: Vec<Kind>,
    pub bos: Option<u32>,
    pub eos: Option<u32>,
    pub unknown: Option<u32>,
    /// Tokens that end an answer, ascending.
    pub ends: Vec<u32>,
}

impl Vocabulary {
    pub(crate) fn from_gguf(metadata: &Metadata) -> Result<Self, TextError> {
        let texts = metadata.strings(TOKENS)?.clone();
        if texts.is_empty() || u32::try_from(texts.len()).is_err() {
            return fault(TOKENS, format!("there are {} tokens", texts.len()));
        }
        let mut kinds = match metadata.opt_i32s(TOKEN_TYPE)? {
            None => vec![Kind::Normal; texts.len()],
            Some(types) if types.len() != texts.len() => {
                return fault(
                    TOKEN_TYPE,
                    format!("{} types for {} tokens", types.len(), texts.len()),
                );
            }
            Some(types) => {
                let mut kinds = Vec::with_capacity(types.len());
                for (id, &number) in types.iter().enumerate() {
                    kinds.push(match number {
                        1 => Kind::Normal,
                        2 => Kind::Unknown,
                        3 => Kind::Control,
                        4 => Kind::UserDefined,
                        5 => Kind::Unused,
                        6 => Kind::Byte,
                        _ => {
                            return fault(
                                TOKEN_TYPE,
                                format!("token {id} has the unknown type {number}"),
                            );
                        }
                    });
                }
                kinds
            }
        };

        let special = |key: &'static str| -> Result<Option<u32>, TextError> {
            match metadata.opt_u32(key)? {
                Some(id) if id as usize >= texts.len() => fault(
                    key,
                    format!("token {id} is none of the {} tokens", texts.len()),
                ),
                id => Ok(id),
            }
        };
        let bos = special("tokenizer.ggml.bos_token_id")?;
        let eos = special("tokenizer.ggml.eos_token_id")?;
        let mut ends: Vec<u32> = [
            eos,
            special("tokenizer.ggml.eot_token_id")?,
            special("tokenizer.ggml.eom_token_id")?,
        ]
        .into_iter()
        .flatten()
        .collect();
        // Converters now and then leave such a token "normal" or "user-defined"; it would then be
        // shown as text, and anyone's text could end an answer.
        for (id, text) in (0_u32..).zip(texts.iter()) {
            if ENDS.contains(&text)
                && matches!(
                    kinds[id as usize],
                    Kind::Control | Kind::Normal | Kind::UserDefined
                )
            {
                ends.push(id);
            }
        }
        ends.sort_unstable();
        ends.dedup();
        for &id in ends.iter().chain(&bos) {
            let kind = &mut kinds[id as usize];
            if matches!(kind, Kind::Normal | Kind::UserDefined) {
                *kind = Kind::Control;
            }
        }
        let first_unknown = || {
            (0_u32..)
                .zip(&kinds)
                .find(|(_, kind)| **kind == Kind::Unknown)
                .map(|(id, _)| id)
        };
        let unknown = special("tokenizer.ggml.unknown_token_id")?.or_else(first_unknown);
        Ok(Self {
            texts,
            kinds,
            bos,
            eos,
            unknown,
            ends,
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// A token's text as the file has it.
    pub(crate) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize)
    }

    /// What token `id` is; ids beyond the vocabulary are unused.
    pub(crate) fn kind(&self, id: u32) -> Kind {
        self.kinds.get(id as usize).copied().unwrap_or(Kind::Unused)
    }

    /// All tokens: id, text, kind.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &str, Kind)> {
        (0_u32..)
            .zip(self.texts.iter())
            .zip(&self.kinds)
            .map(|((id, text), &kind)| (id, text, kind))
    }

    /// The tokens that splitting and merging may reach, as the tokenizers library wants them.
    /// Of equal texts the last counts, as in llama.cpp. Control tokens are kept out, so that no
    /// text whatever can be merged into one.
    pub(crate) fn reachable(&self) -> tokenizers::models::bpe::Vocab {
        self.iter()
            .filter(|(_, text, kind)| {
                !text.is_empty() && !matches!(kind, Kind::Control | Kind::Unused)
            })
            .map(|(id, text, _)| (text.to_owned(), id))
            .collect()
    }
}

fn fault<T>(key: &'static str, reason: String) -> Result<T, TextError> {
    Err(TextError::Vocabulary { key, reason })
}
