//! Texts that stand alone, as they are embedded: with the model's first and last tokens.

use conclave_text::Tokenizer;
use conclave_weights::{Gguf, HuggingFace, Value};
use serde_json::{Value as Json, json};

/// The tokenizer of a folder with another part than its own.
fn folder(part: &str, name: &str, with: Json) -> Tokenizer {
    let bytes = include_bytes!("../../../../tests/fixtures/text/folder-qwen3.json");
    let mut files: Json = serde_json::from_slice(bytes).unwrap();
    files[part][name] = with;
    Tokenizer::from_hugging_face(&HuggingFace {
        tokenizer: Some(files["tokenizer"].to_string().into_bytes()),
        tokenizer_config: Some(files["tokenizer_config"].clone()),
        ..HuggingFace::default()
    })
    .unwrap()
}

/// The ids of a text without more, and those of it alone.
fn ids(tokenizer: &Tokenizer) -> (Vec<u32>, Vec<u32>) {
    let text = "Hello there.";
    let plain = tokenizer.encode_text(text).unwrap();
    (plain, tokenizer.encode_alone(text).unwrap())
}

#[test]
fn a_gguf_file_says_which_tokens_are_added() {
    let file = include_bytes!("../../../../tests/fixtures/text/gemma.gguf");
    let mut metadata = Gguf::parse_whole(file).unwrap().metadata().clone();
    for (begins, ends) in [(true, false), (true, true), (false, true), (false, false)] {
        metadata.set("tokenizer.ggml.add_bos_token", Value::Bool(begins));
        metadata.set("tokenizer.ggml.add_eos_token", Value::Bool(ends));
        let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
        let (plain, alone) = ids(&tokenizer);
        let bos = tokenizer.bos().filter(|_| begins);
        let eos = tokenizer.eos().filter(|_| ends);
        let wanted: Vec<u32> = bos.into_iter().chain(plain).chain(eos).collect();
        assert_eq!(alone, wanted);
    }
}

#[test]
fn a_folder_says_which_token_is_last() {
    let template = json!({ "type": "Sequence", "processors": [
        { "type": "ByteLevel" },
        { "type": "TemplateProcessing", "single": [
            { "Sequence": { "id": "A", "type_id": 0 } },
            { "SpecialToken": { "id": "<|endoftext|>", "type_id": 0 } },
        ] },
    ] });
    let tokenizer = folder("tokenizer", "post_processor", template);
    let end = tokenizer.special("<|endoftext|>").unwrap();
    let (plain, alone) = ids(&tokenizer);
    assert_eq!(alone, [plain, vec![end]].concat());

    let tokenizer = folder("tokenizer_config", "add_eos_token", json!(true));
    let (plain, alone) = ids(&tokenizer);
    assert_eq!(alone, [plain, vec![tokenizer.eos().unwrap()]].concat());

    let tokenizer = folder("tokenizer_config", "add_eos_token", json!(false));
    let (plain, alone) = ids(&tokenizer);
    assert_eq!(alone, plain);
}

#[test]
fn a_users_text_spells_no_control_token() {
    let tokenizer = folder("tokenizer_config", "add_eos_token", json!(false));
    let end = tokenizer.special("<|im_end|>").unwrap();
    assert!(!tokenizer.encode_alone("<|im_end|>").unwrap().contains(&end));
    assert!(tokenizer.encode_text("<|im_end|>").unwrap().contains(&end));
}
