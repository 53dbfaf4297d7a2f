//! `cargo xtask demo`: from a fresh checkout to the page on this machine.

use std::io::{BufRead, BufReader, IsTerminal, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::toolchain::Toolchain;
use crate::wasm::Module;
use crate::workspace::Workspace;
use crate::{policy, process, setup, wasm};

/// Sets up, builds, and serves until Ctrl-C.
///
/// # Errors
/// When anything before serving fails.
pub fn run(workspace: &Workspace, port: u16, open: bool) -> Result<()> {
    let toolchain = Toolchain::ready(workspace)?;
    setup::web(workspace)?;
    // Served as it is here, the page is isolated and asks for no other.
    wasm::build(workspace, &toolchain, Module::SHARED)?;
    wasm::build(workspace, &toolchain, Module::GRAMMAR)?;
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

/// The server of the page, a program of its own that ends with this one.
struct Server {
    program: Child,
    told: Lines<BufReader<ChildStdout>>,
}

/// Serves `web/dist` at `port`, or at a free one if that is taken, every answer with `headers`.
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
    let told = program.stdout.take().context("node has no output")?;
    Ok(Server {
        program,
        told: BufReader::new(told).lines(),
    })
}

impl Server {
    /// Where it listens.
    fn address(&mut self) -> Result<String> {
        for line in &mut self.told {
            let line = line?;
            if line.starts_with("http://") {
                return Ok(line);
            }
            println!("{line}");
        }
        bail!("the server of the page ended; what it says is above")
    }

    /// Serves until it is ended.
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
        // It may have ended by itself.
        let _ = self.program.kill();
    }
}

/// Builds the open core behind the page that is served already: burn takes some minutes the first
/// time, and no ordinary visit needs it.
fn open_core(workspace: &Workspace, toolchain: &Toolchain) {
    println!("The open core (?core=burn) is being built behind it.");
    // The page anew: its service worker knows every file by its content.
    let built = wasm::build(workspace, toolchain, Module::BURN).and_then(|()| page(workspace));
    match built {
        Ok(()) => println!("The open core is there."),
        Err(error) => println!("The open core could not be built; all else works. {error:#}"),
    }
}

/// Builds the page into `web/dist`.
///
/// # Errors
/// When npm fails.
pub fn page(workspace: &Workspace) -> Result<()> {
    process::run(
        Command::new("npm")
            .args(["run", "--silent", "build"])
            .current_dir(workspace.web()),
    )
}

/// Opens the address where there is a person at a desktop; silently not elsewhere.
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
