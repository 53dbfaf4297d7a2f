//! The member itself: begin, draft, verify in line, keep.

use conclave_ensemble::{Candidate, Score};
use conclave_model::{About, Backend, Counters, Model, Sampler, Sampling, Session};
use conclave_text::{ChatTemplate, Message, Tokenizer};
use conclave_weights::Gguf;
use serde::Serialize;

use crate::error::MemberError;

/// What [`Member::begin`] did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Begun {
    /// Tokens in the prefix.
    pub prefix: usize,
    /// How many of them had to be run: a follow-up runs only what is new.
    pub run: usize,
}

/// A drafted segment before it is cut to whole words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Draft {
    /// Its text; an incomplete character at the end is held back.
    pub text: String,
    /// The member ended the answer after it.
    pub ended: bool,
    /// Tokens drawn, without the end token.
    pub tokens: usize,
}

/// A verifier's score of one candidate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VerifiedScore {
    /// What the method judges by.
    #[serde(flatten)]
    pub score: Score,
    /// Tokens of the candidate in the verifier's tokenisation.
    pub tokens: usize,
}

/// A model in a conversation.
pub struct Member {
    name: String,
    session: Session,
    tokenizer: Tokenizer,
    template: ChatTemplate,
    sampler: Sampler,
    /// Tokens to keep of each candidate of the last verify pass.
    kept_tokens: Vec<usize>,
}

impl Member {
    /// Loads the member `name` from a whole GGUF file, with room for `context` tokens.
    ///
    /// # Errors
    /// [`MemberError`] that says what is wrong with the file or the device.
    pub fn load(
        name: &str,
        file: &[u8],
        backend: &Backend,
        context: usize,
    ) -> Result<Self, MemberError> {
        let gguf = Gguf::parse_whole(file)?;
        let tokenizer = Tokenizer::from_gguf(gguf.metadata())?;
        let template = ChatTemplate::from_gguf(gguf.metadata(), &tokenizer)?;
        if tokenizer.end_ids().is_empty() {
            return Err(MemberError::NoEnd);
        }
        let model = Model::load(&gguf, file, backend, context)?;
        let vocabulary = model.about().config.vocabulary;
        if tokenizer.len() > vocabulary {
            return Err(MemberError::Vocabulary {
                tokens: tokenizer.len(),
                vocabulary,
            });
        }
        Ok(Self {
            name: name.to_owned(),
            session: Session::new(model),
            tokenizer,
            template,
            sampler: Sampler::new(Sampling::default(), 0),
            kept_tokens: Vec::new(),
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

    /// Tokens run so far.
    pub fn counters(&self) -> Counters {
        self.session.counters()
    }

    /// Takes in a conversation that ends with a question. What it shares with
    /// the conversation before stays in the KV cache. `stream` keeps members
    /// with the same seed from drawing the same numbers.
    ///
    /// # Errors
    /// A template that refuses the messages, or a conversation longer than the context.
    pub async fn begin(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
    ) -> Result<Begun, MemberError> {
        let prompt = self.template.render(messages, true)?;
        let tokens = self.tokenizer.encode_prompt(&prompt)?;
        self.sampler = Sampler::new(sampling, stream);
        self.kept_tokens.clear();
        let run = self.session.prefill(&tokens).await?;
        Ok(Begun {
            prefix: self.session.prefix().len(),
            run,
        })
    }

    /// Draws up to `limit` tokens after the prefix.
    ///
    /// # Errors
    /// [`conclave_model::ModelError::ContextFull`], or the backend's.
    pub async fn draft(&mut self, limit: usize) -> Result<Draft, MemberError> {
        let ends = self.tokenizer.end_ids();
        let draft = self.session.draft(limit, &mut self.sampler, ends).await?;
        let mut decoder = self.tokenizer.decoder();
        let text: String = draft.tokens.iter().map(|&id| decoder.push(id)).collect();
        Ok(Draft {
            // Nothing a reader could see came out (only control tokens, say): the answer is over.
            ended: draft.ended || text.is_empty(),
            text,
            tokens: draft.tokens.len(),
        })
    }

    /// Scores all candidates, its own included, in one in-line pass. A candidate
    /// without text is scored on the end token itself.
    ///
    /// # Errors
    /// The tokenizer's or the backend's.
    pub async fn verify(
        &mut self,
        candidates: &[Candidate],
    ) -> Result<Vec<VerifiedScore>, MemberError> {
        let end = self.tokenizer.end_ids()[0];
        let mut ids = Vec::with_capacity(candidates.len());
        self.kept_tokens.clear();
        for candidate in candidates {
            let mut tokens = self.tokenizer.encode(&candidate.text)?;
            self.kept_tokens.push(tokens.len());
            if tokens.is_empty() {
                tokens.push(end);
            }
            ids.push(tokens);
        }
        let scores = self.session.verify(&ids).await?;
        Ok(scores
            .into_iter()
            .map(|score| VerifiedScore {
                score: Score {
                    mean_logit: score.mean_logit,
                    mean_logprob: score.mean_logprob,
                },
                tokens: score.tokens,
            })
            .collect())
    }

    /// Makes candidate `winner` of the last verify pass part of its text.
    ///
    /// # Errors
    /// [`conclave_model::ModelError::Order`] without such a candidate, or the backend's.
    pub async fn keep(&mut self, winner: usize) -> Result<(), MemberError> {
        let count = self.kept_tokens.get(winner).copied().unwrap_or(usize::MAX);
        Ok(self.session.keep(winner, count).await?)
    }

    /// Leaves the query: frees the KV cache until the next [`begin`](Self::begin).
    pub fn release(&mut self) {
        self.session.release();
        self.kept_tokens.clear();
    }
}
