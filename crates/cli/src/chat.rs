//! `conclave chat`: a question, or a conversation from the terminal.

use std::io::{BufRead, IsTerminal, Write};

use conclave_ensemble::Settings;
use conclave_member::{Member, Message};
use conclave_model::Backend;
use serde_json::json;

use crate::args;
use crate::failure::Failure;
use crate::members;
use crate::round::{Answer, Round, answer};

/// Runs the command on `backend`.
///
/// # Errors
/// What loading, the method or the terminal reports.
pub async fn run(
    chat: &args::Chat,
    backend: &Backend,
    device: &str,
    json: bool,
) -> Result<(), Failure> {
    let mut members = members::load(&chat.members, backend)?;
    if let Some(name) = &chat.member {
        let known: Vec<_> = members.iter().map(|m| m.name().to_owned()).collect();
        members.retain(|m| m.name().eq_ignore_ascii_case(name));
        if members.is_empty() {
            return Err(Failure::Usage(format!(
                "no member is called `{name}`; there are {}",
                known.join(", ")
            )));
        }
    }
    let settings = chat.method.settings(Settings::default());
    let mut messages = Vec::new();
    let question = match &chat.question {
        Some(question) => question.clone(),
        None if json => read_line(&mut std::io::stdin().lock())?.unwrap_or_default(),
        None => return converse(chat, &mut members, &settings, device),
    };
    messages.push(Message::new("user", &question));
    let answer = ask(chat, &mut members, &settings, &messages, json).await?;
    if json {
        println!(
            "{}",
            record(&members, &settings, &question, device, &answer)
        );
    }
    if let Some(path) = &chat.record {
        let run = record(&members, &settings, &question, device, &answer);
        std::fs::write(path, format!("{run}\n")).map_err(|error| Failure::file(path, error))?;
    }
    Ok(())
}

/// Question after question until the input ends.
fn converse(
    chat: &args::Chat,
    members: &mut [Member],
    settings: &Settings,
    device: &str,
) -> Result<(), Failure> {
    let mut input = std::io::stdin().lock();
    let prompts = std::io::stdin().is_terminal();
    if prompts {
        let names: Vec<_> = members.iter().map(Member::name).collect();
        eprintln!("{} on {device}. An empty line ends.", names.join(", "));
    }
    let mut messages = Vec::new();
    loop {
        if prompts {
            eprint!("> ");
        }
        match read_line(&mut input)? {
            Some(question) if !question.is_empty() => {
                messages.push(Message::new("user", &question))
            }
            _ => return Ok(()),
        }
        let said = pollster::block_on(ask(chat, members, settings, &messages, false))?;
        messages.push(Message::new("assistant", &said.text));
    }
}

async fn ask(
    chat: &args::Chat,
    members: &mut [Member],
    settings: &Settings,
    messages: &[Message],
    quiet: bool,
) -> Result<Answer, Failure> {
    let names: Vec<String> = members.iter().map(|m| m.name().to_owned()).collect();
    let answer = answer(
        members,
        messages,
        settings,
        chat.drawing.sampling(),
        |round| {
            if quiet {
                return;
            }
            if chat.show_votes {
                print!("{}", votes(&names, round));
            } else {
                print!("{}", round.candidates[round.winner].text);
            }
            // A closed pipe is reported by the last write.
            let _ = std::io::stdout().flush();
        },
    )
    .await?;
    if !quiet {
        if chat.show_votes {
            println!("{}", answer.text.trim());
        } else {
            println!();
        }
        if answer.stopped != "ended" {
            eprintln!("(stopped: {}; --max-rounds allows more)", answer.stopped);
        }
    }
    Ok(answer)
}

/// One round as a small table: who offered what, its shares, total and weight.
fn votes(names: &[String], round: &Round) -> String {
    let mut out = String::new();
    for (position, candidate) in round.candidates.iter().enumerate() {
        let mark = if position == round.winner { '*' } else { ' ' };
        let name = &names[round.active[position]];
        let total = round.totals.get(position).copied().unwrap_or(f64::NAN);
        let weight = round.weights.get(position).copied().unwrap_or(f64::NAN);
        let shares: Vec<String> = round
            .normalised
            .iter()
            .map(|row| format!("{:.3}", row[position]))
            .collect();
        let end = if candidate.ended { " (end)" } else { "" };
        out += &format!(
            "{mark} {name:<10} weight {weight:.3}  total {total:.3}  votes {}  {:?}{end}\n",
            shares.join(" "),
            candidate.text
        );
    }
    for &index in &round.exited {
        out += &format!("  {} leaves\n", names[index]);
    }
    out.push('\n');
    out
}

/// The run as one JSON object, which `conclave replay` reads.
fn record(
    members: &[Member],
    settings: &Settings,
    question: &str,
    device: &str,
    answer: &Answer,
) -> serde_json::Value {
    json!({
        "question": question,
        "answer": answer.text,
        "stopped": answer.stopped,
        "device": device,
        "members": members.iter().map(Member::name).collect::<Vec<_>>(),
        "counters": members.iter().map(Member::counters).collect::<Vec<_>>(),
        "settings": settings,
        "rounds": answer.rounds,
    })
}

fn read_line(input: &mut impl BufRead) -> Result<Option<String>, Failure> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(line.trim().to_owned()))
}
