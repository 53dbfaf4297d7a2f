//! Published chat templates against transformers' renderings (`tests/parity/templates.py`).

use std::collections::BTreeMap;

use conclave_text::{ChatTemplate, Message, Prompt, TextError, Tokenizer};
use conclave_weights::{Gguf, Value};
use serde::Deserialize;
use serde_json::Value as Json;

#[derive(Deserialize)]
struct Reference {
    conversations: Vec<Vec<Message>>,
    templates: BTreeMap<String, Published>,
}

#[derive(Deserialize)]
struct Published {
    template: String,
    /// Indexed by conversation, thinking or not, with the opening of an answer or without.
    cases: Vec<Json>,
}

/// 2024-11-21 08:09:10, the time at which the references were rendered.
const NOW: u64 = 1_732_176_550;

/// Whether a rendering equals transformers'. If transformers failed with a Python error, any result
/// of ours passes.
fn agrees(ours: Result<Prompt, TextError>, theirs: &Json) -> bool {
    match (ours, theirs) {
        (_, Json::Null) => true,
        (Ok(prompt), Json::String(wanted)) => prompt.text() == wanted,
        (Err(TextError::TemplateRefused { message }), refused) => refused["refused"] == message,
        _ => false,
    }
}

#[test]
#[ignore = "needs what transformers made of them: cargo xtask parity --templates"]
fn published_templates_render_as_in_transformers() {
    let path = std::env::var("CONCLAVE_TEMPLATES").expect("it names the file of references");
    let file = std::fs::read(path).unwrap();
    let reference: Reference = serde_json::from_slice(&file).unwrap();
    let gemma = include_bytes!("../../../../tests/fixtures/text/gemma.gguf");
    let mut metadata = Gguf::parse_whole(gemma).unwrap().metadata().clone();
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    let (mut all, mut wrong) = (0, 0);
    for (name, Published { template, cases }) in &reference.templates {
        metadata.set("tokenizer.chat_template", Value::String(template.clone()));
        let read = |thinking: Option<bool>| {
            let mut template = ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap();
            template.set_time(NOW);
            template.set_thinking(thinking);
            template
        };
        let mut ways = vec![read(None)];
        if template.contains("enable_thinking") {
            ways.push(read(Some(false)));
        }
        let conversations = reference.conversations.iter();
        let ours = conversations.flat_map(|conversation| {
            let ways = ways.iter();
            ways.flat_map(move |way| [true, false].map(|opening| (way, conversation, opening)))
        });
        assert_eq!(ours.clone().count(), cases.len(), "{name}");
        let differ = ours
            .zip(cases)
            .filter(|((way, conversation, opening), theirs)| {
                !agrees(way.render(conversation, *opening), theirs)
            });
        let differ: Vec<_> = differ.collect();
        println!(
            "{name}: {} renderings, {} differ",
            cases.len(),
            differ.len()
        );
        if let Some(((way, conversation, opening), theirs)) = differ.first() {
            println!(
                "  {:?}\n  is not {theirs}",
                way.render(conversation, *opening)
            );
        }
        all += cases.len();
        wrong += differ.len();
    }
    println!(
        "{} templates, {all} renderings, {wrong} differ",
        reference.templates.len()
    );
    assert!(all > 0 && wrong == 0, "{wrong} of {all} differ");
}
