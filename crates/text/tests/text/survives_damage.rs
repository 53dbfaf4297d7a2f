//! Hugging Face folders with random damage: a tokenizer or an error, never a panic, never an
//! endless text. On a page a panic aborts every member, so no input that panics may reach the
//! tokenizers crate.
//!
//! `FUZZ_CASES=1000000 cargo test -p conclave-text --release --test survives_damage` runs longer.

use conclave_text::{ChatTemplate, Message, Tokenizer};
use conclave_weights::HuggingFace;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

macro_rules! folders {
    ($($name:literal),*) => {
        [$(
            include_bytes!(concat!("../../../../tests/fixtures/text/folder-", $name, ".json"))
                .as_slice()
        ),*]
    };
}

fn folders() -> [&'static [u8]; 9] {
    folders!(
        "llama-legacy",
        "llama",
        "phi3",
        "gemma",
        "metaspace",
        "qwen3",
        "llama3",
        "neox",
        "suffixed"
    )
}

fn cases(few: u32) -> u32 {
    let asked = std::env::var("FUZZ_CASES").ok();
    asked.and_then(|cases| cases.parse().ok()).unwrap_or(few)
}

/// Replaces the value at one of the places within `value`. Tokens and merges, which would be nearly
/// all places, are hit by chance only in lists of fewer than sixty.
fn replace(value: &mut Value, at: Index, with: Value) {
    fn count(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().take(60).map(count).sum(),
            Value::Object(entries) => entries.values().take(60).map(count).sum(),
            _ => 0,
        }
    }
    fn nth(value: &mut Value, mut index: usize) -> Option<&mut Value> {
        if index == 0 {
            return Some(value);
        }
        index -= 1;
        let within: Box<dyn Iterator<Item = &mut Value>> = match value {
            Value::Array(items) => Box::new(items.iter_mut().take(60)),
            Value::Object(entries) => Box::new(entries.values_mut().take(60)),
            _ => return None,
        };
        for inner in within {
            let size = count(inner);
            if index < size {
                return nth(inner, index);
            }
            index -= size;
        }
        None
    }
    let index = at.index(count(value));
    if let Some(place) = nth(value, index) {
        *place = with;
    }
}

/// Parts of some tokenizers, and invalid ones.
fn part() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        Just(String::new()),
        Just(" ".to_owned()),
        Just("▁".to_owned()),
        Just("a".repeat(40)),
        Just("(?<=a)b|(a*)*$|\\p{L}++".to_owned()),
        Just("(".to_owned()),
        Just("<0x41>".to_owned()),
        "[ -~]{0,6}",
        any::<String>(),
    ];
    let kinds = [
        "Sequence",
        "NFC",
        "NFD",
        "NFKC",
        "NFKD",
        "Lowercase",
        "Strip",
        "StripAccents",
        "Nmt",
        "Replace",
        "Prepend",
        "BertNormalizer",
        "ByteLevel",
        "Precompiled",
        "Split",
        "Metaspace",
        "Digits",
        "Punctuation",
        "Whitespace",
        "WhitespaceSplit",
        "BertPreTokenizer",
        "CharDelimiterSplit",
        "Delimiter",
        "UnicodeScripts",
        "FixedLength",
        "ByteFallback",
        "Fuse",
        "BPEDecoder",
        "WordPiece",
        "CTC",
        "TemplateProcessing",
        "BPE",
        "Unigram",
    ];
    let behaviours = [
        "Removed",
        "Isolated",
        "MergedWithPrevious",
        "MergedWithNext",
        "Contiguous",
    ];
    let schemes = ["first", "always", "never", "x"];
    let built = (
        prop::sample::select(kinds.to_vec()),
        text.clone(),
        text.clone(),
        prop::sample::select(behaviours.to_vec()),
        any::<[bool; 6]>(),
        0..4_u32,
    )
        .prop_map(move |(kind, one, other, behaviour, flags, number)| {
            json!({
                "type": kind,
                "pattern": if flags[0] {
                    json!({ "String": one })
                } else {
                    json!({ "Regex": one })
                },
                "content": if flags[5] {
                    json!(other)
                } else {
                    json!(one.chars().next().unwrap_or('x'))
                },
                "prepend": other, "behavior": behaviour, "invert": flags[1],
                "replacement": one.chars().next().unwrap_or('▁'), "delimiter": '-',
                "prepend_scheme": schemes[number as usize],
                "add_prefix_space": flags[2], "trim_offsets": flags[3], "use_regex": flags[4],
                "individual_digits": flags[2], "length": number, "strip_left": flags[2],
                "strip_right": flags[3], "start": number, "stop": number, "suffix": other,
                "clean_text": flags[2], "handle_chinese_chars": flags[3], "strip_accents": flags[4],
                "lowercase": flags[5], "precompiled_charsmap": other, "cleanup": flags[0],
                "prefix": one, "pad_token": one, "word_delimiter_token": other,
            })
        });
    let simple = prop_oneof![
        Just(Value::Null),
        Just(json!([])),
        Just(json!({})),
        any::<bool>().prop_map(Value::from),
        prop::sample::select(vec![0_i64, 1, -1, 7, 300, 5000, u32::MAX.into(), i64::MAX])
            .prop_map(Value::from),
        Just(json!(1.5)),
        text.prop_map(Value::from),
    ];
    let one = prop_oneof![3 => built, 2 => simple].boxed();
    let list = prop::collection::vec(one.clone(), 0..4);
    prop_oneof![
        3 => one,
        1 => list.prop_map(|parts| json!({
            "type": "Sequence", "normalizers": parts, "pretokenizers": parts, "decoders": parts,
        })),
    ]
}

/// Uses the tokenizer if it can be built.
fn exercise(files: &HuggingFace, sample: &str) {
    let Ok(tokenizer) = Tokenizer::from_hugging_face(files) else {
        return;
    };
    for text in [
        sample,
        "Hello, wörld!  1234\n\n日本 <|im_end|>🙂 x2 text?",
        "",
    ] {
        for ids in [tokenizer.encode(text), tokenizer.encode_text(text)]
            .into_iter()
            .flatten()
        {
            assert!(ids.iter().all(|&id| (id as usize) < tokenizer.len()));
            let _ = tokenizer.decode_text(&ids);
        }
    }
    if let Ok(template) = ChatTemplate::from_hugging_face(files, &tokenizer)
        && let Ok(prompt) = template.render(&[Message::new("user", sample)], true)
    {
        let _ = tokenizer.encode_prompt(&prompt);
    }
}

fn folder(files: &Value) -> HuggingFace {
    let optional = |name: &str| Some(files[name].clone()).filter(|value| !value.is_null());
    HuggingFace {
        config: files["config"].clone(),
        generation_config: optional("generation_config"),
        tokenizer: optional("tokenizer").map(|json| serde_json::to_vec(&json).unwrap()),
        tokenizer_config: optional("tokenizer_config"),
        chat_template: files["chat_template"].as_str().map(str::to_owned),
        other_templates: Vec::new(),
    }
}

/// Replacing an empty match by text leaves the tokenizers library with offsets that it does not
/// know.
#[test]
fn expressions_that_match_nothing_are_no_panic() {
    for pattern in ["", "a*", "$", "\\b", "(?=o)"] {
        for which in 0..9 {
            let mut files: Value = serde_json::from_slice(folders()[which]).unwrap();
            files["tokenizer"]["normalizer"] = json!({
                "type": "Replace", "pattern": { "Regex": pattern }, "content": "x",
            });
            exercise(&folder(&files), "hello");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: cases(1500),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn changed_parts_are_errors_or_tokenizers(
        which in 0..9_usize,
        changes in prop::collection::vec((any::<Index>(), part()), 1..4),
        named in prop::collection::vec((0..4_usize, part()), 0..3),
        sample in any::<String>(),
    ) {
        let mut files: Value = serde_json::from_slice(folders()[which]).unwrap();
        for (at, with) in changes {
            replace(&mut files, at, with);
        }
        for (which, with) in named {
            let name = ["normalizer", "pre_tokenizer", "decoder", "post_processor"][which];
            if let Some(Value::Object(tokenizer)) = files.get_mut("tokenizer") {
                tokenizer.insert(name.to_owned(), with);
            }
        }
        exercise(&folder(&files), &sample);
    }

    #[test]
    fn changed_bytes_are_errors_or_tokenizers(
        which in 0..9_usize,
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..5),
        end in prop::option::weighted(0.2, any::<Index>()),
    ) {
        let files: Value = serde_json::from_slice(folders()[which]).unwrap();
        let mut folder = folder(&files);
        let json = folder.tokenizer.as_mut().unwrap();
        for (at, byte) in changes {
            let at = at.index(json.len());
            json[at] = byte;
        }
        if let Some(end) = end {
            json.truncate(end.index(json.len()));
        }
        exercise(&folder, "some text");
    }
}
