//! `cargo xtask demo`: from a fresh checkout to the page on this machine.

use std::io::IsTerminal;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};

use crate::serve::Server;
use crate::toolchain::Toolchain;
use crate::workspace::Workspace;
use crate::{policy, process, setup, wasm};

/// Sets up, builds, and serves until Ctrl-C.
///
/// # Errors
/// When anything before serving fails.
pub fn run(workspace: &Workspace, port: u16, open: bool) -> Result<()> {
    let toolchain = Toolchain::ready(workspace)?;
    setup::web(workspace)?;
    wasm::build(workspace, &toolchain)?;
    page(workspace)?;
    let html = std::fs::read_to_string(workspace.page().join("index.html"))
        .context("the build of web/ made no web/dist/index.html")?;
    let server = Server::open(
        &workspace.page(),
        port,
        policy::headers(&policy::of_page(&html)?),
    )?;
    let address = server.address()?;
    if address.port() != port {
        println!("Port {port} is taken.");
    }
    println!("\nConclave is at http://{address}/  (Ctrl-C ends it)");
    if open {
        show(&format!("http://{address}/"));
    }
    server.serve();
    Ok(())
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
