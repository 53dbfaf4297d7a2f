//! The wasm modules and their bindings: compile, check, bind.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Instant, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use wasm_bindgen_cli_support::Bindgen;

use crate::module::{check_constructors, without_and_with_relaxed_simd};
use crate::process;
use crate::toolchain::{TARGET, Toolchain};
use crate::workspace::Workspace;

/// Crate of all modules.
const PACKAGE: &str = "conclave-wasm";

/// Wasm module of the page.
#[derive(Clone, Copy)]
pub struct Module {
    /// Feature of `crates/wasm` that it has.
    feature: &'static str,
    profile: &'static str,
    /// Name of the bindings.
    name: &'static str,
    /// Folder of `web` for the bindings.
    folder: &'static str,
    /// Whether several workers can share its memory.
    shared: bool,
    /// Whether it has a second file, with relaxed SIMD.
    relaxed: bool,
}

impl Module {
    /// The engine, for pages that may not share memory.
    pub const FUSED: Self = Self {
        feature: "fused",
        profile: "release",
        name: "conclave",
        folder: "pkg",
        shared: false,
        relaxed: true,
    };

    /// The same for pages isolated from other origins.
    pub const SHARED: Self = Self {
        folder: "pkg-shared",
        shared: true,
        ..Self::FUSED
    };

    /// The open core, fetched if a member uses it.
    pub const BURN: Self = Self {
        feature: "burn",
        profile: "open-core",
        name: "conclave_burn",
        folder: "pkg-burn",
        shared: false,
        relaxed: false,
    };

    /// Grammars, fetched if an answer must match a schema.
    pub const GRAMMAR: Self = Self {
        feature: "grammar",
        profile: "grammar",
        name: "conclave_grammar",
        folder: "pkg-grammar",
        shared: false,
        relaxed: false,
    };

    /// Remote members, fetched when the first is added.
    pub const REMOTE: Self = Self {
        feature: "remote",
        profile: "remote",
        name: "conclave_remote",
        folder: "pkg-remote",
        shared: false,
        relaxed: false,
    };

    pub const ALL: [Self; 5] = [
        Self::FUSED,
        Self::SHARED,
        Self::GRAMMAR,
        Self::REMOTE,
        Self::BURN,
    ];

    /// Modules whose bindings are in this folder of `web`; all for none.
    ///
    /// # Errors
    /// If there is none.
    pub fn of_folder(folder: Option<&str>) -> Result<Vec<Self>> {
        let is_in = |module: &Self| folder.is_none_or(|folder| module.folder == folder);
        let modules: Vec<Self> = Self::ALL.into_iter().filter(is_in).collect();
        let known = || Self::ALL.map(|module| module.folder).join(", ");
        ensure!(
            !modules.is_empty(),
            "no module is of that folder: {}",
            known()
        );
        Ok(modules)
    }

    /// Wasm files of the bindings: the one for every browser, and the one with relaxed SIMD if any.
    pub fn files(self, workspace: &Workspace) -> Vec<PathBuf> {
        let folder = workspace.web().join(self.folder);
        let endings = if self.relaxed {
            &ENDINGS[..]
        } else {
            &ENDINGS[..1]
        };
        let file = |ending| folder.join(format!("{}{ending}", self.name));
        endings.iter().map(file).collect()
    }
}

/// File name endings: for every browser, and with relaxed SIMD.
const ENDINGS: [&str; 2] = ["_bg.wasm", "_relaxed_bg.wasm"];

/// Builds a module and its bindings, unless nothing has changed.
///
/// # Errors
/// If it does not compile, or its exports are wrapped.
pub fn build(workspace: &Workspace, toolchain: &Toolchain, module: Module) -> Result<()> {
    let start = Instant::now();
    let (feature, name) = (module.feature, module.folder);
    println!(
        "wasm: building {PACKAGE} ({feature}) for web/{name} with {}",
        toolchain.describe()
    );
    let (mut command, folder) = match module.shared {
        false => toolchain.build(workspace),
        true => toolchain.build_shared(workspace)?,
    };
    process::run(
        command
            .args(["--profile", module.profile, "--package", PACKAGE])
            .args(["--no-default-features", "--features", feature])
            .current_dir(&workspace.root),
    )?;
    let file = format!("{}.wasm", PACKAGE.replace('-', "_"));
    let linked = folder.join(TARGET).join(module.profile).join(file);
    let pkg = workspace.web().join(name);
    let files = module.files(workspace);
    // Identifies the linked module that the folder was made from.
    let stamp = workspace.target.join(format!("conclave-{name}"));
    let same = |made| Some(made) == state(&linked, &files).ok();
    if std::fs::read_to_string(&stamp).is_ok_and(same) {
        println!("wasm: web/{name} is up to date");
        return Ok(());
    }
    let bytes =
        std::fs::read(&linked).with_context(|| format!("{} can't be read", linked.display()))?;
    check_constructors(&bytes)?;
    bind(module, bytes, &pkg)?;
    let bound = std::fs::read(&files[0])?;
    for (file, bytes) in files.iter().zip(without_and_with_relaxed_simd(&bound)?) {
        std::fs::write(file, bytes)?;
    }
    std::fs::write(stamp, state(&linked, &files)?)?;
    println!(
        "wasm: web/{name} made, {:.1} MB, {:.0} s",
        std::fs::metadata(&files[0])?.len() as f64 / 1e6,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Makes `NAME.js`, `NAME.d.ts` and `NAME_bg.wasm` for a browser without a bundler.
///
/// Function names stay, for stack traces of browser tests; `dist` removes them from what is
/// published.
fn bind(bindings: Module, module: Vec<u8>, pkg: &Path) -> Result<()> {
    if pkg.exists() {
        std::fs::remove_dir_all(pkg)?;
    }
    let mut bindgen = Bindgen::new();
    bindgen
        .input_bytes(bindings.name, module)
        .web(true)?
        // The caller passes the module's location.
        .omit_default_module_path(true)
        .typescript(true)
        .generate(pkg)
        .context("wasm-bindgen could not make the bindings")
}

/// A value that changes with any of the files' paths, lengths or times.
fn state(linked: &Path, bound: &[PathBuf]) -> Result<String> {
    let mut text = String::new();
    for file in [linked]
        .into_iter()
        .chain(bound.iter().map(PathBuf::as_path))
    {
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
    fn the_state_follows_every_file() {
        let base = std::env::temp_dir().join(format!("conclave-wasm-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        let (linked, bound) = (
            base.join("linked"),
            ["one", "other"].map(|name| base.join(name)),
        );
        let state = || state(&linked, &bound);
        std::fs::write(&linked, "a").unwrap();
        std::fs::write(&bound[0], "b").unwrap();
        assert!(state().is_err());
        std::fs::write(&bound[1], "c").unwrap();
        let first = state().unwrap();
        assert_eq!(first, state().unwrap());
        std::fs::write(&bound[1], "stripped").unwrap();
        let second = state().unwrap();
        assert_ne!(first, second);
        std::fs::write(&linked, "built anew").unwrap();
        assert_ne!(second, state().unwrap());
        std::fs::remove_dir_all(base).unwrap();
    }
}
