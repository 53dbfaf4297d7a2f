//! Counts of requests, tokens and members that left, for Prometheus (`/metrics`).

use std::time::Duration;

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Registry, Unit};

use crate::work::{Missing, Usage};

/// Media type of [`Metrics::text`].
pub(crate) const MEDIA_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    route: &'static str,
    status: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Route {
    route: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Lost {
    member: String,
    how: &'static str,
}

/// Counts since the server's start.
#[derive(Debug)]
pub(crate) struct Metrics {
    registry: Registry,
    requests: Family<Answered, Counter>,
    seconds: Family<Route, Histogram>,
    tokens: Family<Kind, Counter>,
    lost: Family<Lost, Counter>,
    waiting: Gauge,
    busy: Gauge,
}

impl Default for Metrics {
    fn default() -> Self {
        // From 5 ms to 164 s.
        let histogram = || Histogram::new(exponential_buckets(0.005, 2.0, 16));
        let mut registry = Registry::with_prefix("conclave");
        let requests = Family::default();
        let seconds = Family::<Route, Histogram>::new_with_constructor(histogram);
        let (tokens, lost) = (Family::default(), Family::default());
        let (waiting, busy) = (Gauge::default(), Gauge::default());
        registry.register("requests", "Requests by route and status", requests.clone());
        registry.register_with_unit(
            "request",
            "Time from a request to the end of its answer",
            Unit::Seconds,
            seconds.clone(),
        );
        registry.register("tokens", "Tokens of prompts and answers", tokens.clone());
        registry.register(
            "members_lost",
            "Answers that a member left, or abstained from",
            lost.clone(),
        );
        registry.register("waiting", "Requests in the queue", waiting.clone());
        registry.register("busy", "Requests in progress", busy.clone());
        Self {
            registry,
            requests,
            seconds,
            tokens,
            lost,
            waiting,
            busy,
        }
    }
}

impl Metrics {
    /// Counts a request that is over.
    pub fn answered(&self, route: &'static str, status: u16, took: Duration) {
        let status = u32::from(status);
        self.requests
            .get_or_create(&Answered { route, status })
            .inc();
        self.seconds
            .get_or_create(&Route { route })
            .observe(took.as_secs_f64());
    }

    /// Counts the tokens of a request.
    pub fn used(&self, usage: Usage) {
        for (kind, tokens) in [("prompt", usage.prompt), ("answer", usage.answer)] {
            self.tokens
                .get_or_create(&Kind { kind })
                .inc_by(tokens as u64);
        }
    }

    /// Counts a member that left an answer or abstained.
    pub fn missed(&self, missing: &Missing) {
        let how = if missing.left { "left" } else { "abstained" };
        let member = missing.member.clone();
        self.lost.get_or_create(&Lost { member, how }).inc();
    }

    /// Returns all counts as text; `waiting` and `busy` are the queue's.
    ///
    /// # Errors
    /// Those of formatting, which a string has none of.
    pub fn text(&self, waiting: usize, busy: bool) -> Result<String, std::fmt::Error> {
        self.waiting.set(i64::try_from(waiting).unwrap_or(i64::MAX));
        self.busy.set(busy.into());
        let mut text = String::new();
        text::encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
