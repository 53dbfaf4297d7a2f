//! Packs the crates as a release uploads them, and builds what was packed in a project of its own.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::process;
use crate::workspace::Workspace;

/// Packs every crate for crates.io into the target folder. Cargo checks their manifests, and that
/// their versions of one another resolve.
pub fn crates(workspace: &Workspace) -> Result<()> {
    let cargo = |arguments: &[&str]| {
        let mut command = process::cargo();
        command.args(arguments).current_dir(&workspace.root);
        command
    };
    // Those of other systems, too. Without a network if all are there.
    process::run(&mut cargo(&["fetch", "--locked", "--quiet"]))?;
    let mut pack = cargo(&[
        "package",
        "--no-verify",
        "--allow-dirty",
        "--offline",
        "--quiet",
    ]);
    for name in workspace.published_crates() {
        pack.args(["--package", name]);
    }
    process::run(&mut pack)
}

/// Tests the packed [`crates`]: asks the bundled members by `examples/crate`, an empty project that
/// depends on them, and by the tool that `cargo install` builds from them. Builds all crates, also
/// those that neither of the two needs.
///
/// A workspace of the unpacked crates stands for the registry. It has this one's profiles and
/// versions of dependencies, so that only the crates themselves are compiled again.
pub fn asked(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("packed");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("as-one/src"))?;
    let version = env!("CARGO_PKG_VERSION");
    let manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let profiles = manifest.find("\n[profile.").context("no profiles")?;
    let mut patched = "[workspace]\nmembers = [\"*\"]\nresolver = \"3\"\n\n".to_owned();
    patched += "[patch.crates-io]\n";
    for name in workspace.published_crates() {
        let packed = format!("package/{name}-{version}.crate");
        let mut unpack = Command::new("tar");
        unpack.arg("-xzf").arg(workspace.target.join(packed));
        process::run(unpack.arg("-C").arg(&folder))?;
        writeln!(patched, "{name} = {{ path = \"{name}-{version}\" }}")?;
    }
    let tool = format!("conclave-tool-{version}");
    locked(workspace, &folder.join(&tool).join("Cargo.lock"))?;
    fs::write(folder.join("Cargo.toml"), patched + &manifest[profiles..])?;
    fs::copy(workspace.root.join("Cargo.lock"), folder.join("Cargo.lock"))?;
    let example = workspace.root.join("examples/crate");
    let own = fs::read_to_string(example.join("Cargo.toml"))?;
    let (own, _) = own
        .split_once("\n# A project of its own")
        .context("it ends otherwise")?;
    fs::write(folder.join("as-one/Cargo.toml"), own)?;
    fs::copy(
        example.join("src/main.rs"),
        folder.join("as-one/src/main.rs"),
    )?;

    let question = "What is 347 + 586?";
    let members = ["ada", "quill", "juno"].map(|member| {
        let file = format!("members/{member}.gguf");
        workspace.web().join(file).into_os_string()
    });
    let cargo = |arguments: &[&str]| {
        let mut command = process::cargo();
        command.args(arguments).current_dir(&folder);
        command.env("CARGO_TARGET_DIR", &workspace.target);
        command
    };
    let run = ["run", "--quiet", "--offline", "--package", "as-one", "--"];
    answers(cargo(&run).arg(question).args(members))?;

    process::run(&mut cargo(&[
        "build",
        "--workspace",
        "--quiet",
        "--offline",
    ]))?;
    let install = ["install", "--debug", "--quiet", "--offline", "--path"];
    let mut install = cargo(&install);
    install.args([&tool, "--root", "installed"]);
    process::run(&mut install)?;
    let mut tool = Command::new(folder.join("installed/bin/conclave"));
    answers(tool.args(["chat", "--device", "cpu", question]))
}

/// Checks that the tool's packed lock names the other crates by the contents that were packed, as
/// `cargo install --locked` will demand of a registry.
fn locked(workspace: &Workspace, lock: &Path) -> Result<()> {
    let lock = fs::read_to_string(lock)?;
    let version = env!("CARGO_PKG_VERSION");
    for name in workspace.published_crates() {
        let file = format!("package/{name}-{version}.crate");
        let mut sum = Command::new("sha256sum");
        let sum = process::capture(sum.arg(workspace.target.join(file)))?;
        let sum = sum.split(' ').next().unwrap_or_default();
        let entry = format!(
            "name = \"{name}\"\nversion = \"{version}\"\nsource = \"registry+\
            https://github.com/rust-lang/crates.io-index\"\nchecksum = \"{sum}\"\n"
        );
        ensure!(
            name == "conclave-tool" || lock.contains(&entry),
            "the tool's lock does not name {name} as it was packed"
        );
    }
    Ok(())
}

/// Checks that the command prints the sum.
fn answers(command: &mut Command) -> Result<()> {
    let answer = process::capture(command)?;
    ensure!(answer.contains("933"), "it answered {answer:?}");
    Ok(())
}
