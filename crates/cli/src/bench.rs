//! `conclave bench`: how long members and rounds take, measured as the page's bench does it.

use std::fmt::Write;
use std::time::Instant;

use conclave_ensemble::{Candidate, Scoring, Settings};
use conclave_member::{Member, Message};
use conclave_model::{Backend, Sampling};
use serde_json::{Value, json};

use crate::args::Bench;
use crate::failure::Failure;
use crate::members;
use crate::round::answer;

/// Rounds in a row; the first is told apart, as it waits for the prompt.
const ROUNDS_IN_A_ROW: usize = 3;

/// Candidates that a member verifies alone: those of two others.
const OTHERS: usize = 2;

/// Milliseconds of one thing, measured several times.
#[derive(Debug, Default)]
struct Times(Vec<f64>);

impl Times {
    fn add(&mut self, since: Instant) -> f64 {
        let ms = since.elapsed().as_secs_f64() * 1e3;
        self.0.push(ms);
        ms
    }

    /// The value below which a `part` of all lie, interpolated; NaN of nothing.
    fn at(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = part * sorted.len().saturating_sub(1) as f64;
        let value = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let (below, above) = (value(place.floor() as usize), value(place.ceil() as usize));
        below + (above - below) * place.fract()
    }

    fn median(&self) -> f64 {
        self.at(0.5)
    }

    fn json(&self) -> Value {
        json!({ "median": self.at(0.5), "low": self.at(0.25), "high": self.at(0.75), "count": self.0.len() })
    }

    fn text(&self) -> String {
        format!(
            "{:.2} ({:.2}–{:.2})",
            self.at(0.5),
            self.at(0.25),
            self.at(0.75)
        )
    }
}

/// Measures, and tells it as JSON and as tables.
///
/// # Errors
/// What loading or running reports.
pub async fn run(
    args: &Bench,
    backend: &Backend,
    device: &str,
) -> Result<(Value, String), Failure> {
    let mut members = members::load(&args.members, backend)?;
    let sampling = args.drawing.sampling();
    let settings = Settings {
        segment_tokens: args.segment_tokens,
        max_rounds: ROUNDS_IN_A_ROW,
        ..Settings::default()
    };
    let mut alone = Vec::new();
    let mut rounds = Vec::new();
    let mut table = format!(
        "{device}\n\n| member | prefix | prefill tok/s | step ms | tok/s | verify ms | rows | verify / steps |\n|---|---|---|---|---|---|---|---|\n"
    );
    let mut second = String::from(
        "\n| members | prefix | round ms | first segment ms | round / own steps |\n|---|---|---|---|---|\n",
    );
    for &prefix in &args.prefixes {
        let mut steps = Vec::new();
        for member in &mut members {
            let messages = conversation(member, prefix, sampling).await?;
            let (report, row, step) = measure(member, &messages, sampling, args).await?;
            steps.push(step);
            alone.push(report);
            table.push_str(&row);
        }
        for &size in args.ensembles.iter().filter(|&&size| size > 1) {
            let taking_part = members.get_mut(..size).ok_or_else(|| {
                Failure::Usage(format!("a round of {size} needs as many members; name them after --members, or ask for fewer after --ensembles"))
            })?;
            let own: f64 = steps.iter().take(size).sum::<f64>() * args.segment_tokens as f64;
            let (report, row) =
                play(taking_part, prefix, &settings, sampling, args.repeats, own).await?;
            rounds.push(report);
            second.push_str(&row);
        }
    }
    if !rounds.is_empty() {
        table.push_str(&second);
    }
    Ok((
        json!({ "device": device, "members": alone, "rounds": rounds }),
        table,
    ))
}

/// One member alone: prompt, draft, verify, keep, over and over. Also its decode step in milliseconds.
async fn measure(
    member: &mut Member,
    messages: &[Message],
    sampling: Sampling,
    args: &Bench,
) -> Result<(Value, String, f64), Failure> {
    let [mut prefill, mut step, mut verify] =
        [Times::default(), Times::default(), Times::default()];
    let (mut prefix, mut run, mut rows) = (0, 0, 0);
    let candidates: Vec<Candidate> = (0..OTHERS)
        .map(|other| Candidate {
            text: text_of(args.segment_tokens * other, args.segment_tokens),
            ended: false,
        })
        .collect();
    // The first time makes what later ones use, and is not counted.
    for repeat in 0..=args.repeats {
        forget(member, sampling).await?;
        let started = Instant::now();
        let begun = member.begin(messages, sampling, 0).await?;
        let prompt = started.elapsed().as_secs_f64() * 1e3;
        let before = member.counters().draft_tokens;
        let started = Instant::now();
        member.draft(args.segment_tokens).await?;
        let drafted = started.elapsed().as_secs_f64() * 1e3;
        let steps = member.counters().draft_tokens - before;
        let started = Instant::now();
        let scores = member.verify(&candidates, Scoring::default()).await?;
        if repeat > 0 {
            verify.add(started);
            prefill.0.push(prompt);
            if steps > 0 {
                step.0.push(drafted / steps as f64);
            }
        }
        member.keep(0).await?;
        (prefix, run) = (begun.prefix, begun.run);
        rows = scores.iter().map(|score| score.tokens).sum();
    }
    let per_second = 1e3 * run as f64 / prefill.median();
    let over = verify.median() / (rows as f64 * step.median());
    let row = format!(
        "| {} | {prefix} | {per_second:.1} | {} | {:.2} | {} | {rows} | {over:.3} |\n",
        member.name(),
        step.text(),
        1e3 / step.median(),
        verify.text(),
    );
    let report = json!({
        "name": member.name(),
        "prefix": prefix,
        "prefill": { "tokens": run, "ms": prefill.json(), "tokensPerSecond": per_second },
        "draftStep": { "ms": step.json(), "tokensPerSecond": 1e3 / step.median() },
        "verify": { "tokens": rows, "ms": verify.json() },
        "verifyOverSteps": over,
    });
    Ok((report, row, step.median()))
}

/// An ensemble's rounds. `own`: what its members' L decode steps take alone, in milliseconds.
async fn play(
    members: &mut [Member],
    prefix: usize,
    settings: &Settings,
    sampling: Sampling,
    repeats: usize,
    own: f64,
) -> Result<(Value, String), Failure> {
    let [mut first, mut later] = [Times::default(), Times::default()];
    let messages = match members.first_mut() {
        Some(member) => conversation(member, prefix, sampling).await?,
        None => Vec::new(),
    };
    for repeat in 0..=repeats {
        for member in members.iter_mut() {
            forget(member, sampling).await?;
        }
        let mut started = Instant::now();
        let mut rounds = 0;
        answer(members, &messages, settings, sampling, |_| {
            let times = if rounds == 0 { &mut first } else { &mut later };
            if repeat > 0 {
                times.add(started);
            }
            rounds += 1;
            started = Instant::now();
        })
        .await?;
    }
    let over = later.median() / own;
    let mut row = String::new();
    let _ = writeln!(
        row,
        "| {} | {prefix} | {} | {} | {over:.2} |",
        members.len(),
        later.text(),
        first.text()
    );
    let report = json!({
        "members": members.len(),
        "prefix": prefix,
        "ms": later.json(),
        "firstSegmentMs": first.json(),
        "overSteps": over,
    });
    Ok((report, row))
}

/// Another conversation, so that of the next one all is run.
async fn forget(member: &mut Member, sampling: Sampling) -> Result<(), Failure> {
    member.begin(&user("~".to_owned()), sampling, 0).await?;
    Ok(())
}

/// A conversation of about `tokens` tokens for this member: how many a word takes is found by trying.
async fn conversation(
    member: &mut Member,
    tokens: usize,
    sampling: Sampling,
) -> Result<Vec<Message>, Failure> {
    const SHORT: usize = 4;
    const LONG: usize = 12;
    let mut lengths = [0, 0];
    for (length, words) in lengths.iter_mut().zip([SHORT, LONG]) {
        let messages = user(text_of(0, words));
        *length = member.begin(&messages, sampling, 0).await?.prefix;
    }
    let each = (lengths[1].saturating_sub(lengths[0])).max(1) as f64 / (LONG - SHORT) as f64;
    let words = SHORT as f64 + (tokens as f64 - lengths[0] as f64) / each;
    Ok(user(text_of(0, words.round().max(1.0) as usize)))
}

fn user(content: String) -> Vec<Message> {
    vec![Message {
        role: "user".to_owned(),
        content,
    }]
}

/// `count` short words from number `from` on: the page's bench writes the same.
fn text_of(from: usize, count: usize) -> String {
    let letter = |place: usize| char::from(b'a' + (place % 26) as u8);
    (from..from + count)
        .flat_map(|word| [' ', letter(word * 7), letter(word * 7 / 26)])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_the_values() {
        let times = Times(vec![4.0, 1.0, 3.0, 2.0]);
        assert_eq!(
            [times.at(0.25), times.median(), times.at(0.75)],
            [1.75, 2.5, 3.25]
        );
        assert!(Times::default().median().is_nan());
    }

    #[test]
    fn text_has_a_word_for_every_token() {
        assert_eq!(text_of(0, 5), " aa ha oa va cb");
        assert_eq!(text_of(3, 2), " va cb");
    }
}
