//! The wasm module and its bindings: compile, check, bind.

use std::path::{Path, PathBuf};
use std::time::{Instant, UNIX_EPOCH};

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::module::check_constructors;
use crate::process;
use crate::toolchain::{TARGET, Toolchain};
use crate::workspace::Workspace;

/// Records which linked module `web/pkg` was made from.
const STAMP: &str = ".made-from";

/// Builds `crates/wasm` and makes its bindings in `web/pkg`; does nothing where nothing changed.
///
/// # Errors
/// When it does not compile, or its exports are wrapped.
pub fn build(workspace: &Workspace, toolchain: &Toolchain) -> Result<()> {
    let start = Instant::now();
    println!("wasm: building with {}", toolchain.describe());
    let (mut command, folder) = toolchain.build(workspace);
    process::run(
        command
            .args(["--release", "--package", "conclave-wasm"])
            .current_dir(&workspace.root),
    )?;
    let linked = folder.join(TARGET).join("release/conclave_wasm.wasm");
    let pkg = workspace.pkg();
    let stamp = stamp(&linked)?;
    if std::fs::read_to_string(pkg.join(STAMP)).is_ok_and(|made_from| made_from == stamp) {
        println!("wasm: web/pkg is up to date");
        return Ok(());
    }
    let module =
        std::fs::read(&linked).with_context(|| format!("{} can't be read", linked.display()))?;
    check_constructors(&module)?;
    bind(module, &pkg)?;
    std::fs::write(pkg.join(STAMP), stamp)?;
    println!(
        "wasm: web/pkg made, {:.1} MB, {:.0} s",
        size(&pkg.join("conclave_bg.wasm"))? as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Marks `web/pkg` as changed by hand, so that the next build makes it anew.
///
/// # Errors
/// When the mark can't be removed.
pub fn forget(workspace: &Workspace) -> Result<()> {
    match std::fs::remove_file(workspace.pkg().join(STAMP)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Makes `conclave.js`, `conclave.d.ts` and `conclave_bg.wasm` for a browser without a bundler.
///
/// Function names stay in the module: a stack trace from a browser test is worth the bytes,
/// and what is published loses them in wasm-opt.
fn bind(module: Vec<u8>, pkg: &Path) -> Result<()> {
    if pkg.exists() {
        std::fs::remove_dir_all(pkg)?;
    }
    let mut bindgen = Bindgen::new();
    bindgen
        .input_bytes("conclave", module)
        .web(true)?
        .typescript(true)
        .generate(pkg)
        .context("wasm-bindgen could not make the bindings")
}

/// Changes whenever the module does: its path, length and time.
fn stamp(linked: &PathBuf) -> Result<String> {
    let file =
        std::fs::metadata(linked).with_context(|| format!("{} was not built", linked.display()))?;
    let time = file.modified()?.duration_since(UNIX_EPOCH)?.as_nanos();
    Ok(format!("{} {} {time}", linked.display(), file.len()))
}

fn size(file: &Path) -> Result<u64> {
    Ok(std::fs::metadata(file)?.len())
}
