//! Errors of a remote member as the page shows them.

use conclave_remote::RemoteError;
use wasm_bindgen::JsValue;

/// Names in messages.
#[derive(Debug)]
pub struct Failing {
    /// The server's; empty for its host.
    pub place: String,
    /// The member's.
    pub name: String,
}

impl Failing {
    /// The error for the page.
    pub fn thrown(&self, error: &RemoteError) -> JsValue {
        let kind = match error {
            RemoteError::Address { .. } => "Reference",
            RemoteError::Key(_) | RemoteError::Template(_) => "Settings",
            RemoteError::TooLong { .. } => "ContextFull",
            _ => "Remote",
        };
        thrown(kind, &self.sentence(error))
    }

    /// The cause, and the next step for a visitor.
    fn sentence(&self, error: &RemoteError) -> String {
        let name = &self.name;
        let place = |host: &str| match self.place.as_str() {
            "" => host.to_owned(),
            place => place.to_owned(),
        };
        match error {
            RemoteError::Address { address, why } => {
                format!("{address} can't be the address of {name}: {why}. Correct it.")
            }
            RemoteError::Key(why) => format!("The key of {name} can't be used: {why}."),
            RemoteError::Template(_) => format!(
                "The turn of {name} has no {{content}}. Write a whole turn, as in \
                \"<|im_start|>{{role}}\\n{{content}}<|im_end|>\\n\"."
            ),
            RemoteError::Late { host, .. } => format!(
                "{} did not answer {name} in time. Give it a longer `timeout`{}.",
                place(host),
                if self.place.is_empty() {
                    ", or see after the server"
                } else {
                    ""
                }
            ),
            RemoteError::Away { host, why } => {
                format!(
                    "{} can't be asked just now: {why}. Go on without {name}.",
                    place(host)
                )
            }
            RemoteError::Denied { host, keyed, .. } => format!(
                "{} {}. Add {name} again with one that it takes.",
                place(host),
                if *keyed {
                    "refuses the key"
                } else {
                    "asks for a key"
                }
            ),
            RemoteError::Refused {
                host,
                status: 404 | 405,
                why,
            } => format!(
                "{} has no such path or model ({why}). Check the address, which usually ends with \
                /v1, and the model's name.",
                place(host)
            ),
            RemoteError::Refused { host, status, why } => format!(
                "{} answered {status} ({why}). Check what it runs, and the model's name.",
                place(host)
            ),
            RemoteError::TooLong { host } => format!(
                "The conversation is longer than {name} has room for{}. Ask less, or begin a new \
                conversation.",
                if self.place.is_empty() {
                    format!(" at {host}")
                } else {
                    String::new()
                }
            ),
            RemoteError::Stopped => format!("{name} was stopped. Ask again."),
            RemoteError::Model { host, known } if known.is_empty() => {
                format!(
                    "{} does not tell which models it has. Name one.",
                    place(host)
                )
            }
            RemoteError::Model { host, known } => {
                format!(
                    "{} has other models. Name one of them: {known}.",
                    place(host)
                )
            }
            RemoteError::Nonsense { host, why } => format!(
                "{} answered what it should not: {why}. Check the address, which usually ends with \
                /v1, update the server, or remove {name}.",
                place(host)
            ),
            RemoteError::Useless { host, why } => {
                format!("{} can neither draft nor judge: {why}.", place(host))
            }
            RemoteError::Silent { host, why } => {
                format!("{} names no candidate: {why}.", place(host))
            }
            RemoteError::Gone { rounds, last } => {
                let last = self.sentence(last);
                format!("{name} missed {rounds} rounds in a row. {last}")
            }
        }
    }
}

/// An error with its kind as its name.
pub fn thrown(kind: &str, message: &str) -> JsValue {
    let error = js_sys::Error::new(message);
    error.set_name(kind);
    error.into()
}
