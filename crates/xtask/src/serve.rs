//! Tests of `conclave serve` with OpenAI's own clients for Node and Python, unmodified.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};

use crate::process;
use crate::workspace::Workspace;

/// Key of the test server, which runs on this machine only, for some seconds.
const KEY: &str = "the-key-of-the-tests";

/// Environment variables that give the clients their server, its key and its process.
const SERVER: &str = "CONCLAVE_SERVER";
const KEY_NAME: &str = "CONCLAVE_KEY";
const PROCESS: &str = "CONCLAVE_SERVER_ID";
const INNER: &str = "CONCLAVE_INNER";
const INNER_PROCESS: &str = "CONCLAVE_INNER_ID";

/// Server of an ensemble of the bundled members; killed when dropped.
pub struct Server {
    program: Child,
    /// Base URL for clients.
    url: String,
}

impl Server {
    /// Starts a built `conclave` on a free port; beside it lies its log, a line a request.
    pub fn start(conclave: &Path) -> Result<Self> {
        let mut command = Command::new(conclave);
        command.arg("serve");
        Self::start_as(command, "serve.log")
    }

    /// Starts an ensemble of this server's and a bundled member: a chain of two.
    pub fn chained(&self, workspace: &Workspace, conclave: &Path) -> Result<Self> {
        let near = workspace.web().join("members/ada.gguf");
        let members = format!("{},{}#conclave", near.display(), self.url);
        let patient = ["--members", &members, "--patience", "60"];
        let host = self.url.trim_start_matches("http://");
        let host = host.trim_end_matches("/v1").to_uppercase();
        let key = format!("CONCLAVE_KEY_{}", host.replace(['.', ':'], "_"));
        let mut command = Command::new(conclave);
        command.arg("serve").args(patient).env(key, KEY);
        Self::start_as(command, "serve-chain.log")
    }

    fn start_as(mut command: Command, log: &str) -> Result<Self> {
        let log = Path::new(command.get_program()).with_file_name(log);
        command.args(["--device", "cpu", "--port", "0"]);
        command
            .env(KEY_NAME, KEY)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(File::create(&log)?);
        let mut program = command
            .spawn()
            .with_context(|| format!("{} did not start", process::describe(&command)))?;
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
            "conclave serve ended before it served; {} has the reason",
            log.display()
        );
        Ok(server)
    }

    /// Names this server to a command.
    pub fn name_to<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let process = self.program.id().to_string();
        command
            .env(SERVER, &self.url)
            .env(KEY_NAME, KEY)
            .env(PROCESS, process)
    }

    /// Names this server to a command that asks another, which asks this one.
    pub fn name_as_inner<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        let process = self.program.id().to_string();
        command.env(INNER, &self.url).env(INNER_PROCESS, process)
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
        let mut cargo = process::cargo();
        cargo.args(["build", "--package", "conclave-tool"]);
        process::run(cargo.current_dir(&workspace.root))?;
    }
    let name = format!("conclave{}", std::env::consts::EXE_SUFFIX);
    Ok(workspace.target.join("debug").join(name))
}
