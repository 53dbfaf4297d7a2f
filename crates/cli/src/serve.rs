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

/// Where a key may be, if the command line has none.
const KEY: &str = "CONCLAVE_KEY";

/// Runs the command on `device` until the program is told to end.
///
/// # Errors
/// What loading reports, or why there is no server.
pub fn run(serve: &args::Serve, device: &Device) -> Result<(), Failure> {
    // An address that is taken is told before gigabytes are read.
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
        thinking: serve.members.thinking,
    };
    Ok(server.run(&mut members, &ensemble, told_to_end())?)
}

/// The environment's key, if there is one.
fn key() -> Option<String> {
    std::env::var(KEY).ok().filter(|key| !key.is_empty())
}

/// Waits for Ctrl-C, or for SIGTERM where there is such a thing. The second one ends the program at
/// once.
async fn told_to_end() {
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
    // One that can't be heard ends the program as it does any other.
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
