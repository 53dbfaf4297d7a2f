//! A remote member in a conversation: messages, accepted segments, and its moves, each on its own
//! thread so that others go on meanwhile.

use std::sync::Arc;

use conclave_ensemble::{Candidate, Score};
use futures_channel::oneshot;

use crate::client::Deadline;
use crate::error::RemoteError;
use crate::judge::{self, Judge};
use crate::server::{Abilities, Prefix, Server, Verdict};
use crate::template::ChatMessage;

/// Rounds in a row after which a member that misses them leaves.
const MAX_MISSES: usize = 3;

/// Sampling settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawing {
    /// Divisor of the logits; 0 is greedy.
    pub temperature: f64,
    /// Share of the probability mass sampled from (nucleus sampling).
    pub top_p: f64,
    /// Number of most probable tokens sampled from; 0: all.
    pub top_k: usize,
    /// Seed; reproducibility depends on the server.
    pub seed: u64,
}

impl Drawing {
    /// Always the most probable token.
    pub fn greedy() -> Self {
        Self {
            temperature: 0.0,
            top_p: 1.0,
            top_k: 0,
            seed: 0,
        }
    }
}

/// Drafted segment before it is cut to whole words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drafted {
    /// Text of the draft.
    pub text: String,
    /// Whether the answer ends after it.
    pub ended: bool,
    /// Number of drafted tokens.
    pub tokens: usize,
    /// Tokens read before the draft; 0 if the server does not report them.
    pub prefix_tokens: usize,
}

/// Verdict on a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verified {
    /// Score used by the method.
    pub score: Score,
    /// Tokens of the candidate in the member's tokenisation; 0 for a judge.
    pub tokens: usize,
}

/// Conversation and accepted segments.
#[derive(Debug, Clone, Default)]
struct Conversation {
    messages: Vec<ChatMessage>,
    /// Prompt as the server reads it, once fetched, and the number of segments in it.
    prefix: Option<(Prefix, usize)>,
    /// Accepted segments, with ids where scoring returned them.
    kept: Vec<(String, Option<Vec<u32>>)>,
}

impl Conversation {
    /// Returns the whole prefix as the server reads it, fetching what is missing.
    fn whole(&mut self, server: &Server, deadline: Deadline) -> Result<Prefix, RemoteError> {
        let (mut prefix, from) = match self.prefix.take() {
            Some(conversation) => conversation,
            None => (server.prefix(&self.messages, deadline)?, 0),
        };
        for (text, ids) in &mut self.kept[from..] {
            match &mut prefix {
                Prefix::Text(prefix) => prefix.push_str(text),
                Prefix::Ids(_) if text.is_empty() => {}
                Prefix::Ids(prefix) => {
                    let ids = match ids.take() {
                        Some(ids) => ids,
                        None => server.ids_of(text, deadline)?,
                    };
                    prefix.extend(ids);
                }
            }
        }
        self.prefix = Some((prefix.clone(), self.kept.len()));
        Ok(prefix)
    }

    fn answer(&self) -> String {
        self.kept.iter().map(|(text, _)| text.as_str()).collect()
    }
}

/// Member of an ensemble whose model runs behind a server.
///
/// Moves fail either for this round, in which the member abstains, or for good
/// ([`RemoteError::passes`]). The third missed round in a row is for good.
#[derive(Debug)]
pub struct Remote {
    name: String,
    server: Arc<Server>,
    judge: Judge,
    drawing: Drawing,
    /// Whether drafting is left to others.
    only_judges: bool,
    conversation: Conversation,
    /// The given beginning of the next answer.
    begun: String,
    /// Text beyond the next conversations' system message.
    instructions: String,
    prompt_tokens: usize,
    /// Candidates scored last: texts, with ids where known.
    scored: Vec<(String, Option<Vec<u32>>)>,
    round: u64,
    missed: usize,
    /// Whether this round was missed already.
    missing: bool,
}

impl Remote {
    /// Creates the member `name` for a server's model.
    pub fn new(name: &str, server: Server) -> Self {
        Self {
            name: name.to_owned(),
            server: Arc::new(server),
            judge: Judge::default(),
            drawing: Drawing::greedy(),
            only_judges: false,
            conversation: Conversation::default(),
            begun: String::new(),
            instructions: String::new(),
            prompt_tokens: 0,
            scored: Vec::new(),
            round: 0,
            missed: 0,
            missing: false,
        }
    }

    /// Name of the member.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Server of its model.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Its estimates as a judge by letters.
    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Returns whether it drafts.
    pub fn drafts(&self) -> bool {
        !self.only_judges && self.server.abilities() != Abilities::JudgesOnly
    }

    /// With `true`, never drafts, whatever the server can do; with `false`, drafts if the server
    /// can.
    pub fn only_judge(&mut self, only: bool) {
        self.only_judges = only;
    }

    /// Returns whether it scores candidates or names one.
    pub fn judges(&self) -> bool {
        self.server.abilities() != Abilities::DraftsOnly
    }

    /// Sets the beginning of the answers to the next conversations; empty text removes it.
    pub fn begin_with(&mut self, text: &str) {
        text.clone_into(&mut self.begun);
    }

    /// Sets what the system message of the next conversations ends with; empty text removes it.
    pub fn set_instructions(&mut self, text: String) {
        self.instructions = text;
    }

    /// Starts a conversation. Nothing is sent before the first move.
    pub fn begin(&mut self, mut messages: Vec<ChatMessage>, drawing: Drawing) {
        if !self.instructions.is_empty() {
            let first = messages.first_mut();
            match first.filter(|first| first.role == "system") {
                Some(system) => {
                    system.content.push_str("\n\n");
                    system.content.push_str(&self.instructions);
                }
                None => {
                    let system = ChatMessage {
                        role: "system".to_owned(),
                        content: self.instructions.clone(),
                    };
                    messages.insert(0, system);
                }
            }
        }
        let begun = Some(self.begun.clone()).filter(|text| !text.is_empty());
        self.conversation = Conversation {
            messages,
            kept: begun.map(|text| (text, None)).into_iter().collect(),
            ..Conversation::default()
        };
        self.drawing = drawing;
        self.scored.clear();
        self.prompt_tokens = 0;
        (self.round, self.missed, self.missing) = (0, 0, false);
    }

    /// Tokens of the conversation before the first segment, as counted by the server; 0 before the
    /// first draft, or if the server does not report them.
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// Drafts a segment of at most `limit` tokens.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn draft(&mut self, limit: usize) -> Result<Drafted, RemoteError> {
        // A round without any draft starts again; missing it again counts once.
        if self.scored.is_empty() {
            self.missing = false;
        }
        let (server, mut conversation, drawing) = (
            Arc::clone(&self.server),
            self.conversation.clone(),
            self.drawing,
        );
        let seed = drawing.seed.wrapping_add(self.round.wrapping_mul(7919));
        let drafted = on_thread(&self.server, move || {
            let deadline = server.deadline();
            let prefix = conversation.whole(&server, deadline)?;
            let drafted = server.draft(&prefix, limit, &drawing, seed, deadline)?;
            Ok((conversation, drafted))
        });
        let (conversation, drafted) = self.count_miss(drafted.await)?;
        self.conversation = conversation;
        if self.round == 0 {
            self.prompt_tokens = drafted.prefix_tokens;
        }
        Ok(drafted)
    }

    /// Scores every candidate, `[candidates]`; with `score_end`, also whether a candidate that ends
    /// the answer should. Returns an empty row if there are more candidates than letters.
    ///
    /// # Errors
    /// [`RemoteError`]; [`RemoteError::Silent`] if a judge names no letter.
    pub async fn verify(
        &mut self,
        candidates: &[Candidate],
        score_end: bool,
    ) -> Result<Vec<Verified>, RemoteError> {
        let texts: Vec<String> = candidates.iter().map(|c| c.text.clone()).collect();
        self.scored = texts.iter().map(|text| (text.clone(), None)).collect();
        match self.server.abilities() {
            Abilities::DraftsOnly => Ok(Vec::new()),
            Abilities::JudgesOnly => self.choose_best(candidates).await,
            Abilities::DraftsAndScores => {
                let ends: Vec<bool> = candidates.iter().map(|c| c.ended && score_end).collect();
                let (server, mut conversation) =
                    (Arc::clone(&self.server), self.conversation.clone());
                let told = on_thread(&self.server, move || {
                    let deadline = server.deadline();
                    let prefix = conversation.whole(&server, deadline)?;
                    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                    let told = server.score(&prefix, &texts, &ends, deadline)?;
                    Ok((conversation, told))
                });
                let (conversation, told) = self.count_miss(told.await)?;
                self.conversation = conversation;
                let mut row = Vec::with_capacity(told.len());
                for (told, (_, ids)) in told.into_iter().zip(&mut self.scored) {
                    row.push(Verified {
                        score: Score::of_logprobs(&told.logprobs),
                        tokens: told.ids.as_ref().map_or(told.logprobs.len(), Vec::len),
                    });
                    *ids = told.ids;
                }
                Ok(row)
            }
        }
    }

    /// Names the best candidate twice, in two orders; equal candidates are shown once.
    async fn choose_best(
        &mut self,
        candidates: &[Candidate],
    ) -> Result<Vec<Verified>, RemoteError> {
        let mut kinds: Vec<&Candidate> = Vec::with_capacity(candidates.len());
        let mut kind_of = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let known = kinds.iter().position(|&kind| kind == candidate);
            kind_of.push(known.unwrap_or(kinds.len()));
            if known.is_none() {
                kinds.push(candidate);
            }
        }
        let shares = match kinds.len() {
            1 => Some(vec![1.0]),
            _ => self.shares_of(&kinds).await?,
        };
        let preference = |kind: usize, shares: &[f64]| Verified {
            score: Score {
                preference: Some(shares[kind]),
                ..Score::default()
            },
            tokens: 0,
        };
        let row = |shares: Vec<f64>| {
            let row = kind_of.into_iter().map(|kind| preference(kind, &shares));
            row.collect()
        };
        Ok(shares.map_or_else(Vec::new, row))
    }

    async fn shares_of(&mut self, kinds: &[&Candidate]) -> Result<Option<Vec<f64>>, RemoteError> {
        let seed = self.drawing.seed.wrapping_add(self.round);
        let orders = judge::orders(kinds.len(), seed);
        let (messages, answer) = (&self.conversation.messages, self.conversation.answer());
        let asked: Vec<String> = orders
            .iter()
            .map(|order| judge::ballot(messages, &answer, kinds, order))
            .collect();
        let (server, count) = (Arc::clone(&self.server), kinds.len());
        let named = on_thread(&self.server, move || {
            let deadline = server.deadline();
            let asked = asked
                .iter()
                .map(|asked| server.choose(asked, count, deadline));
            asked.collect::<Result<Vec<_>, _>>()
        });
        let said = self.count_miss(named.await)?;
        let named: Vec<_> = said.iter().map(|said| said.letter()).collect();
        let shares = self.judge.hear(&orders, &named);
        let silence = said.iter().find_map(|said| match said {
            Verdict::Silence(why) => Some(*why),
            Verdict::Letter(_) => None,
        });
        match (shares, silence) {
            (None, Some(why)) => {
                let host = self.server.host();
                self.count_miss(Err(RemoteError::Silent { host, why }))
            }
            (shares, _) => Ok(shares),
        }
    }

    /// Appends a candidate of the last [`verify`](Self::verify) to the answer, whether it was
    /// scored or not.
    pub fn keep(&mut self, winner: usize) {
        if winner < self.scored.len() {
            self.conversation.kept.push(self.scored.swap_remove(winner));
        }
        self.scored.clear();
        self.round += 1;
        if !std::mem::take(&mut self.missing) {
            self.missed = 0;
        }
    }

    /// Drops the conversation.
    pub fn release(&mut self) {
        self.conversation = Conversation::default();
        self.scored.clear();
    }

    /// Counts missed rounds.
    fn count_miss<T>(&mut self, outcome: Result<T, RemoteError>) -> Result<T, RemoteError> {
        let Err(error) = outcome else {
            return outcome;
        };
        if !error.passes() {
            return Err(error);
        }
        if !std::mem::replace(&mut self.missing, true) {
            self.missed += 1;
        }
        if self.missed < MAX_MISSES {
            return Err(error);
        }
        Err(RemoteError::Gone {
            rounds: self.missed,
            last: Box::new(error),
        })
    }
}

/// Runs `work` on its own thread. If the future is dropped, the thread ends by its deadline and its
/// result is discarded.
async fn on_thread<T: Send + 'static>(
    server: &Server,
    work: impl FnOnce() -> Result<T, RemoteError> + Send + 'static,
) -> Result<T, RemoteError> {
    let (sender, receiver) = oneshot::channel();
    std::thread::spawn(move || sender.send(work()));
    let gone = |_| Err(server.nonsense("it could not be read"));
    receiver.await.unwrap_or_else(gone)
}
