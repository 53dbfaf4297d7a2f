//! `conclave eval`: questions with checkable answers, asked of every member alone and of the
//! ensemble under one or more rules, compared with baselines.

mod asked;
mod examine;
mod record;
mod rules;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use conclave_eval::outcome::Outcome;
use conclave_eval::python::Python;
use conclave_eval::report::Report;
use conclave_eval::table::markdown;
use conclave_eval::ways::Run;
use serde_json::{Value, json};

use crate::args;
use crate::device::Device;
use crate::eval::asked::Asked;
use crate::eval::examine::Exam;
use crate::eval::record::Record;
use crate::failure::Failure;
use crate::members;
use crate::strengths::{self, Measured};

pub struct Evaluated {
    /// All figures, and a description of the run.
    pub report: Value,
    /// The figures as tables.
    pub table: String,
}

/// Runs the examination.
///
/// # Errors
/// Those of reading the questions, loading the members or writing the record. The failure of a
/// single answer is part of the report.
pub fn run(args: &args::Eval, device: &Device, threads: usize) -> Result<Evaluated, Failure> {
    let questions = asked::all(args)?;
    let python = asked::python(&questions)?;
    let exam = Exam::new(args)?;
    let names = members::names(&args.members);
    let rules = exam.rules.iter();
    let rules = rules.map(|(name, settings)| json!({ "name": name, "settings": settings }));
    let what = json!({
        "members": names,
        "bytes": members::bytes(&args.members),
        "rules": rules.collect::<Vec<_>>(),
        "sampling": args.drawing.sampling(),
        "drawn": exam.drawn,
        "tokens": exam.tokens,
        "samples": exam.samples.map(|samples| samples.to_string()),
        "draws": exam.draws,
        "reference": exam.reference,
        "baselines": args.baselines,
        "context": args.members.context,
        "quantise": args.members.quantise.map(|format| format.name()),
    });
    let (record, recorded) = record::open(args, &what, &device.name)?;
    // A GPU has one queue.
    let side_by_side = if device.is_cpu() { threads } else { 1 };
    let workers = args.workers.unwrap_or(side_by_side);
    let outcomes = examine_all(
        args,
        workers,
        device,
        &Paper {
            exam: &exam,
            questions: &questions,
            python: python.as_ref(),
        },
        record.as_ref(),
        recorded,
    )?;

    let run = Run {
        members: names,
        rules: exam.rules.iter().map(|(name, _)| name.clone()).collect(),
        samples: exam.samples,
        draws: exam.draws.clone(),
        seed: args.drawing.seed,
    };
    write_trust(args, &run, &outcomes)?;
    Ok(evaluated(&run, what, &outcomes, &device.name))
}

/// Writes how often each member was right alone to the file of `--write-trust`.
fn write_trust(args: &args::Eval, run: &Run, outcomes: &[Outcome]) -> Result<(), Failure> {
    let Some(path) = &args.write_trust else {
        return Ok(());
    };
    let asked: Vec<&Outcome> = outcomes.iter().filter(|outcome| !outcome.open).collect();
    if asked.is_empty() {
        return Err(Failure::Usage(format!(
            "--write-trust {}: no question was asked that has a right answer",
            path.display()
        )));
    }
    let right = |member: usize| {
        let right = asked.iter().filter(|outcome| {
            let alone = outcome.alone.get(member);
            alone.is_some_and(|alone| alone.greedy.right)
        });
        right.count()
    };
    let measured = run.members.iter().enumerate().map(|(member, name)| {
        let measured = Measured {
            right: right(member),
            asked: asked.len(),
        };
        (name.clone(), measured)
    });
    strengths::write(path, &measured.collect())
}

/// Reports on records, without running anything.
///
/// # Errors
/// Files that are not records, or not of one run.
pub fn report(args: &args::Eval) -> Result<Evaluated, Failure> {
    let recorded = record::read_all(&args.report)?;
    let run = recorded.run()?;
    let device = recorded.what["device"].as_str().unwrap_or("recorded");
    let device = device.to_owned();
    write_trust(args, &run, &recorded.outcomes)?;
    Ok(evaluated(&run, recorded.what, &recorded.outcomes, &device))
}

fn evaluated(run: &Run, what: Value, outcomes: &[Outcome], device: &str) -> Evaluated {
    let report = Report::new(run, outcomes);
    let table = format!(
        "{}\n{} questions, at most {} tokens an answer, seed {}, {device}.\n",
        markdown(&report),
        report.asked,
        what["tokens"],
        run.seed,
    );
    let report = json!({ "device": device, "seed": run.seed, "run": what, "figures": report });
    Evaluated { report, table }
}

/// The questions, their examination, and the interpreter for code in answers.
struct Paper<'a> {
    exam: &'a Exam,
    questions: &'a [Asked],
    python: Option<&'a Python>,
}

/// Outcomes of all questions, in order: those in `recorded`, and new ones.
fn examine_all(
    args: &args::Eval,
    workers: usize,
    device: &Device,
    paper: &Paper<'_>,
    record: Option<&Record>,
    recorded: Vec<Outcome>,
) -> Result<Vec<Outcome>, Failure> {
    let Paper {
        exam,
        questions,
        python,
    } = *paper;
    let mut known: HashMap<_, _> = recorded
        .into_iter()
        .map(|outcome| ((outcome.group.clone(), outcome.id.clone()), outcome))
        .collect();
    let mut done: Vec<(usize, Outcome)> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for (index, asked) in questions.iter().enumerate() {
        let known = known.remove(&(asked.group().to_owned(), asked.id()));
        match known.filter(|known| asked.answered_by(known)) {
            Some(mut outcome) => {
                asked.judge_again(&mut outcome, python)?;
                done.push((index, outcome));
            }
            None => open.push(index),
        }
    }
    if !done.is_empty() {
        eprintln!(
            "{} of {} questions are recorded",
            done.len(),
            questions.len()
        );
    }
    let next = AtomicUsize::new(0);
    let work = || -> Result<Vec<(usize, Outcome)>, Failure> {
        let mut members = members::load(&args.members, device.backend())?;
        let mut outcomes = Vec::new();
        loop {
            let taken = next.fetch_add(1, Ordering::Relaxed);
            let Some(&index) = open.get(taken) else {
                return Ok(outcomes);
            };
            let asked = &questions[index];
            let mut outcome = pollster::block_on(exam.examine(&mut members, asked));
            asked.judge(&mut outcome, python)?;
            if let Some(record) = record {
                record.add(&outcome)?;
            }
            outcomes.push((index, outcome));
            if taken % 20 == 19 {
                eprintln!("{} of {} questions", taken + 1, open.len());
            }
        }
    };
    let workers = workers.min(open.len());
    let examined = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        let joined = threads.into_iter().map(|thread| {
            let failed = |_| Failure::Usage("an examination thread failed".to_owned());
            thread.join().map_err(failed)?
        });
        joined.collect::<Result<Vec<_>, Failure>>()
    })?;
    done.extend(examined.into_iter().flatten());
    done.sort_by_key(|&(index, _)| index);
    Ok(done.into_iter().map(|(_, outcome)| outcome).collect())
}
