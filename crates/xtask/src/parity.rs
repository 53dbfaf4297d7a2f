//! `cargo xtask parity`: random models of every family and format, made with their makers' tools,
//! and how far the engine's logits are from those of transformers.
//!
//! `tests/parity/make.py` makes the models and says in `models.json` what to compare with what.

mod comparison;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace::Workspace;
use crate::{process, python};
use comparison::Comparison;

/// What to make and compare.
#[derive(Args)]
pub struct Options {
    /// Only these families, or cases of them: llama,gemma3,phi4-mini
    #[arg(long, value_delimiter = ',', value_name = "NAMES")]
    family: Vec<String>,

    /// Only these formats: hf-f32, hf-bf16, hf-shards, hf-spelling-4 (folders), hf-f32:q8_0 and
    /// hf-f32:q4_0 (quantised while loading), and GGUF files by kind: f32, q8_0, q4_k_m, iq4_xs, …
    #[arg(long, value_delimiter = ',', value_name = "FORMATS")]
    format: Vec<String>,

    /// Draws the models' shapes, weights and prompts
    #[arg(long, default_value_t = 0)]
    seed: u64,

    /// Where the engine runs; each as `conclave --device` takes it
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "cpu,gpu",
        value_name = "DEVICES"
    )]
    device: Vec<String>,

    /// Where models and references go; `parity` in Cargo's target folder if not given
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// Make nothing: compare what an earlier run left in DIR
    #[arg(long)]
    keep: bool,

    /// A Python that has the packages of tests/parity/requirements.txt; if not given, a virtual
    /// environment with them is made below Cargo's target folder
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// A built `conclave`; if not given, it is built
    #[arg(long, value_name = "PATH")]
    tool: Option<PathBuf>,
}

/// Makes, compares and prints the table. Returns whether every comparison held its limit.
///
/// # Errors
/// When the tools can't be set up, or no model was made.
pub fn run(workspace: &Workspace, options: &Options) -> Result<bool> {
    let out = match &options.out {
        Some(folder) => folder.clone(),
        None => workspace.target.join("parity/models"),
    };
    if !options.keep {
        let python = match &options.python {
            Some(path) => path.clone(),
            None => python::ready(workspace, "parity")?,
        };
        make(workspace, options, &python, &out)?;
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
    let mut outcomes = Vec::new();
    let total = comparisons.len() * options.device.len();
    for comparison in &comparisons {
        for device in &options.device {
            let outcome = comparison.run(&tool, device, &out);
            println!(
                "[{}/{total}] {} {} on {device}: {outcome}",
                outcomes.len() + 1,
                comparison.case,
                comparison.format,
            );
            outcomes.push((comparison, outcome));
        }
    }
    println!("\n{}", table::markdown(&outcomes, &options.device));
    let missed = outcomes.iter().filter(|(_, found)| !found.held()).count();
    println!("{} comparisons held, {missed} missed", total - missed);
    Ok(missed == 0)
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

/// Builds the tool. The whole workspace, as the tests do: any other selection of crates would
/// compile burn a second time.
pub fn built(workspace: &Workspace) -> Result<PathBuf> {
    process::run(
        Command::new(process::cargo())
            .args(["build", "--workspace"])
            .current_dir(&workspace.root),
    )?;
    let tool = workspace.target.join("debug/conclave");
    tool.canonicalize()
        .with_context(|| format!("the build left no {}", tool.display()))
}
