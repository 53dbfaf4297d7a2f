//! Two published models, SmolLM2-135M-Instruct and Gemma 3 270M, answer by a schema: alone, and
//! together, each in its own tokens. Gemma has 262,144 tokens.
//!
//! The models are not in the repository. `cargo xtask test --only real` fetches them and runs these
//! tests; a plain `cargo test` skips them.

use std::path::PathBuf;

use conclave_ensemble::Settings;
use conclave_member::{Member, Message};
use conclave_model::{Cpu, LoadOptions, Sampling};
use conclave_rounds::{
    Answer, AnyMember, Ask, Form, Lexicon, Limits, Question, Shape, Watch, answer, check_schema,
};
use conclave_weights::Disk;
use serde_json::Value;

const FILES: [&str; 2] = [
    "SmolLM2-135M-Instruct.Q4_1.gguf",
    "gemma-3-270m-q4_k_m.gguf",
];

const SCHEMA: &str = r#"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 30},
        "profession": {"enum": ["poet", "painter", "physicist"]},
        "born": {"type": "integer", "minimum": 1500, "maximum": 1900},
        "works": {"type": "array", "items": {"type": "string", "minLength": 1, "maxLength": 30}, "minItems": 1, "maxItems": 3}
    },
    "required": ["name", "profession", "born", "works"],
    "additionalProperties": false
}"#;

fn member(file: &str) -> AnyMember {
    let folder = std::env::var_os("CONCLAVE_PUBLISHED").expect(
        "CONCLAVE_PUBLISHED names no folder; `cargo xtask test --only real` fetches the models and \
         sets it",
    );
    let source = Disk::open(PathBuf::from(folder).join(file)).unwrap();
    let options = LoadOptions::with_context(512);
    let mut silent = |_| ();
    let load = Member::load(file, &source, &Cpu::ALONE, options, &mut silent);
    pollster::block_on(load).unwrap().into()
}

struct Silent;

impl Watch for Silent {}

fn ask(members: &mut [AnyMember], lexicons: &[Lexicon], seed: u64) -> Answer {
    let question =
        "Who wrote Faust? Answer with name, profession, year of birth and works as JSON.";
    let messages = [Message::new("user", question)];
    let settings = Settings::default();
    let ask = Ask {
        question: Question::Conversation(&messages),
        settings: &settings,
        sampling: Sampling {
            seed,
            ..Sampling::default()
        },
        limits: Limits::default(),
        form: Some(Form {
            shape: Shape::Document(SCHEMA),
            lexicons,
        }),
    };
    pollster::block_on(answer(members, &ask, &mut Silent)).unwrap()
}

/// Panics if an answer is not a document of [`SCHEMA`].
fn assert_document(said: &Answer) {
    let text = &said.text;
    assert_eq!(said.stopped, "ended", "{text}");
    let document: Value = serde_json::from_str(text).unwrap_or_else(|error| {
        panic!("{text}: {error}");
    });
    assert_eq!(document.as_object().unwrap().len(), 4, "{text}");
    let short = |value: &Value| (1..=30).contains(&value.as_str().unwrap().chars().count());
    assert!(short(&document["name"]), "{text}");
    let professions = ["poet", "painter", "physicist"];
    assert!(
        professions.contains(&document["profession"].as_str().unwrap()),
        "{text}"
    );
    let born = document["born"].as_u64().unwrap();
    assert!((1500..=1900).contains(&born), "{text}");
    let works = document["works"].as_array().unwrap();
    assert!(
        (1..=3).contains(&works.len()) && works.iter().all(short),
        "{text}"
    );
}

#[test]
#[ignore = "needs the published models: cargo xtask test --only real"]
fn published_models_answer_by_a_schema_alone_and_together() {
    check_schema(SCHEMA).unwrap();
    let mut members: Vec<AnyMember> = FILES.map(member).into();
    let lexicons = [Lexicon::default(), Lexicon::default()];
    for seed in 0..3 {
        for which in [0..1, 1..2, 0..2] {
            let said = ask(&mut members[which.clone()], &lexicons[which], seed);
            println!("{}", said.text);
            assert_document(&said);
        }
    }
}
