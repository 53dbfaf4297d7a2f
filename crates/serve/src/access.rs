//! Who may ask: a page only from an origin that was named, and whoever has the key, where there is
//! one.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq;

use crate::error::ApiError;

/// Whom the server answers.
#[derive(Debug)]
pub(crate) struct Access {
    pub key: Option<String>,
    /// Origins of pages.
    pub origins: Vec<HeaderValue>,
}

impl Access {
    /// Any page that a browser shows could otherwise ask a server on its machine.
    fn origin(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        match headers.get(header::ORIGIN) {
            Some(origin) if !self.origins.contains(origin) => Err(ApiError::refused(
                StatusCode::FORBIDDEN,
                "origin_not_allowed",
                format!(
                    "Pages of {} may not ask. Start the server with `--origin` for those that may.",
                    String::from_utf8_lossy(origin.as_bytes())
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Compares in a time that tells nothing of the key but its length.
    fn key(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        let Some(key) = &self.key else {
            return Ok(());
        };
        let told = headers
            .get(header::AUTHORIZATION)
            .map(HeaderValue::as_bytes);
        let token = told.and_then(|told| {
            let (scheme, token) = told.split_at_checked(b"Bearer ".len())?;
            scheme.eq_ignore_ascii_case(b"Bearer ").then_some(token)
        });
        match token {
            Some(token) if bool::from(token.ct_eq(key.as_bytes())) => Ok(()),
            Some(_) => Err(unauthorised("The key is not the server's.")),
            None => Err(unauthorised(
                "The server wants a key. Send it as `Authorization: Bearer KEY`.",
            )),
        }
    }
}

fn unauthorised(message: &str) -> ApiError {
    ApiError::refused(StatusCode::UNAUTHORIZED, "invalid_api_key", message)
}

/// Lets only those pages through that may ask.
pub(crate) async fn from_its_origin(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    access.origin(request.headers())?;
    Ok(next.run(request).await)
}

/// Lets only those through that have the key.
pub(crate) async fn with_the_key(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    access.key(request.headers())?;
    Ok(next.run(request).await)
}
