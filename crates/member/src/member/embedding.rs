//! Embeddings of texts, by the member's own tokenizer and its model's pooling.

use super::Member;
use crate::error::MemberError;

/// A text to embed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Passage {
    /// A text, in which the spelling of a control token is plain text.
    Text(String),
    /// Token ids in the vocabulary of one model.
    Tokens(Vec<u32>),
}

/// A text's embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// `[hidden]`, with a length of 1.
    pub vector: Vec<f32>,
    /// Tokens of the text.
    pub tokens: usize,
}

impl Member {
    /// Embeds a text. The conversation in progress is kept apart, as before another conversation.
    ///
    /// # Errors
    /// [`ModelError::ContextFull`](conclave_model::ModelError::ContextFull) for a text longer than
    /// the context, [`ModelError::Token`](conclave_model::ModelError::Token) for an id beyond the
    /// vocabulary, the tokenizer's, or the backend's.
    pub async fn embed(&mut self, passage: &Passage) -> Result<Embedding, MemberError> {
        let tokens = match passage {
            Passage::Text(text) => self.tokenizer.encode_alone(text)?,
            Passage::Tokens(tokens) => tokens.clone(),
        };
        self.turn_to(None, &tokens).await?;
        self.shown = None;
        self.open = false;
        self.asked = 0;
        self.answer.clear();
        self.answer_at = None;
        self.in_line.clear();
        let pooling = self.about().pooling;
        let vector = self.session.embedding(&tokens, pooling).await?;
        let tokens = tokens.len();
        Ok(Embedding { vector, tokens })
    }
}
