//! Checks that crates can be published: what their manifests say, their READMEs, their versions,
//! and that each packed crate has every file that it includes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use pulldown_cmark::{Event, Parser, Tag};
use serde_json::Value;

/// Crates for this repository only.
const OWN: [&str; 2] = ["conclave-wasm", "conclave-xtask"];

/// A packed crate on crates.io has at most as many bytes; here they count unpacked.
const MOST_BYTES: u64 = 10 << 20;

fn cargo(arguments: &[&str]) -> String {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let output = cargo.args(arguments).output().expect("cargo runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "cargo {arguments:?}: {said}");
    String::from_utf8(output.stdout).expect("cargo writes UTF-8")
}

/// Crates that a registry may have, as Cargo's metadata.
fn published() -> Vec<Value> {
    let text = cargo(&[
        "metadata",
        "--no-deps",
        "--offline",
        "--format-version",
        "1",
    ]);
    let mut metadata: Value = serde_json::from_str(&text).expect("cargo prints JSON");
    let Value::Array(packages) = metadata["packages"].take() else {
        panic!("there are no packages");
    };
    let (published, own): (Vec<_>, Vec<_>) = packages
        .into_iter()
        .partition(|package| package["publish"].is_null());
    let own: Vec<_> = own.iter().filter_map(|one| one["name"].as_str()).collect();
    assert_eq!(own, OWN);
    published
}

#[test]
fn every_manifest_says_what_a_registry_shows() {
    for package in published() {
        let name = &package["name"];
        for key in [
            "description",
            "license",
            "repository",
            "homepage",
            "readme",
            "rust_version",
        ] {
            assert!(package[key].is_string(), "{name} has no {key}");
        }
        // Limits of crates.io.
        for (key, most) in [("keywords", 5), ("categories", 5)] {
            let list = package[key].as_array().expect("it is a list");
            assert!((1..=most).contains(&list.len()), "{name}: {key} {list:?}");
        }
        let keywords = package["keywords"].as_array().into_iter().flatten();
        for word in keywords.filter_map(Value::as_str) {
            assert!(word.len() <= 20, "{name}: {word}");
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let wanted = dependency["req"].as_str().unwrap_or_default();
            assert_ne!(wanted, "*", "{name} needs any {}", dependency["name"]);
        }
    }
}

/// Targets of a document's links and pictures, except for addresses: a registry has only the text.
fn relative_targets(text: &str) -> Vec<String> {
    Parser::new(text)
        .filter_map(|event| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some(dest_url.into_string())
            }
            _ => None,
        })
        .filter(|target| !target.starts_with("https://"))
        .collect()
}

#[test]
fn every_crate_has_a_readme_that_a_registry_can_show() {
    for package in published() {
        let name = package["name"].as_str().expect("it has a name");
        assert_eq!(package["readme"], "README.md", "{name}");
        let manifest = Path::new(package["manifest_path"].as_str().expect("it has a path"));
        let text = std::fs::read_to_string(manifest.with_file_name("README.md"));
        let text = text.unwrap_or_else(|error| panic!("{name} has no README.md: {error}"));
        let title = format!("# {name}");
        assert_eq!(text.lines().next(), Some(title.as_str()));
        let relative = relative_targets(&text);
        assert!(
            relative.is_empty(),
            "{name}: README.md links to {relative:?}"
        );
    }
}

#[test]
fn relative_targets_are_found() {
    let text = "# A\n\n[a](b.md) [c](https://d.e/f.md) `[g](h.md)` [i](#a) [j]\n\n\
        [![k](l.png)](https://m.n) <https://o.p>\n\n[j]: ../q.md\n";
    assert_eq!(relative_targets(text), ["b.md", "#a", "../q.md", "l.png"]);
}

/// One version, wherever a manifest has to repeat it.
#[test]
fn every_version_is_that_of_the_workspace() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).expect("it is text");
    let manifest = read("Cargo.toml");
    let version = manifest
        .lines()
        .find_map(|line| line.strip_prefix("version = "));
    let version = version.expect("the workspace has one");
    // A path without a version can't be published.
    let own: Vec<_> = manifest
        .lines()
        .filter(|line| line.contains("path = \"crates/"))
        .collect();
    assert!(own.len() > 10, "{own:?}");
    for line in own {
        assert!(line.contains(&format!("version = {version}")), "{line}");
    }
    for file in ["web/package.json", "web/package-lock.json"] {
        let json: Value = serde_json::from_str(&read(file)).expect("it is JSON");
        assert_eq!(json["version"].to_string(), version, "{file}");
    }
    let number = version.trim_matches('"');
    assert!(read("CHANGELOG.md").contains(&format!("## [{number}]")));
}

/// Files of a folder and of those in it, by their paths from `root`.
fn files_in(root: &Path, folder: &Path, files: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("it is a folder") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            files_in(root, &path, files);
        } else {
            let from_root = path.strip_prefix(root).expect("it is below");
            files.insert(from_root.to_string_lossy().replace('\\', "/"));
        }
    }
}

/// Relative paths that a source includes outside of its tests.
fn included(source: &str) -> Vec<&str> {
    let (code, _) = source.split_once("#[cfg(test)]").unwrap_or((source, ""));
    let mut names = Vec::new();
    for mark in ["include_str!(\"", "include_bytes!(\"", "#[path = \""] {
        let parts = code.split(mark).skip(1);
        names.extend(parts.filter_map(|part| part.split('"').next()));
    }
    names
}

/// A path without `..`.
fn plain(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part.as_os_str().to_string_lossy().into_owned() {
            up if up == ".." && parts.last().is_some_and(|last| last != "..") => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

#[test]
fn every_packed_crate_has_what_it_includes() {
    let mut linked = Vec::new();
    for package in published() {
        let name = package["name"].as_str().expect("it has a name");
        let manifest = PathBuf::from(package["manifest_path"].as_str().expect("it has a path"));
        let folder = manifest.parent().expect("it is in a folder");
        let text = cargo(&[
            "package",
            "--list",
            "--allow-dirty",
            "--offline",
            "--package",
            name,
        ]);
        let packed: BTreeSet<_> = text.lines().map(|line| line.replace('\\', "/")).collect();
        for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
            assert!(packed.contains(file), "{name} is packed without {file}");
        }
        // Folders of the repository that a crate links to: shaders, the bundled members.
        for entry in std::fs::read_dir(folder).expect("it is a folder") {
            let link = entry.expect("it can be read").path();
            if !link.is_symlink() || !link.is_dir() {
                continue;
            }
            linked.push(link.strip_prefix(folder).expect("below").to_path_buf());
            let mut needed = BTreeSet::new();
            files_in(folder, &link, &mut needed);
            let missing: Vec<_> = needed.difference(&packed).collect();
            assert!(missing.is_empty(), "{name} is packed without {missing:?}");
        }
        let mut bytes = 0;
        for file in &packed {
            let path = folder.join(file);
            bytes += path.metadata().map_or(0, |file| file.len());
            if !file.ends_with(".rs") {
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("it is text");
            for other in included(&source) {
                let other = plain(&Path::new(file).with_file_name(other));
                assert!(packed.contains(&other), "{name}: {file} includes {other}");
            }
        }
        assert!(bytes < MOST_BYTES, "{name} has {bytes} bytes");
    }
    linked.sort();
    assert_eq!(linked, [Path::new("members"), Path::new("shaders")]);
}

#[test]
fn what_a_source_includes_is_found() {
    let source = "const A: &str = include_str!(\"a/b.txt\");\n#[path = \"../c.rs\"]\nmod c;\n\
        #[cfg(test)]\nconst D: &[u8] = include_bytes!(\"../../d\");";
    assert_eq!(included(source), ["a/b.txt", "../c.rs"]);
    assert_eq!(plain(Path::new("src/deep/../../x/y")), "x/y");
    assert_eq!(plain(Path::new("src/../../../x")), "../../x");
}
