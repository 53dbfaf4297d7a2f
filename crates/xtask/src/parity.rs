//! `cargo xtask parity`: compares the engine's logits with those of transformers, on random models
//! of every family and format, made with their makers' tools.
//!
//! `tests/parity/make.py` makes the models and lists the comparisons in `models.json`.

mod comparison;
mod table;

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace::Workspace;
use crate::{process, python};
use comparison::{Comparison, Outcome};

/// Models to make and compare.
#[derive(Args)]
pub struct Options {
    /// Only these families, or cases of them: llama,gemma3,phi4-mini
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    family: Vec<String>,

    /// Only these formats: hf-f32, hf-bf16, hf-shards, hf-spelling-4 (folders), hf-f32:q8_0 and
    /// hf-f32:q4_0 (quantised while loading), and GGUF files by kind: f32, q8_0, q4_k_m,
    /// iq4_xs, …
    #[arg(long, value_delimiter = ',', value_name = "FORMATS")]
    format: Vec<String>,

    /// Seed of the models' shapes, weights and prompts
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Devices of the engine, each as for `conclave --device`
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cpu,gpu",
        value_name = "DEVICES"
    )]
    device: Vec<String>,

    /// Folder of models and references; `parity` in Cargo's target folder if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Make nothing: compare the models of an earlier run in DIR
    #[arg(long)]
    keep: bool,

    /// A Python with the packages of tests/parity/requirements.txt; if not given, a virtual
    /// environment with them is made below Cargo's target folder
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// A built `conclave`; if not given, it is built
    #[arg(long, value_name = "PATH")]
    tool: Option<PathBuf>,

    /// Compare published chat templates instead, those of llama.cpp's source package, on 20
    /// conversations each
    #[arg(long)]
    templates: bool,

    /// Number of concurrent comparisons
    #[arg(long, default_value_t = 2, value_name = "COUNT")]
    jobs: usize,
}

/// Makes, compares and prints the table. Returns whether every comparison stayed within its limit.
pub fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let out = match &options.out {
        Some(folder) => folder.clone(),
        None => workspace.target.join("parity/models"),
    };
    let python = || match &options.python {
        Some(path) => Ok(path.clone()),
        None => python::ready(workspace, "parity"),
    };
    if options.templates {
        return templates(workspace, &python()?);
    }
    if !options.keep {
        make(workspace, options, &python()?, &out)?;
    }
    let comparisons: Vec<Comparison> = comparison::listed(&out)?
        .into_iter()
        .filter(|one| one.wanted(&options.family, &options.format))
        .collect();
    if comparisons.is_empty() {
        bail!(
            "{} lists no model that was asked for; leave --keep out to make it",
            out.join("models.json").display()
        );
    }
    let tool = match &options.tool {
        Some(path) => path.clone(),
        None => built(workspace)?,
    };
    let outcomes = compared(&comparisons, options, &tool, &out);
    println!("\n{}", table::markdown(&outcomes, &options.device));
    let total = outcomes.len();
    let missed = outcomes
        .iter()
        .filter(|(_, found)| !found.is_within_limit())
        .count();
    println!("{} comparisons held, {missed} missed", total - missed);
    Ok(missed == 0)
}

/// Runs every comparison on every device, several at a time, since most of the time is start-up of
/// programs and devices. Outcomes are in the order of the comparisons.
fn compared<'a>(
    comparisons: &'a [Comparison],
    options: &Options,
    tool: &Path,
    out: &Path,
) -> Vec<(&'a Comparison, Outcome)> {
    let devices = options.device.iter();
    let all: Vec<_> = comparisons
        .iter()
        .flat_map(|one| devices.clone().map(move |device| (one, device)))
        .collect();
    let next = AtomicUsize::new(0);
    let worker = || {
        let mut found = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&(one, device)) = all.get(number) else {
                return found;
            };
            let outcome = one.run(tool, device, out, number);
            println!(
                "[{}/{}] {} {} on {device}: {outcome}",
                number + 1,
                all.len(),
                one.case,
                one.format
            );
            found.push((number, (one, outcome)));
        }
    };
    let jobs = options.jobs.clamp(1, all.len().max(1));
    let mut outcomes: Vec<_> = thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs).map(|_| scope.spawn(worker)).collect();
        workers
            .into_iter()
            .flat_map(|worker| worker.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    outcomes.sort_by_key(|&(number, _)| number);
    outcomes.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Runs make.py.
fn make(workspace: &Workspace, options: &Options, python: &Path, out: &Path) -> Result<()> {
    let mut command = Command::new(python);
    command
        .arg(workspace.root.join("tests/parity/make.py"))
        .args(["--seed", &options.seed.to_string()])
        .arg("--out")
        .arg(out)
        .arg("--tools")
        .arg(workspace.target.join("parity/tools"));
    if !options.family.is_empty() {
        command.args(["--only", &options.family.join(",")]);
    }
    if !options.format.is_empty() {
        command.args(["--formats", &options.format.join(",")]);
    }
    process::run(&mut command)
}

/// Renders published templates with the engine and with transformers. Returns whether all agree.
fn templates(workspace: &Workspace, python: &Path) -> Result<bool> {
    let references = workspace.target.join("parity/templates.json");
    let mut command = Command::new(python);
    command
        .arg(workspace.root.join("tests/parity/templates.py"))
        .arg("--tools")
        .arg(workspace.target.join("parity/tools"))
        .arg("--out")
        .arg(&references);
    process::run(&mut command)?;
    let status = process::cargo()
        .args(["test", "--workspace", "--test", "published_templates", "--"])
        .args(["--ignored", "--nocapture"])
        .env("CONCLAVE_TEMPLATES", references)
        .current_dir(&workspace.root)
        .status()?;
    Ok(status.success())
}

/// Builds the tool with the features of the test build: another selection of crates would compile
/// burn a second time.
pub fn built(workspace: &Workspace) -> Result<PathBuf> {
    process::run(
        process::cargo()
            .args(["test", "--workspace", "--no-run"])
            .current_dir(&workspace.root),
    )?;
    let tool = workspace.target.join("debug/conclave");
    tool.canonicalize()
        .with_context(|| format!("the build left no {}", tool.display()))
}
