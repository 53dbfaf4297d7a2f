//! The members' thread: one request after the other, in the queue's order.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use conclave_ensemble::Settings;
use conclave_member::{Judged, JudgedToken, Message};
use conclave_model::Sampling;
use conclave_rounds::{
    Answer, Ask, Form, Left, Lexicon, Limits, MoveError, Question, Round, STOPPED, TakePart, Watch,
    answer, check_schema,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::error::ApiError;
use crate::queue::Queue;

/// A request with all it needs.
#[derive(Debug)]
pub(crate) struct Job {
    /// The member that is asked alone, by index; `None` for all.
    pub member: Option<usize>,
    pub task: Task,
    pub sampling: Sampling,
    pub limits: Limits,
    /// Answers to each conversation or text, from 1: each draws by numbers of its own.
    pub choices: usize,
    /// Closed by a client that has gone away.
    pub events: UnboundedSender<Event>,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) enum Task {
    /// An answer to a conversation.
    Chat {
        messages: Vec<Message>,
        /// The schema, JSON text, of the document that the answer is to be; words if `None`.
        schema: Option<String>,
    },
    /// A conversation as a member's template writes it; nothing is run.
    Render { messages: Vec<Message> },
    /// Bare texts, each to be continued by so many tokens as the limits say, or judged.
    Texts {
        texts: Vec<String>,
        /// The text stands before its continuation.
        echo: bool,
        /// How probable the tokens are.
        judge: bool,
    },
}

impl Task {
    /// How many conversations or texts are to be answered.
    pub fn questions(&self) -> usize {
        match self {
            Self::Chat { .. } | Self::Render { .. } => 1,
            Self::Texts { texts, .. } => texts.len(),
        }
    }
}

/// What comes of it, in this order: for each choice its segments and its end, then the end of all.
#[derive(Debug)]
pub(crate) enum Event {
    /// The members have begun this choice: what comes may be told.
    Begun { choice: usize },
    /// More of a choice's text.
    Text {
        choice: usize,
        text: String,
        /// Who wrote it, and what the members thought of all candidates.
        vote: Option<Vote>,
    },
    /// A choice is whole.
    Over {
        choice: usize,
        /// As [`Answer::stopped`].
        stop: &'static str,
        /// The tokens of its text, where it was judged.
        tokens: Option<Vec<JudgedToken>>,
    },
    /// The conversation as the template writes it.
    Rendered(String),
    /// All of it is there.
    End(Usage),
    /// There is no more.
    Failed(ApiError),
}

/// Tokens of prompts, in the member that has the most, and of answers, in their writers' own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub prompt: usize,
    pub answer: usize,
}

/// What the members did for a segment, as the page's library tells it (`SegmentVote` in
/// `web/src/library/answer.ts`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vote {
    /// Who drafted it.
    pub writers: Vec<String>,
    /// What each candidate got of the weighted votes, by its drafter; none where there was no vote.
    pub votes: Vec<(String, f64)>,
}

impl Vote {
    fn of(round: &Round, names: &[String]) -> Self {
        let name = |candidate: usize| names[round.drafters[candidate]].clone();
        let votes = round.totals.iter().enumerate();
        Self {
            writers: round
                .writers
                .iter()
                .map(|&candidate| name(candidate))
                .collect(),
            votes: votes
                .map(|(candidate, &total)| (name(candidate), total))
                .collect(),
        }
    }

    /// The segment as the extension tells it.
    pub fn told(&self, text: &str) -> Value {
        let votes = self.votes.iter();
        let votes = votes.map(|(name, total)| (name.clone(), json!(total)));
        let votes: serde_json::Map<String, Value> = votes.collect();
        json!({ "text": text, "writers": self.writers, "votes": votes })
    }
}

/// Works until the queue is closed. A request that panics ends alone: the members begin anew with
/// the next. `names` are what the members are told by; `ending` stops an answer within a segment.
pub(crate) fn work<M: TakePart>(
    members: &mut [M],
    names: &[String],
    settings: &Settings,
    queue: &Queue<Job>,
    ending: &AtomicBool,
) {
    let lexicons: Vec<Lexicon> = members.iter().map(|_| Lexicon::default()).collect();
    let mut judged = vec![Judged::default(); members.len()];
    while let Some(job) = queue.next() {
        let started = Instant::now();
        let mut run = Run {
            members: &mut *members,
            names,
            settings,
            lexicons: &lexicons,
            judged: &mut judged,
            ending,
            job: &job,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| pollster::block_on(run.whole())));
        let last = match outcome {
            Ok(Ok(usage)) => Event::End(usage),
            Ok(Err(error)) => Event::Failed(error),
            Err(_) => {
                for member in members.iter_mut() {
                    // What one can't free, the next conversation writes over.
                    let _ = catch_unwind(AssertUnwindSafe(|| member.release()));
                }
                judged.fill(Judged::default());
                let message = "The members broke down over this request. Others are not affected.";
                Event::Failed(ApiError::internal(message))
            }
        };
        // Nobody hears it who has gone away.
        let _ = job.events.send(last);
        queue.over(started.elapsed());
    }
}

/// One request on its way.
struct Run<'a, M> {
    /// What they hold of the last few conversations, the next one shares: `begin_while` puts back
    /// what it goes on from, and runs only the rest.
    members: &'a mut [M],
    names: &'a [String],
    settings: &'a Settings,
    lexicons: &'a [Lexicon],
    judged: &'a mut [Judged],
    ending: &'a AtomicBool,
    job: &'a Job,
}

impl<M: TakePart> Run<'_, M> {
    async fn whole(&mut self) -> Result<Usage, ApiError> {
        let job = self.job;
        match &job.task {
            Task::Chat { messages, schema } => {
                let schema = schema.as_deref();
                if let Some(schema) = schema {
                    // Here, and not as the request comes: what it costs is part of its client's
                    // turn.
                    check_schema(schema).map_err(|error| ApiError::format(&error))?;
                }
                let mut usage = Usage::default();
                for choice in 0..job.choices {
                    let question = Question::Conversation(messages);
                    let said = self.answer(choice, question, schema, "").await?;
                    self.tell(Event::Over {
                        choice,
                        stop: said.stopped,
                        tokens: None,
                    });
                    usage.prompt = said.prompt_tokens;
                    usage.answer += said.answer_tokens;
                }
                Ok(usage)
            }
            Task::Render { messages } => {
                let prompt = self.rendered(messages)?;
                self.tell(Event::Rendered(prompt));
                Ok(Usage::default())
            }
            Task::Texts { texts, echo, judge } => {
                let mut usage = Usage::default();
                for (place, text) in texts.iter().enumerate() {
                    let choices = place * job.choices..(place + 1) * job.choices;
                    let mut prompt = 0;
                    for choice in choices {
                        let one = self.text(choice, text, *echo, *judge).await?;
                        prompt = one.prompt;
                        usage.answer += one.answer;
                    }
                    usage.prompt += prompt;
                }
                Ok(usage)
            }
        }
    }

    /// Places of those who are asked.
    fn asked(&self) -> Range<usize> {
        match self.job.member {
            Some(member) => member..member + 1,
            None => 0..self.members.len(),
        }
    }

    /// The conversation by the template of the first of those who are asked that knows its own.
    fn rendered(&self, messages: &[Message]) -> Result<String, ApiError> {
        let mut told = Err(MoveError::Unknown("render a conversation"));
        for member in &self.members[self.asked()] {
            told = member.render(messages);
            if !matches!(told, Err(MoveError::Unknown(_))) {
                break;
            }
        }
        Ok(told?)
    }

    /// How probable the tokens of `text` are to the first of those who are asked that can tell:
    /// whose numbers they are has to be one, and the one by whose template conversations are
    /// rendered.
    async fn judged(&mut self, text: &str) -> Result<Vec<JudgedToken>, ApiError> {
        let mut told = Err(MoveError::Unknown("judge a bare text"));
        for place in self.asked() {
            let judged = &mut self.judged[place];
            told = self.members[place].judge_text(text, judged).await;
            if !matches!(told, Err(MoveError::Unknown(_))) {
                break;
            }
        }
        Ok(told?)
    }

    /// Continues a text, judges it, or both.
    async fn text(
        &mut self,
        choice: usize,
        text: &str,
        echo: bool,
        judge: bool,
    ) -> Result<Usage, ApiError> {
        if !self.goes_on() {
            return Err(ApiError::closing());
        }
        let mut usage = Usage::default();
        let (mut whole, mut stop) = (text.to_owned(), "tokens");
        let echoed = if echo { text } else { "" };
        let continued = self.job.limits.tokens != Some(0);
        if continued {
            let question = Question::Text(text);
            let said = self.answer(choice, question, None, echoed).await?;
            whole.push_str(&said.text);
            stop = said.stopped;
            usage.prompt = said.prompt_tokens;
            usage.answer = said.answer_tokens;
        }
        let mut tokens = None;
        if judge {
            let mut all = self.judged(&whole).await?;
            if !continued {
                usage.prompt = all.len();
            }
            if !echo {
                let mut before = 0;
                all.retain(|token| {
                    before += token.text.len();
                    before > text.len()
                });
            }
            tokens = Some(all);
        }
        if !continued {
            begin(&self.job.events, choice, echoed);
        }
        self.tell(Event::Over {
            choice,
            stop,
            tokens,
        });
        Ok(usage)
    }

    /// The answer of those who are asked, told as it comes, behind a text that is told first.
    async fn answer(
        &mut self,
        choice: usize,
        question: Question<'_>,
        schema: Option<&str>,
        echoed: &str,
    ) -> Result<Answer, ApiError> {
        let (job, asked) = (self.job, self.asked());
        let ask = Ask {
            question,
            settings: self.settings,
            sampling: Sampling {
                seed: seed_of(job.sampling.seed, choice % job.choices),
                ..job.sampling
            },
            limits: job.limits.clone(),
            form: schema.map(|schema| Form {
                schema,
                lexicons: &self.lexicons[asked.clone()],
            }),
        };
        let mut told = Told {
            choice,
            names: &self.names[asked.clone()],
            echoed,
            begun: false,
            bytes: 0,
            ending: self.ending,
            events: &job.events,
        };
        let said = answer(&mut self.members[asked], &ask, &mut told).await?;
        if said.stopped == STOPPED {
            return Err(ApiError::closing());
        }
        let rest = said.text[told.bytes..].to_owned();
        if !told.begun {
            begin(&job.events, choice, echoed);
        }
        if !rest.is_empty() {
            // What was held back, since it might have begun a text to stop before.
            self.tell(Event::Text {
                choice,
                text: rest,
                vote: None,
            });
        }
        Ok(said)
    }

    fn tell(&self, event: Event) {
        // Whoever has gone away stops the answer, and hears nothing of it.
        let _ = self.job.events.send(event);
    }

    fn goes_on(&self) -> bool {
        !self.job.events.is_closed() && !self.ending.load(Ordering::Relaxed)
    }
}

/// The seed of one of several answers to the same question. They lie far apart: a request that
/// names no seed has the one behind the last request's.
fn seed_of(seed: u64, choice: usize) -> u64 {
    seed.wrapping_add((choice as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Tells that nothing stands in the way of an answer any more, and what stands before it.
fn begin(events: &UnboundedSender<Event>, choice: usize, echoed: &str) {
    let _ = events.send(Event::Begun { choice });
    if !echoed.is_empty() {
        let _ = events.send(Event::Text {
            choice,
            text: echoed.to_owned(),
            vote: None,
        });
    }
}

/// Tells a client of its answer.
struct Told<'a> {
    choice: usize,
    /// The text that is told before it.
    echoed: &'a str,
    /// Of those who are asked.
    names: &'a [String],
    begun: bool,
    /// Bytes of the text that was told.
    bytes: usize,
    ending: &'a AtomicBool,
    events: &'a UnboundedSender<Event>,
}

impl Watch for Told<'_> {
    fn round(&mut self, round: &Round, text: &str) {
        if !self.begun {
            self.begun = true;
            begin(self.events, self.choice, self.echoed);
        }
        self.bytes += text.len();
        let _ = self.events.send(Event::Text {
            choice: self.choice,
            text: text.to_owned(),
            vote: Some(Vote::of(round, self.names)),
        });
    }

    fn left(&mut self, member: &str, left: &Left) {
        eprintln!(
            "{member} leaves an answer: {}; the others go on",
            left.error
        );
    }

    fn go_on(&mut self) -> bool {
        !self.events.is_closed() && !self.ending.load(Ordering::Relaxed)
    }
}
