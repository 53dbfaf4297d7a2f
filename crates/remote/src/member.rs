//! A remote member in a conversation: messages, accepted segments, and its moves over any
//! [`Transport`].

use std::sync::Arc;

use conclave_ensemble::{Candidate, Score};
use futures_util::future::try_join_all;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::asking::Asking;
#[cfg(feature = "client")]
use crate::client::Client;
use crate::error::RemoteError;
use crate::judge::{self, Judge};
use crate::server::{Abilities, Prefix, Scored, Server, Verdict};
use crate::template::ChatMessage;
use crate::transport::Transport;

/// Rounds in a row after which a member that misses them leaves.
const MAX_MISSES: usize = 3;

/// Sampling settings.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Drawing {
    /// Options by their names in requests (`temperature`, `top_p`, …).
    pub options: Map<String, Value>,
    /// Seed; reproducibility depends on the server.
    pub seed: u64,
}

impl Drawing {
    /// Always the most probable token.
    pub fn greedy() -> Self {
        let options = [
            ("temperature", json!(0.0)),
            ("top_p", json!(1.0)),
            ("top_k", json!(0)),
        ];
        Self {
            options: (options.into_iter())
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
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
    async fn whole(
        &mut self,
        server: &Server,
        asking: Asking<'_, impl Transport>,
    ) -> Result<Prefix, RemoteError> {
        let (mut prefix, from) = match self.prefix.clone() {
            Some(conversation) => conversation,
            None => (server.prefix(&self.messages, asking).await?, 0),
        };
        for (text, ids) in &self.kept[from.min(self.kept.len())..] {
            match &mut prefix {
                Prefix::Text(prefix) => prefix.push_str(text),
                Prefix::Ids(_) if text.is_empty() => {}
                Prefix::Ids(prefix) => match ids {
                    Some(ids) => prefix.extend(ids),
                    None => prefix.extend(server.ids_of(text, asking).await?),
                },
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
///
/// A copy shares the server, but no state: a caller that drops a move goes on with the copy from
/// before it.
#[derive(Debug, Clone)]
pub struct Remote {
    name: String,
    server: Arc<Server>,
    #[cfg(feature = "client")]
    pub(crate) client: Client,
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
            #[cfg(feature = "client")]
            client: Client::new(),
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

    /// Renames it, where another member has its name.
    pub fn set_name(&mut self, name: &str) {
        name.clone_into(&mut self.name);
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

    /// Fetches the conversation as the server reads it, which the first move does otherwise. A
    /// failure is left to that move.
    pub async fn read_by(&mut self, transport: &impl Transport) {
        if self.server.abilities() != Abilities::JudgesOnly {
            let asking = self.server.asking(transport);
            // The first move reports what this one failed by.
            let _ = self.conversation.whole(&self.server, asking).await;
        }
    }

    /// Drafts a segment of at most `limit` tokens, by requests of `transport`.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn draft_by(
        &mut self,
        transport: &impl Transport,
        limit: usize,
    ) -> Result<Drafted, RemoteError> {
        // A round without any draft starts again; missing it again counts once.
        if self.scored.is_empty() {
            self.missing = false;
        }
        let drafted = self.drafted(transport, limit).await;
        let drafted = self.count_miss(drafted)?;
        if self.round == 0 {
            self.prompt_tokens = drafted.prefix_tokens;
        }
        Ok(drafted)
    }

    async fn drafted(
        &mut self,
        transport: &impl Transport,
        limit: usize,
    ) -> Result<Drafted, RemoteError> {
        let seed = self
            .drawing
            .seed
            .wrapping_add(self.round.wrapping_mul(7919));
        let asking = self.server.asking(transport);
        let prefix = self.conversation.whole(&self.server, asking).await?;
        let drawing = &self.drawing;
        self.server
            .draft(&prefix, limit, drawing, seed, asking)
            .await
    }

    /// Scores every candidate, `[candidates]`, by requests of `transport`; with `score_end`, also
    /// whether a candidate that ends the answer should. Returns an empty row if there are more
    /// candidates than letters.
    ///
    /// # Errors
    /// [`RemoteError`]; [`RemoteError::Silent`] if a judge names no letter.
    pub async fn verify_by(
        &mut self,
        transport: &impl Transport,
        candidates: &[Candidate],
        score_end: bool,
    ) -> Result<Vec<Verified>, RemoteError> {
        self.scored = candidates
            .iter()
            .map(|one| (one.text.clone(), None))
            .collect();
        match self.server.abilities() {
            Abilities::DraftsOnly => Ok(Vec::new()),
            Abilities::JudgesOnly => self.choose_best(transport, candidates).await,
            Abilities::DraftsAndScores => {
                let told = self.scores_of(transport, candidates, score_end).await;
                let told = self.count_miss(told)?;
                let mut row = Vec::with_capacity(told.len());
                for (told, (_, ids)) in told.into_iter().zip(&mut self.scored) {
                    row.push(Verified {
                        score: Score::of_logprobs(&told.logprobs),
                        tokens: told.tokens,
                    });
                    *ids = told.ids;
                }
                Ok(row)
            }
        }
    }

    async fn scores_of(
        &mut self,
        transport: &impl Transport,
        candidates: &[Candidate],
        score_end: bool,
    ) -> Result<Vec<Scored>, RemoteError> {
        let texts: Vec<&str> = candidates.iter().map(|one| one.text.as_str()).collect();
        let ends: Vec<bool> = candidates
            .iter()
            .map(|one| one.ended && score_end)
            .collect();
        let asking = self.server.asking(transport);
        let prefix = self.conversation.whole(&self.server, asking).await?;
        self.server.score(&prefix, &texts, &ends, asking).await
    }

    /// Names the best candidate twice, in two orders; equal candidates are shown once.
    async fn choose_best(
        &mut self,
        transport: &impl Transport,
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
            _ => self.shares_of(transport, &kinds).await?,
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

    async fn shares_of(
        &mut self,
        transport: &impl Transport,
        kinds: &[&Candidate],
    ) -> Result<Option<Vec<f64>>, RemoteError> {
        let seed = self.drawing.seed.wrapping_add(self.round);
        let orders = judge::orders(kinds.len(), seed);
        let (messages, answer) = (&self.conversation.messages, self.conversation.answer());
        let asking = self.server.asking(transport);
        let named = orders.iter().map(async |order| {
            let asked = judge::ballot(messages, &answer, kinds, order);
            self.server.choose(&asked, kinds.len(), asking).await
        });
        let named = try_join_all(named).await;
        let said = self.count_miss(named)?;
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

    /// Appends a candidate of the last verification to the answer, whether it was scored or not.
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

    /// Appends a segment to the answer that was accepted earlier.
    pub fn take(&mut self, text: &str) {
        self.scored = vec![(text.to_owned(), None)];
        self.keep(0);
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
