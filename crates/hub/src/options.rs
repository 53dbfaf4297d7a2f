//! How models are downloaded: from which hub, with which token, how patiently.

use std::time::Duration;

/// Where the hub is, unless `HF_ENDPOINT` says otherwise.
const HUB: &str = "https://huggingface.co";

/// How models are downloaded.
#[derive(Debug, Clone)]
pub struct Options {
    /// The hub's address, or a mirror's.
    pub endpoint: String,
    /// A token for repositories that want one. It goes to the endpoint only, and never over an open
    /// line.
    pub token: Option<String>,
    /// Requests at a time.
    pub connections: usize,
    /// Bytes of a request; what is lost when a process is killed is at most this much a connection.
    pub chunk_bytes: u64,
    /// How long a line may be silent.
    pub stall: Duration,
    /// Failures in a row after which a download ends.
    pub attempts: u32,
    /// The wait after the first failure; it doubles.
    pub pause: Duration,
    /// Ask whether a stored model has changed, and get what has.
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
    /// With `HF_ENDPOINT` and `HF_TOKEN` where they are set.
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
