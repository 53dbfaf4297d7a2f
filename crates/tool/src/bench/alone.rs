//! Measures one member alone: prompt, draft, verify, keep, repeatedly.

use std::time::Instant;

use conclave_ensemble::Settings;
use conclave_member::Member;
use serde::Serialize;

use super::Course;
use super::counts::{Counts, Meter};
use super::text::{conversation, forget, others};
use super::times::{Repeats, Spread, Times};
use crate::failure::Failure;

/// Times of a member at one prefix, in milliseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberReport {
    pub name: String,
    pub prefix: usize,
    /// Whether there was time for the first run only.
    pub cold: bool,
    pub prefill: Prefill,
    /// From the question to the first token drawn.
    pub first_token_ms: Option<Spread>,
    pub draft_step: DraftStep,
    pub verify: Verify,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Prefill {
    pub tokens: usize,
    pub ms: Option<Spread>,
    pub tokens_per_second: f64,
}

/// One decode step of a draft.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DraftStep {
    pub ms: Option<Spread>,
    pub tokens_per_second: f64,
    pub counts: Option<Counts>,
    pub dispatches_per_layer: Option<f64>,
    /// CPU time of a launch in a draft, without waiting.
    pub microseconds_per_dispatch: Option<Spread>,
}

/// Pass over the candidates of two other members.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Verify {
    /// Tokens run: those not already in the draft.
    pub tokens: usize,
    pub ms: Option<Spread>,
    pub counts: Option<Counts>,
}

/// Measures a member at a prefix of about `prefix` tokens.
pub async fn measure(
    member: &mut Member,
    prefix: usize,
    course: &Course<'_>,
    meter: Meter<'_>,
) -> Result<MemberReport, Failure> {
    let Course {
        sampling,
        segment_tokens,
        ..
    } = *course;
    let layers = member.about().config.layers.len();
    let messages = conversation(member, prefix, sampling).await?;
    let candidates = others();
    let [mut prefill, mut token, mut step, mut verify, mut launch]: [Times; 5] = Default::default();
    let (mut begun, mut verified, mut counts) = (None, 0, (None, None));
    let mut repeats = Repeats::new(course.repeats, course.limit_seconds);
    while repeats.due() {
        let whole = Instant::now();
        forget(member, sampling).await?;
        let started = Instant::now();
        begun = Some(member.begin(&messages, sampling, 0).await?);
        let prompt = ms_since(started);
        // The draft below takes its place.
        member.draft(1).await?;
        let first_token = ms_since(started);

        let (before, asked) = (member.counters(), meter.read());
        let started = Instant::now();
        let (draft, each) = meter.launching(member.draft(segment_tokens)).await;
        draft?;
        let drafting = ms_since(started);
        let (drafted, said) = (member.counters(), meter.since(asked));
        let steps = drafted.draft_tokens - before.draft_tokens;

        let asked = meter.read();
        let started = Instant::now();
        member.verify(&candidates, &Settings::default()).await?;
        let verifying = ms_since(started);
        let judged = meter.since(asked);
        verified = member.counters().verify_tokens - drafted.verify_tokens;
        member.keep(0).await?;

        if repeats.counts(ms_since(whole)) {
            prefill.0.push(prompt);
            token.0.push(first_token);
            verify.0.push(verifying);
            launch.0.extend(each);
            // A short draft is not representative: it samples once more than it steps.
            if 2 * steps >= segment_tokens {
                step.0.push(drafting / steps as f64);
            }
            counts = (
                said.map(|counters| Counts::over(counters, steps)),
                judged.map(|counters| Counts::over(counters, 1)),
            );
        }
    }
    let begun = begun.unwrap_or_default();
    Ok(MemberReport {
        name: member.name().to_owned(),
        prefix: begun.prefix,
        cold: repeats.cold,
        prefill: Prefill {
            tokens: begun.run,
            ms: prefill.spread(),
            tokens_per_second: 1e3 * begun.run as f64 / prefill.median(),
        },
        first_token_ms: token.spread(),
        draft_step: DraftStep {
            ms: step.spread(),
            tokens_per_second: 1e3 / step.median(),
            counts: counts.0,
            dispatches_per_layer: counts.0.map(|step| step.dispatches / layers as f64),
            microseconds_per_dispatch: launch.spread(),
        },
        verify: Verify {
            tokens: verified,
            ms: verify.spread(),
            counts: counts.1,
        },
    })
}

pub fn ms_since(started: Instant) -> f64 {
    started.elapsed().as_secs_f64() * 1e3
}
