//! Access checks: the origin of a page, and the key if the server has one.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::Response;
use subtle::ConstantTimeEq;

use crate::error::ApiError;

/// Required key and allowed origins.
#[derive(Debug)]
pub(crate) struct Access {
    pub key: Option<String>,
    /// Origins of pages.
    pub origins: Vec<Origin>,
}

/// Pattern for the `Origin` header. `*` matches any text without `/`; as a port it matches digits,
/// or the default port, and alone it matches every page. `null` matches pages without an origin
/// (files, sandboxed frames).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin(String);

impl Origin {
    /// Parses scheme, host and optional port; `None` if no browser would send such an origin.
    pub fn new(text: &str) -> Option<Self> {
        // People copy addresses.
        let text = text.to_ascii_lowercase();
        let text = match text.strip_suffix('/') {
            Some(text) if !text.ends_with('/') => text.to_owned(),
            _ => text,
        };
        let fits = || {
            let (scheme, host) = text.split_once("://")?;
            let letter = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
            let fits = !scheme.is_empty() && scheme.chars().all(letter);
            let no_host = |letter: char| "/?#@".contains(letter) || !letter.is_ascii_graphic();
            // Colons within brackets are of an address.
            let port = host
                .rsplit_once(':')
                .filter(|(_, port)| !port.ends_with(']'));
            let has_port =
                port.is_none_or(|(_, port)| port.contains('*') || port.parse::<u16>().is_ok());
            (fits && has_port && !host.is_empty() && !host.contains(no_host)).then_some(())
        };
        let named = text == "null" || text == "*" || fits().is_some();
        named.then_some(Self(text))
    }

    /// Returns whether the pattern matches `origin`.
    pub fn stands_for(&self, origin: &HeaderValue) -> bool {
        let Ok(origin) = origin.to_str() else {
            return false;
        };
        // Browsers omit the default port.
        let without_port = self
            .0
            .strip_suffix(":*")
            .is_some_and(|host| fits(host, origin));
        without_port || self.0 == "*" || fits(&self.0, origin)
    }
}

/// Returns whether `text` matches `pattern`, where `*` is any text without `/`, and digits after a
/// colon.
fn fits(pattern: &str, text: &str) -> bool {
    let Some((before, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(text) = text.strip_prefix(before) else {
        return false;
    };
    let is_port = before.ends_with(':');
    let is_open = |letter: char| match is_port {
        true => letter.is_ascii_digit(),
        false => letter != '/',
    };
    let open = text.find(|letter| !is_open(letter)).unwrap_or(text.len());
    let mut ends = text
        .char_indices()
        .map(|(at, _)| at)
        .chain([text.len()])
        .skip(usize::from(is_port))
        .take_while(|&at| at <= open);
    ends.any(|at| fits(rest, &text[at..]))
}

impl Access {
    /// Checks the origin: any open page could otherwise use a server on the same machine.
    fn origin(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        match headers.get(header::ORIGIN) {
            Some(origin) if !self.origins.iter().any(|one| one.stands_for(origin)) => {
                let origin = String::from_utf8_lossy(origin.as_bytes());
                let message = format!(
                    "Pages of {origin} may not ask. Start the server with `--origin` \
                     for those that may."
                );
                let code = "origin_not_allowed";
                Err(ApiError::refused(StatusCode::FORBIDDEN, code, message))
            }
            _ => Ok(()),
        }
    }

    /// Checks the key in constant time (only its length can leak).
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
        // llama.cpp's server takes this one, too.
        let token = token.or_else(|| headers.get("x-api-key").map(HeaderValue::as_bytes));
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

/// Middleware that rejects pages of other origins.
pub(crate) async fn from_its_origin(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    access.origin(request.headers())?;
    Ok(next.run(request).await)
}

/// Middleware that rejects requests without the key.
pub(crate) async fn with_the_key(
    State(access): State<Arc<Access>>,
    request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    access.key(request.headers())?;
    Ok(next.run(request).await)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_send_them() {
        for origin in [
            "https://example.org",
            "http://localhost:5173",
            "app://conclave",
            "null",
            "*",
            "vscode-webview://*",
            "http://[::1]",
            "http://[::1]:8080",
            "http://localhost:*",
        ] {
            assert_eq!(Origin::new(origin), Some(Origin(origin.to_owned())));
        }
        for wrong in [
            "example.org",
            "https://",
            "https://example.org/a",
            "http://localhost:abc",
            "http://localhost:70000",
            "http://localhost:",
            "https://example.org//",
            "https://a b",
            "https://a@b",
            "*.org",
            "ht*p://a",
            "https://a\nb",
        ] {
            assert_eq!(Origin::new(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_pattern_stands_for_what_a_star_leaves_open() {
        let stands = |pattern: &str, origin: &'static str| {
            let origin = HeaderValue::from_static(origin);
            Origin::new(pattern).unwrap().stands_for(&origin)
        };
        for (pattern, origin) in [
            ("http://localhost:*", "http://localhost:5173"),
            ("http://localhost:*", "http://localhost"),
            ("vscode-webview://*", "vscode-webview://1k2j3"),
            ("https://*.example.org", "https://a.b.example.org"),
            ("http://*:*", "http://localhost:5173"),
            ("http://*:8080", "http://a.b:8080"),
            ("http://[::1]:*", "http://[::1]:80"),
            ("HTTPS://Example.org/", "https://example.org"),
            ("null", "null"),
            ("*", "null"),
            ("*", "https://example.org"),
        ] {
            assert!(stands(pattern, origin), "{pattern} {origin}");
        }
        for (pattern, origin) in [
            ("http://localhost:*", "https://localhost:5173"),
            ("http://localhost:*", "http://localhost.example.org"),
            ("http://localhost:*", "http://localhost:"),
            ("http://localhost:*", "http://localhost:evil"),
            ("http://localhost:*", "http://localhost:80.example.org"),
            ("http://localhost:*", "http://localhost:80@example.org"),
            ("https://*.example.org", "https://example.org"),
            ("https://*.example.org", "https://example.org.evil.com"),
            ("https://example.org", "null"),
            ("https://*", "null"),
            ("vscode-webview://*", "https://example.org"),
        ] {
            assert!(!stands(pattern, origin), "{pattern} {origin}");
        }
    }
}
