//! `cargo xtask demo`: from a fresh checkout to the page on this machine.

use std::io::{BufRead, BufReader, IsTerminal, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::toolchain::Toolchain;
use crate::wasm::Module;
use crate::workspace::Workspace;
use crate::{policy, process, setup, wasm};

/// Sets up, builds, and serves until Ctrl-C.
pub fn run(workspace: &Workspace, port: u16, open: bool) -> Result<()> {
    let toolchain = Toolchain::ready(workspace)?;
    setup::web(workspace)?;
    // Served as here, the page is isolated and requests no other module.
    wasm::build(workspace, &toolchain, Module::SHARED)?;
    wasm::build(workspace, &toolchain, Module::GRAMMAR)?;
    wasm::build(workspace, &toolchain, Module::REMOTE)?;
    page(workspace)?;
    let html = std::fs::read_to_string(workspace.page().join("index.html"))
        .context("the build of web/ made no web/dist/index.html")?;
    let mut server = serve(workspace, port, &policy::headers(&policy::of_page(&html)?))?;
    let address = server.address()?;
    println!("\nConclave is at {address}  (Ctrl-C ends it)");
    if open {
        show(&address);
    }
    open_core(workspace, &toolchain);
    server.wait()
}

/// Server of the page; killed when dropped.
struct Server {
    program: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

/// Serves `web/dist` at `port`, or at a free port if it is taken, with `headers` on every response.
fn serve(workspace: &Workspace, port: u16, headers: &[(String, String)]) -> Result<Server> {
    let headers: serde_json::Map<_, _> = headers
        .iter()
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    let mut program = Command::new("node")
        .arg("scripts/serve.mjs")
        .arg(workspace.page())
        .arg(port.to_string())
        .arg(serde_json::Value::from(headers).to_string())
        .current_dir(workspace.web())
        .stdout(Stdio::piped())
        .spawn()
        .context("node does not start")?;
    let lines = program.stdout.take().context("node has no output")?;
    Ok(Server {
        program,
        lines: BufReader::new(lines).lines(),
    })
}

impl Server {
    /// Reads the address that it listens at.
    fn address(&mut self) -> Result<String> {
        for line in &mut self.lines {
            let line = line?;
            if line.starts_with("http://") {
                return Ok(line);
            }
            println!("{line}");
        }
        bail!("the server of the page ended; what it says is above")
    }

    /// Serves until the server exits.
    fn wait(&mut self) -> Result<()> {
        let status = self.program.wait()?;
        match status.success() {
            true => Ok(()),
            false => bail!("the server of the page ended: {status}"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have exited already.
        let _ = self.program.kill();
    }
}

/// Builds the open core while the page is served: burn takes some minutes the first time, and
/// ordinary visits don't need it.
fn open_core(workspace: &Workspace, toolchain: &Toolchain) {
    println!("The open core (?core=burn) is being built meanwhile.");
    // Rebuilt, because its service worker knows every file by its content.
    let built = wasm::build(workspace, toolchain, Module::BURN).and_then(|()| page(workspace));
    match built {
        Ok(()) => println!("The open core is there."),
        Err(error) => println!("The open core could not be built; all else works. {error:#}"),
    }
}

/// Builds the page into `web/dist`.
pub fn page(workspace: &Workspace) -> Result<()> {
    process::run(
        Command::new("npm")
            .args(["run", "--silent", "build"])
            .current_dir(workspace.web()),
    )
}

/// Opens the address in a browser on a desktop; elsewhere does nothing.
fn show(address: &str) {
    let desktop = ["DISPLAY", "WAYLAND_DISPLAY"]
        .iter()
        .any(|name| std::env::var_os(name).is_some());
    let program = match std::env::consts::OS {
        "macos" => "open",
        _ if desktop => "xdg-open",
        _ => return,
    };
    if std::env::var_os("CI").is_none() && std::io::stdout().is_terminal() {
        let _ = Command::new(program)
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
    }
}
