//! llama.cpp's server in a process of its own.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The file of a bundled member.
pub fn bundled(name: &str) -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/members");
    Path::new(folder).join(format!("{}.gguf", name.to_lowercase()))
}

/// The published SmolLM2-135M-Instruct, whose weights are Q4_1, those of its embedding Q8_0.
pub const SMOLLM2: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";

/// The published Gemma 3 270M, a base model.
pub const GEMMA: &str = "gemma-3-270m-q4_k_m.gguf";

/// The file of a published model.
pub fn published(file: &str) -> PathBuf {
    let folder = std::env::var_os("CONCLAVE_PUBLISHED").expect(
        "CONCLAVE_PUBLISHED names no folder; `cargo xtask test --only remote` fetches the models \
         and sets it",
    );
    Path::new(&folder).join(file)
}

/// A model with plain numbers, in which both engines compute alike.
pub fn plain(model: &Path) -> PathBuf {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/remote/plain.py");
    let name = model.file_stem().expect("it is a file").to_string_lossy();
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-f32.gguf"));
    let written = Command::new(python())
        .arg(script)
        .arg(model)
        .arg(&file)
        .status();
    assert!(written.expect("it starts").success());
    file
}

fn python() -> std::ffi::OsString {
    std::env::var_os("CONCLAVE_LLAMA_PYTHON")
        .expect("CONCLAVE_LLAMA_PYTHON names a Python that has llama.cpp's server")
}

/// A running server, stopped on drop.
pub struct Llama {
    process: Child,
    /// `http://127.0.0.1:PORT/v1`.
    pub url: String,
}

impl Llama {
    pub fn start(model: &Path, key: Option<&str>) -> Self {
        Self::start_on(model, key, 0)
    }

    /// On this port; on a free one if it is 0.
    pub fn start_on(model: &Path, key: Option<&str>, port: u16) -> Self {
        let python = python();
        let script = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/remote/llama_server.py"
        );
        let mut command = Command::new(python);
        command
            .arg(script)
            .arg(model)
            .arg("--port")
            .arg(port.to_string());
        if let Some(key) = key {
            command.args(["--key", key]);
        }
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = piped.stderr(Stdio::null()).spawn().expect("it starts");
        let mut line = String::new();
        let output = process.stdout.as_mut().expect("it is piped");
        BufReader::new(output)
            .read_line(&mut line)
            .expect("it says where it is");
        let address = line.trim();
        assert!(address.starts_with("http://"), "{address:?}");
        Self {
            process,
            url: format!("{address}/v1"),
        }
    }

    pub fn port(&self) -> u16 {
        let address = self.url.trim_end_matches("/v1");
        address
            .rsplit(':')
            .next()
            .and_then(|port| port.parse().ok())
            .expect("it has a port")
    }

    /// Kills it at once.
    pub fn stop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Llama {
    fn drop(&mut self) {
        self.stop();
    }
}
