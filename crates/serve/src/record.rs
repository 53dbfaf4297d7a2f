//! Record of a request, from its arrival to the end of its answer: one log line, and its counts.

use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use axum::extract::{Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::Response;

use crate::endpoints::ENDPOINTS;
use crate::error::Reason;
use crate::metrics::Metrics;
use crate::work::{Missing, Usage};

/// Status of a request whose client went before its answer began, as nginx logs it.
const GONE: u16 = 499;

/// A request. Dropped, it is logged and counted: once its response has begun and its answer is
/// over.
#[derive(Debug)]
pub(crate) struct Record {
    begun: Instant,
    method: Method,
    path: String,
    /// 0 before the response.
    status: AtomicU16,
    outcome: Mutex<Outcome>,
    metrics: Arc<Metrics>,
}

/// Facts about the answer.
#[derive(Debug, Default)]
struct Outcome {
    usage: Usage,
    missing: Vec<Missing>,
    error: Option<String>,
}

impl Record {
    /// Begins the record of a request.
    pub fn new(method: Method, path: &str, metrics: Arc<Metrics>) -> Self {
        Self {
            begun: Instant::now(),
            method,
            path: path.to_owned(),
            status: AtomicU16::new(0),
            outcome: Mutex::default(),
            metrics,
        }
    }

    // A panic can't leave a partial change.
    fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the answer's tokens.
    pub fn used(&self, usage: Usage) {
        self.outcome().usage = usage;
        self.metrics.used(usage);
    }

    /// Records a member that left or abstained, once.
    pub fn missed(&self, missing: &Missing) {
        let mut outcome = self.outcome();
        if !outcome.missing.contains(missing) {
            self.metrics.missed(missing);
            outcome.missing.push(missing.clone());
        }
    }

    /// Records the error that ended the answer.
    pub fn failed(&self, error: &str) {
        self.outcome().error = Some(error.to_owned());
    }

    /// Returns the label of its route; paths of clients would be without number.
    fn route(&self) -> &'static str {
        let known = ENDPOINTS.iter().find(|one| one.has(&self.path));
        known.map_or("other", |known| known.path)
    }
}

impl Drop for Record {
    fn drop(&mut self) {
        let took = self.begun.elapsed();
        let status = match self.status.load(Ordering::Relaxed) {
            0 => GONE,
            status => status,
        };
        let route = self.route();
        self.metrics.answered(route, status, took);
        let outcome = self.outcome();
        let missing = outcome.missing.iter().map(|one| {
            let verb = if one.left { "left" } else { "abstained" };
            format!("{} {verb}: {}", one.member, one.error)
        });
        let missing = missing.collect::<Vec<_>>().join("; ");
        // Empty fields are left out.
        let missing = Some(missing).filter(|text| !text.is_empty());
        let is_answer = outcome.usage != Usage::default();
        let prompt = is_answer.then_some(outcome.usage.prompt);
        let answer = is_answer.then_some(outcome.usage.answer);
        let seconds = (took.as_secs_f64() * 1000.0).round() / 1000.0;
        let (method, path, error) = (&self.method, &self.path, &outcome.error);
        macro_rules! log {
            ($level:expr) => {
                tracing::event!(
                    $level, %method, %path, status, seconds, prompt_tokens = prompt,
                    answer_tokens = answer, missing, error, "request"
                )
            };
        }
        match route {
            // Asked every few seconds by programs that watch the server.
            "/health" | "/metrics" => log!(tracing::Level::DEBUG),
            _ => log!(tracing::Level::INFO),
        }
    }
}

/// Records a request, and gives the record to its handler.
pub(crate) async fn recorded(
    State(metrics): State<Arc<Metrics>>,
    mut request: Request,
    next: Next,
) -> Response {
    let method = request.method().clone();
    let record = Arc::new(Record::new(method, request.uri().path(), metrics));
    request.extensions_mut().insert(Arc::clone(&record));
    let response = next.run(request).await;
    if let Some(Reason(reason)) = response.extensions().get() {
        record.failed(reason);
    }
    let status = response.status().as_u16();
    record.status.store(status, Ordering::Relaxed);
    response
}
