//! A member that lives behind a server of the OpenAI interface: it drafts by completions, scores by
//! the log-probabilities that a server tells of a given text, or judges by naming a letter.
//!
//! It knows no models: text and scores are all that crosses. A server is asked once what it can do
//! ([`Server::connect`]); every move has a time by which it must have answered, and one that has
//! not abstains for the round.
//!
//! | a server | drafts | scores |
//! |---|---|---|
//! | vLLM | ids of its `/tokenize` | `prompt_logprobs`, all candidates in one request |
//! | llama.cpp's | ids of `/apply-template` and `/tokenize` | held to the tokens by a grammar, a request a candidate |
//! | any with `echo` and `logprobs`, and a template that is given | text | text offsets, in one request or one a candidate |
//! | any that chats | no | as a letter ([`judge`]) |

mod address;
mod client;
mod error;
mod json;
pub mod judge;
pub mod key;
mod member;
mod server;
mod template;
mod wire;

pub use address::Address;
pub use error::RemoteError;
pub use json::read_json;
pub use judge::Judge;
pub use key::Key;
pub use member::{Drafted, Drawing, Remote, Verified};
pub use server::{Abilities, Options, Server};
pub use template::{Said, Template};
