//! The tokenizer of a model, built from its GGUF metadata.

use std::sync::Arc;

use conclave_weights::Metadata;

use crate::controls::Finder;
use crate::decoder::{Decoder, Pieces};
use crate::vocabulary::{Kind, Vocabulary};
use crate::{Prompt, TextError, byte_level, sentencepiece};

const KNOWN_MODELS: &str = "gpt2, llama";

/// Turns text into the ids a model was trained on, and ids into text.
///
/// Control tokens never come out of plain text: [`Tokenizer::encode`] knows none, and
/// [`Tokenizer::encode_prompt`] only those that a template wrote. The splitting and merging is the
/// `tokenizers` crate's; the tokens recognised by their text are found here, because that crate
/// decides for a whole tokenizer, not for a text, whether control tokens count.
#[derive(Debug)]
pub struct Tokenizer {
    words: tokenizers::Tokenizer,
    family: Family,
    vocabulary: Vocabulary,
    user_defined: Finder,
    all_special: Finder,
    controls: Arc<Finder>,
    pieces: Arc<Pieces>,
    add_bos: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    ByteLevel,
    /// Spaces are written `▁`; `lead`: one is put before a text and after each control token.
    SentencePiece {
        lead: bool,
    },
}

impl Tokenizer {
    /// Builds the tokenizer that the `tokenizer.ggml.*` keys describe.
    ///
    /// # Errors
    /// [`TextError::UnknownModel`] and [`TextError::UnknownPre`] for kinds that are not known,
    /// [`TextError::Vocabulary`] for contradictions, [`TextError::Metadata`] for missing keys.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self, TextError> {
        let vocabulary = Vocabulary::from_gguf(metadata)?;
        let (words, family, add_bos) = match metadata.str("tokenizer.ggml.model")? {
            "gpt2" => {
                let (words, add_bos) = byte_level::build(metadata, &vocabulary)?;
                (words, Family::ByteLevel, add_bos)
            }
            "llama" => {
                let lead = metadata
                    .opt_bool("tokenizer.ggml.add_space_prefix")?
                    .unwrap_or(true);
                (
                    sentencepiece::build(metadata, &vocabulary)?,
                    Family::SentencePiece { lead },
                    true,
                )
            }
            model => {
                return Err(TextError::UnknownModel {
                    model: model.to_owned(),
                    known: KNOWN_MODELS.to_owned(),
                });
            }
        };
        let add_bos = metadata
            .opt_bool("tokenizer.ggml.add_bos_token")?
            .unwrap_or(add_bos);
        let mut pieces = Pieces::default();
        for (_, text, kind) in vocabulary.iter() {
            match (kind, family) {
                (Kind::Control | Kind::Unknown | Kind::Unused, _) => pieces.push(&[]),
                (Kind::UserDefined, Family::ByteLevel) => pieces.push(text.as_bytes()),
                (_, Family::ByteLevel) => pieces.push(&byte_level::bytes_of(text)),
                (_, Family::SentencePiece { .. }) => {
                    pieces.push(&sentencepiece::bytes_of(text, kind))
                }
            }
        }
        Ok(Self {
            words,
            family,
            user_defined: Finder::new(&vocabulary, &[Kind::UserDefined])?,
            all_special: Finder::new(&vocabulary, &[Kind::UserDefined, Kind::Control])?,
            controls: Arc::new(Finder::new(&vocabulary, &[Kind::Control])?),
            vocabulary,
            pieces: Arc::new(pieces),
            add_bos,
        })
    }

    /// The ids of a text that continues another: no BOS, no space put before it, and the text of
    /// a control token is text. For candidates, and for anything that a user wrote.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] where the tokenizers library fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        self.encode_plain(text, false, &mut ids)?;
        Ok(ids)
    }

    /// The ids of a text that stands alone, as transformers' `encode(text,
    /// add_special_tokens=False)` gives them: no BOS, the family's leading space, and the text of a
    /// control token is that token.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        self.encode_controls(&Prompt::trusted(text), 0, &mut ids)?;
        Ok(ids)
    }

    /// The ids of a rendered conversation: control tokens that the template wrote are tokens, those
    /// in messages are text, and BOS comes first where the model wants it (once, if the template
    /// has written it too).
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        self.encode_controls(prompt, 0, &mut ids)?;
        match self.vocabulary.bos {
            Some(bos) if self.add_bos && ids.first() != Some(&bos) => ids.insert(0, bos),
            _ => {}
        }
        Ok(ids)
    }

    /// The ids of what `prompt` has beyond `shown`, a text that is in the model already: no BOS,
    /// and nothing is merged across the seam. `None` if `prompt` does not begin with `shown`.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_beyond(
        &self,
        shown: &str,
        prompt: &Prompt,
    ) -> Result<Option<Vec<u32>>, TextError> {
        if !prompt.text().starts_with(shown) {
            return Ok(None);
        }
        let mut ids = Vec::new();
        self.encode_controls(prompt, shown.len(), &mut ids)?;
        Ok(Some(ids))
    }

    /// The text of `ids`, all that is incomplete or invalid as U+FFFD, control tokens as nothing.
    /// `decode(encode(text))` is `text`, but for what the model's own normalisation changes
    /// (composed accents in the Qwen family, `▁` in SentencePiece).
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut decoder = self.decoder();
        let mut text: String = ids.iter().map(|&id| decoder.push(id)).collect();
        text.push_str(&decoder.flush());
        text
    }

    /// The text of `ids` that stand alone: the inverse of [`Tokenizer::encode_text`], without the
    /// space that the family puts first.
    pub fn decode_text(&self, ids: &[u32]) -> String {
        let text = self.decode(ids);
        match (self.family, text.strip_prefix(' ')) {
            (Family::SentencePiece { lead: true }, Some(rest)) => rest.to_owned(),
            _ => text,
        }
    }

    /// A decoder for the tokens of one text as they come.
    pub fn decoder(&self) -> Decoder {
        Decoder::new(Arc::clone(&self.pieces))
    }

    /// The tokens that end an answer, ascending: the file's `eos`, `eot` and `eom`, and those
    /// that are known by their text (`<|im_end|>`, `<|eot_id|>`, `<end_of_turn>` …).
    pub fn end_ids(&self) -> &[u32] {
        &self.vocabulary.ends
    }

    /// Whether `id` ends an answer.
    pub fn is_end(&self, id: u32) -> bool {
        self.vocabulary.ends.binary_search(&id).is_ok()
    }

    /// The token a prompt begins with, where the file names one.
    pub fn bos(&self) -> Option<u32> {
        self.vocabulary.bos
    }

    /// The end-of-text token, where the file names one.
    pub fn eos(&self) -> Option<u32> {
        self.vocabulary.eos
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.vocabulary.len()
    }

    /// Whether there are no tokens; never so, as such files are refused.
    pub fn is_empty(&self) -> bool {
        self.vocabulary.len() == 0
    }

    /// A token's text as the file has it (`Ġthe`, `▁the`, `<|im_end|>`).
    pub fn token(&self, id: u32) -> Option<&str> {
        self.vocabulary.text(id)
    }

    /// The control token or user-defined token whose text is exactly `text`.
    pub fn special(&self, text: &str) -> Option<u32> {
        self.all_special
            .find(text, 0)
            .filter(|(place, _)| *place == (0..text.len()))
            .map(|(_, id)| id)
    }

    /// Finds the text of control tokens, for templates.
    pub(crate) fn control_finder(&self) -> Arc<Finder> {
        Arc::clone(&self.controls)
    }

    fn is_control(&self, id: u32) -> bool {
        self.vocabulary.kind(id) == Kind::Control
    }

    /// Appends the ids of `prompt` from byte `begin` on, which continues a text unless it is 0.
    fn encode_controls(
        &self,
        prompt: &Prompt,
        begin: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), TextError> {
        let text = prompt.text();
        let (mut start, mut from) = (begin, begin);
        let mut lead = begin == 0;
        while let Some((place, id)) = self.all_special.find(text, from) {
            if !self.is_control(id) || prompt.is_plain(&place) {
                // Left to `encode_plain`, which finds user-defined tokens again.
                from = if self.is_control(id) {
                    next_char(text, place.start)
                } else {
                    place.end
                };
                continue;
            }
            self.encode_plain(&text[start..place.start], lead, ids)?;
            ids.push(id);
            lead = true;
            (start, from) = (place.end, place.end);
        }
        self.encode_plain(&text[start..], lead, ids)
    }

    /// Appends the ids of text without control tokens. `lead`: SentencePiece puts a space at its
    /// beginning, and after each user-defined token, where the family does so.
    fn encode_plain(&self, text: &str, lead: bool, ids: &mut Vec<u32>) -> Result<(), TextError> {
        let mut start = 0;
        while let Some((place, id)) = self.user_defined.find(text, start) {
            self.encode_words(&text[start..place.start], lead, ids)?;
            ids.push(id);
            start = place.end;
        }
        self.encode_words(&text[start..], lead, ids)
    }

    fn encode_words(&self, text: &str, lead: bool, ids: &mut Vec<u32>) -> Result<(), TextError> {
        if text.is_empty() {
            return Ok(());
        }
        let encode = |text: &str| {
            self.words
                .encode_fast(text, false)
                .map_err(|error| TextError::Tokenizer {
                    reason: error.to_string(),
                })
        };
        let encoding = match self.family {
            Family::ByteLevel => encode(text)?,
            Family::SentencePiece { lead: leads } => {
                let mut escaped = if leads && lead {
                    "▁".to_owned()
                } else {
                    String::new()
                };
                escaped.push_str(&text.replace(' ', "▁"));
                encode(&escaped)?
            }
        };
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }
}

fn next_char(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}
