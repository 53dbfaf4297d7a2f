//! Replaces references by paths; `conclave models` lists, downloads and removes models.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use conclave_hub::{Cache, Options, Reference, Stored, fetch, in_words};
use serde_json::{Value, json};

use crate::args::{Cli, Models};
use crate::failure::Failure;
use crate::progress::Line;

/// Replaces all models that the command names by their paths, downloading those that are missing.
pub fn find(cli: &mut Cli) -> Result<(), Failure> {
    let folder = cli.models_dir.clone();
    let quiet = cli.json;
    let (models, names) = cli.models();
    let mut found = Vec::new();
    for model in models {
        // A path that is not UTF-8 is not a reference.
        let reference = match model.to_str() {
            Some(text) => text.parse().map_err(|error| no_file(text, error))?,
            None => Reference::Path(model.clone()),
        };
        *model = get(&reference, folder.clone(), quiet, false)?;
        found.push(reference.name());
    }
    if let Some(names) = names {
        *names = found;
    }
    Ok(())
}

/// Error for an invalid reference. A web address may have been meant as a server's.
fn no_file(text: &str, error: conclave_hub::ReferenceError) -> Failure {
    let error = conclave_hub::HubError::from(error);
    if !text.starts_with("http://") && !text.starts_with("https://") {
        return error.into();
    }
    Failure::Usage(format!(
        "{error}; a model behind a server is named by what its paths begin with, \
        https://HOST/v1#MODEL"
    ))
}

/// `conclave models`: returns JSON, and text for people.
pub fn run(command: Option<&Models>, cli: &Cli) -> Result<(Value, String), Failure> {
    match command.unwrap_or(&Models::List) {
        Models::List => {
            let cache = cache(cli.models_dir.clone())?;
            let models = cache.list()?;
            let answer: Vec<Value> = models.iter().map(describe).collect();
            let answer = json!({ "folder": cache.root(), "models": answer });
            Ok((answer, table(&cache, &models)))
        }
        Models::Pull { model, update } => {
            let path = get(model, cli.models_dir.clone(), cli.json, *update)?;
            let answer = json!({ "reference": model.to_string(), "path": path });
            Ok((answer, format!("{}\n", path.display())))
        }
        Models::Remove { model } => {
            let freed = cache(cli.models_dir.clone())?.remove(model)?;
            let answer = json!({ "reference": model.to_string(), "freed": freed });
            Ok((
                answer,
                format!("{model} is removed, {} are free\n", in_words(freed)),
            ))
        }
    }
}

fn get(
    reference: &Reference,
    folder: Option<PathBuf>,
    quiet: bool,
    update: bool,
) -> Result<PathBuf, Failure> {
    if !reference.is_remote() {
        // Paths need no cache, so they work without one.
        return Ok(fetch(
            reference,
            &Cache::new(""),
            &Options::default(),
            &mut |_| (),
            &AtomicBool::new(false),
        )?);
    }
    let options = Options {
        update,
        ..Options::from_environment()
    };
    let mut line = Line::new(reference.name(), quiet);
    // Never cancelled: an interrupt ends the process, and finished chunks stay.
    let path = fetch(
        reference,
        &cache(folder)?,
        &options,
        &mut |progress| line.show(&progress),
        &AtomicBool::new(false),
    );
    line.end();
    Ok(path?)
}

fn cache(folder: Option<PathBuf>) -> Result<Cache, Failure> {
    Ok(match folder {
        Some(folder) => Cache::new(folder),
        None => Cache::from_environment()?,
    })
}

fn describe(model: &Stored) -> Value {
    json!({
        "reference": model.reference,
        "version": model.version,
        "path": model.path,
        "bytes": model.bytes,
        "stored": model.stored,
        "complete": model.complete,
        "verified": model.verified,
    })
}

fn table(cache: &Cache, models: &[Stored]) -> String {
    let folder = cache.root().display();
    if models.is_empty() {
        return format!(
            "no models in {folder}; get one by `conclave models pull hf:OWNER/REPO/FILE.gguf`\n"
        );
    }
    let mut out = String::new();
    for model in models {
        let state = match (model.complete, model.verified) {
            (true, true) => String::new(),
            (true, false) => "  (its source names no digest)".to_owned(),
            (false, _) => format!(
                "  ({} are here; `conclave models pull` goes on)",
                in_words(model.stored)
            ),
        };
        out += &format!("{:>9}  {}{state}\n", in_words(model.bytes), model.reference);
    }
    let all = models.iter().map(|model| model.stored).sum();
    out + &format!("{:>9}  in {folder}\n", in_words(all))
}
