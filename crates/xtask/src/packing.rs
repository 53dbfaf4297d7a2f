//! Packs the crates as a release uploads them, and builds what was packed in a project of its own.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};

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
/// depends on them, and by the README's commands, which install the tool and run it. Builds all
/// crates, also those that neither of the two needs.
///
/// A workspace of the unpacked crates stands for the registry in all but the README's commands. It
/// has this one's profiles and versions of dependencies, so that only the crates themselves are
/// compiled again.
pub fn asked(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("packed");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(folder.join("as-one/src"))?;
    let registry = vendored(workspace)?;
    let version = env!("CARGO_PKG_VERSION");
    let manifest = fs::read_to_string(workspace.root.join("Cargo.toml"))?;
    let profiles = manifest.find("\n[profile.").context("no profiles")?;
    let mut patched = "[workspace]\nmembers = [\"*\"]\nresolver = \"3\"\n\n".to_owned();
    patched += "[patch.crates-io]\n";
    for name in workspace.published_crates() {
        let unpacked = format!("{name}-{version}");
        let packed = workspace.target.join(format!("package/{unpacked}.crate"));
        // Dated now: all in it is of 2006, so that Cargo would take an earlier run's build for new.
        let mut unpack = Command::new("tar");
        unpack.arg("-xzmf").arg(&packed).arg("-C").arg(&folder);
        process::run(&mut unpack)?;
        writeln!(patched, "{name} = {{ path = \"{unpacked}\" }}")?;
        add(&registry, &packed, &folder.join(unpacked))?;
    }
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

    let members = ["ada", "quill", "juno"].map(|member| {
        let file = format!("members/{member}.gguf");
        workspace.web().join(file).into_os_string()
    });
    let cargo = |arguments: &[&str]| {
        let mut command = process::cargo();
        command
            .args(arguments)
            .arg("--offline")
            .current_dir(&folder);
        command.env("CARGO_TARGET_DIR", &workspace.target);
        command
    };
    let mut run = cargo(&["run", "--quiet", "--package", "as-one"]);
    answers(run.args(["--", "What is 347 + 586?"]).args(members))?;
    process::run(&mut cargo(&["build", "--workspace", "--quiet"]))?;

    let [install, chat] = commands(workspace)?;
    let install: Vec<_> = install.split(' ').skip(1).collect();
    let mut install = cargo(&install);
    install.args(["--debug", "--quiet", "--root", "installed"]);
    install.args(["--config", "source.crates-io.replace-with='packed'"]);
    let source = format!("source.packed.directory='{}'", registry.display());
    install.args(["--config", &source]);
    // Cargo knows dependencies by their folders, too: here they are others than in every other
    // build, and in the same target folder each of the two would replace what the other has built.
    install.env("CARGO_TARGET_DIR", workspace.target.join("from-registry"));
    install.env("CARGO_PROFILE_DEV_DEBUG", "false");
    process::run(&mut install)?;
    let found = format!("PATH=\"$PWD/installed/bin:$PATH\"\n{chat}");
    let mut shell = Command::new("sh");
    answers(shell.args(["-ec", &found]).current_dir(&folder))
}

/// Makes the folder that Cargo takes for crates.io, with everything that the lock names but the
/// crates themselves. Removes those that an earlier run added.
fn vendored(workspace: &Workspace) -> Result<PathBuf> {
    let registry = workspace.target.join("registry");
    let mut vendor = process::cargo();
    vendor.args(["vendor", "--locked", "--offline", "--quiet"]);
    process::capture(vendor.arg(&registry).current_dir(&workspace.root))?;
    Ok(registry)
}

/// Adds a crate to the registry, with the checksum that locks must have. It names the folder too:
/// Cargo compiles a crate of a registry again only if its version or its folder is another.
fn add(registry: &Path, packed: &Path, unpacked: &Path) -> Result<()> {
    let sum = process::capture(Command::new("sha256sum").arg(packed))?;
    let sum = sum.split(' ').next().unwrap_or_default();
    let sums = format!("{{\"files\":{{}},\"package\":\"{sum}\"}}");
    fs::write(unpacked.join(".cargo-checksum.json"), sums)?;
    let mut link = Command::new("ln");
    process::run(link.arg("-s").arg(unpacked).arg(registry.join(sum)))
}

/// The README's commands that install the tool, and ask it.
fn commands(workspace: &Workspace) -> Result<[String; 2]> {
    let text = fs::read_to_string(workspace.root.join("README.md"))?;
    let block = text
        .split("```")
        .filter_map(|block| block.strip_prefix("sh\n"))
        .find(|block| block.starts_with("cargo install "))
        .context("the README does not install the tool")?;
    let lines: Vec<_> = block.lines().map(str::to_owned).collect();
    lines.try_into().map_err(|_| anyhow!("not two: {block}"))
}

/// Checks that the command prints the sum.
fn answers(command: &mut Command) -> Result<()> {
    let answer = process::capture(command)?;
    ensure!(answer.contains("933"), "it answered {answer:?}");
    Ok(())
}
