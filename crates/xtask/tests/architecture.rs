//! Checks the diagram in ARCHITECTURE.md: every arrow between crates is a dependency, and every
//! dependency is an arrow or follows from several. (`web/src/testing/arrows.test.ts` checks the
//! page's folders.) Every file that the documents name exists.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

type Arrows = BTreeSet<(String, String)>;

/// Arrows between crates in a mermaid diagram, by the crates' folders.
fn drawn(text: &str) -> Arrows {
    let drawing = text.split("```mermaid").nth(1).unwrap_or_default();
    let drawing = drawing.split("```").next().unwrap_or_default();
    let mut folders = BTreeMap::new();
    let mut arrows = Vec::new();
    for line in drawing.lines() {
        // `id["crates/NAME — …"]` names a node, at either end of an arrow.
        let ends: Vec<String> = line
            .split("-->")
            .map(|end| {
                // Text before the id belongs to another kind of arrow.
                let id = end.split('[').next().unwrap_or_default();
                let id = id.split_whitespace().last().unwrap_or_default();
                if let Some((_, label)) = end.split_once("[\"crates/") {
                    let name = label.split(|c: char| !c.is_alphanumeric() && c != '-');
                    folders.insert(id.to_owned(), name.take(1).collect::<String>());
                }
                id.to_owned()
            })
            .collect();
        if let [from, to] = ends.as_slice() {
            arrows.push((from.clone(), to.clone()));
        }
    }
    let folder = |id: &String| folders.get(id).cloned();
    let between = arrows.iter();
    between
        .filter_map(|(from, to)| Some((folder(from)?, folder(to)?)))
        .collect()
}

/// Dependencies between crates of the workspace, except those of tests.
fn built() -> Arrows {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let output = cargo.output().expect("cargo runs").stdout;
    let output: Value = serde_json::from_slice(&output).expect("cargo prints JSON");
    let folder = |name: &str| name.strip_prefix("conclave-").map(str::to_owned);
    let mut arrows = Arrows::new();
    for package in output["packages"].as_array().expect("there are packages") {
        let from = folder(package["name"].as_str().unwrap_or_default());
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let to = folder(dependency["name"].as_str().unwrap_or_default());
            // Features' dependencies are not in the default tool, but each is in one of the page's
            // modules; tests' dependencies are in none.
            let linked = dependency["optional"] == false || from.as_deref() == Some("wasm");
            let plain = dependency["kind"].is_null() && linked;
            if let (Some(from), Some(to), true) = (from.clone(), to, plain) {
                arrows.insert((from, to));
            }
        }
    }
    arrows
}

/// Returns whether arrows lead from one to the other.
fn leads(arrows: &Arrows, from: &str, to: &str) -> bool {
    let next = arrows.iter().filter(|(begin, _)| begin == from);
    let mut ends = next.map(|(_, end)| end);
    ends.any(|end| end == to || leads(arrows, end, to))
}

#[test]
fn the_drawing_is_true_to_the_crates() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../ARCHITECTURE.md");
    let drawn = drawn(&std::fs::read_to_string(file).expect("ARCHITECTURE.md is there"));
    let built = built();
    let untrue: Vec<_> = drawn.difference(&built).collect();
    assert!(untrue.is_empty(), "no crate depends so: {untrue:?}");
    let missing: Vec<_> = built
        .iter()
        .filter(|(from, to)| !leads(&drawn, from, to))
        .collect();
    assert!(missing.is_empty(), "not drawn: {missing:?}");
    assert!(drawn.len() > 15, "the drawing was found: {drawn:?}");
    assert!(!leads(&built, "tool", "burn"), "the tool has burn in it");
}

/// Crates that the page's module of a feature of `crates/wasm` has in it.
fn linked(feature: &str) -> BTreeSet<String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["tree", "--package", "conclave-wasm", "--edges", "normal"]);
    cargo.args(["--target", "wasm32-unknown-unknown", "--prefix", "none"]);
    cargo.args(["--no-default-features", "--features", feature]);
    let output = cargo.output().expect("cargo runs");
    let lines = String::from_utf8(output.stdout).expect("it is text");
    let names = lines
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    names.map(str::to_owned).collect()
}

#[test]
fn only_the_open_core_has_burn_in_it() {
    let burn = |crates: &BTreeSet<String>| crates.iter().any(|name| name.starts_with("burn"));
    let [fused, grammar, remote, open] = ["fused", "grammar", "remote", "burn"].map(linked);
    assert!(
        fused.contains("conclave-kernels") && !burn(&fused),
        "{fused:?}"
    );
    assert!(
        grammar.contains("llguidance") && !burn(&grammar),
        "{grammar:?}"
    );
    assert!(
        remote.contains("conclave-remote") && !remote.contains("ureq") && !burn(&remote),
        "{remote:?}"
    );
    assert!(open.contains("conclave-burn") && burn(&open), "{open:?}");
}

/// Words of a text that name a file of the checkout; placeholders such as `NAME.rs` do not.
fn files_named(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !(c.is_alphanumeric() || "/._-".contains(c)));
    parts.map(|word| word.trim_end_matches('.')).filter(|word| {
        let folders = [
            "crates/",
            "web/src/",
            "web/tests/",
            "web/scripts/",
            "shaders/",
            "tests/",
            "docs/",
        ];
        let endings = [".rs", ".ts", ".mjs", ".wgsl", ".py", ".md", ".json"];
        folders.iter().any(|folder| word.starts_with(folder))
            && endings.iter().any(|ending| word.ends_with(ending))
            && !word.contains("NAME")
    })
}

#[test]
fn the_documents_name_files_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folders = [root.join("docs"), root.join("docs/architecture")];
    let docs = folders.map(|folder| std::fs::read_dir(folder).expect("there are docs"));
    let files = docs.into_iter().flatten();
    let files = files.map(|file| file.expect("it can be read").path());
    let documents = files.filter(|file| file.extension().is_some_and(|ending| ending == "md"));
    let first = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "web/README.md",
    ];
    let documents = documents.chain(first.map(|name| root.join(name)));
    let mut seen = 0;
    for document in documents {
        let text = std::fs::read_to_string(&document).expect("it is text");
        // Links in a document are relative to its folder.
        let here = document.parent().expect("it is in a folder");
        for file in files_named(&text) {
            seen += 1;
            let there = root.join(file).exists() || here.join(file).exists();
            assert!(there, "{} names {file}", document.display());
        }
    }
    assert!(seen > 60, "{seen} files are named");
}

/// Numbers and quotations in the documents match their sources.
#[test]
fn the_documents_state_what_is_so() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |file: &str| std::fs::read_to_string(root.join(file)).expect("it is text");
    let between = |file: &str, before: &str, after: &str| {
        let text = read(file);
        let (_, text) = text.split_once(before).expect(before);
        let (text, _) = text.split_once(after).expect(after);
        text.to_owned()
    };
    let families = std::fs::read_dir(root.join("crates/model/src/families"));
    // One file per family, and the list of them.
    assert_eq!(families.expect("it is a folder").count() - 1, 22);
    let rust = between("Cargo.toml", "rust-version = \"", "\"");
    let node = between("web/package.json", "\"node\": \">=", "\"");
    assert!(read("crates/xtask/src/setup.rs").contains(&format!("NODE: u32 = {node};")));
    let toolchain = format!("[rustup's Rust](https://rustup.rs) {rust} or newer");
    let runtime = format!("[Node](https://nodejs.org) {node} or newer");
    let policy = between(
        "web/index.html",
        "Content-Security-Policy\" content=\"",
        "\"",
    );
    for (document, said) in [
        ("README.md", "twenty-two families"),
        ("CHANGELOG.md", "twenty-two families"),
        ("crates/model/Cargo.toml", "twenty-two families"),
        ("docs/models.md", "Twenty-two families"),
        ("README.md", &toolchain),
        ("CONTRIBUTING.md", &toolchain),
        ("README.md", &runtime),
        ("CONTRIBUTING.md", &runtime),
        ("docs/embedding.md", &policy),
    ] {
        assert!(read(document).contains(said), "{document}: {said}");
    }
}
