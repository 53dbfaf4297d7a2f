//! Beside the rounds: a whole answer of its own, and its surprise at a question.

use conclave_ensemble::Draft;

use super::{Member, MemberError, Message};

/// Tokens of its own answer drawn between checks for the answer's end; with texts that end an
/// answer, the draw after which these show.
const STEP: usize = 16;
const STEP_TO_STOPS: usize = 4;

impl Member {
    /// Draws a whole answer of its own, without the constraint, of at most `limit` tokens or the
    /// remaining context. It ends where an answer drafted in rounds would, or a few tokens later.
    /// Call [`begin`](Self::begin) afterwards.
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
            // As in `draft`: no visible text is the end.
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
            second: None,
        })
    }

    /// This member's surprise at the question at the end of `messages`: the mean −ln p of its
    /// tokens, in nats, after the template's text before them. `None` where the template does not
    /// show the question verbatim. Call [`begin`](Self::begin) afterwards.
    ///
    /// # Errors
    /// As [`begin`](Self::begin) and [`verify`](Self::verify).
    pub async fn surprise(&mut self, messages: &[Message]) -> Result<Option<f64>, MemberError> {
        let prompt = self.template.render_adapted(messages, true)?;
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
            // A token with nothing before it has no surprise.
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
}
