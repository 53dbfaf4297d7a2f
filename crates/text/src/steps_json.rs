//! Normaliser, pre-tokeniser and decoder of a `tokenizer.json`, checked before the tokenizers crate
//! reads them: it panics on some invalid ones, and a panic aborts a page's worker.

use serde::Deserialize;
use serde_json::Value;
use tokenizers::normalizers::NormalizerWrapper;
use tokenizers::pre_tokenizers::PreTokenizerWrapper;

use crate::TextError;
use crate::spelling::Spelling;
use crate::words::{Place, Steps};

/// Maximum bytes that a normaliser inserts at once; `▁` has three.
const LONGEST_CONTENT: usize = 16;

/// Maximum number of normalisers; the longest sequence in use has nine.
const MOST_NORMALISERS: usize = 32;

const NORMALISERS: &str = "Sequence, NFC, NFD, NFKC, NFKD, Lowercase, Strip, StripAccents, Nmt, \
    Replace, Prepend, BertNormalizer, ByteLevel";
const PRE_TOKENISERS: &str = "Sequence, Split, ByteLevel, Metaspace, Digits, Punctuation, \
    Whitespace, WhitespaceSplit, BertPreTokenizer, CharDelimiterSplit, UnicodeScripts, FixedLength";
const DECODERS: &str =
    "Sequence, ByteLevel, Replace, ByteFallback, Fuse, Strip, Metaspace, BPEDecoder";

/// Steps of text at `place`, from the file's two parts.
pub(crate) fn steps(
    normaliser: &Value,
    pre_tokeniser: &Value,
    place: Place,
) -> Result<Steps, TextError> {
    let mut normalisers = Vec::new();
    for part in flat(normaliser, "normalizers") {
        let kind = kind(part);
        // A continuation gets no prefix, and its spaces count.
        if place == Place::Within && matches!(kind, "Prepend" | "Strip") {
            continue;
        }
        if !named(NORMALISERS, kind) {
            return Err(unknown("normalizer", kind, NORMALISERS));
        }
        for key in ["content", "prepend"] {
            let content = part.get(key).and_then(Value::as_str).unwrap_or_default();
            if content.len() > LONGEST_CONTENT {
                return Err(damaged("normalizer", &format!("`{key}` is too long")));
            }
        }
        if normalisers.len() == MOST_NORMALISERS {
            return Err(damaged("normalizer", "there are too many"));
        }
        normalisers.push(
            NormalizerWrapper::deserialize(part)
                .map_err(|error| damaged("normalizer", &error.to_string()))?,
        );
    }
    let pre_tokeniser = match pre_tokeniser {
        Value::Null => None,
        part => {
            let mut part = part.clone();
            place_pre_tokeniser(&mut part, place)?;
            let built = PreTokenizerWrapper::deserialize(part)
                .map_err(|error| damaged("pre_tokenizer", &error.to_string()))?;
            Some(built)
        }
    };
    Ok(Steps {
        normalisers,
        pre_tokeniser,
        ..Steps::default()
    })
}

/// Checks a pre-tokeniser, and removes the space that it prepends unless the text is at its start.
fn place_pre_tokeniser(part: &mut Value, place: Place) -> Result<(), TextError> {
    let kind = kind(part).to_owned();
    if !named(PRE_TOKENISERS, &kind) {
        return Err(unknown("pre_tokenizer", &kind, PRE_TOKENISERS));
    }
    let Some(part) = part.as_object_mut() else {
        return Ok(());
    };
    match kind.as_str() {
        "Sequence" => {
            if let Some(Value::Array(parts)) = part.get_mut("pretokenizers") {
                for part in parts {
                    place_pre_tokeniser(part, place)?;
                }
            }
        }
        "Metaspace" => {
            let first = part
                .get("prepend_scheme")
                .is_some_and(|scheme| scheme == "first");
            if place == Place::Within || (place == Place::AfterToken && first) {
                part.remove("add_prefix_space");
                part.insert("prepend_scheme".to_owned(), "never".into());
            }
        }
        "ByteLevel" if place == Place::Within => {
            part.insert("add_prefix_space".to_owned(), false.into());
        }
        "FixedLength" if part.get("length").is_some_and(|length| length == 0) => {
            return Err(damaged("pre_tokenizer", "`length` is 0"));
        }
        _ => {}
    }
    Ok(())
}

/// Whether some step of a pre-tokeniser or normaliser maps bytes to letters.
pub(crate) fn is_byte_level(part: &Value) -> bool {
    let within = |key| {
        part.get(key)
            .and_then(Value::as_array)
            .is_some_and(|parts| parts.iter().any(is_byte_level))
    };
    kind(part) == "ByteLevel" || within("pretokenizers") || within("normalizers")
}

/// Spelling of tokens according to the file's decoder.
pub(crate) fn spelling(decoder: &Value, byte_level: bool) -> Result<Spelling, TextError> {
    if decoder.is_null() {
        return Ok(if byte_level {
            Spelling::ByteLevel
        } else {
            // The library joins such tokens with spaces.
            Spelling::Text {
                replaced: Vec::new(),
                bytes: false,
                lead: true,
                spaced: true,
            }
        });
    }
    let mut replaced = Vec::new();
    let (mut bytes, mut lead) = (false, false);
    for part in flat(decoder, "decoders") {
        let text = |key: &str| part.get(key).and_then(Value::as_str);
        match kind(part) {
            "ByteLevel" => return Ok(Spelling::ByteLevel),
            "ByteFallback" => bytes = true,
            "Fuse" => {}
            "Replace" => {
                let pattern = part
                    .get("pattern")
                    .and_then(|pattern| pattern.get("String"));
                let (Some(pattern), Some(content)) =
                    (pattern.and_then(Value::as_str), text("content"))
                else {
                    return Err(unknown("decoder", "Replace by expression", DECODERS));
                };
                if pattern.is_empty() || content.len() > LONGEST_CONTENT {
                    return Err(damaged("decoder", "`Replace` makes no sense"));
                }
                replaced.push((pattern.to_owned(), content.to_owned()));
            }
            "Strip" => {
                lead |= text("content") == Some(" ")
                    && part.get("start").and_then(Value::as_u64) > Some(0);
            }
            "Metaspace" => {
                replaced.push((
                    text("replacement").unwrap_or("▁").to_owned(),
                    " ".to_owned(),
                ));
                let never = text("prepend_scheme") == Some("never")
                    || part.get("add_prefix_space") == Some(&Value::Bool(false));
                lead |= !never;
            }
            "BPEDecoder" => {
                replaced.push((text("suffix").unwrap_or("</w>").to_owned(), " ".to_owned()));
            }
            kind => return Err(unknown("decoder", kind, DECODERS)),
        }
        if replaced.len() > MOST_NORMALISERS {
            return Err(damaged("decoder", "there are too many"));
        }
    }
    replaced.retain(|(pattern, _)| !pattern.is_empty());
    Ok(Spelling::Text {
        replaced,
        bytes,
        lead,
        spaced: false,
    })
}

fn kind(part: &Value) -> &str {
    part.get("type").and_then(Value::as_str).unwrap_or_default()
}

fn named(known: &str, kind: &str) -> bool {
    known.split(", ").any(|known| known == kind)
}

/// Steps of a part, with nested sequences flattened.
fn flat<'a>(part: &'a Value, key: &str) -> Vec<&'a Value> {
    match part {
        Value::Null => Vec::new(),
        part if kind(part) == "Sequence" => part
            .get(key)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .flat_map(|part| flat(part, key))
            .collect(),
        part => vec![part],
    }
}

fn unknown(part: &'static str, kind: &str, known: &'static str) -> TextError {
    TextError::UnknownPart {
        part,
        kind: kind.chars().take(60).collect(),
        known,
    }
}

fn damaged(part: &str, reason: &str) -> TextError {
    TextError::File {
        file: "tokenizer.json",
        reason: format!("`{part}`: {reason}"),
    }
}
