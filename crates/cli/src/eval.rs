//! `conclave eval`: generated questions to every member alone and to the
//! ensemble, with an oracle that always picks a member that is right.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use conclave_ensemble::Settings;
use conclave_member::{Member, Message};
use conclave_model::Backend;
use conclave_skills::{Question, Skill, check, question};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args;
use crate::failure::Failure;
use crate::members;
use crate::round::{Round, answer};

/// Tokens a member may use for an answer of its own.
const ALONE_TOKENS: usize = 256;

/// Right answers among those asked.
#[derive(Debug, Clone, Copy, Default, Serialize)]
struct Tally {
    right: u64,
    asked: u64,
}

impl Tally {
    fn add(&mut self, right: bool) {
        self.right += u64::from(right);
        self.asked += 1;
    }

    fn percent(self) -> f64 {
        100.0 * self.right as f64 / self.asked.max(1) as f64
    }
}

/// What one question showed.
struct Outcome {
    skill: Skill,
    alone: Vec<bool>,
    ensemble: bool,
    won: Vec<u64>,
    failed: u64,
}

/// Runs the examination.
///
/// # Errors
/// What loading or running reports.
pub fn run(args: &args::Eval, backend: &Backend, device: &str) -> Result<Value, Failure> {
    let settings = args.method.settings(Settings::default());
    settings.validate()?;
    let names: Vec<String> = members::load(&args.members, backend)?
        .iter()
        .map(|member| member.name().to_owned())
        .collect();
    // Questions are independent: CPU workers share them; one GPU has one queue.
    let workers = match backend {
        Backend::Cpu | Backend::Burn(_) => {
            std::thread::available_parallelism().map_or(1, usize::from)
        }
        Backend::Gpu(_) => 1,
    };
    let next = AtomicU64::new(0);
    let work = || -> Result<Vec<Outcome>, Failure> {
        let mut members = members::load(&args.members, backend)?;
        let mut outcomes = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= args.count {
                return Ok(outcomes);
            }
            let asked = question(args.drawing.seed, index);
            outcomes.push(pollster::block_on(examine(
                &mut members,
                &asked,
                &settings,
                args,
            ))?);
            if index % 20 == 19 {
                eprintln!("{} of {} questions", index + 1, args.count);
            }
        }
    };
    let outcomes = std::thread::scope(|scope| {
        let handles: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        handles
            .into_iter()
            .map(|handle| {
                handle
                    .join()
                    .map_err(|_| Failure::Usage("an examination thread failed".to_owned()))?
            })
            .collect::<Result<Vec<_>, Failure>>()
    })?;
    let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
    Ok(report(args, &settings, device, &names, &outcomes))
}

async fn examine(
    members: &mut [Member],
    asked: &Question,
    settings: &Settings,
    args: &args::Eval,
) -> Result<Outcome, Failure> {
    let messages = [Message::new("user", &asked.text)];
    let sampling = args.drawing.sampling();
    let mut alone = Vec::with_capacity(members.len());
    for (stream, member) in members.iter_mut().enumerate() {
        member.begin(&messages, sampling, stream as u64).await?;
        alone.push(check(asked, &member.draft(ALONE_TOKENS).await?.text));
    }
    let mut won = vec![0; members.len()];
    let watch = |round: &Round| won[round.active[round.winner]] += 1;
    let said = answer(members, &messages, settings, sampling, |_, _, _| (), watch).await;
    Ok(Outcome {
        skill: asked.skill,
        alone,
        ensemble: said.as_ref().is_ok_and(|said| check(asked, &said.text)),
        won,
        failed: u64::from(said.is_err()),
    })
}

fn report(
    args: &args::Eval,
    settings: &Settings,
    device: &str,
    names: &[String],
    outcomes: &[Outcome],
) -> Value {
    let tallies = |pick: &dyn Fn(&Outcome) -> bool| -> Value {
        let mut all = Tally::default();
        let mut skills: BTreeMap<Skill, Tally> = BTreeMap::new();
        for outcome in outcomes {
            all.add(pick(outcome));
            skills.entry(outcome.skill).or_default().add(pick(outcome));
        }
        let skills: serde_json::Map<String, Value> = skills
            .into_iter()
            .map(|(skill, tally)| (skill.name().to_owned(), json!(tally.percent())))
            .collect();
        json!({ "percent": all.percent(), "right": all.right, "asked": all.asked, "skills": skills })
    };
    let rounds: u64 = outcomes.iter().flat_map(|o| &o.won).sum();
    let members: Vec<Value> = names
        .iter()
        .enumerate()
        .map(|(index, name)| {
            let won: u64 = outcomes.iter().map(|o| o.won[index]).sum();
            json!({
                "name": name,
                "alone": tallies(&|o| o.alone[index]),
                "segments_won": won,
                "share_of_segments": won as f64 / rounds.max(1) as f64,
            })
        })
        .collect();
    let best = members
        .iter()
        .filter_map(|m| m["alone"]["percent"].as_f64())
        .fold(0.0, f64::max);
    let ensemble = tallies(&|o| o.ensemble);
    json!({
        "seed": args.drawing.seed,
        "count": args.count,
        "device": device,
        "settings": settings,
        "sampling": args.drawing.sampling(),
        "members": members,
        "gain_over_best_member": ensemble["percent"].as_f64().unwrap_or_default() - best,
        "ensemble": ensemble,
        "oracle": tallies(&|o| o.alone.contains(&true)),
        "failed": outcomes.iter().map(|o| o.failed).sum::<u64>(),
        "rounds": rounds,
    })
}

/// The report as a Markdown table.
pub fn table(report: &Value) -> String {
    let skills: Vec<&String> = report["ensemble"]["skills"]
        .as_object()
        .map(|skills| skills.keys().collect())
        .unwrap_or_default();
    let mut out = format!(
        "| % right | all |{}\n",
        skills.iter().map(|s| format!(" {s} |")).collect::<String>()
    );
    out += &format!("|---|---|{}\n", "---|".repeat(skills.len()));
    let mut row = |name: &str, tally: &Value| {
        out += &format!(
            "| {name} | {:.1} |",
            tally["percent"].as_f64().unwrap_or(f64::NAN)
        );
        for skill in &skills {
            out += &format!(
                " {:.0} |",
                tally["skills"][skill.as_str()].as_f64().unwrap_or(f64::NAN)
            );
        }
        out.push('\n');
    };
    for member in report["members"].as_array().into_iter().flatten() {
        row(
            member["name"].as_str().unwrap_or_default(),
            &member["alone"],
        );
    }
    row("**ensemble**", &report["ensemble"]);
    row("oracle", &report["oracle"]);
    let mut shares = Vec::new();
    for member in report["members"].as_array().into_iter().flatten() {
        shares.push(format!(
            "{} {:.0} %",
            member["name"].as_str().unwrap_or_default(),
            100.0 * member["share_of_segments"].as_f64().unwrap_or(0.0)
        ));
    }
    out += &format!(
        "\nSegments won: {}. Ensemble over best member: {:+.1} points. {} questions, seed {}, {}.\n",
        shares.join(", "),
        report["gain_over_best_member"].as_f64().unwrap_or(f64::NAN),
        report["count"],
        report["seed"],
        report["device"].as_str().unwrap_or_default(),
    );
    out
}
