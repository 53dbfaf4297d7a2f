//! Token ids and rendered conversations against what Python's tokenizers, sentencepiece and
//! transformers gave for the same models (`tests/fixtures/make_text_fixtures.py`).

use conclave_text::{ChatTemplate, Message, TextError, Tokenizer};
use conclave_weights::{Array, Gguf, Metadata, Value};
use serde_json::Value as Json;

macro_rules! fixture {
    ($($name:literal)+) => {
        include_bytes!(concat!("../../../tests/fixtures/text/", $($name),+))
    };
}

struct Family {
    name: &'static str,
    gguf: &'static [u8],
    results: &'static [u8],
}

macro_rules! families {
    ($($name:literal),*) => {
        [$(Family {
            name: $name,
            gguf: fixture!($name ".gguf"),
            results: fixture!($name ".json"),
        }),*]
    };
}

/// 2024-11-21 08:09:10, the time at which the references were rendered.
const NOW: u64 = 1_732_176_550;

fn families() -> impl Iterator<Item = (Family, Metadata, Tokenizer)> {
    families!(
        "gpt-2",
        "smollm",
        "qwen2",
        "llama-bpe",
        "tekken",
        "gpt-4o",
        "sentencepiece",
        "gemma"
    )
    .into_iter()
    .map(|family| {
        let metadata = Gguf::parse_whole(family.gguf).unwrap().metadata().clone();
        let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
        (family, metadata, tokenizer)
    })
}

fn json(bytes: &[u8]) -> Json {
    serde_json::from_slice(bytes).unwrap()
}

fn texts() -> Vec<String> {
    serde_json::from_slice(fixture!("texts.json")).unwrap()
}

fn ids(json: &Json) -> Vec<u32> {
    json.as_array()
        .unwrap()
        .iter()
        .map(|id| u32::try_from(id.as_u64().unwrap()).unwrap())
        .collect()
}

fn messages(case: &Json) -> Vec<Message> {
    let message = |json: &Json| {
        Message::new(
            json["role"].as_str().unwrap(),
            json["content"].as_str().unwrap(),
        )
    };
    case["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(message)
        .collect()
}

/// The conversations of the prompt references: the same in every template's list.
fn conversations() -> Vec<Vec<Message>> {
    let templates = json(fixture!("templates.json"));
    let cases = templates["chatml"]["cases"].as_array().unwrap();
    cases.iter().step_by(2).map(messages).collect()
}

#[test]
fn ids_are_python_s() {
    let texts = texts();
    assert!(texts.len() > 180);
    for (family, _, tokenizer) in families() {
        let results = json(family.results);
        for (index, text) in texts.iter().enumerate() {
            let plain = ids(&results["plain"][index]);
            assert_eq!(
                tokenizer.encode(text).unwrap(),
                plain,
                "{}: {text:?}",
                family.name
            );
            let alone = results["text"].get(index.to_string()).map_or(plain, ids);
            assert_eq!(
                tokenizer.encode_text(text).unwrap(),
                alone,
                "{} alone: {text:?}",
                family.name
            );
        }
    }
}

#[test]
fn decoding_gives_the_text_back() {
    for (family, _, tokenizer) in families() {
        for text in &texts() {
            let decoded = tokenizer.decode(&tokenizer.encode(text).unwrap());
            // Qwen composes accents first: what comes back must at least be stable.
            if family.name == "qwen2" {
                assert_eq!(
                    tokenizer.encode(&decoded).unwrap(),
                    tokenizer.encode(text).unwrap(),
                    "{text:?}"
                );
                if text.is_ascii() {
                    assert_eq!(&decoded, text);
                }
                continue;
            }
            assert_eq!(decoded, text.replace('▁', " "), "{}", family.name);
            if !text.contains('<') {
                let alone = tokenizer.encode_text(text).unwrap();
                assert_eq!(
                    tokenizer.decode_text(&alone),
                    text.replace('▁', " "),
                    "{} alone",
                    family.name
                );
            }
        }
    }
}

#[test]
fn prompts_are_apply_chat_template_s() {
    let conversations = conversations();
    let mut with_template = 0;
    for (family, metadata, tokenizer) in families() {
        let results = json(family.results);
        let mut template = ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap();
        template.set_time(NOW);
        assert_eq!(template.is_own(), !results["prompt"].is_null());
        if !template.is_own() {
            continue;
        }
        with_template += 1;
        for (index, conversation) in conversations.iter().enumerate() {
            let expected = &results["prompt"][index];
            match template.render(conversation, true) {
                Ok(prompt) => {
                    let found = tokenizer.encode_prompt(&prompt).unwrap();
                    assert_eq!(found, ids(expected), "{}: {}", family.name, prompt.text());
                }
                Err(error) => {
                    assert!(expected.is_null(), "{}: {error}", family.name);
                    assert!(
                        matches!(error, TextError::TemplateRefused { .. }),
                        "{error}"
                    );
                }
            }
        }
    }
    assert_eq!(with_template, 4);
}

#[test]
fn templates_render_as_in_transformers() {
    let mut metadata = Gguf::parse_whole(fixture!("gemma.gguf"))
        .unwrap()
        .metadata()
        .clone();
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    let templates = json(fixture!("templates.json"));
    for (name, reference) in templates.as_object().unwrap() {
        let source = reference["template"].as_str().unwrap();
        metadata.set("tokenizer.chat_template", Value::String(source.to_owned()));
        let mut template = ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap();
        template.set_time(NOW);
        assert_eq!(template.source(), source);
        for case in reference["cases"].as_array().unwrap() {
            let rendered = template.render(
                &messages(case),
                case["add_generation_prompt"].as_bool().unwrap(),
            );
            match (rendered, case["text"].as_str()) {
                (Ok(prompt), Some(text)) => assert_eq!(prompt.text(), text, "{name}"),
                (Err(TextError::TemplateRefused { message }), None) => {
                    assert_eq!(message, case["refused"].as_str().unwrap(), "{name}");
                }
                (rendered, _) => panic!("{name}: {rendered:?} for {case}"),
            }
        }
    }
}

#[test]
fn ends_of_answers_are_known() {
    let end_texts = |name: &str| {
        let (_, _, tokenizer) = families().find(|(family, ..)| family.name == name).unwrap();
        let mut texts: Vec<_> = tokenizer
            .end_ids()
            .iter()
            .map(|&id| tokenizer.token(id).unwrap().to_owned())
            .collect();
        assert!(tokenizer.end_ids().iter().all(|&id| tokenizer.is_end(id)));
        let ordinary = tokenizer.encode("no end").unwrap();
        assert!(!ordinary.iter().any(|&id| tokenizer.is_end(id)));
        texts.sort();
        texts
    };
    assert_eq!(
        end_texts("qwen2"),
        ["<end_of_turn>", "<|endoftext|>", "<|eot_id|>", "<|im_end|>"]
    );
    assert_eq!(
        end_texts("gemma"),
        [
            "<end_of_turn>",
            "<eos>",
            "<|endoftext|>",
            "<|eot_id|>",
            "<|im_end|>"
        ]
    );

    // A converter that left the token that ends answers an ordinary one.
    let (_, mut metadata, tokenizer) = families()
        .find(|(family, ..)| family.name == "smollm")
        .unwrap();
    let id = tokenizer.special("<|im_end|>").unwrap();
    let mut kinds = metadata
        .opt_i32s("tokenizer.ggml.token_type")
        .unwrap()
        .unwrap()
        .into_owned();
    kinds[id as usize] = 1;
    metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(kinds)));
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    assert!(tokenizer.is_end(id));
    assert_eq!(tokenizer.decode(&[id]), "");
    assert_eq!(tokenizer.special("<|im_end|>"), Some(id));
}
