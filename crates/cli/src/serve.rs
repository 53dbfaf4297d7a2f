//! `conclave serve`: the ensemble behind OpenAI's interface.

use conclave_ensemble::Settings;
use conclave_rounds::TakePart;
use conclave_serve::{Config, Ensemble, Server};

use crate::args;
use crate::device::Device;
use crate::failure::Failure;
use crate::members;
use crate::print;
use crate::progress::tell_remote;

/// Environment variable of the key, if the command line has none.
const KEY: &str = "CONCLAVE_KEY";

/// Runs the command on `device` until a signal ends it.
pub fn run(serve: &args::Serve, device: &Device) -> Result<(), Failure> {
    // Fails before gigabytes are read if the address is taken.
    let server = Server::bind(Config {
        host: serve.host,
        port: serve.port,
        key: serve.key.clone().or_else(key),
        origins: serve.origins.clone(),
        waiting: serve.waiting,
    })?;
    let mut members = members::load_any(&serve.members, device, tell_remote)?;
    let names: Vec<_> = members.iter().map(TakePart::name).collect();
    eprintln!("{} on {}. Ctrl-C ends.", names.join(", "), device.name);
    print(&format!("http://{}/v1\n", server.address()))?;
    let ensemble = Ensemble {
        settings: serve.method.settings(Settings::default()),
        sampling: serve.drawing.sampling(),
    };
    Ok(server.run(&mut members, &ensemble, shutdown_signal())?)
}

/// The environment's key, if there is one.
fn key() -> Option<String> {
    std::env::var(KEY).ok().filter(|key| !key.is_empty())
}

/// Waits for Ctrl-C, or for SIGTERM where it exists. A second signal ends the program immediately.
async fn shutdown_signal() {
    signal().await;
    eprintln!("The answer on its way may end. Ctrl-C again ends it now.");
    tokio::spawn(async {
        signal().await;
        std::process::exit(130);
    });
}

#[cfg(unix)]
async fn signal() {
    use tokio::signal::unix::{SignalKind, signal};
    // An unhandled signal ends the program as usual.
    let mut interrupted = signal(SignalKind::interrupt()).ok();
    let mut terminated = signal(SignalKind::terminate()).ok();
    std::future::poll_fn(|context| {
        let mut over = false;
        for signal in [&mut interrupted, &mut terminated].into_iter().flatten() {
            over |= signal.poll_recv(context).is_ready();
        }
        match over {
            true => std::task::Poll::Ready(()),
            false => std::task::Poll::Pending,
        }
    })
    .await;
}

#[cfg(not(unix))]
async fn signal() {
    if tokio::signal::ctrl_c().await.is_err() {
        std::future::pending::<()>().await;
    }
}
