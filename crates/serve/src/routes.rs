//! Routes and their handlers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{ConnectInfo, DefaultBodyLimit, FromRequest, Path, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Json, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};
use conclave_ensemble::Limits;
use conclave_model::Sampling;
use conclave_rounds::OPEN;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};

use crate::access::{Access, from_its_origin, with_the_key};
use crate::endpoints::ENDPOINTS;
use crate::error::{ApiError, in_json};
use crate::metrics::{self, Metrics};
use crate::options::{Common, MOST_CHOICES, Options};
use crate::queue::Queue;
use crate::recent::Recent;
use crate::record::{Record, recorded};
use crate::reply::{self, Chunks, Head, Kind};
use crate::turns::Client;
use crate::work::{Event, Job, Task};
use crate::{chat, completions, embeddings, openapi, responses, streaming};

/// Maximum bytes of a body, more than the largest context holds.
const MOST_BYTES: usize = 4 << 20;

/// State shared by all handlers.
pub(crate) struct Shared {
    /// Model names: the ensemble's, then each member's.
    pub models: Vec<String>,
    /// Default sampling.
    pub sampling: Sampling,
    pub queue: Arc<Queue<Job>>,
    pub metrics: Arc<Metrics>,
    /// Requests need a key.
    pub keyed: bool,
    /// Timeout of a request's body.
    pub slowest: Duration,
    /// Number of requests so far.
    pub requests: AtomicU64,
    /// Recent responses of `/v1/responses`.
    pub recent: Arc<Recent>,
    /// Load time of the members, in seconds since 1970.
    pub created: u64,
}

/// Builds the router with its access checks.
pub(crate) fn router(shared: Arc<Shared>, access: Arc<Access>) -> Router {
    let keyed = Router::new()
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/completions", post(text_completions))
        .route("/v1/responses", post(create_response))
        .route("/v1/embeddings", post(embed))
        .route("/apply-template", post(apply_template))
        .route("/v1/models", get(models))
        .route("/v1/models/{name}", get(model))
        .route("/metrics", get(metrics))
        .route("/openapi.json", get(openapi_document))
        .fallback(nothing_here)
        .method_not_allowed_fallback(otherwise)
        .layer(from_fn_with_state(Arc::clone(&access), with_the_key));
    let metrics = Arc::clone(&shared.metrics);
    let all = Router::new()
        .route("/health", get(health))
        .method_not_allowed_fallback(otherwise)
        .merge(keyed)
        .layer(DefaultBodyLimit::max(MOST_BYTES))
        .layer(from_fn_with_state(Arc::clone(&access), from_its_origin))
        .layer(from_fn(in_json))
        .layer(from_fn_with_state(metrics, recorded))
        .with_state(shared);
    if access.origins.is_empty() {
        return all;
    }
    // A preflight request has no key.
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::predicate(move |origin, _| {
            access.origins.iter().any(|one| one.stands_for(origin))
        }))
        .allow_methods([Method::GET, Method::POST])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([header::RETRY_AFTER]);
    all.layer(cors)
}

/// Body of a request, of the right type and length.
struct Asked(Bytes);

impl FromRequest<Arc<Shared>> for Asked {
    type Rejection = ApiError;

    /// Limits the time: slow senders would occupy a connection.
    async fn from_request(request: Request, shared: &Arc<Shared>) -> Result<Self, ApiError> {
        let kind = request.headers().get(header::CONTENT_TYPE).cloned();
        let coding = request.headers().get(header::CONTENT_ENCODING).cloned();
        let read = Bytes::from_request(request, shared);
        let read = tokio::time::timeout(shared.slowest, read).await;
        let read = read.map_err(|_| {
            ApiError::refused(
                StatusCode::REQUEST_TIMEOUT,
                "request_too_slow",
                format!(
                    "A request has to be here within {} s.",
                    shared.slowest.as_secs()
                ),
            )
        })?;
        let kind = kind.as_ref().and_then(|kind| kind.to_str().ok());
        // Requests without preflight have other types.
        let kind = kind.unwrap_or_default().split(';').next();
        let json = kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"));
        if !json {
            return Err(ApiError::refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_media_type",
                "Send JSON, with `Content-Type: application/json`.",
            ));
        }
        let coding = coding.as_ref().map(|coding| coding.to_str().unwrap_or("?"));
        let coding = coding.filter(|coding| !coding.eq_ignore_ascii_case("identity"));
        if let Some(coding) = coding.filter(|coding| !coding.is_empty()) {
            let message = format!(
                "The body is compressed, as `{coding}`. Send it as it is, without \
                 `Content-Encoding`."
            );
            return Err(ApiError::refused(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                "unsupported_content_encoding",
                message,
            )
            .quoting(coding));
        }
        read.map(Self).map_err(|rejected| match rejected.status() {
            StatusCode::PAYLOAD_TOO_LARGE => ApiError::refused(
                StatusCode::PAYLOAD_TOO_LARGE,
                "request_too_large",
                format!("A request has {MOST_BYTES} bytes at most."),
            ),
            status => ApiError::refused(status, "unreadable_body", rejected.body_text()),
        })
    }
}

async fn chat_completions(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Extension(record): Extension<Arc<Record>>,
    Asked(body): Asked,
) -> Result<Response, ApiError> {
    let read = Options::request(&body, &shared.models, shared.drawn(), chat::read)?;
    shared.answer(Kind::Chat, from, record, read).await
}

async fn create_response(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Extension(record): Extension<Arc<Record>>,
    Asked(body): Asked,
) -> Result<Response, ApiError> {
    let own = |options: &mut Options| responses::read(options, &shared.recent);
    let (common, asked) = Options::request(&body, &shared.models, shared.drawn(), own)?;
    if common.choices > 1 {
        let message = "A response is one answer. Leave `n` out, or ask /v1/chat/completions.";
        return Err(ApiError::option("n", message));
    }
    let stream = common.stream;
    let read = (common, (asked.task, asked.tokens));
    let (head, events) = shared.ask(Kind::Response, from, record, read)?;
    let echo = responses::echo(&body);
    let items = responses::Items::new(head, echo, asked.input, &shared.recent);
    match stream {
        true => streaming::streamed(items, events).await,
        false => responses::whole(items, events).await,
    }
}

async fn text_completions(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Extension(record): Extension<Arc<Record>>,
    Asked(body): Asked,
) -> Result<Response, ApiError> {
    let read = Options::request(&body, &shared.models, shared.drawn(), completions::read)?;
    shared.answer(Kind::Text, from, record, read).await
}

async fn embed(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Extension(record): Extension<Arc<Record>>,
    Asked(body): Asked,
) -> Result<Response, ApiError> {
    let asked = embeddings::read(&body, &shared.models)?;
    let (sender, events) = unbounded_channel();
    let task = Task::Embed(asked.passages);
    let job = Job::plain(Some(asked.member), task, sender, record);
    shared.queue.push(&Client::new(from, asked.user), job)?;
    let reply = embeddings::whole(asked.model, asked.shape, events).await?;
    Ok(Json(reply).into_response())
}

/// Renders a conversation as the member does that judges texts, at the path of llama.cpp's server;
/// the result can be continued at `/v1/completions`.
async fn apply_template(
    State(shared): State<Arc<Shared>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    Extension(record): Extension<Arc<Record>>,
    Asked(body): Asked,
) -> Result<Json<Value>, ApiError> {
    let (member, thoughts, task) = chat::read_to_render(&body, &shared.models)?;
    let (sender, mut events) = unbounded_channel();
    let job = Job {
        thoughts,
        ..Job::plain(member, task, sender, record)
    };
    shared.queue.push(&Client::new(from, String::new()), job)?;
    match events.recv().await {
        Some(Event::Rendered(prompt)) => Ok(Json(json!({ "prompt": prompt }))),
        Some(Event::Failed(error)) => Err(error),
        _ => Err(ApiError::closing()),
    }
}

impl Shared {
    /// Returns the default sampling with a new seed.
    fn drawn(&self) -> Sampling {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        Sampling {
            seed: self.sampling.seed.wrapping_add(number),
            ..self.sampling
        }
    }

    /// Queues a request and returns its reply.
    async fn answer(
        &self,
        kind: Kind,
        from: SocketAddr,
        record: Arc<Record>,
        read: (Common, (Task, Option<usize>)),
    ) -> Result<Response, ApiError> {
        let stream = read.0.stream;
        let (head, events) = self.ask(kind, from, record, read)?;
        match stream {
            true => streaming::streamed(Chunks::new(head), events).await,
            false => reply::whole(head, events).await,
        }
    }

    /// Queues a request; returns the head of its reply, and its events.
    fn ask(
        &self,
        kind: Kind,
        from: SocketAddr,
        record: Arc<Record>,
        (common, (task, tokens)): (Common, (Task, Option<usize>)),
    ) -> Result<(Head, UnboundedReceiver<Event>), ApiError> {
        if common.choices * task.questions() > MOST_CHOICES {
            let message =
                format!("A request gets {MOST_CHOICES} answers at most, `n` for each text.");
            return Err(ApiError::option("n", message));
        }
        if task.logprobs(tokens) && common.member.is_none() && self.models.len() > 2 {
            let members = self.models[1..].join(", ");
            let beside = match task {
                Task::Texts { .. } => {
                    "; or judge a given text, by `echo` with `max_tokens` 0, which the first does"
                }
                _ => "",
            };
            let message = format!(
                "`logprobs` are of one model's tokens, and the ensemble's members share none. Ask \
                 one of them, by `model`: {members}{beside}."
            );
            return Err(ApiError::option("logprobs", message));
        }
        let (sender, events) = unbounded_channel();
        let calls = task.tools().map(|tools| Arc::new(tools.calls.clone()));
        let older = task.tools().is_some_and(|tools| tools.older);
        let limits = Limits {
            call: calls.as_ref().map(|_| OPEN),
            ..Options::limits(&common, tokens)
        };
        let client = Client::new(from, common.user);
        let job = Job {
            member: common.member,
            task,
            sampling: common.sampling,
            thoughts: common.thoughts,
            limits,
            choices: common.choices,
            progress: common.progress && common.stream,
            events: sender,
            record,
        };
        self.queue.push(&client, job)?;
        let number = self.requests.load(Ordering::Relaxed);
        let include_usage = common.include_usage;
        let head = Head {
            older,
            ..Head::new(kind, number, common.model, include_usage, calls)
        };
        Ok((head, events))
    }

    fn model(&self, name: &str) -> Value {
        json!({ "id": name, "object": "model", "created": self.created, "owned_by": "conclave" })
    }
}

async fn models(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let data: Vec<_> = shared
        .models
        .iter()
        .map(|name| shared.model(name))
        .collect();
    Json(json!({ "object": "list", "data": data }))
}

async fn model(
    State(shared): State<Arc<Shared>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    // No model's name is other than UTF-8.
    let name = name.map_or_else(|_| "\u{fffd}".to_owned(), |Path(name)| name);
    if shared.models.contains(&name) {
        return Ok(Json(shared.model(&name)));
    }
    let models = shared.models.join(", ");
    let message = format!("There is no model `{name}`; there are {models}.");
    let error = ApiError::refused(StatusCode::NOT_FOUND, "model_not_found", message);
    Err(error.quoting(&name))
}

async fn health(State(shared): State<Arc<Shared>>) -> Json<Value> {
    let (waiting, busy) = shared.queue.load();
    Json(json!({ "status": "ok", "busy": busy, "waiting": waiting }))
}

async fn metrics(State(shared): State<Arc<Shared>>) -> Result<Response, ApiError> {
    let (waiting, busy) = shared.queue.load();
    let text = shared.metrics.text(waiting, busy);
    let text = text.map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, metrics::MEDIA_TYPE)], text).into_response())
}

async fn openapi_document(State(shared): State<Arc<Shared>>) -> Json<Value> {
    Json(openapi::document(&shared.models, shared.keyed))
}

async fn nothing_here(method: Method, uri: axum::http::Uri) -> ApiError {
    let known = ENDPOINTS.map(|one| format!("{} {}", one.method, one.path));
    let message = format!(
        "There is no {method} {}. There are {}.",
        uri.path(),
        known.join(", ")
    );
    ApiError::refused(StatusCode::NOT_FOUND, "not_found", message)
}

async fn otherwise(method: Method, uri: axum::http::Uri) -> ApiError {
    let message = format!("{} is not asked by {method}.", uri.path());
    ApiError::refused(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        message,
    )
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use axum::body::Body;
    use futures_lite::stream;
    use tower::ServiceExt;

    use super::*;

    #[test]
    fn a_body_that_does_not_come_is_not_waited_for() {
        let shared = Shared {
            models: vec!["conclave".to_owned()],
            sampling: Sampling::default(),
            queue: Arc::new(Queue::new(1, Job::is_wanted)),
            metrics: Arc::default(),
            keyed: false,
            slowest: Duration::from_millis(20),
            requests: AtomicU64::new(0),
            recent: Arc::default(),
            created: 0,
        };
        let access = Access {
            key: None,
            origins: Vec::new(),
        };
        let body = Body::from_stream(stream::pending::<Result<Bytes, Infallible>>());
        let mut request = Request::post("/v1/chat/completions")
            .header(header::CONTENT_TYPE, "application/json")
            .body(body)
            .unwrap();
        let from = SocketAddr::from(([127, 0, 0, 1], 1));
        request.extensions_mut().insert(ConnectInfo(from));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let answered = router(Arc::new(shared), Arc::new(access)).oneshot(request);
        let response = runtime.block_on(answered).unwrap();
        assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
    }
}
