//! Download options: hub, token, parallelism and retries.

use std::time::Duration;

/// The hub, unless `HF_ENDPOINT` is set.
const HUB: &str = "https://huggingface.co";

/// Download options.
#[derive(Debug, Clone)]
pub struct Options {
    /// Base URL of the hub or of a mirror.
    pub endpoint: String,
    /// Token for private and gated repositories. Sent to the endpoint only, and never unencrypted
    /// over a network.
    pub token: Option<String>,
    /// Number of parallel requests.
    pub connections: usize,
    /// Bytes per request; at most this much per connection is lost when the process is killed.
    pub chunk_bytes: u64,
    /// Timeout of a silent connection.
    pub stall: Duration,
    /// Number of failures in a row after which a download ends.
    pub attempts: u32,
    /// Wait after the first failure; doubles with each.
    pub pause: Duration,
    /// Check whether a stored model has changed, and download the changes.
    pub update: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            endpoint: HUB.to_owned(),
            token: None,
            connections: 4,
            chunk_bytes: 8 << 20,
            stall: Duration::from_secs(20),
            attempts: 6,
            pause: Duration::from_millis(500),
            update: false,
        }
    }
}

impl Options {
    /// The defaults, with `HF_ENDPOINT` and `HF_TOKEN` where they are set.
    pub fn from_environment() -> Self {
        let set = |name| {
            std::env::var(name)
                .ok()
                .map(|value| value.trim().to_owned())
                .filter(|value| !value.is_empty())
        };
        let default = Self::default();
        Self {
            endpoint: set("HF_ENDPOINT").unwrap_or(default.endpoint),
            token: set("HF_TOKEN"),
            ..default
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_are_as_patient_as_the_documents_say() {
        let usual = Options::default();
        assert_eq!((usual.chunk_bytes, usual.connections), (8 << 20, 4));
        assert_eq!((usual.stall.as_secs(), usual.attempts), (20, 6));
    }
}
