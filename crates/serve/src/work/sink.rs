//! The events of one answer, sent to its client round by round.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use conclave_rounds::{Left, Round, Watch};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use super::{Event, Missing, Vote};
use crate::record::Record;

/// Sends the beginning of a choice and the echoed text.
pub(super) fn begin(events: &UnboundedSender<Event>, choice: usize, echoed: &str) {
    let _ = events.send(Event::Begun { choice });
    if !echoed.is_empty() {
        let _ = events.send(Event::Text {
            choice,
            text: echoed.to_owned(),
            vote: None,
        });
    }
}

/// Sends an answer's events to its client.
pub(super) struct EventSink<'a> {
    pub choice: usize,
    /// Text sent before the answer.
    pub echoed: &'a str,
    /// Names of the members asked.
    pub names: &'a [String],
    /// Time at which reading began, if its progress is told.
    pub reading: Option<Instant>,
    pub begun: bool,
    /// Bytes of text sent.
    pub bytes: usize,
    /// Members that left or abstained.
    pub missing: Vec<Missing>,
    /// The last segment's vote.
    pub last: Option<Vote>,
    pub ending: &'a AtomicBool,
    pub events: &'a UnboundedSender<Event>,
    pub record: &'a Record,
}

impl EventSink<'_> {
    fn miss(&mut self, member: usize, error: &str, left: bool) {
        let missing = Missing {
            member: self.names[member].clone(),
            error: error.to_owned(),
            left,
        };
        self.record.missed(&missing);
        self.missing.push(missing);
    }
}

impl Watch for EventSink<'_> {
    fn reading(&mut self, member: &str, done: usize, total: usize) {
        if let Some(started) = self.reading {
            // With the names of llama.cpp's server.
            let progress = json!({
                "member": member, "processed": done, "total": total, "cache": 0,
                "time_ms": started.elapsed().as_millis() as u64,
            });
            let _ = self.events.send(Event::Read {
                choice: self.choice,
                progress,
            });
        }
    }

    fn round(&mut self, round: &Round, text: &str) {
        if !self.begun {
            self.begun = true;
            begin(self.events, self.choice, self.echoed);
        }
        for late in &round.abstained {
            let name = &self.names[late.member];
            if self.missing.iter().all(|known| known.member != *name) {
                self.miss(late.member, &late.error, false);
            }
        }
        self.bytes += text.len();
        let vote = Vote::from_round(round, self.names);
        self.last = Some(vote.clone());
        let _ = self.events.send(Event::Text {
            choice: self.choice,
            text: text.to_owned(),
            vote: Some(vote),
        });
    }

    fn left(&mut self, _member: &str, left: &Left) {
        self.miss(left.member, &left.error, true);
    }

    fn go_on(&mut self) -> bool {
        !self.events.is_closed() && !self.ending.load(Ordering::Relaxed)
    }
}
