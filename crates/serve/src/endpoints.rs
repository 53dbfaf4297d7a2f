//! The server's endpoints, listed once: for the OpenAPI document, the counts and error messages.

/// An endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Endpoint {
    pub method: &'static str,
    /// Path, with `{name}` for a part of any text.
    pub path: &'static str,
    pub summary: &'static str,
}

impl Endpoint {
    const fn new(method: &'static str, path: &'static str, summary: &'static str) -> Self {
        Self {
            method,
            path,
            summary,
        }
    }

    /// Returns whether a request's path is this one.
    pub fn has(&self, path: &str) -> bool {
        match self.path.strip_suffix("{name}") {
            Some(before) => path
                .strip_prefix(before)
                .is_some_and(|name| !name.is_empty() && !name.contains('/')),
            None => self.path == path,
        }
    }
}

pub(crate) const ENDPOINTS: [Endpoint; 10] = [
    Endpoint::new("POST", "/v1/chat/completions", "Answer a conversation"),
    Endpoint::new("POST", "/v1/completions", "Continue texts, or judge them"),
    Endpoint::new("POST", "/v1/responses", "Answer a list of items"),
    Endpoint::new("POST", "/v1/embeddings", "Embed texts by one member"),
    Endpoint::new("POST", "/apply-template", "Render a conversation"),
    Endpoint::new("GET", "/v1/models", "List the ensemble and its members"),
    Endpoint::new("GET", "/v1/models/{name}", "Describe one of them"),
    Endpoint::new("GET", "/metrics", "Count requests, for Prometheus"),
    Endpoint::new("GET", "/openapi.json", "Describe this interface"),
    Endpoint::new("GET", "/health", "Tell whether the server is up"),
];
