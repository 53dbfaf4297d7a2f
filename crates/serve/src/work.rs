//! The members' thread, which answers one request after another.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use conclave_ensemble::Settings;
use conclave_member::{ChosenToken, Judged, JudgedToken, Message, Passage};
use conclave_model::Sampling;
use conclave_rounds::{
    Answer, Ask, Form, Lexicon, Limits, Question, Round, STOPPED, Shape, TakePart, answer,
    check_schema,
};
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedSender;

use crate::error::ApiError;
use crate::options::Thoughts;
use crate::queue::Queue;
use crate::record::Record;
use crate::server::Ensemble;
use crate::tools::Toolbox;

mod bare;
mod embedding;
mod sink;
mod timings;

use bare::Rendered;
use sink::{EventSink, begin};
pub(crate) use timings::Timings;

/// A parsed request.
#[derive(Debug)]
pub(crate) struct Job {
    /// Index of the only member asked; `None` for all.
    pub member: Option<usize>,
    pub task: Task,
    pub sampling: Sampling,
    pub thoughts: Thoughts,
    pub limits: Limits,
    /// Number of answers to each conversation or text, each with its own seed; at least 1.
    pub choices: usize,
    /// Reading is told as it goes on.
    pub progress: bool,
    /// Closed when the client disconnects.
    pub events: UnboundedSender<Event>,
    pub record: Arc<Record>,
}

impl Job {
    /// Creates a job that draws no token, for one member or the first that can do it.
    pub fn plain(
        member: Option<usize>,
        task: Task,
        events: UnboundedSender<Event>,
        record: Arc<Record>,
    ) -> Self {
        Self {
            member,
            task,
            sampling: Sampling::default(),
            thoughts: Thoughts::default(),
            limits: Limits::default(),
            choices: 1,
            progress: false,
            events,
            record,
        }
    }

    /// Returns whether the client is still connected.
    pub fn is_wanted(&self) -> bool {
        !self.events.is_closed()
    }
}

/// Kind of a request.
#[derive(Debug)]
pub(crate) enum Task {
    Chat(Chat),
    Render {
        messages: Vec<Message>,
        /// Beginning of the answer; usually empty.
        begun: String,
        tools: Option<Toolbox>,
    },
    /// Continues or judges bare texts.
    Texts {
        texts: Vec<String>,
        /// The reply repeats the text.
        echo: bool,
        /// Log-probabilities are returned.
        judge: bool,
    },
    /// Embeds texts.
    Embed(Vec<Passage>),
}

/// A conversation to answer.
#[derive(Debug)]
pub(crate) struct Chat {
    pub messages: Vec<Message>,
    /// Beginning of the answer that the client already has; usually empty.
    pub begun: String,
    /// JSON schema of the answer; `None` for plain text.
    pub schema: Option<String>,
    /// Functions that the answer may call; their form includes `schema`.
    pub tools: Option<Toolbox>,
    /// Number of alternatives to each token whose log-probabilities are returned; `None` for no
    /// log-probabilities.
    pub logprobs: Option<usize>,
}

/// Tokens of a choice with their log-probabilities.
#[derive(Debug)]
pub(crate) enum Logprobs {
    /// Tokens of a continued or judged text, in the tokenisation of this member.
    Text {
        member: String,
        tokens: Vec<JudgedToken>,
    },
    /// Tokens of a chat's answer.
    Chat(Vec<ChosenToken>),
}

impl Chat {
    /// Returns the answer's form.
    fn shape(&self) -> Option<Shape<'_>> {
        let calls = self.tools.as_ref().map(|tools| Shape::Calls(&tools.calls));
        calls.or_else(|| self.schema.as_deref().map(Shape::Document))
    }

    /// Rejects a form that can't be kept. Done here, so that its cost is part of the client's turn.
    fn check(&self) -> Result<(), ApiError> {
        match (&self.tools, &self.schema) {
            (Some(tools), _) => tools.check(),
            (None, Some(schema)) => check_schema(schema).map_err(|error| ApiError::format(&error)),
            (None, None) => Ok(()),
        }
    }
}

impl Task {
    /// Returns the functions that an answer may call.
    pub fn tools(&self) -> Option<&Toolbox> {
        match self {
            Self::Chat(chat) => chat.tools.as_ref(),
            Self::Render { tools, .. } => tools.as_ref(),
            Self::Texts { .. } | Self::Embed(_) => None,
        }
    }

    /// Returns whether it wants log-probabilities of what is written for it, of `limit` tokens.
    pub fn logprobs(&self, limit: Option<usize>) -> bool {
        match self {
            Self::Chat(chat) => chat.logprobs.is_some(),
            Self::Texts { judge, .. } => *judge && limit != Some(0),
            Self::Render { .. } | Self::Embed(_) => false,
        }
    }

    /// Returns the number of conversations or texts.
    pub fn questions(&self) -> usize {
        match self {
            Self::Chat(_) | Self::Render { .. } => 1,
            Self::Texts { texts, .. } => texts.len(),
            Self::Embed(passages) => passages.len(),
        }
    }
}

/// Events of an answer, in order: segments and end of each choice, then the end of all.
#[derive(Debug)]
pub(crate) enum Event {
    /// A member has read some of a choice's question.
    Read {
        choice: usize,
        progress: Value,
    },
    /// The members have begun this choice.
    Begun {
        choice: usize,
    },
    /// Further text of a choice.
    Text {
        choice: usize,
        text: String,
        /// Its writers and the votes for all candidates.
        vote: Option<Vote>,
    },
    /// A choice has ended.
    Over {
        choice: usize,
        /// As [`Answer::stopped`].
        stop: &'static str,
        /// Its tokens, if asked for.
        tokens: Option<Logprobs>,
        /// Members that left or abstained.
        missing: Vec<Missing>,
        /// Times of the whole request, after its last choice if any was drafted.
        timings: Option<Timings>,
    },
    Rendered(String),
    /// The embedding of the next text.
    Embedded(Vec<f32>),
    /// All choices have ended.
    End(Usage),
    Failed(ApiError),
}

/// A member that left an answer or abstained in a round.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Missing {
    pub member: String,
    pub error: String,
    /// It left; otherwise it abstained.
    pub left: bool,
}

impl Missing {
    /// Returns the reply's fields `left` and `abstained`, each only if not empty.
    pub fn fields(all: &[Self]) -> serde_json::Map<String, Value> {
        let mut told = serde_json::Map::new();
        for (name, left) in [("left", true), ("abstained", false)] {
            let of = all.iter().filter(|one| one.left == left);
            let of: Vec<_> = of
                .map(|one| json!({ "member": one.member, "error": one.error }))
                .collect();
            if !of.is_empty() {
                told.insert(name.to_owned(), json!(of));
            }
        }
        told
    }
}

/// Token counts: of prompts the largest member's, of answers the writers'.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub prompt: usize,
    pub answer: usize,
}

/// Writers and votes of a segment (`SegmentVote` in `web/src/library/answer.ts`).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Vote {
    /// Its drafters.
    pub writers: Vec<String>,
    /// Weighted votes by drafter, for the better of a member's candidates; empty without a vote.
    pub votes: Vec<(String, f64)>,
}

impl Vote {
    fn from_round(round: &Round, names: &[String]) -> Self {
        let name = |candidate: usize| names[round.drafters[candidate]].clone();
        let mut writers: Vec<String> = round.writers.iter().map(|&one| name(one)).collect();
        writers.dedup();
        let mut votes: Vec<(String, f64)> = Vec::new();
        for (candidate, &total) in round.totals.iter().enumerate() {
            match votes.last_mut().filter(|last| last.0 == name(candidate)) {
                Some(last) => last.1 = last.1.max(total),
                None => votes.push((name(candidate), total)),
            }
        }
        Self { writers, votes }
    }

    /// Returns the segment for the field `conclave`.
    pub fn segment(&self, text: &str) -> Value {
        let votes = self.votes.iter();
        let votes = votes.map(|(name, total)| (name.clone(), json!(total)));
        let votes: serde_json::Map<String, Value> = votes.collect();
        json!({ "text": text, "writers": self.writers, "votes": votes })
    }
}

/// Answers requests until the queue is closed. A panic ends only its request. `names` are the
/// members' unique names; `ending` stops an answer within a segment.
pub(crate) fn work<M: TakePart>(
    members: &mut [M],
    names: &[String],
    ensemble: &Ensemble,
    queue: &Queue<Job>,
    ending: &AtomicBool,
) {
    let lexicons: Vec<Lexicon> = members.iter().map(|_| Lexicon::default()).collect();
    let mut judged = vec![Judged::default(); members.len()];
    let mut rendered = Rendered::default();
    while let Some(job) = queue.next() {
        let started = Instant::now();
        for member in members.iter_mut() {
            member.reconnect();
            member.set_thinking(job.thoughts.thinking.unwrap_or(ensemble.thinking));
            member.preserve_thinking(job.thoughts.preserved);
            member.set_tools(job.task.tools().map_or(&[], |tools| &tools.tools));
        }
        let mut run = Run {
            members: &mut *members,
            names,
            settings: &ensemble.settings,
            lexicons: &lexicons,
            judged: &mut judged,
            rendered: &mut rendered,
            ending,
            job: &job,
            timings: None,
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| pollster::block_on(run.whole())));
        let last = match outcome {
            Ok(Ok(usage)) => Event::End(usage),
            Ok(Err(error)) => Event::Failed(error),
            Err(_) => {
                for member in members.iter_mut() {
                    // The next conversation overwrites any rest.
                    let _ = catch_unwind(AssertUnwindSafe(|| member.release()));
                }
                judged.fill(Judged::default());
                let message = "The members broke down over this request. Others are not affected.";
                Event::Failed(ApiError::internal(message))
            }
        };
        let Job { record, events, .. } = job;
        match &last {
            Event::End(usage) => record.used(*usage),
            Event::Failed(_) if events.is_closed() => record.failed("The client hung up."),
            Event::Failed(error) => record.failed(&error.reason()),
            _ => {}
        }
        // Logged, counted and no longer in progress before the client learns that it is over.
        drop(record);
        queue.over(started.elapsed());
        // Fails if the client has disconnected.
        let _ = events.send(last);
    }
}

/// A request in progress.
struct Run<'a, M> {
    /// They keep prefixes of recent conversations, which `begin_while` reuses.
    members: &'a mut [M],
    names: &'a [String],
    settings: &'a Settings,
    lexicons: &'a [Lexicon],
    judged: &'a mut [Judged],
    rendered: &'a mut Rendered,
    ending: &'a AtomicBool,
    job: &'a Job,
    /// Times so far; `None` before the first drafted answer.
    timings: Option<Timings>,
}

impl<M: TakePart> Run<'_, M> {
    async fn whole(&mut self) -> Result<Usage, ApiError> {
        let job = self.job;
        match &job.task {
            Task::Chat(chat) => {
                chat.check()?;
                let mut usage = Usage::default();
                for choice in 0..job.choices {
                    let question = Question::Begun(&chat.messages, &chat.begun);
                    let answer = self.answer(choice, question, chat.shape(), "").await;
                    let (said, missing) = answer.map_err(|error| match chat.tools {
                        Some(_) => error.renamed("response_format", "tools"),
                        None => error,
                    })?;
                    let tokens = match chat.logprobs {
                        Some(most) => Some(Logprobs::Chat(self.chosen(most, &said.text).await?)),
                        None => None,
                    };
                    self.tell(Event::Over {
                        choice,
                        stop: said.stopped,
                        tokens,
                        missing,
                        timings: self.timings_after(choice),
                    });
                    usage.prompt = said.prompt_tokens;
                    usage.answer += said.answer_tokens;
                }
                Ok(usage)
            }
            Task::Render {
                messages, begun, ..
            } => {
                let prompt = self.rendered(messages, begun)?;
                self.tell(Event::Rendered(prompt));
                Ok(Usage::default())
            }
            Task::Embed(passages) => self.embed(passages).await,
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

    /// Returns the indices of the members asked.
    fn asked(&self) -> Range<usize> {
        match self.job.member {
            Some(member) => member..member + 1,
            None => 0..self.members.len(),
        }
    }

    /// Returns log-probabilities of the tokens of the only asked member's last answer, as far as it
    /// was shown.
    async fn chosen(&mut self, most: usize, shown: &str) -> Result<Vec<ChosenToken>, ApiError> {
        let member = self.asked().start;
        let (job, ending) = (self.job, self.ending);
        let told = self.members[member].chosen(most, || goes_on(job, ending));
        let mut tokens = told.await?.ok_or_else(ApiError::closing)?;
        let mut bytes = 0;
        tokens.retain(|token| {
            let begins = bytes < shown.len();
            bytes += token.bytes.len();
            begins
        });
        Ok(tokens)
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
        let mut missing = Vec::new();
        let continued = self.job.limits.tokens != Some(0);
        if continued {
            let question = Question::Text(text);
            let said;
            (said, missing) = self.answer(choice, question, None, echoed).await?;
            whole.push_str(&said.text);
            stop = said.stopped;
            usage.prompt = said.prompt_tokens;
            usage.answer = said.answer_tokens;
        }
        let mut tokens = None;
        if judge {
            let (member, mut all) = self.judged(&whole).await?;
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
            tokens = Some(Logprobs::Text {
                member,
                tokens: all,
            });
        }
        if !continued {
            begin(&self.job.events, choice, echoed);
        }
        self.tell(Event::Over {
            choice,
            stop,
            tokens,
            missing,
            timings: self.timings_after(choice),
        });
        Ok(usage)
    }

    /// Returns the times of the request if this is its last choice.
    fn timings_after(&self, choice: usize) -> Option<Timings> {
        let choices = self.job.choices * self.job.task.questions();
        self.timings.filter(|_| choice + 1 == choices)
    }

    /// Answers a question and sends the events, `echoed` first.
    async fn answer(
        &mut self,
        choice: usize,
        question: Question<'_>,
        shape: Option<Shape<'_>>,
        echoed: &str,
    ) -> Result<(Answer, Vec<Missing>), ApiError> {
        let (job, asked) = (self.job, self.asked());
        let ask = Ask {
            question,
            settings: self.settings,
            sampling: Sampling {
                seed: seed_of(job.sampling.seed, choice % job.choices),
                ..job.sampling
            },
            limits: job.limits.clone(),
            form: shape.map(|shape| Form {
                shape,
                lexicons: &self.lexicons[asked.clone()],
            }),
        };
        let mut told = EventSink {
            choice,
            names: &self.names[asked.clone()],
            echoed,
            reading: job.progress.then(Instant::now),
            begun: false,
            bytes: 0,
            missing: Vec::new(),
            last: None,
            ending: self.ending,
            events: &job.events,
            record: &job.record,
        };
        let said = answer(&mut self.members[asked], &ask, &mut told).await?;
        if said.stopped == STOPPED {
            return Err(ApiError::closing());
        }
        self.timings.get_or_insert_default().add(&said);
        let rest = said.text[told.bytes..].to_owned();
        if !told.begun {
            begin(&job.events, choice, echoed);
        }
        if !rest.is_empty() {
            // Text withheld as the possible beginning of a stop text.
            self.tell(Event::Text {
                choice,
                text: rest,
                vote: told.last,
            });
        }
        Ok((said, told.missing))
    }

    fn tell(&self, event: Event) {
        // Fails if the client has disconnected, which also stops the answer.
        let _ = self.job.events.send(event);
    }

    fn goes_on(&self) -> bool {
        goes_on(self.job, self.ending)
    }
}

/// Returns whether the client is still connected and the server not about to end.
fn goes_on(job: &Job, ending: &AtomicBool) -> bool {
    job.is_wanted() && !ending.load(Ordering::Relaxed)
}

/// Returns the seed of one of several answers. Seeds lie far apart, since requests without a seed
/// count up by one.
fn seed_of(seed: u64, choice: usize) -> u64 {
    seed.wrapping_add((choice as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}
