//! Candidates in line: the portion that each of their tokens runs in, and its slot and KV row.
//!
//! A portion is one pass, with a slot for each of its tokens. One is nearly always enough; longer
//! candidates go on in the next, whose states replace those before. KV rows are contiguous while
//! there are any, then begin again at the prefix.
//!
//! One candidate, the trunk, has the rows right after the prefix. Another that begins as the trunk
//! does is a branch of it: the shared tokens run once, as a longer prefix of the branch.
//!
//! In a model with recurrent states each candidate begins from the prefix's state and ends in a
//! slot of its own; the draft's state serves a candidate that begins with all that the draft ran.

use std::ops::Range;

use crate::pass::{IN_LINE_ROWS, Pass, Run, rows_of};
use crate::slots::{DRAFT, PASS, PREFIX};
use crate::states::States;

/// Tokens that run in one portion: each has a slot for its state.
const PORTION: usize = IN_LINE_ROWS;

/// A distinct candidate.
#[derive(Debug)]
pub struct Candidate {
    /// Its token ids.
    pub tokens: Vec<u32>,
    /// Number of its first tokens that the draft had run.
    pub drafted: usize,
    /// Number of its first tokens that are the trunk's, fewer than it has; 0 for the trunk.
    pub shared: usize,
    /// The KV row of its first token that is not shared; `None` where a later portion wrote over
    /// its rows.
    pub row: Option<usize>,
    /// Slot of the recurrent state after the whole candidate, in a recurrent model.
    state: Option<usize>,
}

impl Candidate {
    /// Index of its first token that runs.
    fn begin(&self) -> usize {
        self.drafted + self.shared
    }
}

/// Some tokens of a candidate that run in one portion.
#[derive(Debug)]
struct Piece {
    /// Index of the candidate.
    candidate: usize,
    /// Range of its tokens.
    tokens: Range<usize>,
    /// The pass's index of the first one.
    offset: usize,
}

/// A pass, and the candidates of its tokens.
#[derive(Debug)]
pub struct Portion {
    /// Tokens to run; empty where the draft ran all of them.
    pub pass: Pass,
    pieces: Vec<Piece>,
}

/// One token of a candidate to be scored under the logits of the hidden state in `slot`.
#[derive(Debug, Clone, Copy)]
pub struct Judged {
    /// Index of the distinct candidate.
    pub candidate: usize,
    /// Slot of the state before the token.
    pub slot: usize,
    /// The token.
    pub target: u32,
}

/// All candidates of a verify pass, lined up.
#[derive(Debug)]
pub struct Line {
    /// The distinct ones, in order of their first appearance.
    pub candidates: Vec<Candidate>,
    /// For each requested candidate, its index in `candidates` (duplicates share one).
    pub which: Vec<usize>,
    /// The portions they run in, in order.
    pub portions: Vec<Portion>,
    /// Index of the candidate whose rows follow the prefix.
    pub trunk: usize,
    /// Slots of the recurrent states of the prefix and of the draft.
    begin: [Option<usize>; 2],
}

impl Line {
    /// Lines up `candidates` after a prefix of `prefix` tokens, in a context of `context` tokens.
    /// Equal candidates run once. One candidate runs only the tokens that it does not share with
    /// the beginning of the last draft: the candidate, or the first of several, that shares most of
    /// the tokens that the draft `ran`. With recurrent `states` it must share all of these tokens.
    /// That candidate is the trunk; without one, the candidate that shares most with the others is.
    /// The others run only the tokens that they do not share with the trunk, in models without
    /// recurrent states, as long as all fit into one portion.
    pub fn up(
        candidates: &[Vec<u32>],
        ran: &[u32],
        states: Option<&States>,
        prefix: usize,
        context: usize,
    ) -> Self {
        let mut different: Vec<&Vec<u32>> = Vec::new();
        let mut which = Vec::with_capacity(candidates.len());
        for candidate in candidates {
            let known = different.iter().position(|other| *other == candidate);
            which.push(known.unwrap_or(different.len()));
            if known.is_none() {
                different.push(candidate);
            }
        }
        let of_draft = |tokens: &&Vec<u32>| match alike(tokens, ran) {
            count if states.is_some() && count < ran.len() => 0,
            count => count,
        };
        // The draft's rows serve one candidate.
        let of_draft: Vec<usize> = different.iter().map(of_draft).collect();
        let most = of_draft.iter().copied().max().unwrap_or_default();
        let own = of_draft.iter().position(|&count| count == most && most > 0);
        let trunk = own.unwrap_or_else(|| most_shared(&different));
        let mut free = states.into_iter().flat_map(States::free);
        let draft = states.and_then(States::draft);
        let lined = |(index, tokens): (usize, &&Vec<u32>)| {
            let drafted = if Some(index) == own { most } else { 0 };
            Candidate {
                tokens: (*tokens).clone(),
                drafted,
                shared: 0,
                row: None,
                state: match drafted == tokens.len() {
                    true => draft,
                    false => free.next(),
                },
            }
        };
        let mut line = Self {
            candidates: different.iter().enumerate().map(lined).collect(),
            which,
            portions: Vec::new(),
            trunk,
            begin: [states.and_then(States::prefix), draft],
        };
        // The draft's own goes on where the draft's rows are.
        let others = (0..different.len()).filter(|&index| index != trunk);
        let first = (!different.is_empty()).then_some(trunk);
        let mut row = prefix;
        for index in first.into_iter().chain(others) {
            if states.is_none() && index != trunk {
                line.candidates[index].shared = line.shared_with_trunk(index);
            }
            let candidate = &line.candidates[index];
            let count = candidate.tokens.len() - candidate.shared;
            if row + count > rows_of(context) && row > prefix {
                line.candidates.iter_mut().for_each(|one| one.row = None);
                line.begin_portion();
                line.candidates[index].shared = 0;
                row = prefix;
            }
            line.append(index, prefix, row);
            let candidate = &line.candidates[index];
            row += candidate.tokens.len() - candidate.shared;
        }
        line
    }

    /// Number of first tokens that a candidate takes from the trunk; 0 once their states may be
    /// gone.
    fn shared_with_trunk(&self, index: usize) -> usize {
        let [tokens, trunk] = [index, self.trunk].map(|one| &self.candidates[one].tokens);
        let shared = begins_as(tokens, trunk);
        match &self.portions[..] {
            [only] if only.pass.len() + tokens.len() - shared <= PORTION => shared,
            _ => 0,
        }
    }

    fn begin_portion(&mut self) -> &mut Portion {
        self.portions.push(Portion {
            pass: Pass::empty(),
            pieces: Vec::new(),
        });
        let last = self.portions.len() - 1;
        &mut self.portions[last]
    }

    /// Adds a candidate whose rows begin at `row`, in as many portions as it takes.
    fn append(&mut self, index: usize, prefix: usize, row: usize) {
        let candidate = &mut self.candidates[index];
        candidate.row = Some(row);
        let (count, shared) = (candidate.tokens.len(), candidate.shared);
        let mut done = candidate.begin();
        loop {
            let room = match self.portions.last() {
                Some(portion) if portion.pass.len() < PORTION => PORTION - portion.pass.len(),
                _ => {
                    self.begin_portion();
                    PORTION
                }
            };
            let tokens = done..count.min(done + room);
            let (Some(portion), candidate) = (self.portions.last_mut(), &self.candidates[index])
            else {
                return;
            };
            let offset = portion.pass.len();
            portion.pass.append(
                prefix + shared,
                row,
                done - shared,
                &candidate.tokens[tokens.clone()],
            );
            if let Some(to) = candidate.state.filter(|_| !tokens.is_empty()) {
                let from = match tokens.start {
                    0 => self.begin[0],
                    start if start == candidate.drafted => self.begin[1],
                    _ => Some(to),
                };
                let tokens = tokens.len();
                portion.pass.runs.push(Run { tokens, from, to });
            }
            done = tokens.end;
            portion.pieces.push(Piece {
                candidate: index,
                tokens,
                offset,
            });
            if done == count {
                return;
            }
        }
    }

    /// The tokens that are judged once portion `number` has run: each by the state of the one
    /// before it. Shared tokens are judged as the trunk's.
    pub fn judged(&self, number: usize) -> impl Iterator<Item = Judged> {
        let pieces = self.portions[number].pieces.iter();
        pieces.flat_map(|piece| {
            let of = &self.candidates[piece.candidate];
            // The states of the prefix and the draft are there from the first of its portions on.
            let first = match piece.tokens.start == of.begin() {
                true => of.shared,
                false => piece.tokens.start + 1,
            };
            let end = of.tokens.len().min(piece.tokens.end + 1);
            (first..end).map(|index| Judged {
                candidate: piece.candidate,
                slot: match index.checked_sub(piece.tokens.start + 1) {
                    Some(later) => PASS + piece.offset + later,
                    None if index == 0 => PREFIX,
                    // The trunk's tokens are the first of the first portion.
                    None => match index.checked_sub(self.candidates[self.trunk].drafted + 1) {
                        Some(run) => PASS + run,
                        None => DRAFT + index - 1,
                    },
                },
                target: of.tokens[index],
            })
        })
    }

    /// Slot of the state after the first `count` tokens of a candidate, at least one, once all
    /// portions have run; `None` where another portion's state took it.
    pub fn slot_after(&self, candidate: usize, count: usize) -> Option<usize> {
        if count <= self.candidates[candidate].drafted {
            return Some(DRAFT + count - 1);
        }
        if count <= self.candidates[candidate].shared {
            return self.slot_after(self.trunk, count);
        }
        let mut pieces = self.portions.last()?.pieces.iter();
        let holds =
            |piece: &&Piece| piece.candidate == candidate && piece.tokens.contains(&(count - 1));
        let piece = pieces.find(holds)?;
        Some(PASS + piece.offset + count - 1 - piece.tokens.start)
    }

    /// Slot of the recurrent state after the first `count` tokens of a candidate, in a recurrent
    /// model. `None` unless these are all tokens of the candidate, or those that the draft has run.
    pub fn state_after(&self, candidate: usize, count: usize) -> Option<usize> {
        let candidate = &self.candidates[candidate];
        match count {
            count if count == candidate.tokens.len() => candidate.state,
            count if count == candidate.drafted => self.begin[1],
            _ => None,
        }
    }

    /// Tokens of the draft whose KV rows a candidate has taken, and keeps.
    pub fn kept_of_draft(&self) -> usize {
        let taken = self.candidates.iter().filter(|one| one.row.is_some());
        taken.map(|one| one.drafted).max().unwrap_or_default()
    }

    /// Tokens of the longest text that is made of the prefix and one candidate.
    pub fn length(&self) -> usize {
        let lengths = self.portions.iter().map(|portion| portion.pass.length());
        lengths.max().unwrap_or_default()
    }
}

/// Number of tokens with which both begin.
fn alike(a: &[u32], b: &[u32]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Number of tokens that a branch may take from a trunk: fewer than it has, so that it has a row of
/// its own.
fn begins_as(branch: &[u32], trunk: &[u32]) -> usize {
    alike(branch, trunk).min(branch.len().saturating_sub(1))
}

/// Index of the candidate, or the first of several, with which the others share most; 0 if none
/// share anything.
fn most_shared(candidates: &[&Vec<u32>]) -> usize {
    let others = |index: usize| (0..candidates.len()).filter(move |&other| other != index);
    let shared = |index: usize| -> usize {
        let branches = others(index).map(|other| begins_as(candidates[other], candidates[index]));
        branches.sum()
    };
    let most = (0..candidates.len())
        .rev()
        .max_by_key(|&index| shared(index));
    most.unwrap_or_default()
}
