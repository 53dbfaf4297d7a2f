//! The vocabulary: text, kind and role of every token, checked.

use conclave_weights::{Metadata, Strings};

use crate::TextError;
use crate::table::Table;

pub(crate) const TOKENS: &str = "tokenizer.ggml.tokens";
const TOKEN_TYPE: &str = "tokenizer.ggml.token_type";

/// Texts of tokens that end an answer in the families in use. A file's `eos` is only one of them:
/// Llama 3's is `<|end_of_text|>`, but its answers end with `<|eot_id|>`.
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

/// Kind of a token, numbered as in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Result of splitting and merging text.
    Normal,
    /// Replaces text that no token covers.
    Unknown,
    /// Steers the model; shows as nothing, and only a template may write it.
    Control,
    /// Found in any text before it is split into words.
    UserDefined,
    /// Pads the vocabulary; never used.
    Unused,
    /// One byte, written `<0x41>`.
    Byte,
}

/// The tokens of a model.
#[derive(Debug)]
pub(crate) struct Vocabulary {
    texts: Strings,
    kinds: Vec<Kind>,
    by_text: Table,
    pub roles: Roles,
}

/// Tokens with a special role.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roles {
    /// Begins a prompt.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Replaces text that no token covers.
    pub unknown: Option<u32>,
    /// Tokens that end an answer, ascending.
    pub ends: Vec<u32>,
}

impl Vocabulary {
    /// The vocabulary in a GGUF file's `tokenizer.ggml.*` keys.
    pub(crate) fn from_gguf(metadata: &Metadata) -> Result<Self, TextError> {
        let texts = metadata.strings(TOKENS)?;
        if texts.is_empty() || u32::try_from(texts.len()).is_err() {
            return fault(TOKENS, format!("there are {} tokens", texts.len()));
        }
        let mut kinds = kinds(metadata, texts.len())?;
        let special = |key: &'static str| -> Result<Option<u32>, TextError> {
            match metadata.opt_u32(key)? {
                Some(id) if id as usize >= texts.len() => fault(
                    key,
                    format!("token {id} is none of the {} tokens", texts.len()),
                ),
                id => Ok(id),
            }
        };
        let eos = special("tokenizer.ggml.eos_token_id")?;
        let ends = [
            eos,
            special("tokenizer.ggml.eot_token_id")?,
            special("tokenizer.ggml.eom_token_id")?,
        ];
        let first_unknown = || {
            (0_u32..)
                .zip(&kinds)
                .find(|(_, kind)| **kind == Kind::Unknown)
                .map(|(id, _)| id)
        };
        let roles = Roles {
            bos: special("tokenizer.ggml.bos_token_id")?,
            eos,
            unknown: special("tokenizer.ggml.unknown_token_id")?.or_else(first_unknown),
            ends: ends.into_iter().flatten().collect(),
        };
        // Converters sometimes leave a token that ends answers "normal"; it would then be shown as
        // text, and any text could end an answer.
        let known = (0_u32..)
            .zip(texts.iter())
            .filter(|(_, text)| ENDS.contains(text));
        let known = known.map(|(id, _)| id);
        for id in known.chain(roles.ends.iter().chain(&roles.bos).copied()) {
            let kind = &mut kinds[id as usize];
            if matches!(kind, Kind::Normal | Kind::UserDefined) {
                *kind = Kind::Control;
            }
        }
        Ok(Self::new(texts.clone(), kinds, roles))
    }

    /// Sets the roles of tokens; `eos` and `ends` are added to those known to end answers.
    pub(crate) fn give_roles(
        &mut self,
        bos: Option<u32>,
        eos: Option<u32>,
        unknown: Option<u32>,
        ends: &[u32],
    ) {
        let roles = &mut self.roles;
        (roles.bos, roles.eos, roles.unknown) = (bos, eos, unknown);
        roles.ends.extend(eos);
        roles.ends.extend(ends);
        roles.ends.sort_unstable();
        roles.ends.dedup();
    }

    /// A vocabulary of `texts` and as many `kinds`. `roles.ends` may be incomplete: tokens known to
    /// end answers by their text are added.
    pub(crate) fn new(texts: Strings, mut kinds: Vec<Kind>, mut roles: Roles) -> Self {
        for (id, text) in (0_u32..).zip(texts.iter()) {
            // Files mark tokens of channels and tools "user-defined" so that they are shown, but
            // only a template may write one.
            let kind = &mut kinds[id as usize];
            if *kind == Kind::UserDefined && is_mark(text) {
                *kind = Kind::Control;
            }
            if ENDS.contains(&text) {
                match &mut kinds[id as usize] {
                    kind @ Kind::UserDefined => *kind = Kind::Control,
                    Kind::Control | Kind::Normal => {}
                    Kind::Unknown | Kind::Unused | Kind::Byte => continue,
                }
                roles.ends.push(id);
            }
        }
        roles.ends.sort_unstable();
        roles.ends.dedup();
        // Of equal texts the last counts, as in llama.cpp, but one that text can reach precedes one
        // that it can't.
        let mut by_text = Table::with_room(texts.len());
        for reachable in [false, true] {
            for ((id, text), &kind) in (0_u32..).zip(texts.iter()).zip(&kinds) {
                if !text.is_empty() && is_reachable(kind) == reachable {
                    by_text.put(text, id, |other| texts.get(other as usize) == Some(text));
                }
            }
        }
        Self {
            texts,
            kinds,
            by_text,
            roles,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// A token's text in the file.
    pub(crate) fn text(&self, id: u32) -> Option<&str> {
        self.texts.get(id as usize)
    }

    /// Returns the kind of token `id`; ids beyond the vocabulary are unused.
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

    /// The token of this text for splitting and merging. Control tokens are excluded, so that no
    /// text can be merged into one.
    pub(crate) fn find(&self, text: &str) -> Option<u32> {
        self.find_any(text)
            .filter(|&id| is_reachable(self.kind(id)))
    }

    /// The token of this text, whatever its kind.
    pub(crate) fn find_any(&self, text: &str) -> Option<u32> {
        self.by_text.find(text, |id| self.text(id) == Some(text))
    }
}

/// Whether a token is written like a control token: `<|…>`, `<…|>`, or both.
fn is_mark(text: &str) -> bool {
    text.starts_with('<')
        && text.ends_with('>')
        && text.len() > 3
        && (text.starts_with("<|") || text.ends_with("|>"))
}

fn is_reachable(kind: Kind) -> bool {
    !matches!(kind, Kind::Control | Kind::Unused)
}

/// Kinds in a GGUF file, one per token.
fn kinds(metadata: &Metadata, tokens: usize) -> Result<Vec<Kind>, TextError> {
    let Some(types) = metadata.opt_i32s(TOKEN_TYPE)? else {
        return Ok(vec![Kind::Normal; tokens]);
    };
    if types.len() != tokens {
        let reason = format!("{} types for {tokens} tokens", types.len());
        return fault(TOKEN_TYPE, reason);
    }
    let mut kinds = Vec::with_capacity(tokens);
    for (id, &number) in types.iter().enumerate() {
        kinds.push(match number {
            1 => Kind::Normal,
            2 => Kind::Unknown,
            3 => Kind::Control,
            4 => Kind::UserDefined,
            5 => Kind::Unused,
            6 => Kind::Byte,
            _ => {
                let reason = format!("token {id} has the unknown type {number}");
                return fault(TOKEN_TYPE, reason);
            }
        });
    }
    Ok(kinds)
}

fn fault<T>(key: &'static str, reason: String) -> Result<T, TextError> {
    Err(TextError::Vocabulary { key, reason })
}
