//! Packs the crates as a release uploads them, without building them again.

use anyhow::Result;

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
