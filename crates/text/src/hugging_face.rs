//! A tokenizer from the files of a Hugging Face folder: `tokenizer.json`, extended by
//! `tokenizer_config.json` and `generation_config.json`.

use std::collections::HashMap;
use std::sync::Arc;

use conclave_weights::{HuggingFace, Strings};
use serde::Deserialize;
use serde_json::Value;

use crate::bpe::{Bpe, Priorities};
use crate::controls::{Finder, Manner};
use crate::steps_json::{is_byte_level, spelling, steps};
use crate::tokenizer_json::{self, AddedToken, File, Vocab};
use crate::vocabulary::{Kind, Roles, Vocabulary};
use crate::words::{Place, Steps, Words};
use crate::{TextError, Tokenizer};

const FILE: &str = "tokenizer.json";

pub(crate) fn build(files: &HuggingFace) -> Result<Tokenizer, TextError> {
    let json = files.tokenizer.as_deref().ok_or_else(|| {
        damaged("there is none, and other kinds of tokenizer files are not read".to_owned())
    })?;
    let config = files.tokenizer_config.as_ref();
    let mut file = File::parse(json)?;
    if let Some(kind) = file.model.kind.as_deref().filter(|&kind| kind != "BPE") {
        return Err(TextError::UnknownPart {
            part: "model",
            kind: kind.chars().take(60).collect(),
            known: "BPE",
        });
    }
    let named = config.map(named_tokens).unwrap_or_default();
    let added = added_tokens(std::mem::take(&mut file.added_tokens), config);
    let vocab = std::mem::take(&mut file.model.vocab);
    let (texts, kinds, manners) = assemble(vocab, &added, &named, json.len())?;

    let (normaliser, pre_tokeniser) = (&file.normalizer.0, &file.pre_tokenizer.0);
    let byte_level = is_byte_level(pre_tokeniser) || is_byte_level(normaliser);
    let spelling = spelling(&file.decoder.0, byte_level)?;
    let (begin, end) = added_around(&file.post_processor.0);
    let mut vocabulary = Vocabulary::new(texts, kinds, Roles::default());
    let find = |text: Option<&str>| vocabulary.find_any(text?);
    let bos = find(named.get("bos_token").map(String::as_str)).or_else(|| find(begin));
    let eos = find(named.get("eos_token").map(String::as_str));
    let unknown = find(file.model.unk_token.as_deref());
    let ends = ends(files, vocabulary.len());
    vocabulary.give_roles(bos, eos, unknown, &ends);
    let vocabulary = Arc::new(vocabulary);

    let prefix = file.model.continuing_subword_prefix.unwrap_or_default();
    let merges = tokenizer_json::merges(json, &vocabulary, &prefix)?;
    let normalised: Vec<&AddedToken> = added
        .iter()
        .filter(|token| token.normalized && !normaliser.is_null())
        .collect();
    let steps_at = |place| -> Result<Steps, TextError> {
        let mut steps = steps(normaliser, pre_tokeniser, place)?;
        let mut tokens = Vec::new();
        for token in &normalised {
            let id = vocabulary.find_any(&token.content);
            if let Some(id) = id.filter(|&id| vocabulary.kind(id) == Kind::UserDefined) {
                let text = steps.normalise(&token.content)?.get().to_owned();
                tokens.push((id, text, manner(token)));
            }
        }
        steps.tokens = Finder::new(tokens)?;
        Ok(steps)
    };
    let words = Words {
        start: Arc::new(steps_at(Place::Start)?),
        after_token: Arc::new(steps_at(Place::AfterToken)?),
        within: Arc::new(steps_at(Place::Within)?),
        bpe: Bpe {
            priorities: Priorities::Merges(merges),
            unknown: vocabulary.roles.unknown,
            fuse_unknown: file.model.fuse_unk,
            bytes: if file.model.byte_fallback {
                Bpe::byte_tokens(&vocabulary)
            } else {
                None
            },
            whole_words: file.model.ignore_merges,
            prefix,
            suffix: file.model.end_of_word_suffix.unwrap_or_default(),
            vocabulary: Arc::clone(&vocabulary),
        },
    };
    let add_bos = config
        .and_then(|config| config.get("add_bos_token")?.as_bool())
        .unwrap_or_else(|| begin.is_some() && begin == bos.and_then(|bos| vocabulary.text(bos)));
    let add_eos = config.and_then(|config| config.get("add_eos_token")?.as_bool());
    let closing = match add_eos {
        Some(add) => eos.filter(|_| add),
        None => end.and_then(|text| vocabulary.find_any(text)),
    };
    let tokenizer = Tokenizer::new(words, spelling, add_bos, &manners)?;
    Ok(tokenizer.closed_by(closing))
}

/// Tokens with a role in `tokenizer_config.json`, by the role's key. They are special tokens,
/// whatever `tokenizer.json` says, and templates refer to them by these names.
pub(crate) fn named_tokens(config: &Value) -> HashMap<&str, String> {
    const KEYS: [&str; 7] = [
        "bos_token",
        "eos_token",
        "unk_token",
        "pad_token",
        "sep_token",
        "cls_token",
        "mask_token",
    ];
    KEYS.into_iter()
        .filter_map(|key| Some((key, text(config.get(key)?)?)))
        .collect()
}

/// A token in `tokenizer_config.json`: its text, or an object with it.
fn text(token: &Value) -> Option<String> {
    let text = token.get("content").unwrap_or(token);
    text.as_str().map(str::to_owned)
}

/// The added tokens; those of `tokenizer_config.json` replace those of the same text.
fn added_tokens(mut added: Vec<AddedToken>, config: Option<&Value>) -> Vec<AddedToken> {
    let Some(config) = config else {
        return added;
    };
    let mut places: HashMap<String, usize> = added
        .iter()
        .enumerate()
        .map(|(place, token)| (token.content.clone(), place))
        .collect();
    let decoder = config
        .get("added_tokens_decoder")
        .and_then(Value::as_object);
    for (id, token) in decoder.into_iter().flatten() {
        let Ok(mut token) = AddedToken::deserialize(token) else {
            continue;
        };
        token.id = id.parse().ok();
        match places.get(&token.content) {
            Some(&place) => {
                token.id = added[place].id;
                added[place] = token;
            }
            None => {
                places.insert(token.content.clone(), added.len());
                added.push(token);
            }
        }
    }
    for key in [
        "additional_special_tokens",
        "extra_special_tokens",
        "model_specific_special_tokens",
    ] {
        let tokens: Vec<&Value> = match config.get(key) {
            Some(Value::Array(tokens)) => tokens.iter().collect(),
            Some(Value::Object(tokens)) => tokens.values().collect(),
            _ => Vec::new(),
        };
        for text in tokens.into_iter().filter_map(text) {
            if let Some(&place) = places.get(&text) {
                added[place].special = true;
            }
        }
    }
    added
}

fn manner(token: &AddedToken) -> Manner {
    Manner {
        lstrip: token.lstrip,
        rstrip: token.rstrip,
        single_word: token.single_word,
    }
}

type Assembled = (Strings, Vec<Kind>, Vec<(u32, Manner)>);

/// Assembles all tokens in the order of their ids, with unused tokens in the gaps, and the matching
/// options of added tokens, by id. Fails if an id is beyond `bytes`, the file's length.
fn assemble(
    vocab: Vocab,
    added: &[AddedToken],
    named: &HashMap<&str, String>,
    bytes: usize,
) -> Result<Assembled, TextError> {
    const HOLE: u32 = u32::MAX;
    let highest = vocab.ids.iter().copied().max();
    let highest = highest.max(added.iter().filter_map(|token| token.id).max());
    let count = highest.map_or(0, |id| id as usize + 1);
    if count == 0 {
        return Err(damaged("there are no tokens".to_owned()));
    }
    if count > bytes {
        return Err(damaged(format!("token {} is beyond the file", count - 1)));
    }
    // Text of each id: an index into the vocabulary, followed by the added ones.
    let mut sources = vec![HOLE; count];
    for (source, &id) in (0_u32..).zip(&vocab.ids) {
        let slot = &mut sources[id as usize];
        if *slot != HOLE {
            return Err(damaged(format!("two tokens have the id {id}")));
        }
        *slot = source;
    }
    let in_vocab = |source: u32| vocab.texts.get(source as usize);
    // An added token that is also in the vocabulary has the vocabulary's id.
    let by_id = |token: &AddedToken| {
        let id = token.id?;
        let text = in_vocab(*sources.get(id as usize)?)?;
        (text == token.content).then_some(id)
    };
    let mut ids: Vec<Option<u32>> = added.iter().map(by_id).collect();
    let mut elsewhere: HashMap<&str, usize> = (0..added.len())
        .filter(|&index| ids[index].is_none())
        .map(|index| (added[index].content.as_str(), index))
        .collect();
    if !elsewhere.is_empty() {
        for (text, &id) in vocab.texts.iter().zip(&vocab.ids) {
            if let Some(index) = elsewhere.remove(text) {
                ids[index] = Some(id);
            }
        }
    }
    let known = u32::try_from(vocab.ids.len()).unwrap_or(HOLE);
    for (number, (token, id)) in (known..).zip(added.iter().zip(&mut ids)) {
        if id.is_none() {
            let Some(own) = token.id else { continue };
            let slot = &mut sources[own as usize];
            if *slot != HOLE {
                return Err(damaged(format!("two tokens have the id {own}")));
            }
            *slot = number;
            *id = Some(own);
        }
    }

    let mut texts = Strings::default();
    let mut kinds = Vec::with_capacity(count);
    for &source in &sources {
        let text = match source.checked_sub(known) {
            _ if source == HOLE => None,
            None => in_vocab(source),
            Some(added_number) => added
                .get(added_number as usize)
                .map(|token| token.content.as_str()),
        };
        texts.push(text.unwrap_or_default());
        kinds.push(text.map_or(Kind::Unused, |_| Kind::Normal));
    }
    let mut manners = Vec::new();
    for (token, id) in added.iter().zip(&ids) {
        let Some(id) = *id else { continue };
        kinds[id as usize] = if token.special || looks_special(&token.content) {
            Kind::Control
        } else {
            Kind::UserDefined
        };
        if manner(token) != Manner::default() {
            manners.push((id, manner(token)));
        }
    }
    manners.sort_unstable_by_key(|&(id, _)| id);
    manners.dedup_by_key(|&mut (id, _)| id);
    for (text, kind) in texts.iter().zip(&mut kinds) {
        if *kind != Kind::Unused && named.values().any(|named| named == text) {
            *kind = Kind::Control;
        }
    }
    Ok((texts, kinds, manners))
}

/// Whether a token looks like a control token. Some makers leave theirs unmarked (Qwen its
/// `<|fim_prefix|>`, Gemma 1 its `<start_of_turn>`); llama.cpp's converter has the same heuristic.
fn looks_special(text: &str) -> bool {
    (text.starts_with("<|") && text.ends_with("|>"))
        || (text.starts_with("<｜") && text.ends_with("｜>"))
        || (text.starts_with("<unused") && text.ends_with('>'))
        || matches!(
            text,
            "<start_of_turn>" | "<end_of_turn>" | "<pad>" | "<mask>"
        )
}

/// Ids that end an answer according to the configurations.
fn ends(files: &HuggingFace, tokens: usize) -> Vec<u32> {
    let given = |config: &Value| {
        let ids = config.get("eos_token_id").filter(|id| !id.is_null())?;
        Some(self::ids(ids, tokens))
    };
    let generation = files.generation_config.as_ref().and_then(given);
    generation
        .or_else(|| given(&files.config))
        .unwrap_or_default()
}

/// One id or a list of them; unknown ids are dropped.
fn ids(value: &Value, tokens: usize) -> Vec<u32> {
    let one = std::slice::from_ref(value);
    let all = value.as_array().map_or(one, Vec::as_slice);
    all.iter()
        .filter_map(|id| u32::try_from(id.as_u64()?).ok())
        .filter(|&id| (id as usize) < tokens)
        .collect()
}

/// Texts of the tokens that a post-processor puts before a text and after it.
fn added_around(part: &Value) -> (Option<&str>, Option<&str>) {
    let processors = part.get("processors").and_then(Value::as_array);
    let all = processors.map_or(std::slice::from_ref(part), Vec::as_slice);
    let templates = || all.iter().filter_map(|one| Some((one, one.get("single")?)));
    let first = templates().find_map(|(part, single)| special(part, single.get(0)?));
    let last = templates().find_map(|(part, single)| special(part, single.as_array()?.last()?));
    (first, last)
}

/// Text of a special token in a template of a post-processor.
fn special<'a>(part: &'a Value, piece: &'a Value) -> Option<&'a str> {
    let id = piece.get("SpecialToken")?.get("id")?.as_str()?;
    // The template's name of the token refers to its own table.
    let tokens = part
        .get("special_tokens")
        .and_then(|table| table.get(id)?.get("tokens")?.get(0)?.as_str());
    Some(tokens.unwrap_or(id))
}

fn damaged(reason: String) -> TextError {
    TextError::File { file: FILE, reason }
}
