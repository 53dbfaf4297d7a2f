//! Tokens of a part of a segment.

use super::{Member, MemberError};

impl Member {
    /// Number of tokens of a `segment` that begin before its byte `end`, in this member's
    /// tokenisation as [`verify`](Self::verify) has it; `first` if the segment begins the answer,
    /// after the white space of this member's template.
    ///
    /// # Errors
    /// The tokenizer's.
    pub fn tokens_before(
        &self,
        segment: &str,
        end: usize,
        first: bool,
    ) -> Result<usize, MemberError> {
        let lead = if first { self.lead.as_str() } else { "" };
        let ids = self.tokenizer.encode(&format!("{lead}{segment}"))?;
        let mut spelt = Vec::with_capacity(lead.len() + segment.len());
        let begins = |&id: &u32| {
            let begins = spelt.len() < lead.len() + end;
            self.tokenizer.spell(id, &mut spelt);
            begins
        };
        Ok(ids.into_iter().take_while(begins).count())
    }
}
