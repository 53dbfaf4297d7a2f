//! `conclave inspect`: describes a model, its weights and the memory it takes, from its header
//! alone.

use std::fmt::Write;

use conclave_hub::in_words;
use conclave_model::config::{Config, Mixer, Rule};
use conclave_model::{About, LoadOptions, ModelError};
use conclave_text::{ChatTemplate, TextError, Tokenizer};
use conclave_weights::{Checkpoint, Description, SourceFile, Tensor};
use serde_json::{Value, json};

use crate::args;
use crate::failure::Failure;
use crate::members;

/// Description of a model from its header.
pub struct Inspected {
    name: Option<String>,
    files: Vec<SourceFile>,
    tensors: Vec<Tensor>,
    about: Result<About, ModelError>,
    /// Whether it has a chat template.
    template: Result<bool, TextError>,
}

/// Reads the header of a model. A model that can't run is not an error: the reason is part of the
/// description.
pub async fn run(args: &args::Inspect) -> Result<Inspected, Failure> {
    let source = members::source(&args.model)?;
    let checkpoint = Checkpoint::open(source.as_ref()).await?;
    let options = LoadOptions {
        context: args.context,
        quantise: args.quantise,
    };
    let name = match checkpoint.description() {
        Description::Gguf(metadata) => metadata.opt_str("general.name").ok().flatten(),
        Description::HuggingFace(_) => None,
    };
    Ok(Inspected {
        name: name.map(str::to_owned),
        files: source.files().to_vec(),
        tensors: checkpoint.tensors().to_vec(),
        about: conclave_model::about(&checkpoint, options),
        template: has_template(checkpoint.description()),
    })
}

fn has_template(description: &Description) -> Result<bool, TextError> {
    let tokenizer = Tokenizer::from_checkpoint(description)?;
    Ok(ChatTemplate::from_checkpoint(description, &tokenizer)?.is_own())
}

impl Inspected {
    pub fn json(&self) -> Value {
        let tensors = self.tensors.iter().map(|t| {
            json!({"name": t.name, "shape": t.shape, "format": t.format.name(), "bytes": t.bytes})
        });
        let files = self.files.iter();
        json!({
            "name": self.name,
            "files": files.map(|f| json!({"name": f.name, "bytes": f.bytes})).collect::<Vec<_>>(),
            "model": self.about.as_ref().ok(),
            "template": self.template.as_ref().ok(),
            "runs": self.about.is_ok(),
            "why_not": self.about.as_ref().err().map(ToString::to_string),
            "tensors": tensors.collect::<Vec<_>>(),
        })
    }

    /// The description for people; with `tensors`, lists each of them.
    pub fn text(&self, tensors: bool) -> String {
        let mut text = String::new();
        // Writing to a `String` can't fail.
        if let Some(name) = &self.name {
            let _ = writeln!(text, "name      {}", plain(name));
        }
        for file in &self.files {
            let name = plain(&file.name);
            let _ = writeln!(text, "file      {name}, {}", in_words(file.bytes));
        }
        match &self.about {
            Ok(about) => describe(about, &mut text),
            Err(error) => {
                let _ = writeln!(text, "can't run {}", plain(&error.to_string()));
            }
        }
        let _ = match &self.template {
            Ok(true) => writeln!(text, "template  its own"),
            Ok(false) => writeln!(
                text,
                "template  none: a base model, no chat template; it reads questions with examples \
                 and answers in one paragraph"
            ),
            Err(error) => writeln!(text, "template  {}", plain(&error.to_string())),
        };
        let _ = writeln!(text, "tensors   {}", self.tensors.len());
        for tensor in self.tensors.iter().filter(|_| tensors) {
            let (name, format) = (plain(&tensor.name), tensor.format.name());
            let _ = writeln!(text, "  {name:<40} {format:<6} {:?}", tensor.shape);
        }
        text
    }
}

/// The text with its control characters escaped: a file's could colour or clear a terminal.
fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_control() {
            true => plain.extend(letter.escape_default()),
            false => plain.push(letter),
        }
    }
    plain
}

/// Token mixers of the layers, with the number of each if they differ.
fn mixers(config: &Config) -> String {
    let mut kinds: Vec<(String, usize)> = Vec::new();
    for layer in &config.layers {
        let kind = match &layer.mixer {
            Mixer::Attention(a) => {
                format!("{} heads of {} on {}", a.heads, a.head_dim, a.kv_heads)
            }
            Mixer::Convolution(c) => format!("a convolution of {} tokens", c.taps),
            Mixer::Recurrence(r) => {
                let kind = match r.rule {
                    Rule::Delta => "a delta net",
                    Rule::StateSpace => "a state space",
                };
                format!("{kind} of {} heads on {}", r.value_heads, r.key_heads)
            }
        };
        match kinds.iter_mut().find(|(known, _)| *known == kind) {
            Some((_, layers)) => *layers += 1,
            None => kinds.push((kind, 1)),
        }
    }
    match &kinds[..] {
        [(kind, _)] => kind.clone(),
        _ => {
            let each = kinds
                .iter()
                .map(|(kind, layers)| format!("{kind} in {layers}"));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}

fn experts(config: &Config) -> String {
    let layers = config.experts().count();
    config.experts().next().map_or_else(String::new, |of| {
        format!("{} of {} experts in {layers}, ", of.used, of.count)
    })
}

fn describe(about: &About, text: &mut String) {
    let config = &about.config;
    let _ = writeln!(
        text,
        "family    {}, {} weights, {} layers, width {}, {}, {}vocabulary {}",
        config.architecture,
        count(about.parameters),
        config.layers.len(),
        config.hidden,
        mixers(config),
        experts(config),
        config.vocabulary,
    );
    for (index, kept) in about.formats.iter().enumerate() {
        let stored = format!(
            "{} matrices stored as {}, {}",
            kept.matrices,
            kept.stored,
            in_words(kept.bytes)
        );
        let kept = match kept.kept {
            Some(format) if format == kept.stored => "as they are".to_owned(),
            Some(format) => format!("as {format}"),
            None => "not at all: no kernel reads rows of their length, use the CPU".to_owned(),
        };
        let label = if index == 0 { "weights" } else { "" };
        let _ = writeln!(text, "{label:<9} {stored}; on the GPU {kept}");
    }
    for (label, place, memory) in [
        ("memory", "GPU", &about.memory),
        ("", "CPU", &about.memory_on_cpu),
    ] {
        let _ = writeln!(
            text,
            "{label:<9} {} on the {place}: {} weights, {} keys and values, {} scratch, for {} of \
            {} tokens of context",
            in_words(memory.total()),
            in_words(memory.weights),
            in_words(memory.kv),
            in_words(memory.scratch),
            about.context,
            config.context,
        );
    }
    if let Some(error) = &about.not_on_gpu {
        let _ = writeln!(text, "GPU       {error}");
    }
}

/// Number of weights as in models' names: 1.24 billion.
fn count(weights: u64) -> String {
    match weights as f64 {
        w if w >= 1e9 => format!("{:.2} billion", w / 1e9),
        w if w >= 1e6 => format!("{:.0} million", w / 1e6),
        w => format!("{:.0} thousand", w / 1e3),
    }
}
