//! Errors of a remote member.

/// Reason why a server could not be used. Contains neither keys nor text of a conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// The address is invalid.
    #[error("{address} can't be a member's address: {why}; write https://HOST/v1#MODEL")]
    Address {
        /// The address, without secrets.
        address: String,
        /// Problem with it.
        why: &'static str,
    },
    /// The key is unusable.
    #[error("the key can't be used: {0}")]
    Key(&'static str),
    /// The chat template can't be rendered.
    #[error("the chat template can't be rendered: {0}; give another with --template")]
    Template(String),
    /// No response within the time that a round waits.
    #[error("{host} has not answered within {seconds} s; --patience gives it longer")]
    Late {
        /// Server.
        host: String,
        /// Time limit.
        seconds: u64,
    },
    /// The server can't be reached or is busy.
    #[error("{host} can't be asked just now: {why}")]
    Away {
        /// Server.
        host: String,
        /// Cause.
        why: String,
    },
    /// The server denies access.
    #[error(
        "{host} {what} (HTTP {status}): set {variable} to one that may use the model",
        what = if *.keyed { "refuses the key" } else { "asks for a key" }
    )]
    Denied {
        /// Server.
        host: String,
        /// 401 or 403.
        status: u16,
        /// Whether a key was sent.
        keyed: bool,
        /// Environment variable of the key.
        variable: String,
    },
    /// The server rejects the request.
    #[error("{host} refuses the request (HTTP {status}): {why}")]
    Refused {
        /// Server.
        host: String,
        /// HTTP status.
        status: u16,
        /// The server's message, shortened.
        why: String,
    },
    /// The conversation does not fit the model's context.
    #[error("the conversation is longer than {host} has room for: ask less, or begin a new one")]
    TooLong {
        /// Server.
        host: String,
    },
    /// The caller has stopped the move.
    #[error("it was stopped")]
    Stopped,
    /// The server has no such model, or several where none was named.
    #[error(
        "{host} {what}",
        what = match known.as_str() {
            "" => "does not tell its models: name one after a #, and check the address, which \
                usually ends with /v1".to_owned(),
            known => format!("has other models: name one of them after a #: {known}"),
        }
    )]
    Model {
        /// Server.
        host: String,
        /// Names of its models, the first twelve; empty if it lists none.
        known: String,
    },
    /// The response is invalid.
    #[error("{host} answers what can't be used: {why}")]
    Nonsense {
        /// Server.
        host: String,
        /// Problem with it.
        why: String,
    },
    /// The server can neither draft nor judge.
    #[error("{host} can neither draft nor judge: {why}")]
    Useless {
        /// Server.
        host: String,
        /// Reason, and what to do.
        why: String,
    },
    /// A judge named no candidate.
    #[error("{host} names no candidate: {why}")]
    Silent {
        /// Server.
        host: String,
        /// Reason, and what to do.
        why: &'static str,
    },
    /// The server was unavailable for several rounds in a row.
    #[error("{last}; that was {rounds} rounds in a row")]
    Gone {
        /// Number of rounds.
        rounds: usize,
        /// Last error.
        last: Box<Self>,
    },
}

impl RemoteError {
    /// Returns whether the next round may succeed: the member abstains then, and leaves otherwise.
    pub fn passes(&self) -> bool {
        matches!(
            self,
            Self::Late { .. } | Self::Away { .. } | Self::Silent { .. }
        )
    }
}
