//! The member: begin, draft, verify in line, keep.

use conclave_ensemble::{Candidate, Draft, Score, Settings, VerifiedScore, strength};
use conclave_model::{
    About, Backend, Counters, LoadOptions, Model, ModelError, Sampler, Sampling, Session, Threads,
};
use conclave_text::{ChatTemplate, Message, Prompt, Shown, Tokenizer, Tool, Turn};
use conclave_weights::{Checkpoint, Source};
use serde::Serialize;

use crate::constraint::Constraint;
use crate::error::MemberError;
use crate::kept::KeptPrefixes;
use crate::thinking::{Marks, Thinking};

mod alone;
mod bare;
mod chosen;
mod constrained;
mod counted;
mod embedding;
mod novel;
mod prefixes;
mod second;
mod thought;

pub use bare::{Judged, JudgedToken};
pub use chosen::ChosenToken;
pub use embedding::{Embedding, Passage};

/// Bytes of the longest UTF-8 character.
const MAX_CHARACTER_BYTES: usize = 4;

/// Tokens of the texts that end a base model's answer, with a few to spare.
const MAX_STOP_TOKENS: usize = 8;

/// Result of beginning a conversation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Begun {
    /// Tokens in the prefix.
    pub prefix: usize,
    /// Tokens of it that were run: a follow-up runs only the new ones.
    pub run: usize,
    /// It was stopped before the conversation's end; the same call continues there.
    pub stopped: bool,
}

/// A model in a conversation.
pub struct Member {
    name: String,
    session: Session,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// Its template's opening and closing of an answer.
    turn: Turn,
    sampler: Sampler,
    /// Whether it thinks aloud before it answers.
    thinking: Thinking,
    /// The marks of its thoughts; `None` for a model that does not think.
    marks: Option<Marks>,
    /// The template has opened a thought that is not closed yet.
    open: bool,
    /// The text last begun, with the segments kept since; `None` if the prefix contains more than
    /// that.
    shown: Option<Shown>,
    /// The ids of that text, whether or not the session still holds them.
    ids: Vec<u32>,
    /// The answer so far, as it crossed between members.
    answer: String,
    /// The last draft was, or began with, a thought.
    thought: bool,
    /// Tokens of the prefix before the answer, once a segment is kept.
    answer_at: Option<usize>,
    /// This member's white space before an answer's first word.
    lead: String,
    /// The given beginning of the next answer.
    begun: String,
    /// Tokens of the conversation as last begun, without the answer.
    asked: usize,
    /// Earlier conversations, as far as memory allows.
    kept: KeptPrefixes,
    /// Ids of the system prompt to be given away.
    system: Vec<u32>,
    /// Each candidate of the last verify pass: its text, and the number of its tokens to keep.
    in_line: Vec<(String, usize)>,
    /// Constraint on its drafts.
    constraint: Option<Box<dyn Constraint>>,
    /// Its measured strength.
    strength: Option<f64>,
}

impl std::fmt::Debug for Member {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Member {
    /// Loads the member `name` from its files, read by ranges. `progress` receives the number of
    /// bytes read so far, of [`About::bytes`].
    ///
    /// # Errors
    /// [`MemberError`] for a fault of the files or the device.
    pub async fn load(
        name: &str,
        source: &dyn Source,
        backend: &dyn Backend,
        options: LoadOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, MemberError> {
        Self::load_with(None, name, source, backend, options, progress).await
    }

    /// As [`load`](Self::load), with the source of a chat template instead of the model's own.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub async fn load_with(
        template: Option<&str>,
        name: &str,
        source: &dyn Source,
        backend: &dyn Backend,
        options: LoadOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, MemberError> {
        let checkpoint = Checkpoint::open(source).await?;
        let description = checkpoint.description();
        let mut tokenizer = Tokenizer::from_checkpoint(description)?;
        let mut template = match template {
            Some(given) => ChatTemplate::from_source(given, description, &tokenizer)?,
            None => ChatTemplate::from_checkpoint(description, &tokenizer)?,
        };
        let thinking = Thinking::default();
        template.set_thinking(thinking.enabled());
        let turn = Turn::from_template(&template, &tokenizer)?;
        tokenizer.learn_end(&turn);
        if tokenizer.end_ids().is_empty() && turn.stops.is_empty() {
            return Err(MemberError::NoEnd);
        }
        let model = Model::load(&checkpoint, source, backend, options, progress).await?;
        let vocabulary = model.about().config.vocabulary;
        // A tokenizer may list tokens of a larger variant of the model; text needs none of them.
        let enough = tokenizer.limit_to(vocabulary);
        // An end token that only the variant knows closes no turn of this one.
        let turn = Turn::from_template(&template, &tokenizer)?;
        if !enough || (tokenizer.end_ids().is_empty() && turn.stops.is_empty()) {
            return Err(MemberError::Vocabulary {
                tokens: tokenizer.len(),
                vocabulary,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            session: Session::new(model),
            thinking,
            marks: Marks::find(&tokenizer, &template),
            tokenizer,
            template,
            lead: turn.lead.clone(),
            turn,
            sampler: Sampler::new(Sampling::default(), 0),
            thought: false,
            open: false,
            shown: None,
            ids: Vec::new(),
            answer: String::new(),
            answer_at: None,
            begun: String::new(),
            asked: 0,
            kept: KeptPrefixes::default(),
            system: Vec::new(),
            in_line: Vec::new(),
            constraint: None,
            strength: None,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Renames it, where another member has its name.
    pub fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Threads that share its passes; one if these only wait for a device.
    pub fn threads(&self) -> Threads {
        self.session.threads()
    }

    /// Facts about its model.
    pub fn about(&self) -> &About {
        self.session.about()
    }

    /// Whether its model came with a chat template. A model without one is usually a base model: it
    /// is prompted with questions and answers, and answers in one paragraph.
    pub fn has_template(&self) -> bool {
        self.template.is_own()
    }

    /// Its strength in a vote (see [`conclave_ensemble::strength`]): from its size and from whether
    /// it chats, until [`set_strength`](Self::set_strength) gives a measured one.
    pub fn strength(&self) -> f64 {
        let prior = || strength::prior(self.about().parameters, self.has_template());
        self.strength.unwrap_or_else(prior)
    }

    /// Sets its strength in a vote; only the ratio to other members' counts.
    pub fn set_strength(&mut self, strength: f64) {
        self.strength = Some(strength);
    }

    /// Tokens run so far.
    pub fn counters(&self) -> Counters {
        self.session.counters()
    }

    /// Logits of the next token after the text so far, `[vocabulary]`.
    ///
    /// # Errors
    /// [`MemberError::Model`] before a conversation, or the backend's.
    pub async fn next_logits(&mut self) -> Result<Vec<f32>, MemberError> {
        Ok(self.session.next_logits().await?)
    }

    /// Sets whether it thinks aloud before it answers, from the next conversation on; off at first.
    pub fn set_thinking(&mut self, thinking: Thinking) {
        self.thinking = thinking;
        self.template.set_thinking(thinking.enabled());
    }

    /// Sets whether its template keeps the thoughts in earlier answers; `None` for its default.
    pub fn preserve_thinking(&mut self, preserved: Option<bool>) {
        self.template.preserve_thinking(preserved);
    }

    /// Sets the functions that answers to the next conversations may call; none at first.
    pub fn set_tools(&mut self, tools: &[Tool]) {
        self.template.set_tools(tools);
    }

    /// Sets the constraint on its drafts, for the one answer that begins now; `None` removes it.
    pub fn constrain(&mut self, constraint: Option<Box<dyn Constraint>>) {
        self.constraint = constraint;
    }

    /// The text of each token id of the model, for makers of constraints: two bytes of length (low
    /// byte first), then the bytes. Empty for control tokens and for ids that are not tokens.
    pub fn vocabulary(&self) -> Vec<u8> {
        let (mut all, mut token) = (Vec::new(), Vec::new());
        for id in 0..self.about().config.vocabulary {
            token.clear();
            self.tokenizer.spell(id as u32, &mut token);
            let length = u16::try_from(token.len()).unwrap_or(0);
            all.extend_from_slice(&length.to_le_bytes());
            all.extend_from_slice(&token[..usize::from(length)]);
        }
        all
    }

    /// Tokens of a conversation as this member reads it. Runs nothing: whether all members have
    /// room is known before any of them reads for minutes.
    ///
    /// # Errors
    /// As [`begin`](Self::begin), without the backend's.
    pub fn measure(&self, messages: &[Message]) -> Result<usize, MemberError> {
        let (tokens, _) = self.nearest(&self.prompt(messages)?)?;
        self.session.check_prompt(tokens.len())?;
        Ok(tokens.len())
    }

    /// The conversation rendered by its template, up to where the answer begins or, after
    /// [`begin_with`](Self::begin_with), continues.
    ///
    /// # Errors
    /// [`MemberError::Text`] if the template refuses it.
    pub fn render(&self, messages: &[Message]) -> Result<String, MemberError> {
        Ok(self.prompt(messages)?.text().to_owned())
    }

    /// Sets the beginning of the answers to the next conversations; they continue from there. Empty
    /// text removes it.
    pub fn begin_with(&mut self, text: &str) {
        text.clone_into(&mut self.begun);
    }

    /// A conversation rendered up to where the answer continues.
    fn prompt(&self, messages: &[Message]) -> Result<Prompt, MemberError> {
        let prompt = self.template.render_adapted(messages, true)?;
        Ok(match self.beginning() {
            None => prompt,
            Some(text) => prompt.followed_by(&text),
        })
    }

    /// The given beginning of the answer, with the white space before it.
    fn beginning(&self) -> Option<String> {
        let given = !self.begun.is_empty();
        given.then(|| self.turn.lead.clone() + &self.begun)
    }

    /// Reads a conversation that ends with a question. Its common beginning with the last
    /// conversation stays in the KV cache, or an earlier kept prefix is used if it spares more
    /// ([`set_room_for_kept`](Self::set_room_for_kept)). `stream` keeps members with the same seed
    /// from drawing the same numbers.
    ///
    /// # Errors
    /// A template that refuses the messages, or a conversation longer than the context.
    pub async fn begin(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
    ) -> Result<Begun, MemberError> {
        self.begin_while(messages, sampling, stream, async |_, _| true)
            .await
    }

    /// The same in steps. After each, `go_on` receives the number of the conversation's tokens in
    /// the prefix and their total, and returns whether to continue. Tokens run before a stop stay:
    /// the same call again runs only the rest.
    ///
    /// # Errors
    /// As [`begin`](Self::begin).
    pub async fn begin_while(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MemberError> {
        let prompt = self.prompt(messages)?;
        let (tokens, kept) = self.nearest(&prompt)?;
        self.session.check_prompt(tokens.len())?;
        self.turn_to(kept, &tokens).await?;
        self.asked = tokens.len();
        self.sampler = Sampler::new(sampling, stream);
        self.answer.clone_from(&self.begun);
        self.answer_at = None;
        self.lead.clone_from(&self.turn.lead);
        self.in_line.clear();
        if tokens.starts_with(&self.system) {
            self.session.mark(self.system.len());
        }
        let prefilled = self.session.prefill_while(&tokens, go_on).await?;
        // After a stop the text is not recorded: the next call finds its ids as this one did.
        if !prefilled.stopped {
            self.shown = Some(self.tokenizer.shown(&prompt));
            self.ids = tokens;
            let ends = |marks: &Marks| marks.end(prompt.text());
            self.open = self.marks.as_ref().is_some_and(ends);
            if self.thinking == Thinking::Off {
                self.end_thought().await?;
            }
        }
        Ok(Begun {
            prefix: self.session.prefix().len(),
            run: prefilled.run,
            stopped: prefilled.stopped,
        })
    }

    /// Draws up to `limit` tokens after the prefix. A thought that a model begins here does not
    /// cross: the model is given an empty thought, once, and draws again; if it still thinks, only
    /// the text after the thought is returned. Under a constraint there is no thought, and only the
    /// constraint ends the text.
    ///
    /// # Errors
    /// [`conclave_model::ModelError::ContextFull`], the constraint's or the backend's.
    pub async fn draft(&mut self, limit: usize) -> Result<Draft, MemberError> {
        if self.constraint.is_some() {
            return self.draft_constrained(limit).await;
        }
        let (mut draft, mut thought) = self.draw(limit).await?;
        if thought
            && self.shown.is_some()
            && let Some(marks) = &self.marks
        {
            let empty = marks.empty(&self.tokenizer)?;
            self.append(empty).await?;
            (draft, thought) = self.draw(limit).await?;
        }
        if let Some(marks) = self.marks.as_ref().filter(|_| thought) {
            let mut decoder = self.tokenizer.decoder();
            let end = marks.closing(&mut decoder, &draft.tokens, &mut String::new());
            draft.tokens.drain(..end.unwrap_or(draft.tokens.len()));
        }
        self.thought = thought;
        Ok(self.read(&draft.tokens, draft.ended))
    }

    /// A draft of `tokens` as text, which ends where the answer does.
    fn read(&mut self, tokens: &[u32], ended: bool) -> Draft {
        let (mut text, complete) = self.shown_of(tokens);
        // Without visible text (only control tokens, say) the answer is over.
        let mut ended = ended || (text.is_empty() && complete);
        self.end_turn(&mut text, &mut ended);
        Draft {
            text: self.without_lead(text),
            ended,
            tokens: tokens.len(),
            second: None,
        }
    }

    /// Cuts a draft where another turn begins, or might begin.
    fn end_turn(&self, text: &mut String, ended: &mut bool) {
        if let Some(stop) = self.turn.stop_in(&self.answer, text) {
            text.truncate(stop);
            *ended = true;
        } else if !*ended {
            text.truncate(self.turn.settled_in(&self.answer, text));
        }
    }

    /// A draft without the white space with which an answer begins in this member's template:
    /// templates differ, and with it every member would find every other's first word improbable.
    fn without_lead(&mut self, text: String) -> String {
        let first = text.trim_start();
        if !self.answer.is_empty() || first.is_empty() {
            return text;
        }
        text[..text.len() - first.len()].clone_into(&mut self.lead);
        first.to_owned()
    }

    /// Tokens drawn by the model, at least up to its first whole character, and past a possible
    /// beginning of a stop text; and whether they are a thought.
    async fn draw(&mut self, limit: usize) -> Result<(conclave_model::Draft, bool), MemberError> {
        let ends = self.tokenizer.end_ids();
        let mut draft = self.session.draft(limit, &mut self.sampler, ends).await?;
        let (text, complete) = self.shown_of(&draft.tokens);
        let room = if draft.ended {
            0
        } else if text.is_empty() && !complete {
            // The limit fell within the bytes of the first character.
            MAX_CHARACTER_BYTES - 1
        } else if !text.is_empty() && self.turn.settled_in(&self.answer, &text) == 0 {
            MAX_STOP_TOKENS
        } else {
            0
        };
        if room > 0 {
            draft = self
                .session
                .draft(limit + room, &mut self.sampler, ends)
                .await?;
        }
        let opens = |marks: &Marks| marks.opening(&self.tokenizer, &draft.tokens).is_some();
        let thought = self.marks.as_ref().is_some_and(opens);
        Ok((draft, thought))
    }

    /// The visible text of `tokens`, and whether they end with a whole character.
    fn shown_of(&self, tokens: &[u32]) -> (String, bool) {
        let mut decoder = self.tokenizer.decoder();
        let text = tokens.iter().map(|&id| decoder.push(id)).collect();
        (text, decoder.held_back().is_empty())
    }

    /// Scores all candidates, its own included, in one in-line pass, with the measures required by
    /// the settings' scoring. A candidate that ends is also scored on the end of a turn in this
    /// member's template, where [`Settings::score_end`] is set; one without text on that alone.
    ///
    /// # Errors
    /// The tokenizer's or the backend's.
    pub async fn verify(
        &mut self,
        candidates: &[Candidate],
        settings: &Settings,
    ) -> Result<Vec<VerifiedScore>, MemberError> {
        let mut ids = Vec::with_capacity(candidates.len());
        self.in_line.clear();
        for candidate in candidates {
            let mut tokens = if self.answer.is_empty() && !candidate.text.is_empty() {
                let led = format!("{}{}", self.lead, candidate.text);
                self.tokenizer.encode(&led)?
            } else {
                self.tokenizer.encode(&candidate.text)?
            };
            self.in_line.push((candidate.text.clone(), tokens.len()));
            if tokens.is_empty() || (candidate.ended && settings.score_end) {
                tokens.extend_from_slice(&self.turn.end);
            }
            ids.push(tokens);
        }
        let logprobs = settings.needs_logprobs();
        let scores = self.session.verify(&ids, logprobs).await?;
        Ok(scores
            .into_iter()
            .map(|score| VerifiedScore {
                score: Score {
                    mean_logit: Some(score.mean_logit),
                    mean_logprob: score.mean_logprob,
                    harmonic: score.harmonic,
                    preference: None,
                },
                tokens: score.tokens,
            })
            .collect())
    }

    /// Appends candidate `winner` of the last verify pass to its text.
    ///
    /// # Errors
    /// [`conclave_model::ModelError::Order`] without such a candidate, the constraint's where it
    /// forbids the text, or the backend's.
    pub async fn keep(&mut self, winner: usize) -> Result<(), MemberError> {
        let (text, count) = self.in_line.get(winner).cloned().ok_or(ModelError::Order(
            "keep needs a verify pass with that candidate",
        ))?;
        self.in_line.clear();
        let begin = self.session.prefix().len();
        self.answer_at.get_or_insert(begin);
        self.session.keep(winner, count).await?;
        if let Some(shown) = &mut self.shown {
            if self.answer.is_empty() && !text.is_empty() {
                shown.push(&self.lead);
            }
            shown.push(&text);
        }
        self.answer.push_str(&text);
        self.session.prefix().clone_into(&mut self.ids);
        match &mut self.constraint {
            Some(constraint) => constraint.accept(&text).map_err(MemberError::Constraint),
            None => Ok(()),
        }
    }

    /// Leaves the query: frees the KV cache until the next [`begin`](Self::begin).
    pub fn release(&mut self) {
        self.session.release();
        self.shown = None;
        self.asked = 0;
        self.open = false;
        self.ids.clear();
        self.answer.clear();
        self.in_line.clear();
        self.constraint = None;
    }
}
