//! Virtual environments below Cargo's target folder: with a test folder's packages, or with pip
//! only.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// Interpreter of the environment for `tests/NAME/requirements.txt`, made on first use and after
/// changes of the requirements.
pub fn ready(workspace: &Workspace, name: &str) -> Result<PathBuf> {
    let wanted = workspace
        .root
        .join("tests")
        .join(name)
        .join("requirements.txt");
    let wanted = fs::read_to_string(&wanted)
        .with_context(|| format!("{} can't be read", wanted.display()))?;
    let folder = workspace.target.join(name).join("python");
    let python = folder.join("bin/python");
    // Written last, so that it lists what is installed.
    let installed = folder.join("requirements.txt");
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(python);
    }
    println!("setting up Python packages in {}", folder.display());
    environment(&folder)?;
    let requirements = folder.join("wanted.txt");
    fs::write(&requirements, &wanted)?;
    process::run(
        Command::new(&python)
            .args(["-m", "pip", "install", "--quiet", "--requirement"])
            .arg(&requirements),
    )?;
    fs::rename(requirements, installed)?;
    Ok(python)
}

/// Interpreter of an environment with pip only, made on first use.
pub fn plain(workspace: &Workspace) -> Result<PathBuf> {
    let folder = workspace.target.join("python");
    let python = folder.join("bin/python");
    // Installed last.
    if !folder.join("bin/pip").is_file() {
        environment(&folder)?;
    }
    Ok(python)
}

fn environment(folder: &Path) -> Result<()> {
    process::run(Command::new("python3").args(["-m", "venv"]).arg(folder))
        .context("Python 3.10 or newer with venv is needed: install python3 and python3-venv")
}
