//! The tokenizer of a model, built from its GGUF metadata or its Hugging Face files.

use std::sync::Arc;

use conclave_weights::{Description, HuggingFace, Metadata};

use crate::controls::{Finder, Found, Manner};
use crate::decoder::{Decoder, Pieces};
use crate::spelling::Spelling;
use crate::vocabulary::{Kind, Vocabulary};
use crate::words::{Place, Words};
use crate::{Prompt, Shown, TextError, Turn, byte_level, hugging_face, sentencepiece};

const KNOWN_MODELS: &str = "gpt2, llama, gemma4";

/// Turns text into the ids a model was trained on, and ids into text.
///
/// Control tokens never come out of plain text: [`Tokenizer::encode`] knows none, and
/// [`Tokenizer::encode_prompt`] only those that a template wrote. The normalising and splitting is
/// the `tokenizers` crate's; the tokens recognised by their text are found here, because that crate
/// decides for a whole tokenizer, not for a text, whether control tokens count.
#[derive(Debug)]
pub struct Tokenizer {
    words: Words,
    vocabulary: Arc<Vocabulary>,
    pieces: Arc<Pieces>,
    user_defined: Finder,
    all_special: Finder,
    controls: Arc<Finder>,
    /// Tokens that end an answer, ascending.
    ends: Vec<u32>,
    add_bos: bool,
}

impl Tokenizer {
    /// Builds the tokenizer that the `tokenizer.ggml.*` keys describe.
    ///
    /// # Errors
    /// [`TextError::UnknownModel`] and [`TextError::UnknownPre`] for kinds that are not known,
    /// [`TextError::Vocabulary`] for contradictions, [`TextError::Metadata`] for missing keys.
    pub fn from_gguf(metadata: &Metadata) -> Result<Self, TextError> {
        let vocabulary = Arc::new(Vocabulary::from_gguf(metadata)?);
        let (words, spelling, add_bos) = match metadata.str("tokenizer.ggml.model")? {
            "gpt2" => {
                let (words, add_bos) = byte_level::build(metadata, &vocabulary)?;
                (words, Spelling::ByteLevel, add_bos)
            }
            "llama" => {
                let lead = metadata
                    .opt_bool("tokenizer.ggml.add_space_prefix")?
                    .unwrap_or(true);
                (
                    sentencepiece::build(metadata, &vocabulary, lead)?,
                    Spelling::sentencepiece(lead),
                    true,
                )
            }
            "gemma4" => {
                let words = sentencepiece::build_merged(metadata, &vocabulary)?;
                (words, Spelling::sentencepiece(false), true)
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
        // Converters omit that Phi 3's control tokens take the white space after them.
        let takes_space = spelling != Spelling::ByteLevel
            && metadata.opt_str("general.architecture")? == Some("phi3");
        let manners: Vec<_> = vocabulary
            .iter()
            .filter(|&(_, text, kind)| {
                takes_space
                    && matches!(kind, Kind::Control | Kind::UserDefined)
                    && !["<s>", "<|endoftext|>"].contains(&text)
            })
            .map(|(id, ..)| {
                let manner = Manner {
                    rstrip: true,
                    ..Manner::default()
                };
                (id, manner)
            })
            .collect();
        Self::new(words, spelling, add_bos, &manners)
    }

    /// Builds the tokenizer of a Hugging Face folder: that of `tokenizer.json`, with what the
    /// configurations add to it.
    ///
    /// # Errors
    /// [`TextError::File`] for contradictions, [`TextError::UnknownPart`] for kinds of tokenizers
    /// that are not known.
    pub fn from_hugging_face(files: &HuggingFace) -> Result<Self, TextError> {
        hugging_face::build(files)
    }

    /// Builds the tokenizer of a model, whatever files it came in.
    ///
    /// # Errors
    /// As [`Tokenizer::from_gguf`] and [`Tokenizer::from_hugging_face`].
    pub fn from_checkpoint(description: &Description) -> Result<Self, TextError> {
        match description {
            Description::Gguf(metadata) => Self::from_gguf(metadata),
            Description::HuggingFace(files) => Self::from_hugging_face(files),
        }
    }

    /// A tokenizer of its parts. `manners` are those of tokens that are not recognised by their
    /// bare text; tokens that `words` looks for after normalising are not looked for here.
    pub(crate) fn new(
        words: Words,
        spelling: Spelling,
        add_bos: bool,
        manners: &[(u32, Manner)],
    ) -> Result<Self, TextError> {
        let vocabulary = Arc::clone(&words.bpe.vocabulary);
        let finder = |kinds: &[Kind]| {
            Finder::new(
                vocabulary
                    .iter()
                    .filter(|(id, _, kind)| {
                        kinds.contains(kind) && !words.within.tokens.contains(*id)
                    })
                    .map(|(id, text, _)| {
                        let manner = manners
                            .binary_search_by_key(&id, |&(id, _)| id)
                            .map_or_else(|_| Manner::default(), |index| manners[index].1);
                        (id, text, manner)
                    }),
            )
        };
        Ok(Self {
            user_defined: finder(&[Kind::UserDefined])?,
            all_special: finder(&[Kind::UserDefined, Kind::Control, Kind::Unknown])?,
            controls: Arc::new(finder(&[Kind::Control, Kind::Unknown])?),
            pieces: Arc::new(Pieces {
                vocabulary: Arc::clone(&vocabulary),
                spelling,
            }),
            ends: vocabulary.roles.ends.clone(),
            vocabulary,
            words,
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
        self.encode_plain(text, Place::Within, &mut ids)?;
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

    /// The ids of a text that continues another and is trusted as a template is: what spells a
    /// control token is that token.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_written(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        // Behind anything at all, it continues a text.
        self.encode_controls(&Prompt::trusted(format!("\n{text}")), 1, &mut ids)?;
        Ok(ids)
    }

    /// The ids of a rendered conversation: control tokens that the template wrote are tokens, those
    /// in messages are text, and BOS comes first where the model wants it (once, if the template
    /// has written it too; where the model came as a Hugging Face folder with a template, that
    /// alone decides, as in transformers).
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        self.encode_controls(prompt, 0, &mut ids)?;
        match self.vocabulary.roles.bos {
            Some(bos) if self.add_bos && !prompt.is_whole() && ids.first() != Some(&bos) => {
                ids.insert(0, bos)
            }
            _ => {}
        }
        Ok(ids)
    }

    /// A prompt as it is in a model that has run [`Tokenizer::encode_prompt`]'s ids of it.
    pub fn shown(&self, prompt: &Prompt) -> Shown {
        Shown {
            text: prompt.text().to_owned(),
            controls: self.controls_of(prompt).map(|found| found.place).collect(),
        }
    }

    /// The ids of what `prompt` has beyond `shown`, a text that is in the model already: no BOS,
    /// and nothing is merged across the seam. `None` if `prompt` does not begin with `shown`, or
    /// spells as text what is a control token there, or the other way round.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_beyond(
        &self,
        shown: &Shown,
        prompt: &Prompt,
    ) -> Result<Option<Vec<u32>>, TextError> {
        let seam = shown.text.len();
        let controls = self.controls_of(prompt).map(|found| found.place);
        let before = controls.take_while(|place| place.start < seam);
        if !prompt.text().starts_with(&shown.text) || !before.eq(shown.controls.iter().cloned()) {
            return Ok(None);
        }
        let mut ids = Vec::new();
        self.encode_controls(prompt, seam, &mut ids)?;
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
        match text.strip_prefix(' ') {
            Some(rest) if self.pieces.spelling.leads() => rest.to_owned(),
            _ => text,
        }
    }

    /// A decoder for the tokens of one text as they come.
    pub fn decoder(&self) -> Decoder {
        Decoder::new(Arc::clone(&self.pieces))
    }

    /// Appends the bytes that token `id` shows as, which may begin or end within a character: those
    /// of all ids joined are what [`Tokenizer::decoder`] shows. None for control tokens, nor for
    /// ids that are no token.
    pub fn spell(&self, id: u32, to: &mut Vec<u8>) {
        self.pieces.spelling.append(&self.vocabulary, id, to);
    }

    /// The tokens that end an answer, ascending: the file's `eos`, `eot` and `eom` or the
    /// generation configuration's, and those that are known by their text (`<|im_end|>`,
    /// `<|eot_id|>`, `<end_of_turn>` …).
    pub fn end_ids(&self) -> &[u32] {
        &self.ends
    }

    /// Adds the token that closes an assistant's `turn` to those that end an answer: a model's
    /// other files may have forgotten it, and of a base model it is text, where it is one token.
    pub fn learn_end(&mut self, turn: &Turn) {
        if let &[id] = turn.end.as_slice()
            && (self.is_control(id) || !turn.stops.is_empty())
            && let Err(place) = self.ends.binary_search(&id)
        {
            self.ends.insert(place, id);
        }
    }

    /// The control token that `text` begins with.
    pub(crate) fn leading_control(&self, text: &str) -> Option<u32> {
        let found = self.all_special.find(text, 0)?;
        (found.place.start == 0 && self.is_control(found.id)).then_some(found.id)
    }

    /// Gives up tokens beyond a model's `vocabulary` (its embedding's rows): some tokenizers list a
    /// few that only a larger sister of the model knows. Says whether all that text needs are
    /// within.
    #[must_use]
    pub fn limit_to(&mut self, vocabulary: usize) -> bool {
        if vocabulary >= self.len() {
            return true;
        }
        let Ok(end) = u32::try_from(vocabulary) else {
            return true;
        };
        self.user_defined.end_at(end);
        self.all_special.end_at(end);
        self.ends.retain(|&id| id < end);
        let beyond = |(id, text, kind): (u32, &str, Kind)| {
            id >= end && !text.is_empty() && matches!(kind, Kind::Normal | Kind::Byte)
        };
        !self.vocabulary.iter().any(beyond) && self.bos().is_none_or(|bos| bos < end)
    }

    /// Whether `id` ends an answer.
    pub fn is_end(&self, id: u32) -> bool {
        self.ends.binary_search(&id).is_ok()
    }

    /// The token a prompt begins with, where the file names one.
    pub fn bos(&self) -> Option<u32> {
        self.vocabulary.roles.bos
    }

    /// The end-of-text token, where the file names one.
    pub fn eos(&self) -> Option<u32> {
        self.vocabulary.roles.eos
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
            .filter(|found| found.place == (0..text.len()))
            .map(|found| found.id)
    }

    /// Finds the text of control tokens, for templates.
    pub(crate) fn control_finder(&self) -> Arc<Finder> {
        Arc::clone(&self.controls)
    }

    /// Whether only a template may write the token. The unknown token counts as such: it is found
    /// by its text in transformers too.
    fn is_control(&self, id: u32) -> bool {
        matches!(self.vocabulary.kind(id), Kind::Control | Kind::Unknown)
    }

    /// Appends the ids of `prompt` from byte `begin` on, which continues a text unless it is 0.
    fn encode_controls(
        &self,
        prompt: &Prompt,
        begin: usize,
        ids: &mut Vec<u32>,
    ) -> Result<(), TextError> {
        let text = prompt.text();
        let mut start = begin;
        let mut place = if begin == 0 {
            Place::Start
        } else {
            Place::Within
        };
        for found in self.controls_from(prompt, begin) {
            self.encode_plain(&text[start..found.before(text, start)], place, ids)?;
            ids.push(found.id);
            place = Place::AfterToken;
            start = found.after(text);
        }
        self.encode_plain(&text[start..], place, ids)
    }

    /// The control tokens that the template wrote, in order.
    fn controls_of(&self, prompt: &Prompt) -> impl Iterator<Item = Found> {
        self.controls_from(prompt, 0)
    }

    /// Those from byte `from` on.
    fn controls_from(&self, prompt: &Prompt, mut from: usize) -> impl Iterator<Item = Found> {
        let text = prompt.text();
        std::iter::from_fn(move || {
            while let Some(found) = self.all_special.find(text, from) {
                let control = self.is_control(found.id);
                if control && !prompt.is_plain(&found.place) {
                    from = found.after(text);
                    return Some(found);
                }
                // Left to `encode_plain`, which finds user-defined tokens again.
                from = match control {
                    true => next_char(text, found.place.start),
                    false => found.place.end,
                };
            }
            None
        })
    }

    /// Appends the ids of text without control tokens.
    fn encode_plain(&self, text: &str, place: Place, ids: &mut Vec<u32>) -> Result<(), TextError> {
        let (mut start, mut place) = (0, place);
        while let Some(found) = self.user_defined.find(text, start) {
            self.words
                .encode(&text[start..found.before(text, start)], place, ids)?;
            ids.push(found.id);
            start = found.after(text);
            if place == Place::Start {
                place = Place::AfterToken;
            }
        }
        self.words.encode(&text[start..], place, ids)
    }
}

fn next_char(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}
