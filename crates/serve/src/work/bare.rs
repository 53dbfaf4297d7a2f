//! Conversations rendered as text, and texts judged: each by one of the members asked.
//!
//! A member that can't do it leaves it to the next. A client that renders by the ensemble, and then
//! judges what follows, wants one member for both: the template's marks say nothing to another.

use std::collections::VecDeque;

use conclave_member::{JudgedToken, MemberError, Message};
use conclave_rounds::{AnswerError, MoveError, TakePart};

use super::Run;
use crate::error::ApiError;

/// Number of rendered conversations that are remembered, of a few clients at once. The next may
/// push out one that is still judged; the first member that has room for its text then judges it.
const MOST_RENDERED: usize = 32;

/// Conversations that the ensemble has rendered last, each with the index of the member whose
/// template it follows.
#[derive(Debug, Default)]
pub(super) struct Rendered(VecDeque<(String, usize)>);

impl Rendered {
    fn remember(&mut self, prompt: &str, member: usize) {
        self.0.retain(|(known, _)| known != prompt);
        if self.0.len() == MOST_RENDERED {
            self.0.pop_front();
        }
        self.0.push_back((prompt.to_owned(), member));
    }

    /// Returns the member that has rendered the beginning of `text`, the longest if several have.
    fn member_of(&self, text: &str) -> Option<usize> {
        let begins = |(prompt, _): &&(String, usize)| text.starts_with(prompt.as_str());
        let longest = self.0.iter().filter(begins).max_by_key(|one| one.0.len());
        longest.map(|&(_, member)| member)
    }
}

/// The most useful error so far of members that could not do what was asked, with the member's
/// index.
#[derive(Default)]
struct Unable(Option<(usize, MoveError)>);

impl Unable {
    /// Adds a member's error.
    ///
    /// # Errors
    /// The error itself if another member can't help, as a fault of the device.
    fn add<M: TakePart>(
        &mut self,
        members: &[M],
        member: usize,
        error: MoveError,
    ) -> Result<(), MoveError> {
        let another_may = error.context_full()
            || matches!(
                error,
                MoveError::Unknown(_)
                    | MoveError::Local(MemberError::Text(_))
                    | MoveError::Remote(_)
            );
        if !another_may {
            return Err(error);
        }
        // As for an answer: of contexts that are too small, the largest says what would fit.
        let use_of = |member: usize, error: &MoveError| match error {
            full if full.context_full() => (2, members[member].context().unwrap_or(0)),
            MoveError::Unknown(_) => (0, 0),
            _ => (1, 0),
        };
        let before = self.0.as_ref().map(|(of, error)| use_of(*of, error));
        if before.is_none_or(|before| use_of(member, &error) > before) {
            self.0 = Some((member, error));
        }
        Ok(())
    }
}

impl<M: TakePart> Run<'_, M> {
    /// Renders a conversation, with the beginning of its answer, by the first asked member whose
    /// template takes it and whose context holds it.
    pub(super) fn rendered(
        &mut self,
        messages: &[Message],
        begun: &str,
    ) -> Result<String, ApiError> {
        let mut unable = Unable::default();
        for place in self.asked() {
            let member = &mut self.members[place];
            member.begin_with(begun);
            let prompt = member.render(messages).and_then(|prompt| {
                member.measure_text(&prompt)?;
                Ok(prompt)
            });
            match prompt {
                Ok(prompt) => {
                    if self.job.member.is_none() {
                        self.rendered.remember(&prompt, place);
                    }
                    return Ok(prompt);
                }
                Err(error) => {
                    let added = unable.add(self.members, place, error);
                    added.map_err(|error| self.error_of(place, error))?;
                }
            }
        }
        Err(self.none_could(unable, "render a conversation"))
    }

    /// Returns log-probabilities of the tokens of `text` from one asked member: the one that has
    /// rendered its beginning for the ensemble, or else the first whose context holds it. Returns
    /// the member's name, too.
    pub(super) async fn judged(
        &mut self,
        text: &str,
    ) -> Result<(String, Vec<JudgedToken>), ApiError> {
        let mut asked = self.asked();
        if self.job.member.is_none()
            && let Some(member) = self.rendered.member_of(text)
        {
            asked = member..member + 1;
        }
        let mut unable = Unable::default();
        for place in asked {
            let judged = &mut self.judged[place];
            match self.members[place].judge_text(text, judged).await {
                Ok(tokens) => return Ok((self.names[place].clone(), tokens)),
                Err(error) => {
                    let added = unable.add(self.members, place, error);
                    added.map_err(|error| self.error_of(place, error))?;
                }
            }
        }
        Err(self.none_could(unable, "judge a bare text"))
    }

    fn none_could(&self, unable: Unable, what: &'static str) -> ApiError {
        match unable.0 {
            Some((place, error)) => self.error_of(place, error),
            None => MoveError::Unknown(what).into(),
        }
    }

    /// Returns a member's error with its name.
    fn error_of(&self, place: usize, error: MoveError) -> ApiError {
        let (member, source) = (self.names[place].clone(), Box::new(error));
        AnswerError::Of { member, source }.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_goes_to_the_member_that_rendered_its_beginning() {
        let mut rendered = Rendered::default();
        assert_eq!(rendered.member_of("Well?"), None);
        rendered.remember("<user>Well?", 0);
        rendered.remember("<user>Well?<model>", 1);
        assert_eq!(rendered.member_of("<user>Well?<model>Fine."), Some(1));
        assert_eq!(rendered.member_of("<user>Well? Or not?"), Some(0));
        assert_eq!(rendered.member_of("<user>We"), None);
        // Another member's now, and one entry for both.
        rendered.remember("<user>Well?", 2);
        assert_eq!(rendered.member_of("<user>Well?"), Some(2));
        for other in 0..MOST_RENDERED - 1 {
            rendered.remember(&format!("{other}."), 0);
        }
        assert_eq!(rendered.member_of("<user>Well?"), Some(2));
        rendered.remember("One more.", 0);
        assert_eq!(rendered.member_of("<user>Well?"), None);
        assert_eq!(rendered.0.len(), MOST_RENDERED);
    }
}
