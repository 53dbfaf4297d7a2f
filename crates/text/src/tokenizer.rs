//! Tokenizer of a model, built from its GGUF metadata or its Hugging Face files.

use std::sync::Arc;

use conclave_weights::{Description, HuggingFace, Metadata};

use crate::controls::{Finder, Found, Manner};
use crate::decoder::{Decoder, Pieces};
use crate::spelling::Spelling;
use crate::vocabulary::{Kind, Vocabulary};
use crate::words::{Place, Words};
use crate::{Prompt, Shown, TextError, Turn, byte_level, hugging_face, sentencepiece};

const KNOWN_MODELS: &str = "gpt2, llama, gemma4";

/// Converts text to the ids a model was trained on, and ids to text.
///
/// Plain text never gives control tokens: [`Tokenizer::encode`] has none, and
/// [`Tokenizer::encode_prompt`] only those that a template wrote. The `tokenizers` crate normalises
/// and splits; tokens recognised by their text are found here, because in that crate the use of
/// control tokens is an option of the tokenizer, not of a text.
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
    /// Token that ends a text which stands alone.
    closing: Option<u32>,
}

impl Tokenizer {
    /// Builds the tokenizer of the `tokenizer.ggml.*` keys.
    ///
    /// # Errors
    /// [`TextError::UnknownModel`] and [`TextError::UnknownPre`] for unknown kinds,
    /// [`TextError::Vocabulary`] for inconsistencies, [`TextError::Metadata`] for missing keys.
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
        let add_eos = metadata.opt_bool("tokenizer.ggml.add_eos_token")? == Some(true);
        let closing = vocabulary.roles.eos.filter(|_| add_eos);
        // Converters omit that Phi 3's control tokens absorb the white space after them.
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
        let tokenizer = Self::new(words, spelling, add_bos, &manners)?;
        Ok(tokenizer.closed_by(closing))
    }

    /// Builds the tokenizer of a Hugging Face folder: that of `tokenizer.json`, extended by the
    /// configurations.
    ///
    /// # Errors
    /// [`TextError::File`] for inconsistencies, [`TextError::UnknownPart`] for unknown kinds of
    /// tokenizers.
    pub fn from_hugging_face(files: &HuggingFace) -> Result<Self, TextError> {
        hugging_face::build(files)
    }

    /// Builds the tokenizer of a model in any file format.
    ///
    /// # Errors
    /// As [`Tokenizer::from_gguf`] and [`Tokenizer::from_hugging_face`].
    pub fn from_checkpoint(description: &Description) -> Result<Self, TextError> {
        match description {
            Description::Gguf(metadata) => Self::from_gguf(metadata),
            Description::HuggingFace(files) => Self::from_hugging_face(files),
        }
    }

    /// A tokenizer of its parts. `manners`: options of tokens that are not matched by their bare
    /// text; tokens that `words` finds after normalising are not searched here.
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
            closing: None,
        })
    }

    /// Sets the token that ends a text which stands alone.
    pub(crate) fn closed_by(self, closing: Option<u32>) -> Self {
        Self { closing, ..self }
    }

    /// Ids of a text that continues another: no BOS, no space before it, and the text of a control
    /// token is plain text. For candidates, and for users' text.
    ///
    /// # Errors
    /// [`TextError::Tokenizer`] if the tokenizers library fails.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        self.encode_plain(text, Place::Within, &mut ids)?;
        Ok(ids)
    }

    /// Ids of a text that stands alone, as from transformers' `encode(text,
    /// add_special_tokens=False)`: no BOS, the family's leading space, and the text of a control
    /// token is that token.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_text(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        self.encode_controls(&Prompt::trusted(text), 0, &mut ids)?;
        Ok(ids)
    }

    /// Ids of a text that continues another and is trusted like a template: the text of a control
    /// token is that token.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_written(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        // Any character before it makes it a continuation.
        self.encode_controls(&Prompt::trusted(format!("\n{text}")), 1, &mut ids)?;
        Ok(ids)
    }

    /// Ids of a rendered conversation: control tokens that the template wrote are tokens, those in
    /// messages are text, and BOS comes first if the model wants it (once, if the template has
    /// written it too; for a Hugging Face folder with a template, the template alone decides, as in
    /// transformers).
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_prompt(&self, prompt: &Prompt) -> Result<Vec<u32>, TextError> {
        let mut ids = Vec::new();
        self.encode_controls(prompt, 0, &mut ids)?;
        match self.vocabulary.roles.bos {
            Some(bos) if self.add_bos && !prompt.is_whole() && ids.first() != Some(&bos) => {
                ids.insert(0, bos);
            }
            _ => {}
        }
        Ok(ids)
    }

    /// Ids of a user's text that stands alone, as from transformers' `encode(text)` and llama.cpp's
    /// embeddings: the text of a control token is text, and the model's first and last tokens are
    /// added where its files say so.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`].
    pub fn encode_alone(&self, text: &str) -> Result<Vec<u32>, TextError> {
        let mut ids = self.encode_prompt(&Prompt::trusted("").followed_by(text))?;
        ids.extend(self.closing);
        Ok(ids)
    }

    /// A prompt as run by a model from the ids of [`Tokenizer::encode_prompt`].
    pub fn shown(&self, prompt: &Prompt) -> Shown {
        Shown {
            text: prompt.text().to_owned(),
            controls: self.controls_of(prompt).map(|found| found.place).collect(),
        }
    }

    /// Ids of the rest of `prompt` after `shown`, a text that the model has already run: no BOS,
    /// and no merge across the seam. `None` if `prompt` does not begin with `shown`, or differs
    /// from it in what is a control token and what is text.
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

    /// Text of `ids`: incomplete or invalid characters as U+FFFD, control tokens as nothing.
    /// `decode(encode(text))` is `text`, except for the model's own normalisation (composed accents
    /// in the Qwen family, `▁` in SentencePiece).
    pub fn decode(&self, ids: &[u32]) -> String {
        let mut decoder = self.decoder();
        let mut text: String = ids.iter().map(|&id| decoder.push(id)).collect();
        text.push_str(&decoder.flush());
        text
    }

    /// Text of `ids` that stand alone: the inverse of [`Tokenizer::encode_text`], without the
    /// family's leading space.
    pub fn decode_text(&self, ids: &[u32]) -> String {
        let text = self.decode(ids);
        match text.strip_prefix(' ') {
            Some(rest) if self.pieces.spelling.leads() => rest.to_owned(),
            _ => text,
        }
    }

    /// An incremental decoder of the tokens of one text.
    pub fn decoder(&self) -> Decoder {
        Decoder::new(Arc::clone(&self.pieces))
    }

    /// Appends the bytes of token `id`, which may begin or end within a character: those of all ids
    /// joined are the output of [`Tokenizer::decoder`]. None for control tokens and invalid ids.
    pub fn spell(&self, id: u32, to: &mut Vec<u8>) {
        self.pieces.spelling.append(&self.vocabulary, id, to);
    }

    /// Tokens that end an answer, ascending: the file's `eos`, `eot` and `eom` or those of the
    /// generation configuration, and those known by their text (`<|im_end|>`, `<|eot_id|>`,
    /// `<end_of_turn>` …).
    pub fn end_ids(&self) -> &[u32] {
        &self.ends
    }

    /// Adds the token that closes an assistant's `turn` to those that end an answer, if it is one
    /// token: a model's other files may lack it, and in a base model it is text.
    pub fn learn_end(&mut self, turn: &Turn) {
        if let &[id] = turn.end.as_slice()
            && (self.is_control(id) || !turn.stops.is_empty())
            && let Err(place) = self.ends.binary_search(&id)
        {
            self.ends.insert(place, id);
        }
    }

    /// Control token at the start of `text`.
    pub(crate) fn leading_control(&self, text: &str) -> Option<u32> {
        let found = self.all_special.find(text, 0)?;
        (found.place.start == 0 && self.is_control(found.id)).then_some(found.id)
    }

    /// Drops tokens beyond a model's `vocabulary` (its embedding's rows): some tokenizers list a
    /// few that only a larger model of the family has. Returns whether all tokens that text needs
    /// remain.
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

    /// Token that begins a prompt, if the file names one.
    pub fn bos(&self) -> Option<u32> {
        self.vocabulary.roles.bos
    }

    /// End-of-text token, if the file names one.
    pub fn eos(&self) -> Option<u32> {
        self.vocabulary.roles.eos
    }

    /// Number of tokens.
    pub fn len(&self) -> usize {
        self.vocabulary.len()
    }

    /// Whether there are no tokens; always false, as such files are refused.
    pub fn is_empty(&self) -> bool {
        self.vocabulary.len() == 0
    }

    /// A token's text in the file (`Ġthe`, `▁the`, `<|im_end|>`).
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

    /// Finder of control tokens' text, for templates.
    pub(crate) fn control_finder(&self) -> Arc<Finder> {
        Arc::clone(&self.controls)
    }

    /// Whether only a template may write the token. The unknown token is included: transformers
    /// finds it by its text too.
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

    /// Control tokens that the template wrote, in order.
    fn controls_of(&self, prompt: &Prompt) -> impl Iterator<Item = Found> {
        self.controls_from(prompt, 0)
    }

    /// Control tokens from byte `from` on.
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
