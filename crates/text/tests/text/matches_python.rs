//! Token ids and rendered conversations against those of Python's tokenizers, sentencepiece and
//! transformers for the same models (`tests/fixtures/make_text_fixtures.py`).

use conclave_text::{ChatTemplate, Message, TextError, Tokenizer, Turn};
use conclave_weights::{Array, Description, Gguf, HuggingFace, Metadata, Value};
use serde_json::{Value as Json, json};

macro_rules! fixture {
    ($($name:literal)+) => {
        include_bytes!(concat!("../../../../tests/fixtures/text/", $($name),+))
    };
}

/// A model's tokenizer, in a GGUF file or a Hugging Face folder.
struct Family {
    name: &'static str,
    description: Description,
    tokenizer: Tokenizer,
}

impl Family {
    fn new(name: &'static str, description: Description) -> Self {
        let tokenizer = Tokenizer::from_checkpoint(&description).unwrap();
        Self {
            name,
            description,
            tokenizer,
        }
    }

    fn template(&self) -> ChatTemplate {
        let mut template =
            ChatTemplate::from_checkpoint(&self.description, &self.tokenizer).unwrap();
        template.set_time(NOW);
        template
    }
}

/// 2024-11-21 08:09:10, the time at which the references were rendered.
const NOW: u64 = 1_732_176_550;

macro_rules! ggufs {
    ($($name:literal),*) => {
        [$(($name, fixture!($name ".gguf").as_slice())),*]
    };
}

macro_rules! folders {
    ($($name:literal),*) => {
        [$(($name, fixture!($name ".json").as_slice())),*]
    };
}

fn metadata(name: &str) -> Metadata {
    let (_, gguf) = GGUFS.into_iter().find(|(known, _)| *known == name).unwrap();
    Gguf::parse_whole(gguf).unwrap().metadata().clone()
}

const GGUFS: [(&str, &[u8]); 8] = ggufs!(
    "gpt-2",
    "smollm",
    "qwen2",
    "llama-bpe",
    "tekken",
    "gpt-4o",
    "sentencepiece",
    "gemma"
);

const FOLDERS: [(&str, &[u8]); 9] = folders!(
    "folder-llama-legacy",
    "folder-llama",
    "folder-phi3",
    "folder-gemma",
    "folder-metaspace",
    "folder-qwen3",
    "folder-llama3",
    "folder-neox",
    "folder-suffixed"
);

fn folder(files: &[u8]) -> HuggingFace {
    let mut files = parsed(files);
    let mut optional = |name: &str| match files[name].take() {
        Json::Null => None,
        value => Some(value),
    };
    HuggingFace {
        config: optional("config").unwrap_or_default(),
        generation_config: optional("generation_config"),
        tokenizer: optional("tokenizer").map(|json| serde_json::to_vec(&json).unwrap()),
        tokenizer_config: optional("tokenizer_config"),
        chat_template: optional("chat_template").map(|text| text.as_str().unwrap().to_owned()),
        other_templates: Vec::new(),
    }
}

fn families() -> impl Iterator<Item = Family> {
    let ggufs = GGUFS
        .into_iter()
        .map(|(name, _)| Family::new(name, Description::Gguf(metadata(name))));
    let folders = FOLDERS
        .into_iter()
        .map(|(name, files)| Family::new(name, Description::HuggingFace(folder(files))));
    ggufs.chain(folders)
}

fn family(name: &str) -> Family {
    families().find(|family| family.name == name).unwrap()
}

fn parsed(bytes: &[u8]) -> Json {
    serde_json::from_slice(bytes).unwrap()
}

fn samples() -> (Vec<String>, Vec<Vec<Message>>) {
    let mut samples = parsed(fixture!("texts.json"));
    (
        serde_json::from_value(samples["texts"].take()).unwrap(),
        serde_json::from_value(samples["conversations"].take()).unwrap(),
    )
}

/// 24 bits of FNV-1a, in hexadecimal, as the references are stored.
fn hash(bytes: impl IntoIterator<Item = u8>) -> String {
    let state = bytes.into_iter().fold(0x811c_9dc5_u32, |state, byte| {
        (state ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    });
    format!("{:06x}", (state >> 24) ^ (state & 0x00ff_ffff))
}

fn hash_ids(ids: &[u32]) -> String {
    hash(ids.iter().flat_map(|id| id.to_le_bytes()))
}

/// Hash number `index` in one string.
fn nth(hashes: &Json, index: usize) -> &str {
    &hashes.as_str().unwrap()[6 * index..6 * index + 6]
}

#[test]
fn ids_are_python_s() {
    let (texts, _) = samples();
    // docs/measurements.md states the number of models and of templates.
    assert_eq!(texts.len(), 510);
    let results = parsed(fixture!("results.json"));
    for Family {
        name, tokenizer, ..
    } in families()
    {
        let expected = &results[name];
        for (index, text) in texts.iter().enumerate() {
            let plain = tokenizer.encode(text).unwrap();
            assert_eq!(
                hash_ids(&plain),
                nth(&expected["plain"], index),
                "{name}, continuing: {text:?} is {plain:?}"
            );
            let alone = tokenizer.encode_text(text).unwrap();
            assert_eq!(
                hash_ids(&alone),
                nth(&expected["text"], index),
                "{name}, alone: {text:?} is {alone:?}"
            );
            if let Some(clear) = index
                .checked_sub(18)
                .and_then(|index| expected["clear"].get(index))
            {
                assert_eq!(
                    serde_json::to_value(&alone).unwrap(),
                    *clear,
                    "{name}: {text:?}"
                );
            }
        }
    }
}

#[test]
fn decoding_is_python_s_and_gives_the_text_back() {
    let (texts, _) = samples();
    let results = parsed(fixture!("results.json"));
    for Family {
        name, tokenizer, ..
    } in families()
    {
        for (index, text) in texts.iter().enumerate() {
            let decoded = tokenizer.decode_text(&tokenizer.encode_text(text).unwrap());
            // The library drops the space after a word's end at the end of a text.
            let decoded = if name == "folder-suffixed" {
                decoded.trim_end()
            } else {
                &decoded
            };
            assert_eq!(
                hash(decoded.bytes()),
                nth(&results[name]["decoded"], index),
                "{name}: {text:?} comes back as {decoded:?}"
            );
            // Text that continues another is restored except for normalisation.
            let ids = tokenizer.encode(text).unwrap();
            let decoded = tokenizer.decode(&ids);
            match name {
                "folder-neox" | "folder-suffixed" | "folder-metaspace" => {}
                "qwen2" | "folder-qwen3" => {
                    assert_eq!(tokenizer.encode(&decoded).unwrap(), ids, "{name}: {text:?}");
                    assert!(!text.is_ascii() || decoded == *text, "{name}: {text:?}");
                }
                // Tokens that absorb white space.
                "folder-phi3" if text.contains("</s>") => {}
                _ => assert_eq!(decoded, text.replace('▁', " "), "{name}"),
            }
        }
    }
}

#[test]
fn prompts_are_apply_chat_template_s() {
    let (_, conversations) = samples();
    let results = parsed(fixture!("results.json"));
    let (mut with_template, mut refused) = (0, 0);
    for family in families() {
        let (name, expected) = (family.name, &results[family.name]["prompt"]);
        let template = family.template();
        assert_eq!(template.is_own(), !expected.is_null(), "{name}");
        if !template.is_own() {
            continue;
        }
        with_template += 1;
        for (index, conversation) in conversations.iter().enumerate() {
            match template.render(conversation, true) {
                Ok(prompt) => {
                    // Python trusts control tokens in messages; here they are plain text.
                    let trusted = conversation
                        .iter()
                        .all(|message| !message.content.contains("<|im_end|>"));
                    let found = family.tokenizer.encode_prompt(&prompt).unwrap();
                    assert_eq!(
                        expected[index].as_str() == Some(&hash_ids(&found)),
                        trusted,
                        "{name}: {} is {found:?}",
                        prompt.text()
                    );
                }
                Err(error) => {
                    refused += 1;
                    assert!(expected[index].is_null(), "{name}: {error}");
                    assert!(
                        matches!(error, TextError::TemplateRefused { .. }),
                        "{error}"
                    );
                }
            }
        }
    }
    assert_eq!(with_template, 10);
    assert!(refused > 5);
}

#[test]
fn templates_render_as_in_transformers() {
    let (_, conversations) = samples();
    let mut metadata = metadata("gemma");
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    let templates = parsed(fixture!("templates.json"));
    assert_eq!(templates.as_object().unwrap().len(), 15);
    for (name, reference) in templates.as_object().unwrap() {
        let source = reference["template"].as_str().unwrap();
        metadata.set("tokenizer.chat_template", Value::String(source.to_owned()));
        let mut template = ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap();
        template.set_time(NOW);
        assert_eq!(template.source(), source);
        let mut unthinking = ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap();
        unthinking.set_time(NOW);
        unthinking.set_thinking(Some(false));
        let mut templates = vec![&template];
        if source.contains("enable_thinking") {
            templates.push(&unthinking);
        }
        let mut cases = reference["cases"].as_array().unwrap().iter();
        for conversation in &conversations {
            for template in &templates {
                for opening in [true, false] {
                    let expected = cases.next().unwrap();
                    // A template that changes letters can't change those of a control token.
                    let torn = |message: &Message| message.content.contains("<|im_end|>");
                    if name == "lines" && conversation.iter().any(torn) {
                        continue;
                    }
                    match template.render(conversation, opening) {
                        Ok(prompt) => {
                            let text = prompt.text();
                            let hash = hash(text.bytes());
                            assert!(
                                *expected == text || *expected == hash.as_str(),
                                "{name}: {text} is not {expected}"
                            );
                        }
                        Err(TextError::TemplateRefused { message }) => {
                            assert_eq!(expected["refused"], message.as_str(), "{name}");
                        }
                        Err(error) => panic!("{name}: {error} for {conversation:?}"),
                    }
                }
            }
        }
        assert_eq!(cases.next(), None, "{name}");
    }
}

#[test]
fn ends_of_answers_are_known() {
    let end_texts = |name: &str| {
        let tokenizer = family(name).tokenizer;
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
    let mut metadata = metadata("smollm");
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
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

#[test]
fn ends_come_from_every_file_that_names_them() {
    let ends = |name: &str| {
        let family = family(name);
        let mut tokenizer = family.tokenizer;
        let texts = |tokenizer: &Tokenizer| -> Vec<String> {
            let ids = tokenizer.end_ids().iter();
            ids.map(|&id| tokenizer.token(id).unwrap().to_owned())
                .collect()
        };
        let named = texts(&tokenizer);
        let template = ChatTemplate::from_checkpoint(&family.description, &tokenizer).unwrap();
        let turn = Turn::from_template(&template, &tokenizer).unwrap();
        tokenizer.learn_end(&turn);
        let mut learnt = texts(&tokenizer);
        learnt.retain(|text| !named.contains(text));
        (named, learnt)
    };
    // A list in the generation configuration, and tokens that end answers by name.
    let (named, learnt) = ends("folder-phi3");
    for text in ["<|assistant|>", "<|end|>", "<|endoftext|>", "<|im_end|>"] {
        assert!(named.iter().any(|named| named == text), "{named:?}");
    }
    assert_eq!(learnt, [""; 0]);
    // One id in `config.json`, which is used if there is no generation configuration.
    let (named, _) = ends("folder-llama3");
    assert!(named.contains(&"<|end_header_id|>".to_owned()), "{named:?}");
    // The tokenizer configuration's `eos_token`.
    let (named, _) = ends("folder-llama");
    assert!(named.contains(&"<eos>".to_owned()), "{named:?}");
    // Only in the template.
    let mut files = match family("folder-llama-legacy").description {
        Description::HuggingFace(files) => files,
        Description::Gguf(_) => unreachable!(),
    };
    files.generation_config = None;
    files.tokenizer_config = None;
    let turn = "{% for m in messages %}{{ m.content }} <start_of_turn>{% endfor %}";
    files.chat_template = Some(turn.to_owned());
    let mut tokenizer = Tokenizer::from_hugging_face(&files).unwrap();
    let id = tokenizer.special("<start_of_turn>").unwrap();
    assert!(!tokenizer.is_end(id));
    let template = ChatTemplate::from_hugging_face(&files, &tokenizer).unwrap();
    let turn = Turn::from_template(&template, &tokenizer).unwrap();
    assert_eq!(turn.end, [id]);
    tokenizer.learn_end(&turn);
    assert!(tokenizer.is_end(id));
}

#[test]
fn tokens_beyond_the_embedding_are_given_up() {
    let mut tokenizer = family("folder-qwen3").tokenizer;
    let think = tokenizer.special("<think>").unwrap();
    let vocabulary = think as usize;
    assert!(tokenizer.limit_to(vocabulary));
    let ids = tokenizer
        .encode_text("<|im_start|>a<think>b</think>")
        .unwrap();
    assert!(ids.iter().all(|&id| id < think), "{ids:?}");
    assert_eq!(tokenizer.decode(&ids), "a<think>b</think>");
    assert!(!tokenizer.limit_to(100));
}

#[test]
fn control_tokens_of_phi_3_take_space_in_gguf_too() {
    let mut metadata = metadata("sentencepiece");
    metadata.set("general.architecture", Value::String("phi3".to_owned()));
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    let ids = |text: &str| tokenizer.encode_text(text).unwrap();
    assert_eq!(ids("<|im_end|>\n a"), ids("<|im_end|>a"));
    assert_ne!(ids("<|endoftext|>\na"), ids("<|endoftext|>a"));
}

/// Gemma 4's GGUF files have the roles of Gemma's folders, and list merges; they declare marks of
/// channels and tools as text.
#[test]
fn gemma4_in_gguf_is_as_in_its_folder() {
    let (_, files) = FOLDERS
        .into_iter()
        .find(|(name, _)| *name == "folder-gemma")
        .unwrap();
    let mut files = folder(files);
    let mut tokenizer = parsed(files.tokenizer.as_ref().unwrap());
    let mark = json!({"id": 623, "content": "<|channel>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true});
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    // Searched after normalising, which no file of llama.cpp's can express.
    added.retain(|token| token["content"] != "▁▁");
    added.push(mark);
    let mut tokens: Vec<(u64, String, i32)> = Vec::new();
    for (text, id) in tokenizer["model"]["vocab"].as_object().unwrap() {
        let kind = if text.starts_with("<0x") { 6 } else { 1 };
        tokens.push((id.as_u64().unwrap(), text.clone(), kind));
    }
    for token in tokenizer["added_tokens"].as_array().unwrap() {
        let (id, text) = (&token["id"], token["content"].as_str().unwrap());
        let kind = match (text, token["special"].as_bool().unwrap()) {
            ("<unk>", _) => 2,
            ("<|channel>", _) | (_, false) => 4,
            _ => 3,
        };
        tokens.retain(|(other, ..)| *id != *other);
        tokens.push((id.as_u64().unwrap(), text.to_owned(), kind));
    }
    tokens.sort();
    let merges = tokenizer["model"]["merges"].as_array().unwrap().iter();
    let merges = merges.map(|pair| {
        format!(
            "{} {}",
            pair[0].as_str().unwrap(),
            pair[1].as_str().unwrap()
        )
    });
    let strings =
        |all: Vec<String>| Value::Array(Array::Strings(all.iter().map(String::as_str).collect()));
    let mut metadata = metadata("gemma");
    metadata.set("tokenizer.ggml.model", Value::String("gemma4".to_owned()));
    metadata.set("tokenizer.ggml.merges", strings(merges.collect()));
    let kinds = tokens.iter().map(|(.., kind)| *kind).collect();
    metadata.set("tokenizer.ggml.token_type", Value::Array(Array::I32(kinds)));
    for (role, id) in [("unknown", 0), ("bos", 1), ("eos", 2)] {
        metadata.set(&format!("tokenizer.ggml.{role}_token_id"), Value::U32(id));
    }
    let texts = tokens.into_iter().map(|(_, text, _)| text).collect();
    metadata.set("tokenizer.ggml.tokens", strings(texts));
    files.tokenizer = Some(serde_json::to_vec(&tokenizer).unwrap());

    let found = Tokenizer::from_gguf(&metadata).unwrap();
    let wanted = Tokenizer::from_hugging_face(&files).unwrap();
    let (texts, _) = samples();
    let marked = ["<|channel>thought\n", "a <|channel> b"].map(str::to_owned);
    for text in texts.iter().chain(&marked) {
        assert_eq!(
            found.encode(text).unwrap(),
            wanted.encode(text).unwrap(),
            "{text:?}"
        );
        // Of the tokens that end answers elsewhere, only the GGUF file's are controls without a
        // declaration.
        if text.contains("<|") {
            continue;
        }
        let [alone, theirs] = [&found, &wanted].map(|one| one.encode_text(text).unwrap());
        assert_eq!(alone, theirs, "{text:?} alone");
        assert_eq!(
            found.decode_text(&alone),
            wanted.decode_text(&alone),
            "{text:?} back"
        );
    }
    // In the text of a user or another member it is text; only a template's is the mark.
    let mark = found.special("<|channel>").unwrap();
    assert!(!found.encode(&marked[0]).unwrap().contains(&mark));
    assert_eq!(found.encode_written(&marked[0]).unwrap()[0], mark);
}
