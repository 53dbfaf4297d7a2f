//! `cargo xtask models`: the published models that the tests of part `real` run.
//!
//! They are stored in the tool's cache, outside of the repository, so that checkouts share them and
//! none is committed. `tests/published/models.py` lists and fetches them.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::workspace::Workspace;
use crate::{process, python};

/// Environment variable that gives the tests the folder.
pub const FOLDER: &str = "CONCLAVE_PUBLISHED";

/// Selection of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// The models that tests use.
    Tested,
    /// Also the large one, which no test uses.
    All,
}

/// Fetches missing models, verifies each file's SHA-256, prints the paths and returns the folder.
///
/// # Errors
/// If one is missing and can't be fetched; the message says what to do.
pub fn ready(workspace: &Workspace, which: Which) -> Result<PathBuf> {
    let folder = folder(|name| std::env::var_os(name).map(PathBuf::from))?;
    let python = python::plain(workspace)?;
    let script = workspace.root.join("tests/published/models.py");
    let mut command = Command::new(python);
    command.arg(script).arg(&folder);
    if which == Which::All {
        command.arg("--large");
    }
    process::run(&mut command).context("the published models are not there")?;
    Ok(folder)
}

/// `published` in the tool's cache: `CONCLAVE_MODELS`, or `conclave` in the platform's cache
/// folder.
fn folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<PathBuf> {
    let named = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    let caches = || {
        if cfg!(windows) {
            named("LOCALAPPDATA")
        } else if cfg!(target_os = "macos") {
            named("HOME").map(|home| home.join("Library/Caches"))
        } else {
            let absolute = named("XDG_CACHE_HOME").filter(|path| path.is_absolute());
            absolute.or_else(|| named("HOME").map(|home| home.join(".cache")))
        }
    };
    named("CONCLAVE_MODELS")
        .or_else(|| caches().map(|caches| caches.join("conclave")))
        .map(|cache| cache.join("published"))
        .context("there is no folder for caches: set CONCLAVE_MODELS to one")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder_with(set: &[(&str, &str)]) -> Option<PathBuf> {
        let value = |name: &str| set.iter().find(|(known, _)| *known == name);
        folder(|name| value(name).map(|(_, value)| value.into())).ok()
    }

    #[test]
    fn the_models_lie_in_the_tools_cache() {
        let named = [("CONCLAVE_MODELS", "/models"), ("HOME", "/home/me")];
        assert_eq!(folder_with(&named), Some("/models/published".into()));
        assert_eq!(folder_with(&[("CONCLAVE_MODELS", "")]), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn or_in_the_platforms_caches() {
        let home = ("HOME", "/home/me");
        let at_home = Some("/home/me/.cache/conclave/published".into());
        assert_eq!(folder_with(&[home]), at_home);
        assert_eq!(
            folder_with(&[home, ("XDG_CACHE_HOME", "relative")]),
            at_home
        );
        let elsewhere = folder_with(&[home, ("XDG_CACHE_HOME", "/caches")]);
        assert_eq!(elsewhere, Some("/caches/conclave/published".into()));
    }
}
