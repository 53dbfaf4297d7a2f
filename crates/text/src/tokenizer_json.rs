//! Reads `tokenizer.json`, the file of Hugging Face's tokenizers library: the vocabulary and the
//! merges straight into their final form, the rest as JSON of limited size.
//!
//! Gemma's has 33 MB and never becomes a tree: it is read twice, once for the vocabulary and once
//! for the merges, which the vocabulary maps to numbers.

use std::cell::Cell;
use std::fmt;

use conclave_weights::Strings;
use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::TextError;
use crate::merges::{Collected, Merges};
use crate::vocabulary::Vocabulary;

/// Maximum JSON values in one of the small parts. Llama 3's post-processor, the largest in use, has
/// 40; pre-tokenisers with tables in them stay below a thousand.
const LARGEST_PART: usize = 20_000;

/// The file without its merges.
#[derive(Debug, Deserialize)]
pub(crate) struct File {
    #[serde(default)]
    pub added_tokens: Vec<AddedToken>,
    #[serde(default)]
    pub normalizer: Part,
    #[serde(default)]
    pub pre_tokenizer: Part,
    #[serde(default)]
    pub post_processor: Part,
    #[serde(default)]
    pub decoder: Part,
    pub model: Model,
}

/// A token that is recognised by its text.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(crate) struct AddedToken {
    #[serde(default)]
    pub id: Option<u32>,
    pub content: String,
    #[serde(default)]
    pub single_word: bool,
    #[serde(default)]
    pub lstrip: bool,
    #[serde(default)]
    pub rstrip: bool,
    /// Searched for in the normalised text.
    #[serde(default)]
    pub normalized: bool,
    #[serde(default)]
    pub special: bool,
}

/// The model: BPE, and enough of other kinds to name them in an error.
#[derive(Debug, Deserialize)]
pub(crate) struct Model {
    /// Absent in old BPE files.
    #[serde(default, rename = "type")]
    pub kind: Option<String>,
    #[serde(default)]
    pub vocab: Vocab,
    #[serde(default)]
    pub unk_token: Option<String>,
    #[serde(default)]
    pub continuing_subword_prefix: Option<String>,
    #[serde(default)]
    pub end_of_word_suffix: Option<String>,
    #[serde(default)]
    pub fuse_unk: bool,
    #[serde(default)]
    pub byte_fallback: bool,
    #[serde(default)]
    pub ignore_merges: bool,
}

/// Tokens in the file's order, each with its id.
#[derive(Debug, Default)]
pub(crate) struct Vocab {
    pub texts: Strings,
    pub ids: Vec<u32>,
}

impl File {
    pub(crate) fn parse(json: &[u8]) -> Result<Self, TextError> {
        serde_json::from_slice(json).map_err(|error| damaged(&error))
    }
}

/// Reads the merges of the same file, as tokens of `vocabulary`.
pub(crate) fn merges(
    json: &[u8],
    vocabulary: &Vocabulary,
    prefix: &str,
) -> Result<Merges, TextError> {
    let mut merges = Collected::new(vocabulary, 0, prefix);
    let mut json = serde_json::Deserializer::from_slice(json);
    let merges_of_model = Within {
        key: "model",
        seed: Within {
            key: "merges",
            seed: MergesSeed(&mut merges),
        },
    };
    merges_of_model
        .deserialize(&mut json)
        .map_err(|error| damaged(&error))?;
    Ok(merges.finish())
}

fn damaged(error: &serde_json::Error) -> TextError {
    TextError::File {
        file: "tokenizer.json",
        reason: error.to_string(),
    }
}

impl<'de> Deserialize<'de> for Vocab {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(VocabVisitor)
    }
}

struct VocabVisitor;

impl<'de> Visitor<'de> for VocabVisitor {
    type Value = Vocab;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("tokens with their ids")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vocab, A::Error> {
        let mut vocab = Vocab::default();
        while map.next_key_seed(Pushed(&mut vocab.texts))?.is_some() {
            vocab.ids.push(map.next_value()?);
        }
        Ok(vocab)
    }

    /// The vocabulary of an unsupported model.
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vocab, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Vocab::default())
    }
}

/// Appends one string without a temporary copy.
struct Pushed<'a>(&'a mut Strings);

impl<'de> DeserializeSeed<'de> for Pushed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Pushed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a token")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        self.0.push(text);
        Ok(())
    }
}

/// Reads the value under one key of an object.
struct Within<S> {
    key: &'static str,
    seed: S,
}

impl<'de, S: DeserializeSeed<'de, Value = ()>> DeserializeSeed<'de> for Within<S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, S: DeserializeSeed<'de, Value = ()>> Visitor<'de> for Within<S> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object with `{}`", self.key)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seed = Some(self.seed);
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match seed.take_if(|_| key == self.key) {
                Some(seed) => map.next_value_seed(seed)?,
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        match seed {
            None => Ok(()),
            Some(_) => Err(de::Error::missing_field(self.key)),
        }
    }
}

struct MergesSeed<'a, 'v>(&'a mut Collected<'v>);

impl<'de> DeserializeSeed<'de> for MergesSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for MergesSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while seq.next_element_seed(MergeSeed(&mut *self.0))?.is_some() {}
        Ok(())
    }
}

/// One merge: `"a b"`, or since tokenizers 0.20 `["a", "b"]`.
struct MergeSeed<'a, 'v>(&'a mut Collected<'v>);

impl MergeSeed<'_, '_> {
    fn add<E: de::Error>(self, left: &str, right: &str) -> Result<(), E> {
        let number = self.0.len();
        self.0.push(left, right).map_err(|reason| {
            let start: String = left.chars().take(60).collect();
            E::custom(format!("merge {number} (of {start:?}) {reason}"))
        })
    }
}

impl<'de> DeserializeSeed<'de> for MergeSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for MergeSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("two tokens")
    }

    fn visit_str<E: de::Error>(self, line: &str) -> Result<(), E> {
        match line.split_once(' ') {
            Some((left, right)) if !right.contains(' ') => self.add(left, right),
            _ => Err(E::custom(format!(
                "merge {} is not two tokens with a space between",
                self.0.len()
            ))),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        type Text<'a> = std::borrow::Cow<'a, str>;
        let (Some(left), Some(right), None) = (
            seq.next_element::<Text<'_>>()?,
            seq.next_element::<Text<'_>>()?,
            seq.next_element::<IgnoredAny>()?,
        ) else {
            return Err(de::Error::invalid_length(0, &"two tokens"));
        };
        self.add(&left, &right)
    }
}

/// A small part of the file, as JSON; `null` where it is absent.
#[derive(Debug, Default)]
pub(crate) struct Part(pub Value);

impl<'de> Deserialize<'de> for Part {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let left = Cell::new(LARGEST_PART);
        Limited(&left).deserialize(deserializer).map(Self)
    }
}

/// A JSON value of at most so many values.
struct Limited<'a>(&'a Cell<usize>);

impl Limited<'_> {
    fn count<E: de::Error>(&self) -> Result<(), E> {
        let left = self.0.get().checked_sub(1);
        self.0
            .set(left.ok_or_else(|| E::custom("a part has more values than any tokenizer needs"))?);
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Limited<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Limited<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(Number::from_f64(number).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Limited(self.0))? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = map.next_key()? {
            entries.insert(key, map.next_value_seed(Limited(self.0))?);
        }
        Ok(Value::Object(entries))
    }
}
