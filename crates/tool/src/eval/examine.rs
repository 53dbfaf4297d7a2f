//! Asks one question of every member alone and of the ensemble, with the cost of each answer.

use std::collections::HashMap;
use std::time::Instant;

use conclave_ensemble::{Candidate, Scoring, Settings};
use conclave_eval::outcome::{Alone, Answer, Draw, Outcome, Played, Samples, Surprise, Together};
use conclave_member::{Draft, Member, MemberError, Message};
use conclave_model::Sampling;
use conclave_rounds::{Ask, Left, Limits, Question, Round, Watch, answer};

use crate::args;
use crate::eval::asked::{Asked, fnv1a};
use crate::eval::rules;
use crate::failure::Failure;
use crate::members;
use crate::progress::tell_left;

/// Maximum tokens of an answer to a generated question: members show their steps.
const GENERATED_TOKENS: usize = 256;

/// Maximum tokens of an answer to a task.
const TASK_TOKENS: usize = 60;

/// Procedure applied to every question.
pub struct Exam {
    pub rules: Vec<(String, Settings)>,
    pub tokens: usize,
    /// Samples of each member that vote.
    pub samples: Option<Samples>,
    /// Seeds for further samples of members and rules.
    pub draws: Vec<u64>,
    /// Name of the member that scores answers to open questions; empty for the largest.
    pub reference: Option<String>,
    /// Whether to measure how much the question surprises each member.
    surprise: bool,
    ensemble: Sampling,
    /// Sampling of single members, even if the ensemble is greedy; `None` at temperature 0.
    pub drawn: Option<Sampling>,
}

impl Exam {
    /// Reads the command line.
    ///
    /// # Errors
    /// Unknown rules, settings or members, or samples that would all be equal.
    pub fn new(args: &args::Eval) -> Result<Self, Failure> {
        let tokens = args.tokens.unwrap_or(match args.tasks.is_empty() {
            true => GENERATED_TOKENS,
            false => TASK_TOKENS,
        });
        let mut drawing = args.drawing.clone();
        drawing.greedy = false;
        let drawn = Some(drawing.sampling()).filter(|drawn| drawn.temperature > 0.0);
        let samples = match args.samples {
            None => args.baselines.then_some(Samples::EqualTokens),
            samples => samples,
        };
        if (samples.is_some() || !args.draws.is_empty()) && drawn.is_none() {
            return Err(Failure::Usage(
                "samples at temperature 0 are all alike; choose a --temperature".to_owned(),
            ));
        }
        let mut seeds = args.draws.clone();
        seeds.sort_unstable();
        if seeds.windows(2).any(|pair| pair[0] == pair[1]) {
            return Err(Failure::Usage(
                "a seed of --draws is there twice, and would draw the same answers; name each once"
                    .to_owned(),
            ));
        }
        let names = members::names(&args.members);
        let unknown = |name: &&String| !name.is_empty() && !names.contains(name);
        if let Some(name) = args.reference.as_ref().filter(unknown) {
            return Err(Failure::Usage(format!(
                "the reference {name} is no member; choose one of {}",
                names.join(", ")
            )));
        }
        Ok(Self {
            rules: rules::chosen(args)?,
            tokens,
            samples,
            draws: args.draws.clone(),
            reference: args.reference.clone(),
            surprise: args.baselines,
            ensemble: args.drawing.sampling(),
            drawn,
        })
    }

    /// Asks members and ensemble. A failure is recorded in place of its answer.
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
                while !wanted.enough(samples.iter(), &first.answer) {
                    // Streams not used by other samples.
                    let stream = stream + streams * (samples.len() as u64 + 1);
                    samples.push(self.alone(member, &messages, drawn, stream).await);
                }
            }
        }
        for &seed in self.draws.iter().filter(|_| self.drawn.is_some()) {
            let sampling = own(Sampling {
                seed,
                ..self.drawn.unwrap_or_default()
            });
            outcome
                .draws
                .push(self.draw(members, &messages, seed, sampling).await);
        }
        if outcome.open {
            self.refer(members, &messages, &mut outcome).await;
        }
        outcome
    }

    /// Samples all answers with one more seed.
    async fn draw(
        &self,
        members: &mut [Member],
        messages: &[Message],
        seed: u64,
        sampling: Sampling,
    ) -> Draw {
        let mut draw = Draw {
            seed,
            ..Draw::default()
        };
        for (stream, member) in (0..).zip(members.iter_mut()) {
            let answer = self.alone(member, messages, sampling, stream).await;
            draw.alone.push(answer);
        }
        for (_, settings) in &self.rules {
            let together = self.together(members, messages, settings, sampling).await;
            draw.rules.push(together);
        }
        draw
    }

    /// Scores every answer of `outcome` by the reference member, if there is one.
    async fn refer(&self, members: &mut [Member], messages: &[Message], outcome: &mut Outcome) {
        let Some(name) = &self.reference else {
            return;
        };
        let named = |member: &&mut Member| member.name() == name;
        let largest = |member: &&mut Member| member.about().parameters;
        let reference = match name.is_empty() {
            true => members.iter_mut().max_by_key(largest),
            false => members.iter_mut().find(named),
        };
        let Some(reference) = reference else {
            return;
        };
        let begun = reference.begin(messages, Sampling::greedy(), 0).await;
        if begun.is_err() {
            return;
        }
        let mut known: HashMap<String, Option<Surprise>> = HashMap::new();
        for answer in outcome.answers() {
            if !known.contains_key(&answer.text) {
                let surprise = surprise_of(reference, &answer.text).await;
                known.insert(answer.text.clone(), surprise);
            }
            answer.surprise = known[&answer.text];
        }
    }

    async fn alone(
        &self,
        member: &mut Member,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
    ) -> Answer {
        if let Err(error) = member.begin(messages, sampling, stream).await {
            return failed(Answer::default(), &error);
        }
        let (before, clock) = (run(std::slice::from_ref(member)), Instant::now());
        let written = self.write(member).await;
        let answer = Answer {
            seconds: clock.elapsed().as_secs_f64(),
            tokens: run(std::slice::from_ref(member)) - before,
            ..Answer::default()
        };
        match written {
            Ok(draft) => Answer {
                text: draft.text,
                cut: !draft.ended,
                ..answer
            },
            Err(error) => failed(answer, &error),
        }
    }

    /// Thinks first if it does so in the ensemble.
    async fn write(&self, member: &mut Member) -> Result<Draft, MemberError> {
        member.think_while(async |_| true).await?;
        member.write(self.tokens).await
    }

    /// Answer of the ensemble under `settings`.
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
        // A member that left an earlier answer reads the question again here, outside of this
        // answer's cost.
        for (stream, member) in (0..).zip(members.iter_mut()) {
            if let Err(error) = member.begin(messages, sampling, stream).await {
                together.answer = failed(Answer::default(), &error);
                return together;
            }
        }
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
        let (before, clock) = (run(members), Instant::now());
        let mut recorder = Recorder { clock, together };
        let said = answer(members, &asked, &mut recorder).await;
        let mut together = recorder.together;
        let answer = Answer {
            seconds: clock.elapsed().as_secs_f64(),
            tokens: run(members) - before,
            ..Answer::default()
        };
        together.answer = match said {
            Ok(said) => {
                said.stopped.clone_into(&mut together.stopped);
                Answer {
                    text: said.text,
                    cut: matches!(said.stopped, "tokens" | "rounds" | "length" | "context"),
                    ..answer
                }
            }
            Err(error) => failed(answer, &error),
        };
        together
    }
}

struct Recorder {
    clock: Instant,
    together: Together,
}

impl Watch for Recorder {
    fn round(&mut self, round: &Round, text: &str) {
        let (writer, together) = (round.drafters[round.winner], &mut self.together);
        together.rounds += 1;
        together.calls += round.active.len();
        together.won[writer] += 1;
        together.played.push(Played {
            writer,
            seconds: self.clock.elapsed().as_secs_f64(),
            text: text.to_owned(),
            round: serde_json::to_value(round).unwrap_or_default(),
        });
    }

    fn left(&mut self, member: &str, left: &Left) {
        tell_left(member, left);
    }
}

/// Log-probability of `text` as `member`'s answer; `None` if it is empty or does not fit in the
/// context.
async fn surprise_of(member: &mut Member, text: &str) -> Option<Surprise> {
    let candidate = Candidate {
        text: text.to_owned(),
        ended: false,
    };
    let candidates = [candidate];
    let settings = Settings {
        scoring: Scoring::Likelihood,
        ..Settings::default()
    };
    let verified = match text.is_empty() {
        true => return None,
        false => member.verify(&candidates, &settings).await,
    };
    let score = verified.ok()?.into_iter().next()?;
    Some(Surprise {
        nats: -score.score.mean_logprob? * score.tokens as f64,
        tokens: score.tokens,
        bytes: text.len(),
    })
}

fn failed(answer: Answer, error: &dyn std::fmt::Display) -> Answer {
    Answer {
        error: Some(error.to_string()),
        ..answer
    }
}

/// Tokens run by `members`, without those of prompts.
fn run(members: &[Member]) -> usize {
    let counters = members.iter().map(Member::counters);
    counters
        .map(|run| run.draft_tokens + run.verify_tokens)
        .sum()
}

/// Seed of a question, so that questions are sampled independently of each other: a digest of the
/// seed, the group and the id.
fn seed_of(seed: u64, asked: &Asked) -> u64 {
    let name = [asked.group(), "\n", &asked.id()].concat();
    let bytes = seed.to_le_bytes().into_iter().chain(name.bytes());
    fnv1a(bytes)
}
