//! One question to every member alone and to the ensemble, and what each answer cost.

use std::time::Instant;

use conclave_ensemble::Settings;
use conclave_eval::outcome::{Alone, Given, Outcome, Samples, Together};
use conclave_member::{Draft, Member, MemberError, Message};
use conclave_model::Sampling;
use conclave_rounds::{Ask, Limits, Question, Round, answer};

use crate::args;
use crate::eval::asked::{Asked, fnv1a};
use crate::eval::rules;
use crate::failure::Failure;
use crate::progress::EachRound;

/// The most tokens of an answer to a generated question: members show their working.
const GENERATED_TOKENS: usize = 256;

/// The most tokens of an answer to a task.
const TASK_TOKENS: usize = 60;

/// What every question goes through.
pub struct Exam {
    /// The rules of the ensemble, by name.
    pub rules: Vec<(String, Settings)>,
    /// The most tokens of an answer.
    pub tokens: usize,
    /// Samples of each member that vote.
    pub samples: Option<Samples>,
    /// Whether each member says how much the question surprises it.
    surprise: bool,
    /// How the ensemble draws.
    ensemble: Sampling,
    /// How a member's samples are drawn, also where the ensemble is greedy; `None` at temperature 0.
    pub drawn: Option<Sampling>,
}

impl Exam {
    /// As the command line says.
    ///
    /// # Errors
    /// Rules or settings that there aren't, or samples that would all be alike.
    pub fn new(args: &args::Eval) -> Result<Self, Failure> {
        let tokens = args.tokens.unwrap_or(match args.tasks.is_empty() {
            true => GENERATED_TOKENS,
            false => TASK_TOKENS,
        });
        let drawing = args::Drawing {
            greedy: false,
            ..args.drawing.clone()
        };
        let drawn = Some(drawing.sampling()).filter(|drawn| drawn.temperature > 0.0);
        let samples = match args.samples {
            None => args.baselines.then_some(Samples::EqualTokens),
            samples => samples,
        };
        if samples.is_some() && drawn.is_none() {
            return Err(Failure::Usage(
                "samples at temperature 0 are all alike; choose a --temperature".to_owned(),
            ));
        }
        Ok(Self {
            rules: rules::chosen(args)?,
            tokens,
            samples,
            surprise: args.baselines,
            ensemble: args.drawing.sampling(),
            drawn,
        })
    }

    /// Asks everybody. A failure stands in its answer's place.
    pub async fn examine(&self, members: &mut [Member], asked: &Asked) -> Outcome {
        let messages = asked.messages();
        let mut outcome = asked.outcome();
        let own = |sampling: Sampling| Sampling {
            seed: seed_of(sampling.seed, asked),
            ..sampling
        };
        let (ensemble, drawn) = (own(self.ensemble), self.drawn.map(own));
        for (stream, member) in (0..).zip(members.iter_mut()) {
            let mut alone = Alone::default();
            if self.surprise {
                alone.surprise = member.surprise(&messages).await.ok().flatten();
            }
            let greedy = Sampling::greedy();
            alone.greedy = self.alone(member, &messages, greedy, stream).await;
            if let Some(drawn) = drawn {
                alone.sampled = Some(self.alone(member, &messages, drawn, stream).await);
            }
            outcome.alone.push(alone);
        }
        for (_, settings) in &self.rules {
            let together = self.together(members, &messages, settings, ensemble).await;
            outcome.rules.push(together);
        }
        if let (Some(wanted), Some(drawn), Some(first)) =
            (self.samples, drawn, outcome.rules.first())
        {
            let streams = members.len() as u64;
            for (stream, member) in (0..).zip(members.iter_mut()) {
                let samples = &mut outcome.alone[stream as usize].samples;
                while !wanted.enough(samples.iter(), &first.given) {
                    // Numbers that nothing else was drawn with.
                    let stream = stream + streams * (samples.len() as u64 + 1);
                    samples.push(self.alone(member, &messages, drawn, stream).await);
                }
            }
        }
        outcome
    }

    /// An answer of one member.
    async fn alone(
        &self,
        member: &mut Member,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
    ) -> Given {
        if let Err(error) = member.begin(messages, sampling, stream).await {
            return failed(Given::default(), &error);
        }
        let (before, clock) = (run(std::slice::from_ref(member)), Instant::now());
        let written = self.write(member).await;
        let given = Given {
            seconds: clock.elapsed().as_secs_f64(),
            tokens: run(std::slice::from_ref(member)) - before,
            ..Given::default()
        };
        match written {
            Ok(draft) => Given {
                text: draft.text,
                cut: !draft.ended,
                ..given
            },
            Err(error) => failed(given, &error),
        }
    }

    /// It thinks first where it does so in the ensemble.
    async fn write(&self, member: &mut Member) -> Result<Draft, MemberError> {
        member.think_while(async |_| true).await?;
        member.write(self.tokens).await
    }

    /// The ensemble's answer under `settings`.
    async fn together(
        &self,
        members: &mut [Member],
        messages: &[Message],
        settings: &Settings,
        sampling: Sampling,
    ) -> Together {
        let mut together = Together {
            won: vec![0; members.len()],
            ..Together::default()
        };
        // A member that left an earlier answer reads the question again: that is not this one's cost.
        for (stream, member) in (0..).zip(members.iter_mut()) {
            if let Err(error) = member.begin(messages, sampling, stream).await {
                together.given = failed(Given::default(), &error);
                return together;
            }
        }
        let (before, clock) = (run(members), Instant::now());
        let watch = |round: &Round| {
            together.rounds += 1;
            together.calls += round.active.len();
            together.won[round.drafters[round.winner]] += 1;
        };
        let asked = Ask {
            question: Question::Conversation(messages),
            settings,
            sampling,
            limits: Limits {
                tokens: Some(self.tokens),
                ..Limits::default()
            },
            form: None,
        };
        let said = answer(members, &asked, &mut EachRound(watch)).await;
        let given = Given {
            seconds: clock.elapsed().as_secs_f64(),
            tokens: run(members) - before,
            ..Given::default()
        };
        together.given = match said {
            Ok(said) => Given {
                text: said.text,
                cut: matches!(said.stopped, "tokens" | "rounds" | "length" | "context"),
                ..given
            },
            Err(error) => failed(given, &error),
        };
        together
    }
}

fn failed(given: Given, error: &dyn std::fmt::Display) -> Given {
    Given {
        error: Some(error.to_string()),
        ..given
    }
}

/// Tokens that `members` have run, without those of prompts.
fn run(members: &[Member]) -> usize {
    let counters = members.iter().map(Member::counters);
    counters
        .map(|run| run.draft_tokens + run.verify_tokens)
        .sum()
}

/// A seed of the question's own, so that questions are drawn independently of each other and of
/// which others are asked: a digest of the seed, the group and the id.
fn seed_of(seed: u64, asked: &Asked) -> u64 {
    let name = [asked.group(), "\n", &asked.id()].concat();
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    fnv1a(bytes)
}
