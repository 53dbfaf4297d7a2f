//! Errors in the format of OpenAI's API.

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use conclave_member::MemberError;
use conclave_model::ModelError;
use conclave_rounds::{AnswerError, MoveError};
use serde_json::{Value, json};

/// Error returned to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApiError {
    pub status: StatusCode,
    /// One of OpenAI's error types: `invalid_request_error`, `server_error` …
    pub kind: &'static str,
    pub code: Option<&'static str>,
    /// Option at fault.
    pub param: Option<String>,
    pub message: String,
    /// The client's words in the message, which are not logged.
    pub quoted: Option<Box<str>>,
    /// Seconds until the client may retry.
    pub retry_after: Option<u64>,
}

/// Maximum characters of an error's reason in the log.
const LONGEST_REASON: usize = 200;

/// Reason of an error response, for the log.
#[derive(Debug, Clone)]
pub(crate) struct Reason(pub String);

impl ApiError {
    fn new(status: StatusCode, kind: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            code: None,
            param: None,
            message: message.into(),
            quoted: None,
            retry_after: None,
        }
    }

    /// Marks the client's words in the message, which stand there between backticks.
    pub fn quoting(self, words: &str) -> Self {
        let quoted = Some(words.into());
        Self { quoted, ..self }
    }

    /// Returns the message's first sentence without the client's words: they stay out of the log.
    pub fn reason(&self) -> String {
        let message = match &self.quoted {
            Some(words) => self.message.replace(&format!("`{words}`"), "`…`"),
            None => self.message.clone(),
        };
        let reason = message.split(". ").next().unwrap_or_default();
        reason.chars().take(LONGEST_REASON).collect()
    }

    /// 400: invalid request.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid_request_error", message)
    }

    /// 400: option `name` can't be honoured.
    pub fn option(name: &str, message: impl Into<String>) -> Self {
        Self {
            param: Some(name.to_owned()),
            ..Self::invalid(message)
        }
    }

    /// 400: a part of an option, `messages[2].content[0]`, can't be honoured.
    pub fn at(place: &str, message: impl Into<String>) -> Self {
        Self::option(place.split('[').next().unwrap_or(place), message)
    }

    /// 400: unsupported schema.
    pub fn format(reason: &dyn std::fmt::Display) -> Self {
        let message = format!("The members can't honour `response_format`: {reason}.");
        Self::option("response_format", message)
    }

    /// Names option `to`, or a field of it, where the error names `from`.
    pub fn renamed(self, from: &str, to: &str) -> Self {
        let field = self
            .param
            .as_deref()
            .and_then(|param| param.strip_prefix(from));
        match field.filter(|field| field.is_empty() || field.starts_with('.')) {
            Some(field) => Self {
                param: Some(format!("{to}{field}")),
                message: self
                    .message
                    .replace(&format!("`{from}{field}`"), &format!("`{to}{field}`")),
                ..self
            },
            None => self,
        }
    }

    /// As [`renamed`](Self::renamed), from `response_format` to its name in `/v1/responses`.
    pub fn of_text_format(self) -> Self {
        let error = self.renamed("response_format.json_schema", "text.format");
        error.renamed("response_format", "text.format")
    }

    /// Invalid request with another status than 400.
    pub fn refused(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code: Some(code),
            ..Self::new(status, "invalid_request_error", message)
        }
    }

    /// 429: the queue is full.
    pub fn busy(message: impl Into<String>, seconds: u64) -> Self {
        Self {
            code: Some("rate_limit_exceeded"),
            retry_after: Some(seconds),
            ..Self::new(StatusCode::TOO_MANY_REQUESTS, "requests", message)
        }
    }

    /// 503: the server is shutting down.
    pub fn closing() -> Self {
        let message = "The server is shutting down. Ask again when it is back.";
        Self {
            code: Some("shutting_down"),
            ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", message)
        }
    }

    /// 500: internal failure.
    pub fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "server_error", message)
    }

    /// JSON body: `{"error": {…}}`.
    pub fn body(&self) -> Value {
        json!({ "error": {
            "message": self.message,
            "type": self.kind,
            "param": self.param,
            "code": self.code,
        }})
    }
}

impl From<MoveError> for ApiError {
    fn from(error: MoveError) -> Self {
        let message = error.to_string();
        if error.context_full() {
            return Self {
                code: Some("context_length_exceeded"),
                ..Self::invalid(message)
            };
        }
        match error {
            MoveError::Local(MemberError::Constraint(reason)) => Self::format(&reason),
            // The member's template rejects the conversation.
            MoveError::Local(MemberError::Text(_)) | MoveError::Unknown(_) => {
                Self::invalid(message)
            }
            // Tokens that a client wrote itself.
            MoveError::Local(MemberError::Model(
                ModelError::Token { .. } | ModelError::NoToken,
            )) => Self::option("input", message),
            error if error.is_away() => Self {
                code: Some("member_unavailable"),
                ..Self::new(StatusCode::SERVICE_UNAVAILABLE, "server_error", message)
            },
            // Asking again changes nothing, and this server has no fault: the member's own lists
            // other models, wants a key, or can't take part.
            MoveError::Remote(_) => Self::option("model", message),
            _ => Self::internal(message),
        }
    }
}

impl From<AnswerError> for ApiError {
    fn from(error: AnswerError) -> Self {
        match error {
            AnswerError::Of { member, source } => {
                let error = Self::from(*source);
                let message = format!("{member}: {}", error.message);
                Self { message, ..error }
            }
            AnswerError::NoForm => Self::format(&error),
            AnswerError::NoDrafter => Self::option("model", error.to_string()),
            AnswerError::Settings(_) | AnswerError::Round(_) => Self::internal(error.to_string()),
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let json = (header::CONTENT_TYPE, "application/json");
        let mut response = (self.status, [json], self.body().to_string()).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            let scheme = HeaderValue::from_static("Bearer");
            headers.insert(header::WWW_AUTHENTICATE, scheme);
        }
        response.extensions_mut().insert(Reason(self.reason()));
        response
    }
}

/// Maximum bytes of an error's text that is not this server's own.
const LONGEST_TEXT: usize = 4096;

/// Middleware that makes every error response an object, also those of the HTTP framework.
pub(crate) async fn in_json(request: Request, next: Next) -> Response {
    let response = next.run(request).await;
    let status = response.status();
    let is_error = status.is_client_error() || status.is_server_error();
    if !is_error || response.extensions().get::<Reason>().is_some() {
        return response;
    }
    let (parts, body) = response.into_parts();
    let text = to_bytes(body, LONGEST_TEXT).await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let message = match text.trim() {
        "" => status.canonical_reason().unwrap_or("The request failed"),
        text => text,
    };
    let error = match status.is_server_error() {
        true => ApiError::internal(message),
        false => ApiError::invalid(message),
    };
    let mut told = ApiError { status, ..error }.into_response();
    // `Allow`, for one.
    for (name, value) in &parts.headers {
        if !told.headers().contains_key(name) && name != header::CONTENT_LENGTH {
            told.headers_mut().insert(name, value.clone());
        }
    }
    told
}
