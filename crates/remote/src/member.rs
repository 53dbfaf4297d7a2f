//! A remote member in a conversation: what it was asked, what was kept, and its moves, each on a
//! thread of its own so that others go on meanwhile.

use std::sync::Arc;

use conclave_ensemble::{Candidate, Score};
use futures_channel::oneshot;

use crate::client::Deadline;
use crate::error::RemoteError;
use crate::judge::{self, Judge};
use crate::server::{Abilities, Prefix, Server};
use crate::template::Said;

/// Rounds in a row that a member may miss.
const MISSES: usize = 3;

/// How it draws its tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drawing {
    /// Divides the logits; 0 is greedy.
    pub temperature: f64,
    /// The share of the probability that is drawn from.
    pub top_p: f64,
    /// At most this many of the most probable tokens; 0: all.
    pub top_k: usize,
    /// Same seed, same text, as far as the server keeps to it.
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

/// A drafted segment before it is cut to whole words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drafted {
    /// Its text.
    pub text: String,
    /// The answer ends behind it.
    pub ended: bool,
    /// Tokens drawn.
    pub tokens: usize,
    /// Tokens read before it; 0 where its server does not say.
    pub prefix_tokens: usize,
}

/// What it says of a candidate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verified {
    /// What the method judges by.
    pub score: Score,
    /// Tokens of the candidate in its own; 0 of a judge, which counts none.
    pub tokens: usize,
}

/// What it has been told: the conversation, and the segments that were kept.
#[derive(Debug, Clone, Default)]
struct Held {
    messages: Vec<Said>,
    /// The prompt as the server reads it, once it was asked for, and how many segments are in it.
    prefix: Option<(Prefix, usize)>,
    /// Segments kept, with their ids where a score has told them.
    kept: Vec<(String, Option<Vec<u32>>)>,
}

impl Held {
    /// Everything so far, as the server reads it: what it has not been asked for yet, it is now.
    fn whole(&mut self, server: &Server, deadline: Deadline) -> Result<Prefix, RemoteError> {
        let (mut prefix, from) = match self.prefix.take() {
            Some(held) => held,
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

/// A member of an ensemble whose model runs behind a server.
///
/// Its moves fail in two ways ([`RemoteError::passes`]): for this round, in which it abstains, or
/// for good. The third round in a row that it misses is for good.
#[derive(Debug)]
pub struct Remote {
    name: String,
    server: Arc<Server>,
    judge: Judge,
    drawing: Drawing,
    /// It leaves the drafting to others.
    only_judges: bool,
    held: Held,
    /// What the next answer begins with.
    begun: String,
    prompt_tokens: usize,
    /// The candidates scored last: texts, and their ids where those are known.
    in_line: Vec<(String, Option<Vec<u32>>)>,
    round: u64,
    missed: usize,
    /// This round was missed already.
    missing: bool,
}

impl Remote {
    /// The member `name`, whose model a server runs.
    pub fn new(name: &str, server: Server) -> Self {
        Self {
            name: name.to_owned(),
            server: Arc::new(server),
            judge: Judge::default(),
            drawing: Drawing::greedy(),
            only_judges: false,
            held: Held::default(),
            begun: String::new(),
            prompt_tokens: 0,
            in_line: Vec::new(),
            round: 0,
            missed: 0,
            missing: false,
        }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its model runs, and what it can do there.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// What is known of it as a judge by letters.
    pub fn judge(&self) -> &Judge {
        &self.judge
    }

    /// Whether it drafts.
    pub fn drafts(&self) -> bool {
        !self.only_judges && self.server.abilities() != Abilities::JudgesOnly
    }

    /// Leaves the drafting to others from now on, whatever its server can do; `false`: as the
    /// server can.
    pub fn only_judge(&mut self, only: bool) {
        self.only_judges = only;
    }

    /// Whether it scores candidates, or names one.
    pub fn judges(&self) -> bool {
        self.server.abilities() != Abilities::DraftsOnly
    }

    /// Says what the answers to the next conversations begin with; an empty text begins nothing.
    pub fn begin_with(&mut self, text: &str) {
        text.clone_into(&mut self.begun);
    }

    /// Takes in a conversation. Nothing is sent before the first move.
    pub fn begin(&mut self, messages: Vec<Said>, drawing: Drawing) {
        let begun = Some(self.begun.clone()).filter(|text| !text.is_empty());
        self.held = Held {
            messages,
            kept: begun.map(|text| (text, None)).into_iter().collect(),
            ..Held::default()
        };
        self.drawing = drawing;
        self.in_line.clear();
        self.prompt_tokens = 0;
        (self.round, self.missed, self.missing) = (0, 0, false);
    }

    /// Tokens of the conversation, as its server counted them before the first segment; 0 before it
    /// was asked for that, and of one that does not say.
    pub fn prompt_tokens(&self) -> usize {
        self.prompt_tokens
    }

    /// A segment of at most `limit` tokens.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn draft(&mut self, limit: usize) -> Result<Drafted, RemoteError> {
        // A round that nobody has drafted in is begun anew: late again, it is late once more.
        if self.in_line.is_empty() {
            self.missing = false;
        }
        let (server, mut held, drawing) =
            (Arc::clone(&self.server), self.held.clone(), self.drawing);
        let seed = drawing.seed.wrapping_add(self.round.wrapping_mul(7919));
        let drafted = on_thread(&self.server, move || {
            let deadline = server.deadline();
            let prefix = held.whole(&server, deadline)?;
            let drafted = server.draft(&prefix, limit, &drawing, seed, deadline)?;
            Ok((held, drafted))
        });
        let (held, drafted) = self.told(drafted.await)?;
        self.held = held;
        if self.round == 0 {
            self.prompt_tokens = drafted.prefix_tokens;
        }
        Ok(drafted)
    }

    /// What it thinks of every candidate, `[candidates]`; with `score_end`, of one that ends also
    /// whether it should. One that names no letter has nothing to say, and gives an empty row.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub async fn verify(
        &mut self,
        candidates: &[Candidate],
        score_end: bool,
    ) -> Result<Vec<Verified>, RemoteError> {
        let texts: Vec<String> = candidates.iter().map(|c| c.text.clone()).collect();
        self.in_line = texts.iter().map(|text| (text.clone(), None)).collect();
        match self.server.abilities() {
            Abilities::DraftsOnly => Ok(Vec::new()),
            Abilities::JudgesOnly => self.name_one(candidates).await,
            Abilities::DraftsAndScores => {
                let ends: Vec<bool> = candidates.iter().map(|c| c.ended && score_end).collect();
                let (server, mut held) = (Arc::clone(&self.server), self.held.clone());
                let told = on_thread(&self.server, move || {
                    let deadline = server.deadline();
                    let prefix = held.whole(&server, deadline)?;
                    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                    let told = server.score(&prefix, &texts, &ends, deadline)?;
                    Ok((held, told))
                });
                let (held, told) = self.told(told.await)?;
                self.held = held;
                let mut row = Vec::with_capacity(told.len());
                for (told, (_, ids)) in told.into_iter().zip(&mut self.in_line) {
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

    /// Names the best twice, in two orders; candidates of the same words are shown as one.
    async fn name_one(&mut self, candidates: &[Candidate]) -> Result<Vec<Verified>, RemoteError> {
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
        let (messages, answer) = (&self.held.messages, self.held.answer());
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
        let named = self.told(named.await)?;
        Ok(self.judge.hear(&orders, &named))
    }

    /// Makes a candidate of the last [`verify`](Self::verify) part of its text, whether it came to
    /// score it or not.
    pub fn keep(&mut self, winner: usize) {
        if winner < self.in_line.len() {
            self.held.kept.push(self.in_line.swap_remove(winner));
        }
        self.in_line.clear();
        self.round += 1;
        if !std::mem::take(&mut self.missing) {
            self.missed = 0;
        }
    }

    /// Forgets the conversation.
    pub fn release(&mut self) {
        self.held = Held::default();
        self.in_line.clear();
    }

    /// Counts the rounds that it misses.
    fn told<T>(&mut self, outcome: Result<T, RemoteError>) -> Result<T, RemoteError> {
        let Err(error) = outcome else {
            return outcome;
        };
        if !error.passes() {
            return Err(error);
        }
        if !std::mem::replace(&mut self.missing, true) {
            self.missed += 1;
        }
        if self.missed < MISSES {
            return Err(error);
        }
        Err(RemoteError::Gone {
            rounds: self.missed,
            last: Box::new(error),
        })
    }
}

/// What `work` comes to on a thread of its own. Dropped before that, the thread ends by its
/// deadline and nobody hears of it.
async fn on_thread<T: Send + 'static>(
    server: &Server,
    work: impl FnOnce() -> Result<T, RemoteError> + Send + 'static,
) -> Result<T, RemoteError> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || tell.send(work()));
    let gone = |_| Err(server.nonsense("it could not be read"));
    told.await.unwrap_or_else(gone)
}
