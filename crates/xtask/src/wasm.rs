//! The wasm module and its bindings: compile, check, bind.

use std::fmt::Write;
use std::path::Path;
use std::time::{Instant, UNIX_EPOCH};

use anyhow::{Context, Result};
use wasm_bindgen_cli_support::Bindgen;

use crate::module::check_constructors;
use crate::process;
use crate::toolchain::{TARGET, Toolchain};
use crate::workspace::Workspace;

/// Records in Cargo's target folder which linked module `web/pkg` was made from.
const STAMP: &str = "conclave-pkg";

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
    let bound = pkg.join("conclave_bg.wasm");
    let stamp = workspace.target.join(STAMP);
    let same = |made| Some(made) == state(&linked, &bound).ok();
    if std::fs::read_to_string(&stamp).is_ok_and(same) {
        println!("wasm: web/pkg is up to date");
        return Ok(());
    }
    let module =
        std::fs::read(&linked).with_context(|| format!("{} can't be read", linked.display()))?;
    check_constructors(&module)?;
    bind(module, &pkg)?;
    std::fs::write(stamp, state(&linked, &bound)?)?;
    println!(
        "wasm: web/pkg made, {:.1} MB, {:.0} s",
        std::fs::metadata(&bound)?.len() as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    Ok(())
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

/// Changes whenever either file does: their paths, lengths and times.
fn state(linked: &Path, bound: &Path) -> Result<String> {
    let mut text = String::new();
    for file in [linked, bound] {
        let about =
            std::fs::metadata(file).with_context(|| format!("{} was not made", file.display()))?;
        let time = about.modified()?.duration_since(UNIX_EPOCH)?.as_nanos();
        writeln!(text, "{} {} {time}", file.display(), about.len())?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_follows_both_files() {
        let base = std::env::temp_dir().join(format!("conclave-wasm-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let (linked, bound) = (base.join("linked"), base.join("bound"));
        std::fs::write(&linked, "a").unwrap();
        assert!(state(&linked, &bound).is_err());
        std::fs::write(&bound, "b").unwrap();
        let first = state(&linked, &bound).unwrap();
        assert_eq!(first, state(&linked, &bound).unwrap());
        std::fs::write(&bound, "optimised").unwrap();
        let second = state(&linked, &bound).unwrap();
        assert_ne!(first, second);
        std::fs::write(&linked, "built anew").unwrap();
        assert_ne!(second, state(&linked, &bound).unwrap());
        std::fs::remove_dir_all(base).unwrap();
    }
}
