//! A member of any kind.

use conclave_ensemble::{Candidate, Settings};
use conclave_member::{
    Begun, ChosenToken, Draft, Embedding, Judged, JudgedToken, Member, Message, Passage, Thinking,
    Thought, Tool, VerifiedScore,
};
use conclave_model::{Sampling, Threads};
use conclave_remote::Remote;

use crate::away::Away;
use crate::form::FormOf;
use crate::taking_part::{MoveError, TakePart};

/// A member of any kind, for ensembles of several.
#[derive(Debug)]
pub enum AnyMember {
    /// A member whose model runs here.
    Local(Box<Member>),
    /// A member whose model runs on a server.
    Remote(Box<Remote>),
    /// A member whose server could not be used yet.
    Away(Box<Away>),
}

impl From<Remote> for AnyMember {
    fn from(member: Remote) -> Self {
        Self::Remote(Box::new(member))
    }
}

impl From<Member> for AnyMember {
    fn from(member: Member) -> Self {
        Self::Local(Box::new(member))
    }
}

impl From<Away> for AnyMember {
    fn from(member: Away) -> Self {
        Self::Away(Box::new(member))
    }
}

/// Calls a method of the member inside, whatever its kind.
macro_rules! its {
    ($member:expr, $inside:ident => $move:expr) => {
        match $member {
            AnyMember::Local($inside) => $move,
            AnyMember::Remote($inside) => $move,
            AnyMember::Away($inside) => $move,
        }
    };
}

impl TakePart for AnyMember {
    fn name(&self) -> &str {
        its!(self, member => TakePart::name(&**member))
    }

    fn set_name(&mut self, name: &str) {
        its!(self, member => TakePart::set_name(&mut **member, name));
    }

    fn reconnect(&mut self) {
        if let Self::Away(away) = self
            && let Some(member) = away.connected()
        {
            *self = member.into();
        }
    }

    fn strength(&self) -> f64 {
        its!(self, member => TakePart::strength(&**member))
    }

    fn chats(&self) -> bool {
        its!(self, member => TakePart::chats(&**member))
    }

    fn threads(&self) -> Threads {
        its!(self, member => TakePart::threads(&**member))
    }

    fn context(&self) -> Option<usize> {
        its!(self, member => TakePart::context(&**member))
    }

    async fn measure(&self, messages: &[Message]) -> Result<usize, MoveError> {
        its!(self, member => TakePart::measure(&**member, messages).await)
    }

    fn measure_text(&self, text: &str) -> Result<usize, MoveError> {
        its!(self, member => TakePart::measure_text(&**member, text))
    }

    fn render(&self, messages: &[Message]) -> Result<String, MoveError> {
        its!(self, member => TakePart::render(&**member, messages))
    }

    fn hold(&mut self, form: Option<FormOf<'_>>) -> Result<(), MoveError> {
        its!(self, member => TakePart::hold(&mut **member, form))
    }

    fn set_thinking(&mut self, thinking: Thinking) {
        its!(self, member => TakePart::set_thinking(&mut **member, thinking));
    }

    fn preserve_thinking(&mut self, preserved: Option<bool>) {
        its!(self, member => TakePart::preserve_thinking(&mut **member, preserved));
    }

    fn set_tools(&mut self, tools: &[Tool]) {
        its!(self, member => TakePart::set_tools(&mut **member, tools));
    }

    fn begin_with(&mut self, text: &str) {
        its!(self, member => TakePart::begin_with(&mut **member, text));
    }

    async fn begin_while(
        &mut self,
        messages: &[Message],
        sampling: Sampling,
        stream: u64,
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        its!(self, member =>
            TakePart::begin_while(&mut **member, messages, sampling, stream, go_on).await)
    }

    async fn begin_text_while(
        &mut self,
        text: &str,
        sampling: Sampling,
        stream: u64,
        go_on: impl AsyncFnMut(usize, usize) -> bool,
    ) -> Result<Begun, MoveError> {
        its!(self, member =>
            TakePart::begin_text_while(&mut **member, text, sampling, stream, go_on).await)
    }

    async fn judge_text(
        &mut self,
        text: &str,
        judged: &mut Judged,
    ) -> Result<Vec<JudgedToken>, MoveError> {
        its!(self, member => TakePart::judge_text(&mut **member, text, judged).await)
    }

    async fn chosen(
        &mut self,
        most: usize,
        go_on: impl FnMut() -> bool,
    ) -> Result<Option<Vec<ChosenToken>>, MoveError> {
        its!(self, member => TakePart::chosen(&mut **member, most, go_on).await)
    }

    fn tokens_before(&self, segment: &str, end: usize, first: bool) -> Option<usize> {
        its!(self, member => TakePart::tokens_before(&**member, segment, end, first))
    }

    async fn embed(&mut self, passage: &Passage) -> Result<Embedding, MoveError> {
        its!(self, member => TakePart::embed(&mut **member, passage).await)
    }

    async fn think_while(
        &mut self,
        go_on: impl AsyncFnMut(&str) -> bool,
    ) -> Result<Thought, MoveError> {
        its!(self, member => TakePart::think_while(&mut **member, go_on).await)
    }

    fn drafts(&self) -> bool {
        its!(self, member => TakePart::drafts(&**member))
    }

    async fn draft(&mut self, limit: usize, branch: f64, novel: bool) -> Result<Draft, MoveError> {
        its!(self, member => TakePart::draft(&mut **member, limit, branch, novel).await)
    }

    async fn verify(
        &mut self,
        candidates: &[Candidate],
        settings: &Settings,
    ) -> Result<Vec<VerifiedScore>, MoveError> {
        its!(self, member => TakePart::verify(&mut **member, candidates, settings).await)
    }

    async fn keep(&mut self, winner: usize) -> Result<(), MoveError> {
        its!(self, member => TakePart::keep(&mut **member, winner).await)
    }

    fn prompt_tokens(&self) -> usize {
        its!(self, member => TakePart::prompt_tokens(&**member))
    }

    fn release(&mut self) {
        its!(self, member => TakePart::release(&mut **member));
    }
}
