//! Participants of rounds. A round asks these moves of a member, wherever its model runs; a new
//! kind of member is a variant of [`AnyMember`](crate::AnyMember), and of [`MoveError`].

use conclave_ensemble::{Candidate, Failure, Settings};
use conclave_member::{
    Begun, ChosenToken, Draft, Embedding, Judged, JudgedToken, Member, MemberError, Message,
    Passage, Thinking, Thought, Tool, VerifiedScore, instructions, written_out,
};
use conclave_model::{ModelError, SAMPLING_OPTIONS, Sampling, Threads};
use conclave_remote::{ChatMessage, Drafted, Drawing, Remote, RemoteError};

use crate::form::FormOf;

/// Failure of a member's move.
#[derive(Debug, thiserror::Error)]
pub enum MoveError {
    /// A member whose model runs here.
    #[error(transparent)]
    Local(#[from] MemberError),
    /// A member whose model runs on a server.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A move that this kind of member lacks.
    #[error("it can't {0}; ask another member, or the ensemble without it")]
    Unknown(&'static str),
}

impl MoveError {
    /// Whether the next round may succeed: until then the member abstains.
    pub fn abstains(&self) -> bool {
        matches!(self, Self::Remote(error) if error.passes())
    }

    /// Whether its server is away, so that a later answer may succeed; this one may have waited for
    /// it for too long already.
    pub fn is_away(&self) -> bool {
        let gone = matches!(self, Self::Remote(RemoteError::Gone { .. }));
        gone || self.abstains()
    }

    /// Whether its context is full.
    pub fn context_full(&self) -> bool {
        self.failure() == Failure::ContextFull
    }

    /// Kind of failure for the rounds.
    pub fn failure(&self) -> Failure {
        match self {
            Self::Local(MemberError::Model(ModelError::ContextFull { .. }))
            | Self::Remote(RemoteError::TooLong { .. }) => Failure::ContextFull,
            Self::Local(MemberError::Model(ModelError::Gpu(_))) => Failure::Device,
            _ => Failure::Other,
        }
    }
}

/// Moves of a member. Each is specified at the function of [`Member`] with the same name.
#[expect(
    async_fn_in_trait,
    reason = "a move ends on the thread where it began, so no caller wants `Send`"
)]
pub trait TakePart: Send {
    /// Its name.
    fn name(&self) -> &str;

    /// Renames it, where another member has its name; a kind that can't be renamed keeps it.
    fn set_name(&mut self, _name: &str) {}

    /// Tries again to reach it if it is away; called between answers, before all other moves.
    fn reconnect(&mut self) {}

    /// Its strength ([`conclave_ensemble::Query::trust`]); NaN if unknown.
    fn strength(&self) -> f64 {
        f64::NAN
    }

    /// Whether it chats; a base model only continues texts.
    fn chats(&self) -> bool {
        true
    }

    /// Threads that share its passes. Members with several move at the same time, each on a thread
    /// of its own; members with one move on the thread of the rounds, where those that wait for a
    /// device or a server should not block.
    fn threads(&self) -> Threads {
        Threads::ONE
    }

    /// Size of its context in tokens; `None` if unknown.
    fn context(&self) -> Option<usize> {
        None
    }

    /// Number of tokens of a conversation in its tokenisation; runs nothing.
    ///
    /// # Errors
    /// A conversation that does not fit, or that its template refuses.
    async fn measure(&self, messages: &[Message]) -> Result<usize, MoveError>;

    /// Number of tokens of a bare text; runs nothing.
    ///
    /// # Errors
    /// A text that does not fit; [`MoveError::Unknown`] for a member that only converses.
    fn measure_text(&self, _text: &str) -> Result<usize, MoveError> {
        Err(MoveError::Unknown("continue a bare text"))
    }

    /// Renders a conversation by its template, up to where the answer begins or, after
    /// [`begin_with`](Self::begin_with), continues.
    ///
    /// # Errors
    /// A conversation that its template refuses; [`MoveError::Unknown`] for a member whose template
    /// is not available here.
    fn render(&self, _messages: &[Message]) -> Result<String, MoveError> {
        Err(MoveError::Unknown("render a conversation"))
    }

    /// Constrains its drafts of the next answer to a form; `None` removes the constraint. A member
    /// that can't be constrained to any form only judges that answer.
    ///
    /// # Errors
    /// If it can't be constrained to this one.
    fn hold(&mut self, form: Option<FormOf<'_>>) -> Result<(), MoveError>;

    /// Sets whether it thinks aloud before it answers, from the next conversation on.
    fn set_thinking(&mut self, _thinking: Thinking) {}

    /// Sets whether its template keeps the thoughts in earlier answers; `None` for its default.
    fn preserve_thinking(&mut self, _preserved: Option<bool>) {}

    /// Sets the functions that answers to the next conversations may call.
    fn set_tools(&mut self, _tools: &[Tool]) {}

    /// Sets the beginning of the answer to the next conversation; empty for none.
    fn begin_with(&mut self, _text: &str) {}

    /// Reads a conversation; `go_on` gets the number of tokens read and their total, and returns
    /// whether to continue.
    ///
    /// # Errors
    /// Those of [`measure`](Self::measure), and of running the model.
    async fn begin_while(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError>;

    /// Reads a bare text to continue instead, without a template.
    ///
    /// # Errors
    /// Those of [`begin_while`](Self::begin_while); [`MoveError::Unknown`] for a member that only
    /// converses.
    async fn begin_text_while(
        &mut self,
        _text: &str,
        _sampling: Sampling,
        _stream: u64,
        _go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        Err(MoveError::Unknown("continue a bare text"))
    }

    /// Probability of each token of a bare text, in its own tokenisation; `judged`: results of the
    /// previous text, which are reused and replaced.
    ///
    /// # Errors
    /// Those of running the model; [`MoveError::Unknown`] for a member without log-probabilities.
    async fn judge_text(
        &mut self,
        _text: &str,
        _judged: &mut Judged,
    ) -> Result<Vec<JudgedToken>, MoveError> {
        Err(MoveError::Unknown("judge a bare text"))
    }

    /// Log-probabilities of its tokens of the present answer, with `most` alternatives each; before
    /// each token `go_on` returns whether to continue, and `None` is returned if it ended this.
    ///
    /// # Errors
    /// Those of running the model; [`MoveError::Unknown`] for a member without log-probabilities.
    async fn chosen(
        &mut self,
        _most: usize,
        _go_on: impl FnMut() -> bool,
    ) -> Result<Option<Vec<ChosenToken>>, MoveError> {
        Err(MoveError::Unknown(
            "tell the log-probabilities of an answer",
        ))
    }

    /// Number of tokens of a `segment` that begin before its byte `end`, in its own tokenisation;
    /// `first` if the segment begins the answer. `None` for a member that has no tokenizer here.
    fn tokens_before(&self, _segment: &str, _end: usize, _first: bool) -> Option<usize> {
        None
    }

    /// Embeds a text.
    ///
    /// # Errors
    /// Those of running the model; [`MoveError::Unknown`] for a member without hidden states.
    async fn embed(&mut self, _passage: &Passage) -> Result<Embedding, MoveError> {
        Err(MoveError::Unknown("embed a text"))
    }

    /// Thinks before it answers, if it can and may; `go_on` gets the new text and returns whether
    /// to continue.
    ///
    /// # Errors
    /// Those of running the model.
    async fn think_while(
        &mut self,
        go_on: impl AsyncFnMut(&str) -> bool,
    ) -> Result<Thought, MoveError>;

    /// Whether it drafts; one that only judges is never asked for a draft.
    fn drafts(&self) -> bool {
        true
    }

    /// Drafts a segment of at most `limit` of its tokens, not yet cut to whole words; with a second
    /// one if its least margin of a word is below `branch`, and a `novel` one without runs of
    /// tokens that the answer has already, where the member can draft such.
    ///
    /// # Errors
    /// Those of running the model; [`Failure::ContextFull`] if there is no room.
    async fn draft(&mut self, limit: usize, branch: f64, novel: bool) -> Result<Draft, MoveError>;

    /// Scores all candidates, `[candidates]`; empty for a member that only drafts.
    ///
    /// # Errors
    /// Those of [`draft`](Self::draft).
    async fn verify(
        &mut self,
        candidates: &[Candidate],
        settings: &Settings,
    ) -> Result<Vec<VerifiedScore>, MoveError>;

    /// Appends this candidate of the last [`verify`](Self::verify) to its text.
    ///
    /// # Errors
    /// Those of running the model.
    async fn keep(&mut self, winner: usize) -> Result<(), MoveError>;

    /// Tokens of the conversation if they are known only after the first draft; else 0, and
    /// [`begin_while`](Self::begin_while) has reported them.
    fn prompt_tokens(&self) -> usize {
        0
    }

    /// Leaves the query, and releases its resources.
    fn release(&mut self);
}

impl TakePart for Member {
    fn name(&self) -> &str {
        self.name()
    }

    fn set_name(&mut self, name: &str) {
        self.set_name(name);
    }

    fn strength(&self) -> f64 {
        self.strength()
    }

    fn chats(&self) -> bool {
        self.has_template()
    }

    fn threads(&self) -> Threads {
        self.threads()
    }

    fn context(&self) -> Option<usize> {
        Some(self.about().context)
    }

    async fn measure(&self, messages: &[Message]) -> Result<usize, MoveError> {
        Ok(self.measure(messages)?)
    }

    fn measure_text(&self, text: &str) -> Result<usize, MoveError> {
        Ok(self.measure_text(text)?)
    }

    fn render(&self, messages: &[Message]) -> Result<String, MoveError> {
        Ok(self.render(messages)?)
    }

    fn hold(&mut self, form: Option<FormOf<'_>>) -> Result<(), MoveError> {
        let constraint = form.map(|form| form.constraint(self)).transpose()?;
        self.constrain(constraint);
        Ok(())
    }

    fn set_thinking(&mut self, thinking: Thinking) {
        self.set_thinking(thinking);
    }

    fn preserve_thinking(&mut self, preserved: Option<bool>) {
        self.preserve_thinking(preserved);
    }

    fn set_tools(&mut self, tools: &[Tool]) {
        self.set_tools(tools);
    }

    fn begin_with(&mut self, text: &str) {
        self.begin_with(text);
    }

    async fn begin_while(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        Ok(self.begin_while(messages, sampling, stream, go_on).await?)
    }

    async fn begin_text_while(
        &mut self,
        text: &str,
        sampling: Sampling,
        stream: u64,
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        Ok(self.begin_text_while(text, sampling, stream, go_on).await?)
    }

    async fn judge_text(
        &mut self,
        text: &str,
        judged: &mut Judged,
    ) -> Result<Vec<JudgedToken>, MoveError> {
        Ok(self.judge_text(text, judged).await?)
    }

    async fn chosen(
        &mut self,
        most: usize,
        go_on: impl FnMut() -> bool,
    ) -> Result<Option<Vec<ChosenToken>>, MoveError> {
        Ok(self.chosen(most, go_on).await?)
    }

    fn tokens_before(&self, segment: &str, end: usize, first: bool) -> Option<usize> {
        self.tokens_before(segment, end, first).ok()
    }

    async fn embed(&mut self, passage: &Passage) -> Result<Embedding, MoveError> {
        Ok(self.embed(passage).await?)
    }

    async fn think_while(
        &mut self,
        go_on: impl AsyncFnMut(&str) -> bool,
    ) -> Result<Thought, MoveError> {
        Ok(self.think_while(go_on).await?)
    }

    async fn draft(&mut self, limit: usize, branch: f64, novel: bool) -> Result<Draft, MoveError> {
        Ok(self.draft_for_round(limit, branch, novel).await?)
    }

    async fn verify(
        &mut self,
        candidates: &[Candidate],
        settings: &Settings,
    ) -> Result<Vec<VerifiedScore>, MoveError> {
        Ok(self.verify(candidates, settings).await?)
    }

    async fn keep(&mut self, winner: usize) -> Result<(), MoveError> {
        Ok(self.keep(winner).await?)
    }

    fn release(&mut self) {
        self.release();
    }
}

impl TakePart for Remote {
    fn name(&self) -> &str {
        self.name()
    }

    fn set_name(&mut self, name: &str) {
        self.set_name(name);
    }

    /// Its server counts them, for the first draft.
    async fn measure(&self, _messages: &[Message]) -> Result<usize, MoveError> {
        Ok(0)
    }

    /// The server draws its tokens without our mask, so that its drafts could break the document.
    fn hold(&mut self, form: Option<FormOf<'_>>) -> Result<(), MoveError> {
        self.only_judge(form.is_some());
        Ok(())
    }

    /// Its server's own way to tell of them is unknown.
    fn set_tools(&mut self, tools: &[Tool]) {
        self.set_instructions(match tools {
            [] => String::new(),
            _ => instructions(tools),
        });
    }

    fn begin_with(&mut self, text: &str) {
        self.begin_with(text);
    }

    async fn begin_while(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
        _go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        let messages = written_out(&[], messages);
        let said = messages.into_iter().map(|message| ChatMessage {
            role: message.role,
            content: message.content,
        });
        let options = SAMPLING_OPTIONS.iter();
        let drawing = Drawing {
            options: options
                .map(|option| (option.name.to_owned(), option.json(&sampling)))
                .collect(),
            seed: sampling.seed.wrapping_add(stream),
        };
        self.begin(said.collect(), drawing);
        Ok(Begun {
            prefix: 0,
            run: 0,
            stopped: false,
        })
    }

    /// Its server is asked not to think; thoughts that it writes anyway are no part of a draft.
    async fn think_while(
        &mut self,
        _go_on: impl AsyncFnMut(&str) -> bool,
    ) -> Result<Thought, MoveError> {
        Ok(Thought::default())
    }

    fn drafts(&self) -> bool {
        self.drafts()
    }

    async fn draft(
        &mut self,
        limit: usize,
        _branch: f64,
        _novel: bool,
    ) -> Result<Draft, MoveError> {
        let Drafted {
            text,
            ended,
            tokens,
            ..
        } = self.draft(limit).await?;
        Ok(Draft {
            text,
            ended,
            tokens,
            second: None,
        })
    }

    async fn verify(
        &mut self,
        candidates: &[Candidate],
        settings: &Settings,
    ) -> Result<Vec<VerifiedScore>, MoveError> {
        let row = self.verify(candidates, settings.score_end).await?;
        let score = |one: conclave_remote::Verified| VerifiedScore {
            score: one.score,
            tokens: one.tokens,
        };
        Ok(row.into_iter().map(score).collect())
    }

    async fn keep(&mut self, winner: usize) -> Result<(), MoveError> {
        self.keep(winner);
        Ok(())
    }

    fn prompt_tokens(&self) -> usize {
        self.prompt_tokens()
    }

    fn release(&mut self) {
        self.release();
    }
}
