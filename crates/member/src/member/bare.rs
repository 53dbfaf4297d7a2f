//! Bare texts instead of conversations, without a template: for callers that render conversations
//! themselves, and for scoring texts.

use conclave_model::{Sampler, Sampling};
use conclave_text::Prompt;

use super::{Begun, Member};
use crate::error::MemberError;

/// State of the text scored last: the next text's common beginning is not run again.
#[derive(Debug, Clone, Default)]
pub struct Judged {
    ids: Vec<u32>,
    /// ln p of each of `ids` except the first.
    logprobs: Vec<f32>,
}

/// A token of a scored text.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedToken {
    /// Its text. A character of several tokens belongs to the last.
    pub text: String,
    /// ln p after all tokens before it; `None` for a first token with nothing before it.
    pub logprob: Option<f64>,
}

impl Member {
    /// Tokens of a bare text as this member reads it. Runs nothing.
    ///
    /// # Errors
    /// As [`begin_text_while`](Self::begin_text_while), without the backend's.
    pub fn measure_text(&self, text: &str) -> Result<usize, MemberError> {
        let (tokens, _) = self.nearest(&Prompt::trusted(text))?;
        self.session.check_prompt(tokens.len())?;
        Ok(tokens.len())
    }

    /// Reads a bare text to be continued, as [`begin_while`](Self::begin_while) reads a
    /// conversation. Text that spells a control token is that token; the text is trusted like a
    /// template.
    ///
    /// # Errors
    /// A text longer than the context or without a token, or the backend's.
    pub async fn begin_text_while(
        &mut self,
        text: &str,
        sampling: Sampling,
        stream: u64,
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MemberError> {
        let prompt = Prompt::trusted(text);
        let (tokens, kept) = self.nearest(&prompt)?;
        self.session.check_prompt(tokens.len())?;
        self.turn_to(kept, &tokens).await?;
        self.asked = tokens.len();
        self.sampler = Sampler::new(sampling, stream);
        // The text is the answer so far: no template's white space leads the continuation.
        text.clone_into(&mut self.answer);
        self.answer_at = None;
        self.in_line.clear();
        self.open = false;
        self.shown = None;
        let prefilled = self.session.prefill_while(&tokens, go_on).await?;
        if !prefilled.stopped {
            self.shown = Some(self.tokenizer.shown(&prompt));
            self.ids = tokens;
        }
        Ok(Begun {
            prefix: self.session.prefix().len(),
            run: prefilled.run,
            stopped: prefilled.stopped,
        })
    }

    /// The log-probability of each token of a bare text after those before it, in this member's own
    /// tokens. Text that spells a control token is that token. `judged` is of the previous text,
    /// and then of this one. Call [`begin_while`](Self::begin_while) or
    /// [`begin_text_while`](Self::begin_text_while) afterwards.
    ///
    /// # Errors
    /// [`ContextFull`](conclave_model::ModelError::ContextFull) for a text longer than the context,
    /// the tokenizer's, or the backend's.
    pub async fn judge_text(
        &mut self,
        text: &str,
        judged: &mut Judged,
    ) -> Result<Vec<JudgedToken>, MemberError> {
        let ids = self.tokenizer.encode_prompt(&Prompt::trusted(text))?;
        if ids.len() > self.about().context {
            return Err(self.about().context_full(ids.len()).into());
        }
        self.shown = None;
        self.open = false;
        self.answer.clear();
        self.in_line.clear();
        let Judged {
            ids: before,
            mut logprobs,
        } = std::mem::take(judged);
        let alike = before.iter().zip(&ids).take_while(|(a, b)| a == b).count();
        let known = alike.clamp(ids.len().min(1), ids.len());
        if known < ids.len() {
            let judged = self.session.judge(&ids, known).await?;
            logprobs.truncate(ids.len() - 1 - judged.len());
            logprobs.extend(judged);
        }
        let tokens = self.spelt(&ids, &logprobs, text);
        *judged = Judged { ids, logprobs };
        Ok(tokens)
    }

    /// Pairs each token with its text and log-probability. Leaves out a token that the tokenizer
    /// puts before every text.
    fn spelt(&self, ids: &[u32], logprobs: &[f32], text: &str) -> Vec<JudgedToken> {
        let mut decoder = self.tokenizer.decoder();
        let mut tokens = Vec::with_capacity(ids.len());
        let logprobs = logprobs.iter().map(|&one| Some(f64::from(one)));
        for (&id, logprob) in ids.iter().zip(std::iter::once(None).chain(logprobs)) {
            let mut piece = decoder.push(id);
            if piece.is_empty() && decoder.held_back().is_empty() {
                // A control token is normally hidden; here it was spelled.
                self.tokenizer
                    .token(id)
                    .unwrap_or_default()
                    .clone_into(&mut piece);
            }
            tokens.push(JudgedToken {
                text: piece,
                logprob,
            });
        }
        if let Some(first) = tokens.first_mut()
            && self.tokenizer.bos() == ids.first().copied()
            && !text.starts_with(&first.text)
        {
            tokens.remove(0);
        }
        if let Some(first) = tokens.first_mut()
            && !text.starts_with(' ')
            && first.text.starts_with(' ')
        {
            first.text.remove(0);
        }
        tokens
    }
}
