//! What can be wrong with a remote member.

/// Why a server could not be asked, or what it answered could not be used. No key and no text of a
/// conversation is in it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RemoteError {
    /// An address that is none.
    #[error("{address} can't be a member's address: {why}; write https://HOST/v1#MODEL")]
    Address {
        /// The address, without what may be secret.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A key that can't be used.
    #[error("the key can't be used: {0}")]
    Key(&'static str),
    /// A chat template that can't be rendered.
    #[error("the chat template can't be rendered: {0}; give another with --template")]
    Template(String),
    /// Nothing came in the time that a round waits.
    #[error("{host} has not answered within {seconds} s; --patience gives it longer")]
    Late {
        /// The server.
        host: String,
        /// What it had.
        seconds: u64,
    },
    /// It can't be reached, or answers that it can't just now.
    #[error("{host} can't be asked just now: {why}")]
    Away {
        /// The server.
        host: String,
        /// What happened.
        why: String,
    },
    /// It refuses who asks.
    #[error(
        "{host} {what} (HTTP {status}): set {variable} to one that may use the model",
        what = if *.keyed { "refuses the key" } else { "asks for a key" }
    )]
    Denied {
        /// The server.
        host: String,
        /// 401 or 403.
        status: u16,
        /// A key was sent.
        keyed: bool,
        /// Where the key is looked for.
        variable: String,
    },
    /// It refuses what was asked.
    #[error("{host} refuses the request (HTTP {status}): {why}")]
    Refused {
        /// The server.
        host: String,
        /// The status.
        status: u16,
        /// What it says, shortened.
        why: String,
    },
    /// It answers something else than was asked for.
    #[error("{host} answers what can't be used: {why}")]
    Nonsense {
        /// The server.
        host: String,
        /// What is wrong.
        why: String,
    },
    /// It can neither draft nor judge.
    #[error("{host} can neither draft nor judge: {why}")]
    Useless {
        /// The server.
        host: String,
        /// What it said to the last that was tried, and what to do.
        why: String,
    },
    /// It was away for so many rounds in a row.
    #[error("{last}; that was {rounds} rounds in a row")]
    Gone {
        /// How many.
        rounds: usize,
        /// What it was the last time.
        last: Box<RemoteError>,
    },
}

impl RemoteError {
    /// Whether it may go well in the next round: a member abstains then, and leaves otherwise.
    pub fn passes(&self) -> bool {
        matches!(self, Self::Late { .. } | Self::Away { .. })
    }
}
