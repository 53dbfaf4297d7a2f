//! Compiled tests of the workspace, as programs that can run on another Vulkan driver.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process;
use crate::workspace::Workspace;

/// A compiled test program and its working directory.
#[derive(Debug, PartialEq, Eq)]
pub struct TestProgram {
    /// Name of the test file, or of the crate for unit tests.
    pub name: String,
    pub file: PathBuf,
    pub folder: PathBuf,
}

/// Builds all tests of the workspace and returns their programs.
pub fn built(workspace: &Workspace) -> Result<Vec<TestProgram>> {
    let output = process::cargo()
        .args(["test", "--workspace", "--no-run"])
        .arg("--message-format=json-render-diagnostics")
        .current_dir(&workspace.root)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .context("cargo did not start")?;
    if !output.status.success() {
        bail!("the tests do not compile; the compiler's message is above");
    }
    Ok(read_programs(&String::from_utf8_lossy(&output.stdout)))
}

/// Extracts test programs from Cargo's messages, one JSON object per line.
fn read_programs(messages: &str) -> Vec<TestProgram> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["profile"]["test"] == true)
        .filter_map(|message| {
            let manifest = Path::new(message["manifest_path"].as_str()?);
            Some(TestProgram {
                name: message["target"]["name"].as_str()?.to_owned(),
                file: message["executable"].as_str()?.into(),
                folder: manifest.parent()?.to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_programs_are_taken_from_cargos_messages() {
        let messages = r#"
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","target":{"name":"a"},"profile":{"test":true},"executable":"/t/a-1"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/a/Cargo.toml","profile":{"test":false},"executable":"/t/a"}
{"reason":"compiler-artifact","manifest_path":"/w/crates/b/Cargo.toml","profile":{"test":true},"executable":null}
not json
{"reason":"build-finished","success":true}"#;
        let expected = TestProgram {
            name: "a".to_owned(),
            file: "/t/a-1".into(),
            folder: "/w/crates/a".into(),
        };
        assert_eq!(read_programs(messages), [expected]);
    }
}
