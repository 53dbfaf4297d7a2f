//! `cargo xtask test` and `cargo xtask lint`: the stages, in order.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use serde_json::Value;

use crate::counts::Counts;
use crate::setup::{Vulkan, use_driver};
use crate::table::{Stage, render};
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;
use crate::{demo, process, setup, wasm};

/// Crates whose tests run on a second Vulkan driver as well: what they assert must not hang on one.
const ON_BOTH_DRIVERS: [&str; 2] = ["conclave-kernels", "conclave-model"];

/// A part of the tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Rust tests of the crates that need neither burn nor a GPU: seconds
    Unit,
    /// The kernel tests on lavapipe, then on SwiftShader
    Kernels,
    /// Validation of every shader
    Shaders,
    /// TypeScript: type check and unit tests
    Web,
    /// The page in Chromium
    Browser,
    /// Every Rust test, GPU ones on lavapipe and then the kernels and model on SwiftShader
    Native,
}

/// Sets up and runs a part of the tests, or all. Returns whether all passed.
///
/// # Errors
/// When the set-up fails: then nothing was run.
pub fn run(workspace: &Workspace, only: Option<Part>) -> Result<bool> {
    let wants = |parts: &[Part]| only.is_none_or(|part| parts.contains(&part));
    let mut suite = Suite {
        workspace,
        stages: Vec::new(),
    };
    // Everything is installed before anything is run: a missing package is named in the first minute.
    if wants(&[Part::Web, Part::Browser]) {
        setup::web(workspace)?;
    }
    let toolchain = match wants(&[Part::Browser]) {
        true => Some(Toolchain::ready(workspace)?),
        false => None,
    };
    let native = wants(&[Part::Kernels, Part::Shaders, Part::Native]);
    let chromium = match wants(&[Part::Browser, Part::Kernels, Part::Native]) {
        true => Some(setup::chromium()?),
        false => None,
    };
    let vulkan = native.then(Vulkan::ready).transpose()?;

    if only == Some(Part::Unit) {
        let mut command = Command::new(process::cargo());
        command.args(["test", "--no-fail-fast"]);
        for name in workspace.pure_crates() {
            command.args(["--package", name]);
        }
        suite.tests("Rust, no GPU", command.current_dir(&workspace.root));
    }
    if let Some(vulkan) = &vulkan {
        suite.native(only, vulkan, chromium.as_deref());
    }
    if wants(&[Part::Web]) {
        suite.tests_of_web("TypeScript check", "check", None, false);
        suite.tests_of_web("TypeScript unit tests", "test", None, true);
    }
    if let Some(toolchain) = toolchain {
        let built = suite.step("wasm build", || wasm::build(workspace, &toolchain))
            && suite.step("page build", || demo::page(workspace));
        if built {
            suite.tests_of_web("browser tests", "test:browser", chromium.as_deref(), true);
        } else {
            suite.skipped("browser tests", "not run, there is no page to test");
        }
    }
    print!("\n{}", render(&suite.stages));
    Ok(suite.stages.iter().all(|stage| stage.failure.is_none()))
}

/// Formatting, clippy, TypeScript.
///
/// # Errors
/// At the first that has something to say.
pub fn lint(workspace: &Workspace) -> Result<()> {
    let cargo = |arguments: &[&str]| {
        process::run(
            Command::new(process::cargo())
                .args(arguments)
                .current_dir(&workspace.root),
        )
    };
    cargo(&["fmt", "--all", "--check"])?;
    cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ])?;
    setup::web(workspace)?;
    process::run(
        Command::new("npm")
            .args(["run", "--silent", "check"])
            .current_dir(workspace.web()),
    )
}

struct Suite<'a> {
    workspace: &'a Workspace,
    stages: Vec<Stage>,
}

impl Suite<'_> {
    /// Rust tests that reach the GPU.
    ///
    /// Always the whole workspace is built, whichever part is run: Cargo unites the features of what
    /// it builds together, and any other selection of crates would compile burn a second time.
    fn native(&mut self, only: Option<Part>, vulkan: &Vulkan, chromium: Option<&Path>) {
        let mut programs = Vec::new();
        if !self.step("native build", || {
            programs = test_programs(self.workspace)?;
            Ok(())
        }) {
            self.skipped("Rust on lavapipe", "not run, the build failed");
            return;
        }
        let kernels: Vec<_> = programs
            .iter()
            .filter(|program| {
                ON_BOTH_DRIVERS
                    .iter()
                    .any(|name| self.workspace.folder(name) == Some(&program.folder))
            })
            .collect();
        match only {
            Some(Part::Kernels) => {
                self.programs("kernels and model on lavapipe", &kernels, &vulkan.lavapipe)
            }
            Some(Part::Shaders) => {
                self.filtered("shaders", &kernels, &vulkan.lavapipe, &["shader", "wgsl"]);
            }
            _ => {
                let mut command = Command::new(process::cargo());
                command
                    .args(["test", "--workspace", "--no-fail-fast"])
                    .current_dir(&self.workspace.root);
                self.tests(
                    "Rust on lavapipe",
                    use_driver(&mut command, &vulkan.lavapipe),
                );
            }
        }
        if only == Some(Part::Shaders) {
            return;
        }
        match chromium.and_then(|chromium| vulkan.swiftshader(chromium)) {
            Some(driver) => self.programs("kernels and model on SwiftShader", &kernels, &driver),
            None => self.skipped(
                "kernels and model on SwiftShader",
                "Chromium's folder has no vk_swiftshader_icd.json; Debian's chromium has",
            ),
        }
    }

    /// Runs test programs one after the other as one stage.
    fn programs(&mut self, name: &str, programs: &[&TestProgram], driver: &Path) {
        self.filtered(name, programs, driver, &[]);
    }

    fn filtered(&mut self, name: &str, programs: &[&TestProgram], driver: &Path, filters: &[&str]) {
        announce(name);
        let start = Instant::now();
        let mut counts = Counts::default();
        let mut failure = None;
        for program in programs {
            let mut command = Command::new(&program.file);
            command.args(filters).current_dir(&program.folder);
            match process::tee(use_driver(&mut command, driver)) {
                Ok((success, output)) => {
                    counts += Counts::read(&output);
                    if !success {
                        failure = Some(format!("{} failed", program.file.display()));
                    }
                }
                Err(error) => failure = Some(format!("{error:#}")),
            }
        }
        self.ended(name, start, Some(counts), failure);
    }

    /// An npm script of web/; `counted` where it prints how many tests it ran.
    fn tests_of_web(&mut self, name: &str, script: &str, chromium: Option<&Path>, counted: bool) {
        let mut command = Command::new("npm");
        command
            .args(["run", "--silent", script])
            .current_dir(self.workspace.web());
        if let Some(chromium) = chromium {
            command.env("CONCLAVE_CHROMIUM", chromium);
        }
        if counted {
            self.tests(name, &mut command);
        } else {
            self.step(name, || process::run(&mut command));
        }
    }

    /// A command that runs tests and prints how many.
    fn tests(&mut self, name: &str, command: &mut Command) {
        announce(name);
        let start = Instant::now();
        let (counts, failure) = match process::tee(command) {
            Ok((success, output)) => {
                let failed = format!("`{}` failed", process::describe(command));
                (Counts::read(&output), (!success).then_some(failed))
            }
            Err(error) => (Counts::default(), Some(format!("{error:#}"))),
        };
        self.ended(name, start, Some(counts), failure);
    }

    /// Something that holds no tests. Returns whether it succeeded.
    fn step(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> bool {
        announce(name);
        let start = Instant::now();
        let failure = work().err().map(|error| format!("{error:#}"));
        let success = failure.is_none();
        self.ended(name, start, None, failure);
        success
    }

    fn skipped(&mut self, name: &str, reason: &str) {
        self.ended(name, Instant::now(), None, Some(reason.to_owned()));
    }

    fn ended(
        &mut self,
        name: &str,
        start: Instant,
        counts: Option<Counts>,
        failure: Option<String>,
    ) {
        self.stages.push(Stage {
            name: name.to_owned(),
            failure: failure.or_else(|| hollow(counts)),
            counts,
            time: start.elapsed(),
        });
    }
}

/// Why counts that come with a success are none: a runner that ran nothing, or one whose output
/// is no longer understood, must not pass.
fn hollow(counts: Option<Counts>) -> Option<String> {
    let counts = counts?;
    if counts.failed > 0 {
        Some(format!("{} tests failed", counts.failed))
    } else if counts.passed == 0 {
        Some("no test was run".to_owned())
    } else {
        None
    }
}

fn announce(name: &str) {
    println!("\n== {name}");
}

/// A compiled test program and the folder its tests expect to run in.
#[derive(Debug, PartialEq, Eq)]
struct TestProgram {
    file: PathBuf,
    folder: PathBuf,
}

/// Builds all tests of the workspace and says where they are.
fn test_programs(workspace: &Workspace) -> Result<Vec<TestProgram>> {
    let output = Command::new(process::cargo())
        .args(["test", "--workspace", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(&workspace.root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo did not start")?;
    if !output.status.success() {
        bail!("the tests do not compile; the compiler's message is above");
    }
    Ok(read_programs(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads Cargo's messages, one JSON object a line, for the test programs it made.
fn read_programs(messages: &str) -> Vec<TestProgram> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["profile"]["test"] == true)
        .filter_map(|message| {
            let manifest = Path::new(message["manifest_path"].as_str()?);
            Some(TestProgram {
                file: message["executable"].as_str()?.into(),
                folder: manifest.parent()?.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_taken_from_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","profile":{"test":true},"executable":"/t/a-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","profile":{"test":false},"executable":"/t/a"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/b/Cargo.toml","profile":{"test":true},"executable":null}
not json
{"reason":"build-finished","success":true}"#;
        let expected = TestProgram {
            file: "/t/a-1".into(),
            folder: "/w/crates/a".into(),
        };
        assert_eq!(read_programs(messages), [expected]);
    }

    #[test]
    fn a_run_of_nothing_does_not_pass() {
        let counts = |passed, failed| {
            Some(Counts {
                passed,
                failed,
                ignored: 0,
            })
        };
        assert_eq!(hollow(None), None);
        assert_eq!(hollow(counts(1, 0)), None);
        assert!(hollow(counts(0, 0)).is_some());
        assert!(hollow(counts(5, 1)).is_some());
    }
}
