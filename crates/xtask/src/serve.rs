//! Tests of `conclave serve` with OpenAI's own clients for Node and Python, unmodified.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// Key of the test server, which runs on this machine only, for some seconds.
pub const KEY: &str = "the-key-of-the-tests";

/// Environment variables that give the clients their server and its key.
pub const SERVER: &str = "CONCLAVE_SERVER";
pub const KEY_NAME: &str = "CONCLAVE_KEY";

/// Server of an ensemble of the bundled members; killed when dropped.
pub struct Server {
    program: Child,
    /// Base URL for clients.
    pub url: String,
}

impl Server {
    /// Starts a built `conclave` on a free port.
    pub fn start(conclave: &Path) -> Result<Self> {
        let mut command = Command::new(conclave);
        command.args(["serve", "--device", "cpu", "--port", "0"]);
        command
            .env(KEY_NAME, KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut program = command
            .spawn()
            .with_context(|| format!("{} did not start", conclave.display()))?;
        let output = program.stdout.take().context("its output is piped")?;
        let mut server = Self {
            program,
            url: String::new(),
        };
        // It prints its address once its members are loaded.
        BufReader::new(output).read_line(&mut server.url)?;
        server.url = server.url.trim().to_owned();
        anyhow::ensure!(
            !server.url.is_empty(),
            "conclave serve ended before it served"
        );
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

/// Path of the tool as Cargo builds it for tests; builds it first if `build`.
pub fn tool(workspace: &Workspace, build: bool) -> Result<PathBuf> {
    if build {
        let mut cargo = Command::new(process::cargo());
        cargo.args(["build", "--package", "conclave-cli"]);
        process::run(cargo.current_dir(&workspace.root))?;
    }
    let name = format!("conclave{}", std::env::consts::EXE_SUFFIX);
    Ok(workspace.target.join("debug").join(name))
}
