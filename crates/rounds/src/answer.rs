//! A complete answer: all members read the conversation, then rounds run until it is over.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use conclave_ensemble::{
    Event, Failed, Limits, Move, Query, RoundError, Rounds, Settings, SettingsError, Stop,
};
use conclave_member::{Message, Thought};
use conclave_model::Sampling;
use serde::Serialize;

use crate::counted::tokens_to_stop;
use crate::form::Form;
use crate::round::{Round, drive};
use crate::taking_part::{MoveError, TakePart};

/// [`Answer::stopped`] of an answer that its [`Watch`] stopped.
pub const STOPPED: &str = "stopped";

/// Input of an answer.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// A conversation that ends with a question.
    Conversation(&'a [Message]),
    /// A conversation, with the beginning of its answer.
    Begun(&'a [Message], &'a str),
    /// A bare text to continue, without chat templates.
    Text(&'a str),
}

impl<'a> Question<'a> {
    /// The conversation with the beginning of its answer, or the bare text.
    pub(crate) fn conversation(self) -> Result<(&'a [Message], &'a str), &'a str> {
        match self {
            Self::Conversation(messages) => Ok((messages, "")),
            Self::Begun(messages, begun) => Ok((messages, begun)),
            Self::Text(text) => Err(text),
        }
    }
}

/// A request to the members, with its options.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// Input.
    pub question: Question<'a>,
    /// Settings of the method.
    pub settings: &'a Settings,
    /// Sampling; each member has its own random stream.
    pub sampling: Sampling,
    /// Limits beside the method's.
    pub limits: Limits,
    /// Form of the whole answer; free text if `None`.
    pub form: Option<Form<'a>>,
}

/// Observer of an answer, which can stop it.
pub trait Watch {
    /// A member has read `done` of `total` tokens of the conversation.
    fn reading(&mut self, _member: &str, _done: usize, _total: usize) {}

    /// A member has thought `text`, which follows its earlier thoughts.
    fn thinking(&mut self, _member: &str, _text: &str) {}

    /// A round is over; `text` is now final and follows the text reported before.
    fn round(&mut self, _round: &Round, _text: &str) {}

    /// A member failed, and left the answer to the others.
    fn left(&mut self, _member: &str, _left: &Left) {}

    /// Whether to continue: asked while members read and think, and before each of their moves.
    fn go_on(&mut self) -> bool {
        true
    }
}

/// A member that failed during the answer, and left it to the others.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// Its index.
    pub member: usize,
    /// Round in which it failed.
    pub round: usize,
    /// Error message.
    pub error: String,
}

/// A complete answer.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The accepted segments joined, up to the first stop text.
    pub text: String,
    /// Reason of the end: a rule of the method (`ended`, `rounds`, `length`, `silence`,
    /// `repetition`), a limit (`tokens`, `stop`), `context` if the context of the last member is
    /// full, or [`STOPPED`].
    pub stopped: &'static str,
    /// Tokens of the conversation, in the member that has the most.
    pub prompt_tokens: usize,
    /// Number of tokens of the accepted segments, each in its writer's tokenisation. If a stop text
    /// ended the answer, the token that completes it is the last one counted; a segment written by
    /// remote members alone counts as a whole.
    pub answer_tokens: usize,
    /// Each member's thoughts before the answer.
    pub thoughts: Vec<Thought>,
    /// Members that failed during the answer.
    pub left: Vec<Left>,
    /// Rounds.
    pub rounds: Vec<Round>,
    /// Measured times.
    #[serde(skip)]
    pub timings: Timings,
}

/// Measured times of an answer; those of thoughts are in none of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Tokens of the conversation that were run, in the member that ran the most; tokens kept from
    /// an earlier conversation are not run again. 0 if all members are behind servers.
    pub read: usize,
    /// Time in which all members read the conversation.
    pub reading: Duration,
    /// Time of all rounds.
    pub writing: Duration,
}

impl Answer {
    /// Removes a member that failed with this error.
    pub(crate) fn leave<M: TakePart>(
        &mut self,
        members: &mut [M],
        member: usize,
        round: usize,
        error: Option<MoveError>,
        watch: &mut impl Watch,
    ) {
        let error = error.map(|error| error.to_string()).unwrap_or_default();
        members[member].release();
        let left = Left {
            member,
            round,
            error,
        };
        watch.left(members[member].name(), &left);
        self.left.push(left);
    }
}

/// Reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// The last member failed.
    #[error("{member}: {source}")]
    Of {
        /// Its name.
        member: String,
        /// Its error.
        source: Box<MoveError>,
    },
    /// Invalid settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Invalid scores.
    #[error(transparent)]
    Round(#[from] RoundError),
    /// The answer is to have a form, but no member can be constrained to it.
    #[error(
        "members behind servers can't be held to a schema, and no other is asked; add a member \
         whose model runs here, or ask for words"
    )]
    NoForm,
    /// All members that are asked only judge.
    #[error(
        "only members that judge are asked, and none that drafts; ask another, or the ensemble"
    )]
    NoDrafter,
}

/// The members' answer to the request; `watch` observes it.
///
/// # Errors
/// Errors of a member or of the method; text of earlier rounds has been reported.
pub async fn answer<M: TakePart>(
    members: &mut [M],
    ask: &Ask<'_>,
    watch: &mut impl Watch,
) -> Result<Answer, AnswerError> {
    let mut settings = ask.settings.clone();
    if ask.form.is_some() {
        // A document may repeat itself, and one that is cut is none.
        settings.max_repeats = Settings::MOST_REPEATS;
    }
    let mut query = Query::new(members.len(), settings)?;
    let strengths: Vec<f64> = members.iter().map(TakePart::strength).collect();
    let chats: Vec<bool> = members.iter().map(TakePart::chats).collect();
    query.trust(&strengths, &chats)?;
    if let Ok((messages, begun)) = ask.question.conversation() {
        query.ask(messages.iter().map(|message| message.content.as_str()));
        query.begin(begun);
    }
    let mut said = Answer {
        text: String::new(),
        stopped: STOPPED,
        prompt_tokens: 0,
        answer_tokens: 0,
        thoughts: Vec::with_capacity(members.len()),
        left: Vec::new(),
        rounds: Vec::new(),
        timings: Timings::default(),
    };
    let mut unable = measure(members, ask).await?;
    if !begin(members, ask, &mut unable, &mut said, watch).await? {
        return Ok(said);
    }
    let failed = unable.iter().map(|(&member, error)| {
        let kind = error.failure();
        Failed { member, kind }
    });
    let failed = failed.collect();
    let drafts = members.iter().map(TakePart::drafts).collect();
    let mut rounds = Rounds::new(query, ask.limits.clone(), true);
    let mut first = rounds.next(Event::Begun { drafts, failed })?;
    while let Move::Leave { member, round } = first {
        said.leave(members, member, round, unable.remove(&member), watch);
        first = rounds.next(Event::Next)?;
    }
    let begun = Instant::now();
    drive(members, &mut rounds, first, ask.settings, &mut said, watch).await?;
    said.timings.writing = begun.elapsed();
    said.text.push_str(&rounds.rest());
    said.answer_tokens = match said.stopped == Stop::Text.name() {
        true => tokens_to_stop(members, ask, &said).min(rounds.tokens()),
        false => rounds.tokens(),
    };
    let counted = members.iter().map(TakePart::prompt_tokens);
    said.prompt_tokens = counted.fold(said.prompt_tokens, usize::max);
    Ok(said)
}

/// Members that can't read the question, with their errors, as long as one that drafts can. Whether
/// it fits is known at once; reading it may take minutes.
async fn measure<M: TakePart>(
    members: &mut [M],
    ask: &Ask<'_>,
) -> Result<BTreeMap<usize, MoveError>, AnswerError> {
    for (index, member) in members.iter_mut().enumerate() {
        let form = ask.form.as_ref().map(|form| form.for_member(index));
        member.hold(form).map_err(named(member.name()))?;
    }
    let mut unable = BTreeMap::new();
    for (index, member) in members.iter_mut().enumerate() {
        let measured = match ask.question.conversation() {
            Ok((messages, begun)) => {
                member.begin_with(begun);
                member.measure(messages).await
            }
            Err(text) => member.measure_text(text),
        };
        if let Err(error) = measured {
            unable.insert(index, error);
        }
    }
    let mut able = (0..members.len()).filter(|index| !unable.contains_key(index));
    if !able.any(|index| members[index].drafts())
        && let Some(index) = decisive(members, &unable)
        && let Some(error) = unable.remove(&index)
    {
        return Err(named(members[index].name())(error));
    }
    if !members.iter().any(TakePart::drafts) {
        return Err(match ask.form {
            Some(_) => AnswerError::NoForm,
            None => AnswerError::NoDrafter,
        });
    }
    Ok(unable)
}

/// Index of the member whose error says what to change: for a question that is too long, of those
/// with the most room; else the first.
fn decisive<M: TakePart>(members: &[M], unable: &BTreeMap<usize, MoveError>) -> Option<usize> {
    let full = unable.iter().filter(|(_, error)| error.context_full());
    // `max_by_key` returns the last of equal members: reversed, that is the first.
    let most = full
        .rev()
        .max_by_key(|&(&index, _)| members[index].context());
    most.or(unable.first_key_value()).map(|(&index, _)| index)
}

/// Lets all members that are able read the conversation and think, until `watch` stops them;
/// returns whether they finished. One that fails as it thinks is unable, unless no other drafts.
async fn begin<M: TakePart>(
    members: &mut [M],
    ask: &Ask<'_>,
    unable: &mut BTreeMap<usize, MoveError>,
    said: &mut Answer,
    watch: &mut impl Watch,
) -> Result<bool, AnswerError> {
    let started = Instant::now();
    for (index, member) in members.iter_mut().enumerate() {
        if unable.contains_key(&index) {
            continue;
        }
        let stream = index as u64;
        let name = member.name().to_owned();
        let go_on = async |done, total| {
            watch.reading(&name, done, total);
            watch.go_on()
        };
        let begun = match ask.question {
            Question::Conversation(messages) | Question::Begun(messages, _) => {
                member
                    .begin_while(messages, ask.sampling, stream, go_on)
                    .await
            }
            Question::Text(text) => {
                member
                    .begin_text_while(text, ask.sampling, stream, go_on)
                    .await
            }
        };
        let begun = begun.map_err(named(&name))?;
        if begun.stopped {
            return Ok(false);
        }
        said.prompt_tokens = said.prompt_tokens.max(begun.prefix);
        said.timings.read = said.timings.read.max(begun.run);
    }
    said.timings.reading = started.elapsed();
    if let Question::Text(_) = ask.question {
        return Ok(true);
    }
    let drafts: Vec<bool> = members.iter().map(TakePart::drafts).collect();
    for (index, member) in members.iter_mut().enumerate() {
        if unable.contains_key(&index) {
            said.thoughts.push(Thought::default());
            continue;
        }
        let name = member.name().to_owned();
        let go_on = async |text: &str| {
            watch.thinking(&name, text);
            watch.go_on()
        };
        let thought = member.think_while(go_on).await;
        let is_other = |other: usize| other != index && !unable.contains_key(&other);
        let thought = match thought {
            Err(error) if (0..drafts.len()).any(|other| drafts[other] && is_other(other)) => {
                unable.insert(index, error);
                Thought::default()
            }
            thought => thought.map_err(named(&name))?,
        };
        let stopped = thought.stopped;
        said.thoughts.push(thought);
        if stopped {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Maps a member's failure to an error with its name.
pub(crate) fn named(member: &str) -> impl FnOnce(MoveError) -> AnswerError {
    let member = member.to_owned();
    |error| AnswerError::Of {
        member,
        source: Box::new(error),
    }
}
