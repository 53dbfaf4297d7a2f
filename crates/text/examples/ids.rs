//! What a tokenizer makes of many texts, for comparing with Python's:
//!
//!     cargo run -p conclave-text --example ids -- MODEL.gguf|FOLDER < QUESTIONS.json
//!
//! QUESTIONS has `texts` and `conversations` (lists of messages). The answer, one JSON object on
//! standard output: `plain` and `text`, the ids of each text that continues another and that stands
//! alone; `decoded`, what the latter decode to; `prompts`, for each conversation `text` and `ids`
//! or `refused`; `ends`, the texts of the tokens that end an answer. Where QUESTIONS has `templates`,
//! the prompts are one list for each of them, without ids.

use std::error::Error;
use std::io::Read;
use std::path::Path;

use conclave_text::{ChatTemplate, Message, Tokenizer};
use conclave_weights::{Gguf, HuggingFace};
use serde::Deserialize;
use serde_json::{Value, json};

/// 2024-11-21 08:09:10, the time at which references are rendered.
const NOW: u64 = 1_732_176_550;

#[derive(Deserialize)]
struct Questions {
    texts: Vec<String>,
    #[serde(default)]
    conversations: Vec<Vec<Message>>,
    #[serde(default)]
    templates: Vec<String>,
    thinking: Option<bool>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("say which model")?;
    let mut questions = String::new();
    std::io::stdin().read_to_string(&mut questions)?;
    let questions: Questions = serde_json::from_str(&questions)?;
    let (tokenizer, mut template) = open(Path::new(&path))?;
    let mut plain = Vec::new();
    let mut text = Vec::new();
    let mut decoded = Vec::new();
    for sample in &questions.texts {
        plain.push(tokenizer.encode(sample)?);
        let ids = tokenizer.encode_text(sample)?;
        decoded.push(tokenizer.decode_text(&ids));
        text.push(ids);
    }
    if let Some(thinking) = questions.thinking {
        template.set_thinking(Some(thinking));
    }
    let rendered =
        questions.templates.iter().map(|source| {
            let files = HuggingFace {
                chat_template: Some(source.clone()),
                tokenizer_config: Some(json!({ "bos_token": "<bos>", "eos_token": "<eos>" })),
                ..HuggingFace::default()
            };
            let mut template = match ChatTemplate::from_hugging_face(&files, &tokenizer) {
                Ok(template) => template,
                Err(error) => return json!({ "refused": error.to_string() }),
            };
            template.set_time(NOW);
            if let Some(thinking) = questions.thinking {
                template.set_thinking(Some(thinking));
            }
            let prompts = questions.conversations.iter().map(|messages| {
                match template.render(messages, true) {
                    Ok(prompt) => json!({ "text": prompt.text() }),
                    Err(error) => json!({ "refused": error.to_string() }),
                }
            });
            prompts.collect()
        });
    let rendered: Vec<Value> = rendered.collect();
    let prompts = questions.conversations.iter().map(|messages| {
        let prompt = match template.render(messages, true) {
            Ok(prompt) => prompt,
            Err(error) => return json!({ "refused": error.to_string() }),
        };
        match tokenizer.encode_prompt(&prompt) {
            Ok(ids) => json!({ "text": prompt.text(), "ids": ids }),
            Err(error) => json!({ "refused": error.to_string() }),
        }
    });
    let prompts: Vec<Value> = if questions.templates.is_empty() {
        prompts.collect()
    } else {
        rendered
    };
    let ends: Vec<_> = tokenizer
        .end_ids()
        .iter()
        .map(|&id| tokenizer.token(id))
        .collect();
    println!(
        "{}",
        json!({ "plain": plain, "text": text, "decoded": decoded, "prompts": prompts, "ends": ends })
    );
    Ok(())
}

fn open(path: &Path) -> Result<(Tokenizer, ChatTemplate), Box<dyn Error>> {
    let (tokenizer, mut template) = if path.is_dir() {
        let json = |name: &str| -> Result<Option<Value>, Box<dyn Error>> {
            Ok(match std::fs::read(path.join(name)) {
                Ok(json) => Some(serde_json::from_slice(&json)?),
                Err(_) => None,
            })
        };
        let files = HuggingFace {
            config: json("config.json")?.unwrap_or_default(),
            generation_config: json("generation_config.json")?,
            tokenizer: std::fs::read(path.join("tokenizer.json")).ok(),
            tokenizer_config: json("tokenizer_config.json")?,
            chat_template: std::fs::read_to_string(path.join("chat_template.jinja")).ok(),
        };
        let tokenizer = Tokenizer::from_hugging_face(&files)?;
        let template = ChatTemplate::from_hugging_face(&files, &tokenizer)?;
        (tokenizer, template)
    } else {
        let file = std::fs::read(path)?;
        let gguf = Gguf::parse_whole(&file)?;
        let tokenizer = Tokenizer::from_gguf(gguf.metadata())?;
        let template = ChatTemplate::from_gguf(gguf.metadata(), &tokenizer)?;
        (tokenizer, template)
    };
    template.set_time(NOW);
    Ok((tokenizer, template))
}
