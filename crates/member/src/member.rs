//! The member itself: begin, draft, verify in line, keep.

use conclave_ensemble::{Candidate, Draft, Score, Settings, VerifiedScore, strength};
use conclave_model::states::OPENING;
use conclave_model::{
    About, Allowed, Backend, Counters, LoadOptions, Model, ModelError, Sampler, Sampling, Saved,
    Session,
};
use conclave_text::{ChatTemplate, Message, Prompt, Shown, Tokenizer, Turn};
use conclave_weights::{Checkpoint, Source};
use serde::Serialize;

use crate::constraint::Constraint;
use crate::error::MemberError;
use crate::kept::{Kept, KeptPrefixes, WORTH};
use crate::thinking::{Marks, Thinking, Thought};

mod bare;

pub use bare::{Judged, JudgedToken};

/// Tokens that a member thinks before it answers, at most; and no more than half of the room left.
const MOST_THOUGHT: usize = 1024;

/// Tokens of a thought between two words to whoever listens.
const THOUGHT_AT_ONCE: usize = 32;

/// Tokens that show whether a member thinks at all: a mark's.
const TO_SEE: usize = 8;

/// Tokens of its own answer that a member draws before it looks whether the answer is over; and
/// where it is texts that end an answer, which show then.
const STEP: usize = 16;
const STEP_TO_STOPS: usize = 4;

/// Bytes of the longest UTF-8 character.
const LONGEST_CHARACTER: usize = 4;

/// Tokens that the texts which end a base model's answer take, with a few to spare.
const LONGEST_STOP: usize = 8;

/// What became of a conversation's beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
pub struct Begun {
    /// Tokens in the prefix.
    pub prefix: usize,
    /// How many of them had to be run: a follow-up runs only what is new.
    pub run: usize,
    /// It was stopped before the conversation's end; the same again goes on where it was.
    pub stopped: bool,
}

/// A model in a conversation.
pub struct Member {
    name: String,
    session: Session,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    /// How its template opens and closes an answer.
    turn: Turn,
    sampler: Sampler,
    /// Whether it thinks aloud before it answers.
    thinking: Thinking,
    /// The marks that it does it by; `None` of a model that does not.
    marks: Option<Marks>,
    /// The template has opened a thought, which nobody has ended yet.
    open: bool,
    /// The text last taken in, with what was kept since; `None` where there is more than that.
    shown: Option<Shown>,
    /// The ids of that text, whatever of them the session holds.
    ids: Vec<u32>,
    /// The answer so far, as it crossed between members.
    answer: String,
    /// The white space that this member puts before an answer's first word.
    lead: String,
    /// Tokens of the conversation as it was last taken in, without what was answered.
    asked: usize,
    /// The conversations before, as far as there is room.
    kept: KeptPrefixes,
    /// The ids of the system prompt that is to be given away.
    system: Vec<u32>,
    /// Each candidate of the last verify pass: its text, and how many of its tokens to keep.
    in_line: Vec<(String, usize)>,
    /// What its drafts are held to.
    constraint: Option<Box<dyn Constraint>>,
    /// Its strength where it was measured.
    strength: Option<f64>,
}

impl Member {
    /// Loads the member `name` from its files, which are read by ranges. `progress` hears how many
    /// of [`About::bytes`] have been read.
    ///
    /// # Errors
    /// [`MemberError`] that says what is wrong with the files or the device.
    pub async fn load(
        name: &str,
        source: &dyn Source,
        backend: &dyn Backend,
        options: LoadOptions,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Self, MemberError> {
        let checkpoint = Checkpoint::open(source).await?;
        let description = checkpoint.description();
        let mut tokenizer = Tokenizer::from_checkpoint(description)?;
        let mut template = ChatTemplate::from_checkpoint(description, &tokenizer)?;
        let thinking = Thinking::default();
        template.set_thinking(thinking.enabled());
        let turn = Turn::of(&template, &tokenizer)?;
        tokenizer.learn_end(&turn);
        if tokenizer.end_ids().is_empty() && turn.stops.is_empty() {
            return Err(MemberError::NoEnd);
        }
        let model = Model::load(&checkpoint, source, backend, options, progress).await?;
        let vocabulary = model.about().config.vocabulary;
        // A tokenizer may list tokens that only a sister of the model knows; text needs none of
        // them.
        let enough = tokenizer.limit_to(vocabulary);
        // An end that only the sister knows closes no turn of this one.
        let turn = Turn::of(&template, &tokenizer)?;
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
            marks: Marks::of(&tokenizer, &template),
            tokenizer,
            template,
            lead: turn.lead.clone(),
            turn,
            sampler: Sampler::new(Sampling::default(), 0),
            open: false,
            shown: None,
            ids: Vec::new(),
            answer: String::new(),
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

    /// What its model is.
    pub fn about(&self) -> &About {
        self.session.about()
    }

    /// Whether its model came with a chat template. One without is a base model as a rule: it is
    /// shown questions with their answers, and answers in one paragraph.
    pub fn has_template(&self) -> bool {
        self.template.is_own()
    }

    /// How strong it is in a vote (see [`conclave_ensemble::strength`]): by its size and by whether
    /// it chats, until [`set_strength`](Self::set_strength) says what was measured.
    pub fn strength(&self) -> f64 {
        let prior = || strength::prior(self.about().parameters, self.has_template());
        self.strength.unwrap_or_else(prior)
    }

    /// Says how strong it is in a vote; only the ratio to other members' counts.
    pub fn set_strength(&mut self, strength: f64) {
        self.strength = Some(strength);
    }

    /// Tokens run so far.
    pub fn counters(&self) -> Counters {
        self.session.counters()
    }

    /// Logits of the token behind the text so far, `[vocabulary]`.
    ///
    /// # Errors
    /// [`MemberError::Model`] before a conversation, or the backend's.
    pub async fn next_logits(&mut self) -> Result<Vec<f32>, MemberError> {
        Ok(self.session.next_logits().await?)
    }

    /// Says whether it is to think aloud before it answers, from the next conversation on. It is
    /// off at first.
    pub fn set_thinking(&mut self, thinking: Thinking) {
        self.thinking = thinking;
        self.template.set_thinking(thinking.enabled());
    }

    /// Holds what it drafts to `constraint`, which follows the one answer that begins now; `None`:
    /// to nothing.
    pub fn constrain(&mut self, constraint: Option<Box<dyn Constraint>>) {
        self.constraint = constraint;
    }

    /// What its tokens show as, for whoever says which of them may be drawn: of each of the model's
    /// ids two bytes of length (the low one first) and its bytes. Control tokens show as nothing,
    /// as do ids that are no token.
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

    /// Tokens of a conversation as this member reads it. Nothing is run: whether everybody has
    /// room for it is known before anybody reads for minutes.
    ///
    /// # Errors
    /// As [`begin`](Self::begin), without the backend's.
    pub fn measure(&self, messages: &[Message]) -> Result<usize, MemberError> {
        let (tokens, _) = self.nearest(&self.template.render(messages, true)?)?;
        self.session.check_prompt(tokens.len())?;
        Ok(tokens.len())
    }

    /// A conversation as its template writes it, up to where the answer begins.
    ///
    /// # Errors
    /// [`MemberError::Text`] of one that the template refuses.
    pub fn render(&self, messages: &[Message]) -> Result<String, MemberError> {
        Ok(self.template.render(messages, true)?.text().to_owned())
    }

    /// The ids of a prompt behind the prefix that spares it most, those of what is shown there
    /// already among them; and which of the kept prefixes that is, if not the present one.
    fn nearest(&self, prompt: &Prompt) -> Result<(Vec<u32>, Option<usize>), MemberError> {
        let mut plain: Option<Vec<u32>> = None;
        // Ids are never merged across a segment's boundary, so an answer in the
        // prefix has other ids than its text in a prompt: continue behind it.
        let mut behind = |shown: &Option<Shown>, ids: &[u32]| -> Result<Vec<u32>, MemberError> {
            if let Some(shown) = shown
                && let Some(beyond) = self.tokenizer.encode_beyond(shown, prompt)?
            {
                return Ok([ids, &beyond].concat());
            }
            match &plain {
                Some(plain) => Ok(plain.clone()),
                None => Ok(plain.insert(self.tokenizer.encode_prompt(prompt)?).clone()),
            }
        };
        let mut tokens = behind(&self.shown, &self.ids)?;
        let mut least = tokens.len() - self.session.keeps(&tokens);
        let mut nearest = None;
        for (index, kept) in self.kept.all().enumerate() {
            let its = behind(&kept.shown, &kept.ids)?;
            let left = its.len() - self.session.keeps_of(&kept.saved, &its);
            if left + WORTH < least {
                (tokens, least, nearest) = (its, left, Some(index));
            }
        }
        Ok((tokens, nearest))
    }

    /// Makes a kept prefix the present one, or the present one ready for a conversation of these
    /// ids. What it holds of another conversation is kept.
    async fn turn_to(&mut self, kept: Option<usize>, tokens: &[u32]) -> Result<(), MemberError> {
        // First of all: what is put there moves the others.
        let kept = kept.and_then(|index| self.kept.take(index));
        let stays = self.session.keeps(tokens);
        // An answer that is given anew, or without what was thought, is the same conversation.
        let other = kept.is_some() || stays + OPENING < self.asked;
        let lost = self.session.prefix().len() - stays;
        if other && lost > WORTH {
            self.keep_apart().await?;
        }
        if let Some(kept) = kept {
            self.session.restore(&kept.saved)?;
            (self.shown, self.ids) = (kept.shown, kept.ids);
        }
        Ok(())
    }

    /// Bytes that the conversations before may take.
    fn room_for_kept(&self) -> usize {
        let cache = self.session.bytes_apart(self.about().context);
        self.kept.room(cache.unwrap_or_default())
    }

    /// Keeps a copy of the present prefix beside it, if there is room.
    async fn keep_apart(&mut self) -> Result<(), MemberError> {
        let room = self.room_for_kept();
        let bytes = self.session.bytes_apart(self.session.prefix().len());
        if bytes.is_none_or(|bytes| bytes > room) {
            return Ok(());
        }
        if let Some(saved) = self.session.save(usize::MAX).await? {
            let (shown, ids) = (self.shown.clone(), self.ids.clone());
            self.kept.put(Kept { saved, shown, ids }, room);
        }
        Ok(())
    }

    /// Bytes that the conversations before this one may take, so that each goes on where it was; 0
    /// keeps none. At first as much as the KV cache, and no more than 64 MiB. Of too many, or of
    /// more than eight, the one that was asked longest ago gives way.
    pub fn set_room_for_kept(&mut self, bytes: usize) {
        self.kept.set_room(bytes);
    }

    /// What the prefix of a conversation's system prompt is found by where it is kept beyond this
    /// member's life: bytes that tell the model, its weights and the system prompt's tokens, as the
    /// template writes them before any question; a template may begin with one of its own where the
    /// conversation has none. `None` where nothing comes before the question, or so little that
    /// reading it is no matter, or more than there is room for. From now on
    /// [`give_system`](Self::give_system) gives that prefix.
    ///
    /// # Errors
    /// The template's or the tokenizer's.
    pub fn system_key(&mut self, messages: &[Message]) -> Result<Option<Vec<u8>>, MemberError> {
        self.system.clear();
        let system = messages.first().filter(|first| first.role == "system");
        // What is the same whatever is asked is the system prompt's, and nothing of a question.
        let of = |question| {
            let asked = system
                .cloned()
                .into_iter()
                .chain([Message::new("user", question)]);
            let prompt = self.template.render(&asked.collect::<Vec<_>>(), true)?;
            self.tokenizer.encode_prompt(&prompt)
        };
        let (one, other) = (of("0")?, of("Z")?);
        let shared = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
        let bytes = self.session.bytes_apart(shared);
        if shared < WORTH || bytes.is_none_or(|bytes| bytes > self.room_for_kept()) {
            return Ok(None);
        }
        self.system.extend_from_slice(&one[..shared]);
        let mut key = self.session.fingerprint().to_le_bytes().to_vec();
        for token in &self.system {
            key.extend_from_slice(&token.to_le_bytes());
        }
        Ok(Some(key))
    }

    /// The prefix of the system prompt that [`system_key`](Self::system_key) was asked for, for
    /// [`take_prefix`](Self::take_prefix) of another visit: numbers made of that prompt alone.
    /// `None` where the conversation does not begin with it, or nothing can be given away.
    ///
    /// # Errors
    /// The backend's.
    pub async fn give_system(&mut self) -> Result<Option<Vec<u8>>, MemberError> {
        if self.system.is_empty() || !self.session.prefix().starts_with(&self.system) {
            return Ok(None);
        }
        let saved = self.session.save(self.system.len()).await?;
        let worth = saved.filter(|saved| saved.tokens().len() >= WORTH);
        Ok(worth.map(|saved| saved.to_bytes()))
    }

    /// Keeps a prefix that was given away, for conversations that begin alike.
    ///
    /// # Errors
    /// [`ModelError::Saved`] for what is none, or not of this very model.
    pub fn take_prefix(&mut self, bytes: &[u8]) -> Result<(), MemberError> {
        let saved = Saved::from_bytes(bytes)?;
        self.session.check(&saved)?;
        let room = self.room_for_kept().max(saved.bytes());
        let (shown, ids) = (None, Vec::new());
        self.kept.put(Kept { saved, shown, ids }, room);
        Ok(())
    }

    /// Takes in a conversation that ends with a question. What it shares with the conversation
    /// before stays in the KV cache, or with one before that, where this spares more: the last few
    /// are kept aside ([`set_room_for_kept`](Self::set_room_for_kept)). `stream` keeps members with
    /// the same seed from drawing the same numbers.
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

    /// The same in steps. After each, `go_on` hears how many of the conversation's tokens are in
    /// the prefix and how many there are, and says whether to go on. What ran before a stop stays:
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
        let prompt = self.template.render(messages, true)?;
        let (tokens, kept) = self.nearest(&prompt)?;
        self.session.check_prompt(tokens.len())?;
        self.turn_to(kept, &tokens).await?;
        self.asked = tokens.len();
        self.sampler = Sampler::new(sampling, stream);
        self.answer.clear();
        self.lead.clone_from(&self.turn.lead);
        self.in_line.clear();
        if tokens.starts_with(&self.system) {
            self.session.mark(self.system.len());
        }
        let prefilled = self.session.prefill_while(&tokens, go_on).await?;
        // A prompt that was stopped is not shown: the next one finds its ids as this one did.
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

    /// Thinks aloud behind the conversation that [`begin`](Self::begin) took in, where the model
    /// can and [`Thinking`] lets it, until it ends its thought; at most 1,024 tokens and half of
    /// the room left. After every few tokens `go_on` hears what came and says whether to go on.
    /// Rounds begin behind the thought. The next conversation is without it, as templates have it.
    ///
    /// # Errors
    /// The tokenizer's or the backend's.
    pub async fn think_while(
        &mut self,
        mut go_on: impl AsyncFnMut(&str) -> bool,
    ) -> Result<Thought, MemberError> {
        let mut thought = Thought::default();
        let Some(marks) = self
            .marks
            .as_ref()
            .filter(|_| self.thinking != Thinking::Off)
        else {
            return Ok(thought);
        };
        let left = self.about().context - self.session.prefix().len();
        let most = MOST_THOUGHT.min(left / 2);
        let ends = self.tokenizer.end_ids();
        let mut told = 0;
        let (mut decoder, mut decoded) = (self.tokenizer.decoder(), String::new());
        let mut begun = self.open;
        let mut closed = false;
        while !closed && thought.tokens < most {
            let at_once = if begun { THOUGHT_AT_ONCE } else { TO_SEE };
            let limit = at_once.min(most - thought.tokens);
            let before = self.sampler.clone();
            let draft = self.session.draft(limit, &mut self.sampler, ends).await?;
            let mut skipped = 0;
            if !begun {
                let Some(opened) = marks.opening(&self.tokenizer, &draft.tokens) else {
                    // It answers at once: rounds draw by the numbers they would have drawn by.
                    self.sampler = before;
                    return Ok(thought);
                };
                (begun, skipped) = (true, opened);
            }
            let rest = &draft.tokens[skipped..];
            let end = marks.closing(&mut decoder, rest, &mut decoded);
            closed = end.is_some();
            let kept = skipped + end.unwrap_or(rest.len());
            thought.tokens += kept;
            self.shown = None;
            self.open = !closed;
            if kept > 0 {
                self.session.go_on(&draft.tokens[..kept]).await?;
            }
            thought.text = marks.without_marks(&decoded).to_owned();
            let news = thought.text.get(told..).unwrap_or_default().to_owned();
            told = thought.text.len().max(told);
            if !go_on(&news).await {
                thought.stopped = true;
                break;
            }
            if draft.ended {
                break;
            }
        }
        if closed {
            let behind = marks.behind(&self.tokenizer)?;
            self.append(behind).await?;
        } else if !thought.stopped {
            self.end_thought().await?;
        }
        Ok(thought)
    }

    /// Ends a thought that is open, as the model would have.
    async fn end_thought(&mut self) -> Result<(), MemberError> {
        if let Some(marks) = self.marks.as_ref().filter(|_| self.open) {
            let ending = marks.ending(&self.tokenizer)?;
            self.append(ending).await?;
            self.open = false;
        }
        Ok(())
    }

    /// Puts tokens behind the prefix that are no text of the conversation.
    async fn append(&mut self, tokens: Vec<u32>) -> Result<(), MemberError> {
        let longer = [self.session.prefix(), tokens.as_slice()].concat();
        self.session.prefill(&longer).await?;
        self.shown = None;
        self.ids = longer;
        Ok(())
    }

    /// Draws up to `limit` tokens after the prefix. A thought that a model begins here, where an
    /// answer is asked for, does not cross: it is given an empty one, once, and draws again; of
    /// what it thinks then only what is behind is told. Under a constraint nothing is thought, and
    /// that alone says when the text is over.
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
        let (mut text, complete) = self.shown_of(&draft.tokens);
        // Nothing a reader could see came out (only control tokens, say): the answer is over.
        let mut ended = draft.ended || (text.is_empty() && complete);
        if let Some(stop) = self.turn.stop_in(&self.answer, &text) {
            text.truncate(stop);
            ended = true;
        } else if !ended {
            text.truncate(self.turn.settled_in(&self.answer, &text));
        }
        Ok(Draft {
            text: self.without_lead(text),
            ended,
            tokens: draft.tokens.len(),
        })
    }

    /// A draft of tokens that the constraint allows, up to its first whole character at least.
    async fn draft_constrained(&mut self, mut limit: usize) -> Result<Draft, MemberError> {
        // Nothing stands in front of what is held to a form.
        if self.answer.is_empty() {
            self.lead.clear();
        }
        let vocabulary = self.about().config.vocabulary;
        loop {
            let mut failed = None;
            let mut mask = |drawn: &[u32]| {
                let constraint = self.constraint.as_deref_mut();
                let words = constraint.map_or(Ok(Vec::new()), |held| held.mask(drawn));
                let words = words.unwrap_or_else(|why| {
                    failed = Some(why);
                    Vec::new()
                });
                Allowed::new(words, vocabulary)
            };
            let ends = self.tokenizer.end_ids();
            let drafting = self
                .session
                .draft_masked(limit, &mut self.sampler, ends, &mut mask);
            let draft = drafting.await;
            if let Some(why) = failed {
                return Err(MemberError::Constraint(why));
            }
            let draft = draft?;
            let (text, complete) = self.shown_of(&draft.tokens);
            if text.is_empty() && !complete && draft.tokens.len() == limit {
                limit += LONGEST_CHARACTER - 1;
                continue;
            }
            return Ok(Draft {
                text,
                ended: draft.ended,
                tokens: draft.tokens.len(),
            });
        }
    }

    /// Draws a whole answer of its own, whatever it is constrained to, of at most `limit` tokens or
    /// what the context holds. It is over where an answer drafted in rounds would be, a few tokens
    /// later at most. Afterwards comes [`begin`](Self::begin).
    ///
    /// # Errors
    /// As [`draft`](Self::draft).
    pub async fn write(&mut self, limit: usize) -> Result<Draft, MemberError> {
        let ends = self.tokenizer.end_ids();
        let mut decoder = self.tokenizer.decoder();
        let step = match self.turn.stops.is_empty() {
            true => STEP,
            false => STEP_TO_STOPS,
        };
        let (mut text, mut tokens) = (String::new(), 0);
        let ended = loop {
            let step = step.min(limit - tokens);
            let draft = self.session.draft(step, &mut self.sampler, ends).await?;
            tokens += draft.tokens.len();
            let before = text.len();
            text.extend(draft.tokens.iter().map(|&id| decoder.push(id)));
            if let Some(stop) = self.turn.stop_in("", &text) {
                text.truncate(stop);
                break true;
            }
            // As in `draft`: nothing a reader could see is the end.
            let silent = text.len() == before && decoder.held_back().is_empty();
            if draft.ended || silent {
                break true;
            }
            let length = self.session.prefix().len() + draft.tokens.len();
            if tokens >= limit || length >= self.about().context {
                break false;
            }
            self.session.go_on(&draft.tokens).await?;
        };
        Ok(Draft {
            text: self.without_lead(text),
            ended,
            tokens,
        })
    }

    /// How much the question at the end of `messages` surprises this member: the mean −ln p of its
    /// tokens, in nats, behind what its template puts before them. `None` where the template does
    /// not show the question as it is. Afterwards comes [`begin`](Self::begin).
    ///
    /// # Errors
    /// As [`begin`](Self::begin) and [`verify`](Self::verify).
    pub async fn surprise(&mut self, messages: &[Message]) -> Result<Option<f64>, MemberError> {
        let prompt = self.template.render(messages, true)?;
        let question = messages.last().map(|message| message.content.trim());
        let Some(question) = question.filter(|question| !question.is_empty()) else {
            return Ok(None);
        };
        let Some(before) = prompt.before(question) else {
            return Ok(None);
        };
        let mut before = self.tokenizer.encode_prompt(&before)?;
        let mut question = self.tokenizer.encode(question)?;
        if before.is_empty() {
            // What nothing stands before surprises nobody.
            before.push(question.remove(0));
        }
        if question.is_empty() {
            return Ok(None);
        }
        self.session.prefill(&before).await?;
        let scores = self.session.verify(&[question], true).await?;
        let logprob = scores.first().and_then(|score| score.mean_logprob);
        Ok(logprob.map(|logprob| -logprob))
    }

    /// A draft without the white space that an answer begins with in this member's template, which
    /// is no other member's: held to it, every member would find every other's first word wrong.
    fn without_lead(&mut self, text: String) -> String {
        let first = text.trim_start();
        if !self.answer.is_empty() || first.is_empty() {
            return text;
        }
        text[..text.len() - first.len()].clone_into(&mut self.lead);
        first.to_owned()
    }

    /// What the model draws, up to its first whole character at least, and past what may be the
    /// beginning of a stop; and whether it is a thought.
    async fn draw(&mut self, limit: usize) -> Result<(conclave_model::Draft, bool), MemberError> {
        let ends = self.tokenizer.end_ids();
        let mut draft = self.session.draft(limit, &mut self.sampler, ends).await?;
        let (text, complete) = self.shown_of(&draft.tokens);
        let room = if draft.ended {
            0
        } else if text.is_empty() && !complete {
            // The limit ended within the bytes of the first character.
            LONGEST_CHARACTER - 1
        } else if !text.is_empty() && self.turn.settled_in(&self.answer, &text) == 0 {
            LONGEST_STOP
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

    /// What a reader sees of `tokens`, and whether they end with a whole character.
    fn shown_of(&self, tokens: &[u32]) -> (String, bool) {
        let mut decoder = self.tokenizer.decoder();
        let text = tokens.iter().map(|&id| decoder.push(id)).collect();
        (text, decoder.held_back().is_empty())
    }

    /// Scores all candidates, its own included, in one in-line pass: with what the settings'
    /// scoring looks at. A candidate that ends is scored on what closes a turn in this member's
    /// template too, where [`Settings::score_end`] says so; one without text on that alone.
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

    /// Makes candidate `winner` of the last verify pass part of its text.
    ///
    /// # Errors
    /// [`conclave_model::ModelError::Order`] without such a candidate, the constraint's where it
    /// allows no such text, or the backend's.
    pub async fn keep(&mut self, winner: usize) -> Result<(), MemberError> {
        let (text, count) = self.in_line.get(winner).cloned().ok_or(ModelError::Order(
            "keep needs a verify pass with that candidate",
        ))?;
        self.in_line.clear();
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
