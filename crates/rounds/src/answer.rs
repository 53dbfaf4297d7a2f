//! A whole answer: everybody reads the conversation, then round after round until it is over.

use conclave_ensemble::{Query, RoundError, Settings, SettingsError};
use conclave_member::{Message, Thought};
use conclave_model::Sampling;
use serde::Serialize;

use crate::ending::{Ending, Limits, Over};
use crate::form::Form;
use crate::round::{Round, Trouble, play};
use crate::taking_part::{MoveError, TakePart};

/// [`Answer::stopped`] of an answer that its [`Watch`] stopped.
pub const STOPPED: &str = "stopped";

/// What is to be answered.
#[derive(Debug, Clone, Copy)]
pub enum Question<'a> {
    /// A conversation that ends with a question.
    Conversation(&'a [Message]),
    /// A conversation, and what its answer begins with.
    Begun(&'a [Message], &'a str),
    /// A bare text to continue, without anybody's template around it.
    Text(&'a str),
}

impl<'a> Question<'a> {
    /// The conversation, unless it is a bare text, and what its answer begins with.
    fn conversation(self) -> Option<(&'a [Message], &'a str)> {
        match self {
            Self::Conversation(messages) => Some((messages, "")),
            Self::Begun(messages, begun) => Some((messages, begun)),
            Self::Text(_) => None,
        }
    }
}

/// What the members are asked, and how they answer.
#[derive(Debug, Clone)]
pub struct Ask<'a> {
    /// What is to be answered.
    pub question: Question<'a>,
    /// The method's.
    pub settings: &'a Settings,
    /// How members draw; each has a stream of numbers of its own.
    pub sampling: Sampling,
    /// What ends the answer beside the method.
    pub limits: Limits,
    /// What the answer is to be as a whole; words if `None`.
    pub form: Option<Form<'a>>,
}

/// Hears of an answer as it goes, and stops it.
pub trait Watch {
    /// A member has read so many tokens of the conversation, of so many.
    fn reading(&mut self, _member: &str, _done: usize, _total: usize) {}

    /// A member has thought this, behind what it thought before.
    fn thinking(&mut self, _member: &str, _text: &str) {}

    /// A round is over; `text` is what is certain now to be in the answer, behind what was told
    /// before.
    fn round(&mut self, _round: &Round, _text: &str) {}

    /// A member failed, and left the answer to the others.
    fn left(&mut self, _member: &str, _left: &Left) {}

    /// Whether to go on: asked while members read and think, before each round, and before what was
    /// drafted is verified.
    fn go_on(&mut self) -> bool {
        true
    }
}

/// A member that failed in mid-answer, and left it to the others.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Left {
    /// Its index.
    pub member: usize,
    /// The round that it did not come through.
    pub round: usize,
    /// Why.
    pub error: String,
}

/// A whole answer.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer {
    /// The accepted segments joined, up to a text that it was to end before.
    pub text: String,
    /// Why it ended: a rule of the method (`ended`, `rounds`, `length`, `silence`), a limit
    /// (`tokens`, `stop`), `context` where the context of the last member is full, or [`STOPPED`].
    pub stopped: &'static str,
    /// Tokens of the conversation, in the member that has the most.
    pub prompt_tokens: usize,
    /// Tokens of the accepted segments, each in its writer's own.
    pub answer_tokens: usize,
    /// What each member thought before it.
    pub thoughts: Vec<Thought>,
    /// Members that failed on the way.
    pub left: Vec<Left>,
    /// Its rounds.
    pub rounds: Vec<Round>,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AnswerError {
    /// A member failed, and no other was left to go on.
    #[error("{member}: {source}")]
    Of {
        /// Its name.
        member: String,
        /// What failed.
        source: Box<MoveError>,
    },
    /// Settings that the method can't run under.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Scores that the method can't judge by.
    #[error(transparent)]
    Round(#[from] RoundError),
    /// An answer in a form, and nobody who can be held to it.
    #[error(
        "members behind servers can't be held to a schema, and no other is asked; add a member whose model runs here, or ask for words"
    )]
    NoForm,
}

/// The members' answer to what is asked; `watch` hears of it as it goes.
///
/// # Errors
/// What a member or the method reports; text of earlier rounds has been told.
pub async fn answer<M: TakePart>(
    members: &mut [M],
    ask: &Ask<'_>,
    watch: &mut impl Watch,
) -> Result<Answer, AnswerError> {
    let mut query = Query::new(members.len(), ask.settings.clone())?;
    let strengths: Vec<f64> = members.iter().map(TakePart::strength).collect();
    let chats: Vec<bool> = members.iter().map(TakePart::chats).collect();
    query.trust(&strengths, &chats)?;
    if let Some((messages, _)) = ask.question.conversation() {
        query.ask(messages.iter().map(|message| message.content.as_str()));
    }
    let mut said = Answer {
        text: String::new(),
        stopped: STOPPED,
        prompt_tokens: 0,
        answer_tokens: 0,
        thoughts: Vec::with_capacity(members.len()),
        left: Vec::new(),
        rounds: Vec::new(),
    };
    if !begin(members, &mut query, ask, &mut said, watch).await? {
        return Ok(said);
    }
    let mut ending = Ending::new(&ask.limits);
    let mut settings = ask.settings.clone();
    said.stopped = loop {
        if !watch.go_on() {
            break STOPPED;
        }
        settings.segment_tokens = ending.most(ask.settings.segment_tokens);
        if settings.segment_tokens == 0 {
            break "tokens";
        }
        let number = query.round();
        let stop = match play(members, &mut query, &settings, watch).await {
            Ok((round, stop, failed)) => {
                let tokens = round.tokens[round.winner];
                let (text, over) = ending.take(&round.candidates[round.winner].text, tokens);
                said.text.push_str(&text);
                watch.round(&round, &text);
                let ended = round.candidates[round.winner].ended;
                said.rounds.push(round);
                // They were to keep what the others have kept.
                for (index, error) in failed {
                    said.leave(members, &mut query, number, (index, error), watch)?;
                }
                match over {
                    Some(Over::Stop) => Some("stop"),
                    Some(Over::Tokens) if !ended => Some("tokens"),
                    _ => stop.map(conclave_ensemble::Stop::name),
                }
            }
            Err(Trouble::Stopped) => Some(STOPPED),
            // Whoever fails leaves, and the others begin the round anew.
            Err(Trouble::Of(index, error)) => {
                let alone = query.active() == [index];
                if alone && error.context_full() && !said.rounds.is_empty() {
                    Some("context")
                } else {
                    said.leave(members, &mut query, number, (index, error), watch)?;
                    None
                }
            }
            Err(Trouble::Rule(error)) => return Err(error.into()),
        };
        if let Some(stop) = stop {
            break stop;
        }
    };
    said.text.push_str(&ending.rest());
    said.answer_tokens = ending.tokens;
    let told = members.iter().map(TakePart::prompt_tokens);
    said.prompt_tokens = told.fold(said.prompt_tokens, usize::max);
    Ok(said)
}

/// Everybody reads the conversation and thinks, until `watch` stops it: whether it came to the end.
/// A member that can't read it leaves, as long as one that drafts is left.
async fn begin<M: TakePart>(
    members: &mut [M],
    query: &mut Query,
    ask: &Ask<'_>,
    said: &mut Answer,
    watch: &mut impl Watch,
) -> Result<bool, AnswerError> {
    for (index, member) in members.iter_mut().enumerate() {
        let form = ask.form.as_ref().map(|form| form.of(index));
        member.hold(form).map_err(of(member.name()))?;
    }
    // Whether it fits everybody is known at once; to read may take minutes.
    if let Some((messages, begun)) = ask.question.conversation() {
        for member in members.iter_mut() {
            member.begin_with(begun);
        }
        let mut unable = Vec::new();
        for (index, member) in members.iter().enumerate() {
            let measured = member.measure(messages).await;
            unable.extend(measured.err().map(|error| (index, error)));
        }
        let is_able = |index: &usize| unable.iter().all(|(one, _)| one != index);
        let mut able = (0..members.len()).filter(is_able);
        if !able.any(|index| members[index].drafts()) && !unable.is_empty() {
            let (index, error) = unable.swap_remove(0);
            return Err(of(members[index].name())(error));
        }
        for failed in unable {
            said.leave(members, query, query.round(), failed, watch)?;
        }
    }
    let active = query.active().to_vec();
    if ask.form.is_some() && !members.iter().any(TakePart::drafts) {
        return Err(AnswerError::NoForm);
    }
    for (index, member) in members.iter_mut().enumerate() {
        if !active.contains(&index) {
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
        let begun = begun.map_err(of(&name))?;
        if begun.stopped {
            return Ok(false);
        }
        said.prompt_tokens = said.prompt_tokens.max(begun.prefix);
    }
    if let Question::Text(_) = ask.question {
        return Ok(true);
    }
    for (index, member) in members.iter_mut().enumerate() {
        if !active.contains(&index) {
            said.thoughts.push(Thought::default());
            continue;
        }
        let name = member.name().to_owned();
        let go_on = async |text: &str| {
            watch.thinking(&name, text);
            watch.go_on()
        };
        let thought = member.think_while(go_on).await.map_err(of(&name))?;
        let stopped = thought.stopped;
        said.thoughts.push(thought);
        if stopped {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Answer {
    /// Takes a member that failed out of the query: the others go on.
    ///
    /// # Errors
    /// Its own, where there are no others.
    fn leave<M: TakePart>(
        &mut self,
        members: &mut [M],
        query: &mut Query,
        round: usize,
        (index, error): (usize, MoveError),
        watch: &mut impl Watch,
    ) -> Result<(), AnswerError> {
        let member = &mut members[index];
        let left = Left {
            member: index,
            round,
            error: error.to_string(),
        };
        if query.leave(&[index]).is_err() {
            return Err(of(member.name())(error));
        }
        member.release();
        watch.left(member.name(), &left);
        self.left.push(left);
        Ok(())
    }
}

/// A member's failure, under its name.
fn of(member: &str) -> impl FnOnce(MoveError) -> AnswerError {
    let member = member.to_owned();
    |error| AnswerError::Of {
        member,
        source: Box::new(error),
    }
}
