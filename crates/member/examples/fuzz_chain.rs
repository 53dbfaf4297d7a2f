//! Long fuzzing run of damaged models through the whole chain, from a header to an answer:
//!
//! ```sh
//! cargo run --release -p conclave-member --example fuzz_chain -- 20000000 [seed]
//! ```
//!
//! Each execution damages a real model's files as `conclave-weights`' own long run does, then goes
//! as far as possible: the header, the configuration and the plan; the weights, a prompt, a draft,
//! a verify pass and a winner kept; the tokenizer and the template, with a conversation rendered
//! and encoded. Each step must end in a typed error or a sound result, within a bound of memory.
//! Stops at the first failure and prints its number, which as a third argument repeats that
//! execution alone.

#[path = "../../weights/examples/fuzz.rs"]
#[allow(dead_code, reason = "its own models are damaged there")]
pub mod readers;

use std::collections::BTreeMap;
use std::time::Instant;

use conclave_member::Message;
use conclave_model::{Cpu, LoadOptions, Model, Sampler, Sampling, Session, about};
use conclave_text::{ChatTemplate, Tokenizer};
use conclave_weights::{Checkpoint, Memory};
use pollster::block_on;
use readers::allocation::measured;
use readers::{Announce, Files, Random};

/// Tokens of context: few, so that memory is mostly the model's.
const CONTEXT: usize = 48;

fn main() {
    let words = std::env::args().skip(1);
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    let executions = numbers.first().copied().unwrap_or(100_000);
    let seed = numbers.get(1).copied().unwrap_or(1);
    let models = models();
    if let Some(&only) = numbers.get(2) {
        println!("{:?}", chain(damaged(&models, seed, only).1));
        return;
    }
    let mut counts = BTreeMap::<(&str, String), u64>::new();
    let start = Instant::now();
    for execution in 0..executions {
        let guard = Announce(execution);
        let (kind, files) = damaged(&models, seed, execution);
        for outcome in chain(files) {
            *counts.entry((kind, outcome)).or_default() += 1;
        }
        std::mem::forget(guard);
    }
    for ((kind, outcome), count) in &counts {
        println!("{kind:8} {outcome:44} {count:>12}");
    }
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{executions} executions, seed {seed}, {seconds:.0} s: no panic, \
         no memory out of proportion"
    );
}

/// Models of every family small enough to be damaged often, and tokenizers of every kind.
pub fn models() -> Vec<(&'static str, Files)> {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures");
    let read =
        |path: String| std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let list = |folder: &str| {
        let entries =
            std::fs::read_dir(format!("{fixtures}/{folder}")).expect("fixtures are there");
        let names = entries.map(|entry| entry.expect("it lists").file_name());
        let mut names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
        names.sort();
        names
    };
    let mut all = Vec::new();
    for name in list("parity") {
        let folder = format!("{fixtures}/parity/{name}");
        let files: &[&str] = match name.ends_with("-gguf") {
            true => &["model.gguf"],
            false => &["config.json", "model.safetensors"],
        };
        let files = files
            .iter()
            .map(|file| ((*file).to_owned(), read(format!("{folder}/{file}"))));
        all.push(("model", files.collect()));
    }
    for name in list("text") {
        let bytes = read(format!("{fixtures}/text/{name}"));
        if name.ends_with(".gguf") {
            all.push(("text", vec![(name, bytes)]));
        } else if name.starts_with("folder-") {
            all.push(("text", folder(&bytes)));
        }
    }
    all
}

/// One of the models, damaged: every other time like readers' files, most of which end at the
/// header, otherwise only in the model's description.
pub fn damaged(
    models: &[(&'static str, Files)],
    seed: u64,
    execution: u64,
) -> (&'static str, Files) {
    if execution.is_multiple_of(2) {
        return readers::damaged(models, seed, execution);
    }
    let mut random = Random(seed.wrapping_mul(0x9e6c_63d0_876a_68ee) ^ execution);
    let (kind, files) = random.pick(models);
    let mut files = files.clone();
    for _ in 0..1 + random.below(3) {
        let file = random.below(files.len());
        let (name, bytes) = &mut files[file];
        if name.ends_with(".gguf") {
            change_setting(&mut random, bytes);
        } else if !name.ends_with(".safetensors") {
            random.damage_json(bytes);
        }
    }
    (kind, files)
}

/// Changes a number in a GGUF file's settings.
fn change_setting(random: &mut Random, file: &mut [u8]) {
    // A key's length, its letters, a type of four bytes, the value.
    let start = random.below(file.len().min(4096));
    let value = (start..file.len()).find_map(|at| {
        let length = u64::from_le_bytes(*file[at..].first_chunk()?);
        let length = usize::try_from(length)
            .ok()
            .filter(|length| (6..64).contains(length))?;
        let key = file.get(at + 8..at + 8 + length)?;
        let after = at + 8 + length;
        let a_number = matches!(file.get(after..after + 4)?, [4..=6, 0, 0, 0]);
        let a_key = key.contains(&b'.') && key.iter().all(u8::is_ascii_graphic);
        (a_number && a_key).then_some(after + 4)
    });
    if let Some(value) = value.and_then(|at| file.get_mut(at..at + 4)) {
        let number = match random.below(4) {
            0 => (random.number() as f32).to_bits(),
            _ => random.number() as u32,
        };
        value.copy_from_slice(&number.to_le_bytes());
    }
}

/// The files of a folder that a fixture stores as one object, with the smallest tensors there are.
fn folder(bytes: &[u8]) -> Files {
    let parts: serde_json::Value = serde_json::from_slice(bytes).expect("the fixture is JSON");
    let header = br#"{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}"#;
    let mut tensors = (header.len() as u64).to_le_bytes().to_vec();
    tensors.extend(header);
    tensors.extend([0; 4]);
    let mut files = vec![("model.safetensors".to_owned(), tensors)];
    for (name, part) in parts.as_object().expect("of files") {
        let (name, text) = match part.as_str() {
            Some(text) => (format!("{name}.jinja"), text.to_owned()),
            None => (format!("{name}.json"), part.to_string()),
        };
        if !part.is_null() {
            files.push((name, text.into_bytes()));
        }
    }
    if parts["config"].is_null() {
        files.push(("config.json".to_owned(), b"{}".to_vec()));
    }
    files
}

/// Takes a model's files as far as possible; returns each step's outcome.
///
/// # Panics
/// Where a step takes more memory than its files justify.
pub fn chain(files: Files) -> Vec<String> {
    let total: usize = files.iter().map(|(_, content)| content.len()).sum();
    let source = Memory::new(files);
    let Ok(checkpoint) = block_on(Checkpoint::open(&source)) else {
        return vec!["header refused".to_owned()];
    };
    let mut outcomes = Vec::new();
    let mut step = |name: &str, bound: usize, work: &mut dyn FnMut() -> Result<(), String>| {
        let (outcome, most) = measured(work);
        assert!(
            most <= bound,
            "{name}: {most} bytes held for {total} of files"
        );
        outcomes.push(match outcome {
            Ok(()) => format!("{name} accepted"),
            Err(error) => format!("{name} {error}"),
        });
    };
    let options = LoadOptions::with_context(CONTEXT);
    step("plan", 64 * total + (1 << 20), &mut || {
        about(&checkpoint, options)
            .map(drop)
            .map_err(|e| variant(&e))
    });
    // State slots and the buffers of passes are larger than a model of these few bytes.
    step("run", 64 * total + (96 << 20), &mut || {
        block_on(run(&checkpoint, &source, options)).map_err(|e| variant(&e))
    });
    step("text", 256 * total + (64 << 20), &mut || {
        text(&checkpoint).map_err(|e| variant(&e))
    });
    outcomes
}

/// A prompt, a draft, a verify pass and a kept winner.
async fn run(
    checkpoint: &Checkpoint,
    source: &Memory,
    options: LoadOptions,
) -> Result<(), conclave_model::ModelError> {
    let mut silent = |_| ();
    let model = Model::load(checkpoint, source, &Cpu::ALONE, options, &mut silent).await?;
    let last = model.about().config.vocabulary as u32 - 1;
    let mut session = Session::new(model);
    session.prefill(&[last, 0, last / 2]).await?;
    let mut sampler = Sampler::new(Sampling::greedy(), 0);
    let draft = session.draft(3, &mut sampler, &[]).await?;
    let scores = session.verify(&[draft.tokens, vec![0, last]], true).await?;
    assert!(scores.iter().all(|score| score.mean_logit.is_finite()));
    session.keep(1, 2).await
}

/// Renders and encodes a conversation, and round-trips a text.
fn text(checkpoint: &Checkpoint) -> Result<(), conclave_text::TextError> {
    let description = checkpoint.description();
    let tokenizer = Tokenizer::from_checkpoint(description)?;
    let ids = tokenizer.encode("Grüße, 世界! <|im_end|> 12 × 3\n\n")?;
    let _ = tokenizer.decode(&ids);
    let template = ChatTemplate::from_checkpoint(description, &tokenizer)?;
    let prompt = template.render(&[Message::new("user", "What do bees make?")], true)?;
    tokenizer.encode_prompt(&prompt).map(drop)
}

/// An error's variant.
fn variant(error: &impl std::fmt::Debug) -> String {
    let debug = format!("{error:?}");
    let end = debug.find([' ', '(', '{']).unwrap_or(debug.len());
    debug[..end].to_owned()
}
