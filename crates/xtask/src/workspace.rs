//! Paths of this checkout, and Cargo's metadata of its crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use serde_json::Value;

use crate::process;

/// Checkout that `cargo xtask` runs in.
pub struct Workspace {
    /// Folder of the root Cargo.toml.
    pub root: PathBuf,
    /// Cargo's target folder, as configured by the user.
    pub target: PathBuf,
    /// Minimum supported Rust version, as (major, minor).
    pub rust: (u32, u32),
    crates: BTreeMap<String, Crate>,
}

struct Crate {
    folder: PathBuf,
    /// Whether a registry may have it.
    published: bool,
    /// Names of its direct dependencies of every kind.
    dependencies: BTreeSet<String>,
}

impl Workspace {
    /// Asks Cargo about the checkout that `cargo xtask` was called in.
    ///
    /// At run time, since the one at compile time may be another checkout with the same target
    /// folder.
    ///
    /// # Errors
    /// If Cargo can't read the workspace, with Cargo's message.
    pub fn find() -> Result<Self> {
        let mut command = process::cargo();
        command.args(["metadata", "--no-deps", "--format-version", "1"]);
        if let Some(folder) = std::env::var_os("CARGO_MANIFEST_DIR") {
            command.current_dir(folder);
        }
        Self::from_metadata(&process::capture(&mut command)?)
    }

    fn from_metadata(text: &str) -> Result<Self> {
        let metadata: Value =
            serde_json::from_str(text).context("cargo metadata printed no JSON")?;
        let path = |key: &str| {
            metadata[key]
                .as_str()
                .map(PathBuf::from)
                .ok_or_else(|| anyhow!("cargo metadata has no {key}"))
        };
        let packages = metadata["packages"].as_array().map_or(&[][..], |p| p);
        let mut crates = BTreeMap::new();
        let mut rust = (0, 0);
        for package in packages {
            let name = package["name"].as_str().unwrap_or_default().to_owned();
            let manifest = package["manifest_path"].as_str().unwrap_or_default();
            let folder = Path::new(manifest).parent().unwrap_or(Path::new(""));
            let dependencies = package["dependencies"]
                .as_array()
                .map_or(&[][..], |d| d)
                .iter()
                .filter_map(|d| d["name"].as_str().map(str::to_owned))
                .collect();
            crates.insert(
                name,
                Crate {
                    folder: folder.to_owned(),
                    // An empty list of registries is `publish = false`.
                    published: package["publish"]
                        .as_array()
                        .is_none_or(|all| !all.is_empty()),
                    dependencies,
                },
            );
            if let Some(version) = package["rust_version"].as_str().and_then(version) {
                rust = rust.max(version);
            }
        }
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
            rust,
            crates,
        })
    }

    /// Folder of the TypeScript library and the page.
    pub fn web(&self) -> PathBuf {
        self.root.join("web")
    }

    /// Folder that `npm run build` writes the page to.
    pub fn page(&self) -> PathBuf {
        self.web().join("dist")
    }

    /// Folder that it writes the package to.
    pub fn package(&self) -> PathBuf {
        self.web().join("package")
    }

    /// Crates without burn and wgpu: their tests build in seconds and need no GPU.
    pub fn pure_crates(&self) -> Vec<&str> {
        self.crates
            .keys()
            .filter(|name| !self.reaches_a_gpu(name, &mut BTreeSet::new()))
            .map(String::as_str)
            .collect()
    }

    /// Crates for crates.io.
    pub fn published_crates(&self) -> impl Iterator<Item = &str> {
        let published = self.crates.iter().filter(|(_, member)| member.published);
        published.map(|(name, _)| name.as_str())
    }

    pub fn folder(&self, name: &str) -> Option<&PathBuf> {
        self.crates.get(name).map(|member| &member.folder)
    }

    fn reaches_a_gpu<'a>(&'a self, name: &'a str, seen: &mut BTreeSet<&'a str>) -> bool {
        if !seen.insert(name) {
            return false;
        }
        self.crates.get(name).is_some_and(|member| {
            member.dependencies.iter().any(|d| {
                d == "wgpu" || d == "burn" || d.starts_with("burn-") || self.reaches_a_gpu(d, seen)
            })
        })
    }
}

/// Parses `1.95`, `1.95.0` or `rustc 1.95.0 (…)` as (major, minor).
pub fn version(text: &str) -> Option<(u32, u32)> {
    let digits = text
        .split(|c: char| !c.is_ascii_digit() && c != '.')
        .find(|word| word.contains('.'))?;
    let mut parts = digits.split('.').map(str::parse);
    Some((parts.next()?.ok()?, parts.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_root": "/src", "target_directory": "/src/target",
        "packages": [
            {"name": "top", "rust_version": "1.95", "dependencies": [{"name": "middle"}]},
            {"name": "middle", "manifest_path": "/src/crates/middle/Cargo.toml", "rust_version": "1.90", "dependencies": [{"name": "burn-wgpu"}, {"name": "top"}]},
            {"name": "pure", "publish": [], "rust_version": null, "dependencies": [{"name": "serde"}, {"name": "leaf"}]},
            {"name": "leaf", "dependencies": []}
        ]}"#;

    #[test]
    fn pure_crates_are_those_that_never_reach_a_gpu() {
        let workspace = Workspace::from_metadata(METADATA).unwrap();
        assert_eq!(workspace.pure_crates(), ["leaf", "pure"]);
        assert_eq!(
            workspace.folder("middle").unwrap(),
            Path::new("/src/crates/middle")
        );
        assert!(workspace.folder("serde").is_none());
        let published: Vec<_> = workspace.published_crates().collect();
        assert_eq!(published, ["leaf", "middle", "top"]);
        assert_eq!(workspace.rust, (1, 95));
        assert_eq!(workspace.web(), Path::new("/src/web"));
    }

    #[test]
    fn metadata_without_folders_is_an_error() {
        assert!(Workspace::from_metadata("{}").is_err());
        assert!(Workspace::from_metadata("nothing").is_err());
    }

    #[test]
    fn versions_are_read_wherever_they_stand() {
        assert_eq!(version("1.95"), Some((1, 95)));
        assert_eq!(
            version("rustc 1.96.0 (ac68faa20 2026-05-25)"),
            Some((1, 96))
        );
        assert_eq!(version("v20.20.2"), Some((20, 20)));
        assert_eq!(version("unknown"), None);
    }
}
