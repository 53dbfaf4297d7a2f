//! A member's vocabulary for grammars: the bytes of each token, in a trie.

use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};

#[cfg(feature = "calls")]
use crate::Calls;
use crate::schema::{self, LIMITS};
use crate::{Document, GrammarError};

/// Maximum bytes of a token that may be drawn; longer ones are long runs of spaces and dashes.
const MAX_TOKEN_BYTES: usize = 255;

/// Maximum total bytes of all tokens: within the range of the trie's node indices.
const MAX_BYTES: usize = 4_000_000;

/// Maximum number of tokens.
const MAX_TOKENS: usize = 1 << 20;

/// Single-byte tokens appended to the member's own: accepted text is consumed with them, however it
/// was tokenised.
const BYTE_TOKENS: u32 = 256;

/// Token bytes of a member, prepared for grammars; made once per member.
pub struct Vocabulary {
    factory: ParserFactory,
    tokens: u32,
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tokens = &self.tokens;
        f.debug_struct("Vocabulary")
            .field("tokens", tokens)
            .finish_non_exhaustive()
    }
}

/// Encodes tokens for [`Vocabulary::read`]: for each, its length in two bytes (little-endian) and
/// its bytes. Empty tokens are never drawn; a token too long for its length field is written as
/// empty.
pub fn written<'a>(tokens: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
    let mut written = Vec::new();
    for token in tokens {
        let length = u16::try_from(token.len()).unwrap_or(0);
        written.extend_from_slice(&length.to_le_bytes());
        written.extend_from_slice(&token[..usize::from(length)]);
    }
    written
}

impl Vocabulary {
    /// Reads a member's tokens in the order of their ids, as encoded by [`written`].
    ///
    /// # Errors
    /// [`GrammarError::Vocabulary`].
    pub fn read(written: &[u8]) -> Result<Self, GrammarError> {
        let mut words = Vec::new();
        let (mut rest, mut all) = (written, 0);
        while let [low, high, tail @ ..] = rest {
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            let (token, tail) = tail
                .split_at_checked(length)
                .ok_or(GrammarError::Vocabulary("a token is cut short"))?;
            rest = tail;
            // 0xFF occurs in no text, and marks special tokens in the trie.
            let drawn = length <= MAX_TOKEN_BYTES && !token.contains(&0xff);
            let word = if drawn { token } else { &[] };
            all += word.len();
            words.push(word.to_vec());
            if words.len() > MAX_TOKENS || all > MAX_BYTES {
                return Err(GrammarError::Vocabulary("it has too many tokens"));
            }
        }
        if !rest.is_empty() {
            return Err(GrammarError::Vocabulary("a length is cut short"));
        }
        let tokens = words.len() as u32;
        words.push(Vec::new());
        words.extend((0..=255).map(|byte| match byte {
            0xff => Vec::new(),
            byte => vec![byte],
        }));
        let trie = TokTrie::from(&TokRxInfo::new(tokens + 1 + BYTE_TOKENS, tokens), &words);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&env)
            .map_err(|_| GrammarError::Vocabulary("its tokens make no trie"))?;
        *factory.limits_mut() = LIMITS;
        factory.quiet();
        Ok(Self { factory, tokens })
    }

    /// Vocabulary of single bytes.
    pub(crate) fn of_single_bytes() -> Result<Self, GrammarError> {
        let bytes: Vec<[u8; 1]> = (0..=255).map(|byte| [byte]).collect();
        Self::read(&written(bytes.iter().map(<[u8; 1]>::as_slice)))
    }

    /// Number of tokens. In a mask, the next bit is the end's.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// Begins a document of a schema.
    ///
    /// # Errors
    /// Those of [`crate::check`].
    pub fn document(&self, schema: &str) -> Result<Document, GrammarError> {
        self.parse(schema::grammar(schema)?)
    }

    /// Begins an answer that may call functions.
    ///
    /// # Errors
    /// Those of [`Calls::check`].
    #[cfg(feature = "calls")]
    pub fn calls(&self, calls: &Calls) -> Result<Document, GrammarError> {
        self.parse(calls.grammar()?)
    }

    pub(crate) fn parse(&self, grammar: TopLevelGrammar) -> Result<Document, GrammarError> {
        let parser = self.factory.create_parser(grammar);
        let parser = parser.map_err(|error| GrammarError::Involved(schema::first_line(&error)))?;
        Ok(Document::new(parser, self.tokens))
    }
}
