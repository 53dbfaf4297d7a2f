//! Commands on tokens: `logits`, `generate`, `verify`, `tokenize`, `template`.

use std::path::Path;

use conclave_model::{LoadOptions, Model, Sampler, Session};
use conclave_rounds::read_json;
use conclave_text::{ChatTemplate, Message, Tokenizer};
use conclave_weights::{Checkpoint, Source};
use serde_json::{Value, json};

use crate::args::{self, Chosen};
use crate::device::Device;
use crate::failure::Failure;
use crate::members;

async fn session(model: &Chosen, device: &Device, needed: usize) -> Result<Session, Failure> {
    let source = members::source(&model.path)?;
    let checkpoint = Checkpoint::open(source.as_ref()).await?;
    start(&checkpoint, source.as_ref(), model, device, needed).await
}

async fn start(
    checkpoint: &Checkpoint,
    source: &dyn Source,
    model: &Chosen,
    device: &Device,
    needed: usize,
) -> Result<Session, Failure> {
    // As small as possible: a model made for 128k tokens would fill the memory with KV rows.
    let options = LoadOptions {
        context: needed,
        quantise: model.quantise,
    };
    let model = Model::load(checkpoint, source, device.backend(), options, &mut |_| ()).await?;
    Ok(Session::new(model))
}

async fn header(path: &Path) -> Result<Checkpoint, Failure> {
    let source = members::source(path)?;
    Ok(Checkpoint::open(source.as_ref()).await?)
}

/// `conclave logits`.
pub async fn logits(args: &args::Logits, device: &Device) -> Result<Value, Failure> {
    let longest = args.tokens.iter().map(|prompt| prompt.0.len()).max();
    let mut session = session(&args.model, device, longest.unwrap_or_default()).await?;
    let mut prompts = Vec::new();
    for prompt in &args.tokens {
        prompts.push(if args.all {
            session.all_logits(&prompt.0).await?
        } else {
            vec![session.last_logits(&prompt.0).await?]
        });
    }
    if let Some(path) = &args.raw {
        let rows: Vec<&Vec<f32>> = prompts.iter().flatten().collect();
        let bytes: Vec<u8> = rows
            .iter()
            .flat_map(|row| row.iter().flat_map(|logit| logit.to_le_bytes()))
            .collect();
        std::fs::write(path, bytes).map_err(|source| Failure::file(path, source))?;
        let vocabulary = rows.first().map_or(0, |row| row.len());
        return Ok(json!({ "rows": rows.len(), "vocabulary": vocabulary }));
    }
    let mut shown: Vec<Value> = prompts
        .into_iter()
        .map(|mut rows| match args.all {
            true => json!(rows),
            false => json!(rows.pop()),
        })
        .collect();
    // A single prompt's logits are not nested, as most calls have one.
    let logits = match shown.len() {
        1 => shown.pop(),
        _ => Some(json!(shown)),
    };
    Ok(json!({ "logits": logits }))
}

/// `conclave generate`.
pub async fn generate(args: &args::Generate, device: &Device) -> Result<Value, Failure> {
    let count = args.count as usize;
    let source = members::source(&args.model.path)?;
    let checkpoint = Checkpoint::open(source.as_ref()).await?;
    let needed = args.tokens.len() + count + 1;
    let mut session = start(&checkpoint, source.as_ref(), &args.model, device, needed).await?;
    let ends = if args.stop {
        Tokenizer::from_checkpoint(checkpoint.description())?
            .end_ids()
            .to_vec()
    } else {
        Vec::new()
    };
    session.prefill(&args.tokens).await?;
    let mut sampler = Sampler::new(args.drawing.sampling(), 0);
    let draft = session.draft(count, &mut sampler, &ends).await?;
    Ok(json!({ "tokens": draft.tokens, "ended": draft.ended }))
}

/// `conclave verify`.
pub async fn verify(args: &args::Verify, device: &Device) -> Result<Value, Failure> {
    let candidates: Vec<Vec<u32>> = args.candidate_tokens.iter().map(|c| c.0.clone()).collect();
    // Room for all of them: in one pass they lie side by side.
    let in_line: usize = candidates.iter().map(Vec::len).sum();
    let needed = args.prefix_tokens.len() + in_line + 1;
    let mut session = session(&args.model, device, needed).await?;
    session.prefill(&args.prefix_tokens).await?;
    let scores = session.verify(&candidates, true).await?;
    let scores: Vec<Value> = scores
        .iter()
        .map(|score| {
            json!({
                "mean_logit": score.mean_logit,
                "mean_logprob": score.mean_logprob,
                "harmonic": score.harmonic,
                "tokens": score.tokens,
            })
        })
        .collect();
    Ok(json!({ "candidates": scores, "counters": session.counters() }))
}

/// `conclave tokenize`.
pub async fn tokenize(args: &args::Tokenize) -> Result<Value, Failure> {
    let checkpoint = header(&args.model).await?;
    let tokenizer = Tokenizer::from_checkpoint(checkpoint.description())?;
    if args.continuation {
        let ids = tokenizer.encode(&args.text)?;
        return Ok(json!({ "ids": ids, "text": tokenizer.decode(&ids) }));
    }
    let ids = tokenizer.encode_text(&args.text)?;
    Ok(json!({ "ids": ids, "text": tokenizer.decode_text(&ids) }))
}

/// `conclave template`.
pub async fn template(args: &args::Template) -> Result<Value, Failure> {
    let messages = members::read(&args.messages)?;
    let messages: Vec<Message> = read_json(&messages)
        .and_then(serde_json::from_value)
        .map_err(|source| Failure::Json {
            path: args.messages.clone(),
            source,
        })?;
    let checkpoint = header(&args.model).await?;
    let tokenizer = Tokenizer::from_checkpoint(checkpoint.description())?;
    let template = ChatTemplate::from_checkpoint(checkpoint.description(), &tokenizer)?;
    let prompt = template.render(&messages, args.add_generation_prompt)?;
    Ok(json!({ "text": prompt.text(), "ids": tokenizer.encode_prompt(&prompt)? }))
}
