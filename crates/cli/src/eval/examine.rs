//! One question to every member alone and to the ensemble, and the cost of each answer.

use std::collections::HashMap;
use std::time::Instant;

use conclave_ensemble::{Candidate, Scoring, Settings};
use conclave_eval::outcome::{Alone, Draw, Given, Outcome, Played, Samples, Surprise, Together};
use conclave_member::{Draft, Member, MemberError, Message};
use conclave_model::Sampling;
use conclave_rounds::{Ask, Left, Limits, Question, Round, Watch, answer};

use crate::args;
use crate::eval::asked::{Asked, fnv1a};
use crate::eval::rules;
use crate::failure::Failure;
use crate::members;
use crate::progress::tell_of;

/// The most tokens of an answer to a generated question: members show their working.
const GENERATED_TOKENS: usize = 256;

/// The most tokens of an answer to a task.
const TASK_TOKENS: usize = 60;

/// The procedure that every question goes through.
pub struct Exam {
    /// The rules of the ensemble, by name.
    pub rules: Vec<(String, Settings)>,
    /// The most tokens of an answer.
    pub tokens: usize,
    /// Samples of each member that vote.
    pub samples: Option<Samples>,
    /// Seeds that members and rules are sampled with once more.
    pub draws: Vec<u64>,
    /// The member that answers to open questions are scored by: its name, or an empty one for the
    /// largest.
    pub reference: Option<String>,
    /// Whether each member says how much the question surprises it.
    surprise: bool,
    /// The ensemble's sampling.
    ensemble: Sampling,
    /// The sampling of single members, also where the ensemble is greedy; `None` at temperature 0.
    pub drawn: Option<Sampling>,
}

impl Exam {
    /// The command line's.
    ///
    /// # Errors
    /// Unknown rules, settings or members, or samples that would all be alike.
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

    /// Everybody's answer with one more seed.
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
            let given = self.alone(member, messages, sampling, stream).await;
            draw.alone.push(given);
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
        for given in outcome.answers() {
            if !known.contains_key(&given.text) {
                let surprise = surprise_of(reference, &given.text).await;
                known.insert(given.text.clone(), surprise);
            }
            given.surprise = known[&given.text];
        }
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
        // A member that left an earlier answer reads the question again: that is not this one's
        // cost.
        for (stream, member) in (0..).zip(members.iter_mut()) {
            if let Err(error) = member.begin(messages, sampling, stream).await {
                together.given = failed(Given::default(), &error);
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
        let given = Given {
            seconds: clock.elapsed().as_secs_f64(),
            tokens: run(members) - before,
            ..Given::default()
        };
        together.given = match said {
            Ok(said) => {
                said.stopped.clone_into(&mut together.stopped);
                Given {
                    text: said.text,
                    cut: matches!(said.stopped, "tokens" | "rounds" | "length" | "context"),
                    ..given
                }
            }
            Err(error) => failed(given, &error),
        };
        together
    }
}

/// Records the rounds of an answer.
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
        tell_of(member, left);
    }
}

/// How probable `member` finds `text` as the answer; `None` of no text, and of one that it has no
/// room for.
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
