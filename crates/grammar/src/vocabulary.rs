//! A member's vocabulary as grammars see it: what each of its tokens shows as, in a trie.

use std::sync::Arc;

use llguidance::ParserFactory;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};

use crate::schema::{self, LIMITS};
use crate::{Document, GrammarError};

/// Bytes of the longest token that is ever drawn. Longer ones are long rows of spaces and dashes.
const LONGEST: usize = 255;

/// Bytes of all tokens, at most: what the trie's nodes can count, with room to spare.
const MOST_BYTES: usize = 4_000_000;

/// Tokens, at most.
const MOST_TOKENS: usize = 1 << 20;

/// Tokens for single bytes stand behind the member's own: an accepted text is taken in by them,
/// whatever tokens it was drawn as.
const BYTES: u32 = 256;

/// What the tokens of a member show as, ready for grammars; it is made once a member.
pub struct Vocabulary {
    factory: ParserFactory,
    tokens: u32,
}

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let tokens = &self.tokens;
        f.debug_struct("Vocabulary")
            .field("tokens", tokens)
            .finish()
    }
}

/// Tokens by their bytes, in the form that [`Vocabulary::read`] takes: of each two bytes of its
/// length (the low one first) and its bytes. One that shows as nothing is never drawn, nor is one
/// too long for its length to be told, which is written as nothing.
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
    /// Reads what [`written`] wrote of a member's tokens, in the order of their ids.
    ///
    /// # Errors
    /// [`GrammarError::Vocabulary`].
    pub fn read(written: &[u8]) -> Result<Self, GrammarError> {
        let mut words = Vec::new();
        let (mut rest, mut all) = (written, 0);
        while let [low, high, behind @ ..] = rest {
            let length = usize::from(u16::from_le_bytes([*low, *high]));
            let (token, behind) = behind
                .split_at_checked(length)
                .ok_or(GrammarError::Vocabulary("a token is cut short"))?;
            rest = behind;
            // 0xFF is in no text, and marks tokens of another kind in the trie.
            let drawn = length <= LONGEST && !token.contains(&0xff);
            let word = if drawn { token } else { &[] };
            all += word.len();
            words.push(word.to_vec());
            if words.len() > MOST_TOKENS || all > MOST_BYTES {
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
        let trie = TokTrie::from(&TokRxInfo::new(tokens + 1 + BYTES, tokens), &words);
        let env: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory = ParserFactory::new_simple(&env)
            .map_err(|_| GrammarError::Vocabulary("its tokens make no trie"))?;
        *factory.limits_mut() = LIMITS;
        factory.quiet();
        Ok(Self { factory, tokens })
    }

    /// One in which every byte is a token.
    pub(crate) fn of_bytes() -> Result<Self, GrammarError> {
        let bytes: Vec<[u8; 1]> = (0..=255).map(|byte| [byte]).collect();
        Self::read(&written(bytes.iter().map(<[u8; 1]>::as_slice)))
    }

    /// How many tokens there are. Of a mask, the bit behind theirs is the end's.
    pub fn tokens(&self) -> u32 {
        self.tokens
    }

    /// A document of this schema, of which nothing is written yet.
    ///
    /// # Errors
    /// As [`crate::check`], and [`GrammarError::Involved`].
    pub fn document(&self, schema: &str) -> Result<Document, GrammarError> {
        let grammar = schema::grammar(schema)?;
        let parser = self.factory.create_parser(grammar);
        let parser = parser.map_err(|error| GrammarError::Involved(schema::told(&error)))?;
        Ok(Document::new(parser, self.tokens))
    }
}
