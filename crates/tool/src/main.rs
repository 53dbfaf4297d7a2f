//! `conclave`: the page's engine, natively. `models.rs` turns references into paths before a
//! command runs.

mod args;
mod bench;
mod chat;
mod credits;
mod device;
mod eval;
mod failure;
mod form;
mod inspect;
mod members;
mod models;
mod progress;
mod serve;
mod strengths;
mod tokens;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use conclave_ensemble::replay::{Run, replay};
use conclave_ensemble::{Rule, Settings};
use serde_json::Value;

use crate::args::{Cli, Command};
use crate::device::{Device, cores};
use crate::failure::Failure;
use crate::progress::say;

fn main() -> ExitCode {
    let mut cli = Cli::parse();
    let outcome = models::find(&mut cli).and_then(|()| pollster::block_on(run(&cli)));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("conclave: {failure}"));
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: &Cli) -> Result<(), Failure> {
    let threads = cli.threads.map_or_else(cores, usize::from);
    let answer = match &cli.command {
        Command::Chat(args) => {
            let device = Device::open(&cli.device, threads).await?;
            return chat::run(args, &device, cli.json).await;
        }
        Command::Serve(args) => {
            let device = Device::open(&cli.device, threads).await?;
            return serve::run(args, &device, cli.json);
        }
        Command::Eval(args) => {
            let evaluated = if args.report.is_empty() {
                // Concurrent questions use one thread each.
                let device = Device::open(&cli.device, 1).await?;
                eval::run(args, &device, threads)?
            } else {
                eval::report(args)?
            };
            if !cli.json {
                return print(&evaluated.table);
            }
            evaluated.report
        }
        Command::Bench(args) => {
            let device = Device::open(&cli.device, threads).await?;
            let (report, table) = bench::run(args, &device).await?;
            if !cli.json {
                return print(&table);
            }
            report
        }
        Command::Logits(args) => {
            tokens::logits(args, &Device::open(&cli.device, threads).await?).await?
        }
        Command::Generate(args) => {
            tokens::generate(args, &Device::open(&cli.device, threads).await?).await?
        }
        Command::Verify(args) => {
            tokens::verify(args, &Device::open(&cli.device, threads).await?).await?
        }
        Command::Tokenize(args) => tokens::tokenize(args).await?,
        Command::Template(args) => tokens::template(args).await?,
        Command::Inspect(args) => {
            let inspected = inspect::run(args).await?;
            if !cli.json {
                return print(&inspected.text(args.tensors));
            }
            inspected.json()
        }
        Command::Models { command } => {
            let (answer, text) = models::run(command.as_ref(), cli)?;
            if !cli.json {
                return print(&text);
            }
            answer
        }
        Command::Replay(args) => {
            let recorded = members::read(&args.file)?;
            let json = |source| Failure::Json {
                path: args.file.clone(),
                source,
            };
            let recorded: Value = serde_json::from_slice(&recorded).map_err(json)?;
            // Defaults are the recording's own settings, if it has any.
            let settings = match recorded.get("settings") {
                Some(settings) if !settings.is_null() => as_recorded(settings).map_err(json)?,
                _ => Settings::default(),
            };
            let run: Run = serde_json::from_value(recorded).map_err(json)?;
            let (counted, settings) = (settings.score_end, args.method.settings(settings));
            if counted != settings.score_end {
                eprintln!(
                    "the recorded scores {} the end of a candidate, and are replayed as they are",
                    if counted { "count" } else { "leave out" }
                );
            }
            let replayed = replay(&run, &settings)?;
            serde_json::to_value(replayed).map_err(json)?
        }
    };
    print(&format!("{answer}\n"))
}

/// Settings of a recording. Settings unknown to it were as in the paper.
fn as_recorded(settings: &Value) -> Result<Settings, serde_json::Error> {
    let mut all = serde_json::to_value(Settings::preset(Rule::Paper))?;
    if let (Value::Object(all), Value::Object(recorded)) = (&mut all, settings) {
        all.extend(recorded.clone());
        return serde_json::from_value(Value::Object(std::mem::take(all)));
    }
    serde_json::from_value(settings.clone())
}

/// Writes to standard output immediately; a closed pipe is an error, where `print!` panics.
fn print(text: &str) -> Result<(), Failure> {
    let mut output = std::io::stdout();
    output.write_all(text.as_bytes())?;
    Ok(output.flush()?)
}
