//! `conclave serve`: the ensemble through OpenAI's interface.

use conclave_ensemble::Settings;
use conclave_model::SAMPLING_OPTIONS;
use conclave_rounds::AnyMember;
use conclave_serve::{Config, Ensemble, Server, name_apart};
use serde_json::json;
use tracing::Level;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::args;
use crate::device::Device;
use crate::failure::Failure;
use crate::members;
use crate::print;
use crate::progress::{say, tell_remote};

/// Environment variable of the key, if the command line has none.
const KEY: &str = "CONCLAVE_KEY";

/// Runs the command on `device` until a signal ends it. `json`: its address is printed as JSON.
pub fn run(serve: &args::Serve, device: &Device, json: bool) -> Result<(), Failure> {
    let settings = serve.method.settings(Settings::default());
    let ensemble = Ensemble {
        settings: serve.method.limited(Ensemble::without_limits(settings)),
        sampling: serve.drawing.sampling(),
        thinking: serve.members.thinking,
    };
    // Fails before gigabytes are read if a setting is none, or the address is taken.
    args::check(&ensemble.settings)?;
    for option in &SAMPLING_OPTIONS {
        let value = (option.value)(&ensemble.sampling);
        if value > option.usual {
            return Err(Failure::Usage(format!(
                "--{} {value}: choose a number from 0 to {}, as requests may",
                option.flag(),
                option.usual
            )));
        }
    }
    let server = Server::bind(Config {
        host: serve.host.clone(),
        port: serve.port,
        key: serve.key.clone().or_else(key),
        origins: serve.origins.clone(),
        waiting: serve.waiting,
    })?;
    log_requests();
    let mut members = members::load_any(&serve.members, device)?;
    let names = name_apart(&mut members);
    for member in &members {
        if let AnyMember::Remote(member) = member {
            tell_remote(member);
        }
    }
    say(&format!(
        "{} on {}. Ctrl-C ends.",
        names.join(", "),
        device.name
    ));
    let address = format!("http://{}/v1", server.address());
    let line = match json {
        true => json!({ "address": address, "members": names }).to_string(),
        false => address,
    };
    // Whoever started it may not listen.
    let _ = print(&format!("{line}\n"));
    Ok(server.run(&mut members, &ensemble, shutdown_signal())?)
}

/// Logs a line a request on standard error. Lines that can't be written (a closed pipe, a full
/// disk) are lost.
fn log_requests() {
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(false)
        .with_target(false)
        // Otherwise it panics over an error of writing.
        .log_internal_errors(false)
        .with_filter(Targets::new().with_target("conclave_serve", Level::INFO));
    // Fails where a program has set its own.
    let _ = tracing_subscriber::registry().with(lines).try_init();
}

/// The environment's key, if there is one.
fn key() -> Option<String> {
    std::env::var(KEY).ok().filter(|key| !key.is_empty())
}

/// Waits for Ctrl-C, or for SIGTERM where it exists. A second signal ends the program immediately.
async fn shutdown_signal() {
    let mut signals = Signals::new();
    signals.next().await;
    say("The answer on its way may end. Ctrl-C again ends it now.");
    tokio::spawn(async move {
        signals.next().await;
        std::process::exit(130);
    });
}

/// Signals to end, heard from the first on without a gap.
#[cfg(unix)]
struct Signals(Vec<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Signals {
    fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        // An unhandled signal ends the program as usual.
        let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
        Self(
            kinds
                .into_iter()
                .filter_map(|kind| signal(kind).ok())
                .collect(),
        )
    }

    async fn next(&mut self) {
        std::future::poll_fn(|context| {
            let mut over = false;
            for signal in &mut self.0 {
                over |= signal.poll_recv(context).is_ready();
            }
            match over {
                true => std::task::Poll::Ready(()),
                false => std::task::Poll::Pending,
            }
        })
        .await;
    }
}

#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    fn new() -> Self {
        Self
    }

    async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}
