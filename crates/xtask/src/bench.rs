//! `cargo xtask bench`: measures members and rounds natively, in a browser, and beside other
//! engines.
//!
//! The measurements are in `conclave bench` natively and in `web/src/bench` in the page;
//! `web/tests/browser/bench.ts` runs the workloads, stores the report and prints the tables of
//! both. This file prepares what they need: models, packages, builds.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};

use crate::toolchain::Toolchain;
use crate::wasm::Module;
use crate::workspace::Workspace;
use crate::{demo, models, parity, process, python, setup, wasm};

/// Compared engines on npm: transformers.js, and llama.cpp in wasm.
const PEERS: [&str; 2] = ["@huggingface/transformers@4.3.2", "@wllama/wllama@3.13.0"];

/// Workloads, and where they run.
#[derive(Args)]
pub struct Options {
    /// `bundled`; a shape and a format: SmolLM2-135M:Q4_0, SmolLM2-360M:Q8_0, Qwen2.5-0.5B:Q4_0,
    /// Qwen3-0.6B:Q8_0, Llama-3.2-1B:Q4_0, Qwen2.5-1.5B:Q4_0, tiny:Q4_0; or GGUF files of the
    /// published models, members in turn:
    /// files:SmolLM2-135M-Instruct.Q4_1.gguf:gemma-3-270m-q4_k_m.gguf
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "bundled",
        value_name = "MODELS"
    )]
    models: Vec<String>,

    /// Members at a time
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1,3",
        value_name = "NUMBERS"
    )]
    ensembles: Vec<usize>,

    /// Members that draft in the measured rounds: all, or the leader alone, whose drafts no member
    /// doubts here
    #[arg(long, value_parser = ["all", "leader"], value_delimiter = ',', default_value = "all")]
    drafting: Vec<String>,

    /// Tokens of the conversation
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "128",
        value_name = "NUMBERS"
    )]
    prefixes: Vec<usize>,

    /// L, the tokens of a draft
    #[arg(long, default_value_t = 10)]
    segment_tokens: usize,

    /// Repeats of each measurement
    #[arg(long, default_value_t = 5)]
    repeats: usize,

    /// Start no repeat of a measurement, ours or another engine's, after so many seconds; each runs
    /// at least once, and a longer run of another engine is cut off and marked with `>`
    #[arg(long, default_value_t = 300, value_name = "SECONDS")]
    limit_seconds: u32,

    /// GPU or CPU
    #[arg(long, value_enum, default_value = "gpu")]
    on: On,

    /// Measure in the page, in a headless Chromium
    #[arg(long)]
    browser: bool,

    /// Compare with other engines, one run after the other, on the same weights. In the browser:
    /// transformers.js, whose models are made with Python, and on the CPU llama.cpp too, both
    /// fetched from npm. Natively, on the CPU: llama.cpp by its Python package
    #[arg(long)]
    peer: bool,

    /// Runs of each engine, in turn
    #[arg(long, default_value_t = 1)]
    turns: usize,

    /// CPU threads of every engine
    #[arg(long, default_value_t = 1)]
    threads: usize,

    /// In the browser, use this machine's own GPU instead of SwiftShader
    #[arg(long)]
    hardware: bool,

    /// Write all measurements to FILE as JSON after each workload; those already in the file, under
    /// the same plan, are not repeated. The schema is web/src/bench/report.ts
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Measure nothing here: make the folder DIR, below 60 MB, which measures on a bare Linux
    /// machine with Vulkan, without a network, by its run.sh
    #[arg(long, value_name = "DIR")]
    carry: Option<PathBuf>,

    /// Build nothing: measure the page in web/dist as it is
    #[arg(long)]
    keep: bool,

    /// A Python with the packages of tests/bench/requirements.txt, or natively those of
    /// tests/bench/llama-cpp; if not given, they are installed
    #[arg(long, value_name = "PATH")]
    python: Option<PathBuf>,

    /// A built `conclave`, such as from `cargo build --release -p conclave-tool`; if not given, it
    /// is built as for the tests, with optimised computation but not wgpu: its CPU µs per dispatch
    /// are too high
    #[arg(long, value_name = "PATH")]
    tool: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum On {
    Gpu,
    Cpu,
}

/// Random weights of a shape, in a format.
struct Random<'a> {
    shape: &'a str,
    format: &'a str,
}

impl<'a> Random<'a> {
    fn named(name: &'a str) -> Option<Self> {
        let (shape, format) = name.split_once(':')?;
        (shape != "files").then_some(Self { shape, format })
    }

    /// Writes its GGUF file with this seed, unless it exists.
    fn gguf(&self, workspace: &Workspace, seed: usize) -> Result<PathBuf> {
        let Self { shape, format } = self;
        let file = workspace
            .target
            .join(format!("bench/gguf/{shape}-{format}-{seed}.gguf"));
        if !file.is_file() {
            process::run(
                script(workspace, "write-model")
                    .args([shape, format, seed.to_string().as_str()])
                    .arg(&file),
            )?;
        }
        Ok(file)
    }

    /// Makes the folder of the same weights for transformers.js, unless it exists.
    fn onnx(&self, workspace: &Workspace, python: &Path) -> Result<()> {
        let Self { shape, format } = self;
        let folder = workspace
            .target
            .join(format!("bench/peer/models/{shape}-{format}"));
        let (dtype, name) = match *format {
            "Q4_0" => ("q4", "model_q4.onnx"),
            "Q8_0" => ("q8", "model_quantized.onnx"),
            other => bail!("there is no format {other}; choose Q4_0 or Q8_0"),
        };
        if folder.join("onnx").join(name).is_file() {
            return Ok(());
        }
        process::run(
            Command::new(python)
                .arg(workspace.root.join("tests/bench/make_onnx.py"))
                .arg(self.gguf(workspace, 1)?)
                .arg(&folder)
                .args(["--dtype", dtype]),
        )
    }
}

pub fn run(workspace: &Workspace, options: &Options) -> Result<()> {
    if options.peer && !options.browser && options.on == On::Gpu {
        bail!(
            "natively the other engine is llama.cpp on the CPU: add --on cpu, or --browser to \
            compare on the GPU"
        );
    }
    setup::web(workspace)?;
    if let Some(folder) = &options.carry {
        return carry(workspace, options, folder);
    }
    let mut command = script(workspace, "bench");
    command.arg(plan(options));
    command.args(["--turns", &options.turns.to_string()]);
    if options.models.iter().any(|name| name.starts_with("files:")) {
        command
            .arg("--files")
            .arg(models::ready(workspace, models::Which::Tested)?);
    }
    if let Some(file) = &options.report {
        command.arg("--report").arg(std::path::absolute(file)?);
    }
    if options.browser {
        in_browser(workspace, options, &mut command)?;
    } else {
        natively(workspace, options, &mut command)?;
    }
    process::run(&mut command)
}

/// The plan as query of the page's address.
fn plan(options: &Options) -> String {
    let backend = match options.on {
        On::Gpu => "webgpu",
        On::Cpu => "cpu",
    };
    format!(
        "backend={backend}&models={}&ensembles={}&drafting={}&prefixes={}\
         &segmentTokens={}&repeats={}&limitSeconds={}&threads={}",
        options.models.join(","),
        listed(&options.ensembles),
        options.drafting.join(","),
        listed(&options.prefixes),
        options.segment_tokens,
        options.repeats,
        options.limit_seconds,
        options.threads,
    )
}

/// Command for a program of web/tests/browser.
fn script(workspace: &Workspace, name: &str) -> Command {
    let mut command = Command::new("node");
    command
        .arg(workspace.web().join("scripts/test.mjs"))
        .arg(name);
    command
}

fn in_browser(workspace: &Workspace, options: &Options, command: &mut Command) -> Result<()> {
    if !options.keep {
        wasm::build(workspace, &Toolchain::ready(workspace)?, Module::SHARED)?;
        demo::page(workspace)?;
    }
    if options.peer {
        command.arg("--peer").arg(peer(workspace, options)?);
    }
    if options.hardware {
        command.args(["--graphics", "hardware"]);
    }
    command.env("CONCLAVE_CHROMIUM", setup::chromium()?);
    Ok(())
}

/// Prepares the folder with the other engines and their models.
fn peer(workspace: &Workspace, options: &Options) -> Result<PathBuf> {
    let folder = workspace.target.join("bench/peer");
    // An earlier pin's versions would stay otherwise.
    let installed = folder.join("installed.txt");
    let wanted = PEERS.join("\n");
    let there = fs::read_to_string(&installed).is_ok_and(|there| there == wanted);
    if !there || !folder.join("node_modules").is_dir() {
        fs::create_dir_all(&folder)?;
        process::run(
            Command::new("npm")
                .args(["install", "--no-audit", "--no-fund", "--silent"])
                .args(["--ignore-scripts", "--prefix"])
                .arg(&folder)
                .args(PEERS),
        )
        .context("they are what the bench compares with; without --peer they are not needed")?;
        fs::write(&installed, wanted)?;
    }
    let python = match &options.python {
        Some(path) => path.clone(),
        None => python::ready(workspace, "bench")?,
    };
    for model in options.models.iter().filter_map(|name| Random::named(name)) {
        model.gguf(workspace, 1)?;
        model.onnx(workspace, &python)?;
    }
    Ok(folder)
}

fn natively(workspace: &Workspace, options: &Options, command: &mut Command) -> Result<()> {
    let tool = match &options.tool {
        Some(path) => std::path::absolute(path)?,
        None => parity::built(workspace)?,
    };
    // Each member has its own weights: identical drafts would make a round cheap.
    let most = options.ensembles.iter().copied().max().unwrap_or(1);
    for model in options.models.iter().filter_map(|name| Random::named(name)) {
        for seed in 1..=most {
            model.gguf(workspace, seed)?;
        }
    }
    command.arg("--native").arg(tool);
    command
        .arg("--gguf")
        .arg(workspace.target.join("bench/gguf"));
    if options.peer {
        let python = match &options.python {
            Some(path) => path.clone(),
            None => python::ready(workspace, "bench/llama-cpp").context(
                "it builds llama.cpp, which needs a C++ compiler; --python names an interpreter \
                that has it",
            )?,
        };
        let measure = workspace.root.join("tests/bench/llama-cpp/measure.py");
        command.arg("--python").arg(python);
        command.arg("--llama-cpp").arg(measure);
    }
    Ok(())
}

/// Makes the folder that measures elsewhere.
fn carry(workspace: &Workspace, options: &Options, folder: &Path) -> Result<()> {
    wasm::build(workspace, &Toolchain::ready(workspace)?, Module::FUSED)?;
    let tool = match &options.tool {
        Some(path) => std::path::absolute(path)?,
        None => {
            process::run(
                process::cargo()
                    .args(["build", "--release", "--package", "conclave-tool"])
                    .current_dir(&workspace.root),
            )?;
            workspace.target.join("release/conclave")
        }
    };
    process::run(
        Command::new("node")
            .arg(workspace.web().join("scripts/carry.mjs"))
            .arg(std::path::absolute(folder)?)
            .arg(tool),
    )
}

fn listed(numbers: &[usize]) -> String {
    let texts: Vec<String> = numbers.iter().map(usize::to_string).collect();
    texts.join(",")
}
