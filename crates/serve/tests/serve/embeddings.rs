//! Embeddings over HTTP, against those of the same file by the model alone. Those are transformers'
//! by `crates/model/tests/held/embedding.rs`.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

use crate::stage::{Gate, Moody, SUM, Stage, bundled, config, file};
use conclave_ensemble::Settings;
use conclave_model::{Cpu, LoadOptions, Model, Pooling, Session};
use conclave_text::Tokenizer;
use conclave_weights::{Checkpoint, Memory};
use serde_json::{Value, json};

/// A text's tokens, and their embedding by the model alone.
fn expected(name: &str, text: &str) -> (Vec<u32>, Vec<f32>) {
    pollster::block_on(async {
        let source = Memory::file("model.gguf", file(name));
        let checkpoint = Checkpoint::open(&source).await.unwrap();
        let tokenizer = Tokenizer::from_checkpoint(checkpoint.description()).unwrap();
        let ids = tokenizer.encode_alone(text).unwrap();
        let options = LoadOptions::with_context(1024);
        let model = Model::load(&checkpoint, &source, &Cpu::ALONE, options, &mut |_| ()).await;
        let mut session = Session::new(model.unwrap());
        let vector = session.embedding(&ids, Pooling::Mean).await.unwrap();
        (ids, vector)
    })
}

/// The embeddings of a reply, which names them in order.
fn embeddings(reply: &Value) -> Vec<Vec<f64>> {
    let data = reply["data"].as_array().unwrap().iter().enumerate();
    let vectors = data.map(|(index, one)| {
        assert_eq!(one["object"], "embedding");
        assert_eq!(one["index"], index);
        let numbers = one["embedding"].as_array().unwrap().iter();
        numbers.map(|number| number.as_f64().unwrap()).collect()
    });
    vectors.collect()
}

fn assert_close(found: &[f64], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(
            (found - f64::from(*wanted)).abs() < 2e-3,
            "{found} for {wanted}"
        );
    }
}

#[test]
fn texts_and_their_tokens_have_the_embeddings_of_the_model() {
    let stage = Stage::new();
    let texts = ["What is 3 + 4?", "A cat sat on the mat.", "<|im_end|>"];
    for name in ["Ada", "Quill"] {
        let wanted = texts.map(|text| expected(name, text));
        let tokens: usize = wanted.iter().map(|(ids, _)| ids.len()).sum();
        let ids: Vec<&Vec<u32>> = wanted.iter().map(|(ids, _)| ids).collect();
        for input in [json!(texts), json!(ids)] {
            let body = json!({ "model": name, "input": input, "encoding_format": "float" });
            let (status, reply) = stage.post("/v1/embeddings", &body);
            assert_eq!(status, 200, "{reply}");
            assert_eq!(
                (&reply["object"], &reply["model"]),
                (&json!("list"), &json!(name))
            );
            let used = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
            assert_eq!(reply["usage"], used);
            let found = embeddings(&reply);
            assert_eq!(found.len(), texts.len());
            for (found, (_, wanted)) in found.iter().zip(&wanted) {
                assert_close(found, wanted);
            }
        }
        // Alone, and cut to fewer dimensions.
        let (ids, wanted) = &wanted[1];
        for input in [json!(texts[1]), json!(ids)] {
            let body = json!({ "model": name, "input": input, "dimensions": 8 });
            let (status, reply) = stage.post("/v1/embeddings", &body);
            assert_eq!(status, 200, "{reply}");
            let length = wanted[..8].iter().map(|one| one * one).sum::<f32>().sqrt();
            let cut: Vec<f32> = wanted[..8].iter().map(|one| one / length).collect();
            assert_close(&embeddings(&reply)[0], &cut);
        }
    }
}

#[test]
fn what_can_not_be_embedded_is_refused() {
    let stage = Stage::new();
    for (body, status, param) in [
        (json!({ "input": "x" }), 400, json!("model")),
        (json!({ "model": "Eve", "input": "x" }), 404, json!("model")),
        (
            json!({ "model": "Ada", "input": [4_000_000_000_u32] }),
            400,
            json!("input"),
        ),
        (
            json!({ "model": "Ada", "input": "x", "dimensions": 9999 }),
            400,
            json!("dimensions"),
        ),
        (
            json!({ "model": "Ada", "input": "well ".repeat(3000) }),
            400,
            Value::Null,
        ),
    ] {
        let (found, reply) = stage.post("/v1/embeddings", &body);
        assert_eq!(
            (found, &reply["error"]["param"]),
            (status, &param),
            "{reply}"
        );
    }
    let (_, long) = stage.post(
        "/v1/embeddings",
        &json!({ "model": "Ada", "input": vec![5; 1025] }),
    );
    assert_eq!(long["error"]["code"], "context_length_exceeded");
    // The whole context is room for a text, since nothing follows it.
    let (status, _) = stage.post(
        "/v1/embeddings",
        &json!({ "model": "Ada", "input": vec![5; 1024] }),
    );
    assert_eq!(status, 200);
}

#[test]
fn a_conversation_goes_on_the_same_after_an_embedding() {
    let stage = Stage::new();
    let first = stage.chat(SUM, json!({ "model": "Ada" }));
    let said = first["choices"][0]["message"].clone();
    let next = || {
        let messages = json!([
            { "role": "user", "content": SUM }, said, { "role": "user", "content": "And 2 + 2?" },
        ]);
        let body = json!({ "model": "Ada", "messages": messages, "temperature": 0 });
        stage.post("/v1/chat/completions", &body).1["choices"].clone()
    };
    let before = next();
    let body = json!({ "model": "Ada", "input": "Something else." });
    assert_eq!(stage.post("/v1/embeddings", &body).0, 200);
    assert_eq!(next(), before);
}

#[test]
fn a_member_without_states_names_what_it_can_not_do() {
    let gate = Gate::new();
    let way = gate.way();
    let stage = Stage::with_members(config(), Settings::default(), move || {
        let drafts = Arc::new(AtomicUsize::new(0));
        let moody = |member| Moody::new(member, Duration::ZERO, way.clone(), &drafts);
        bundled().into_iter().map(moody).collect()
    });
    let (status, reply) = stage.post("/v1/embeddings", &json!({ "model": "Ada", "input": "x" }));
    assert_eq!(status, 400, "{reply}");
    let message = reply["error"]["message"].as_str().unwrap();
    assert!(message.contains("a model that runs here"), "{message}");
}
