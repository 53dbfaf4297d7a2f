//! Members whose model runs behind a server of the OpenAI interface. Such a member drafts by
//! completions and scores by log-probabilities of given texts, or judges by naming a letter.
//!
//! The crate knows no models: only text and scores cross. [`Server::connect`] finds out once what a
//! server can do. Every move has a deadline; a member that misses it abstains for the round.
//!
//! The protocol is asynchronous over a [`Transport`]. Natively that is `ureq`, on a thread for each
//! move (feature `client`); the page brings its own. The feature `jinja` reads chat templates.
//!
//! | server | drafts | scores |
//! |---|---|---|
//! | vLLM | ids of its `/tokenize` | `prompt_logprobs`, all candidates in one request |
//! | llama.cpp's | ids of `/apply-template` and `/tokenize` | constrained to the tokens by a grammar, one request per candidate |
//! | any with `echo` and `logprobs`, and a given template | text | text offsets, one request for all or per candidate |
//! | any with chat completions | no | a letter ([`judge`]) |
//!
//! ```no_run
//! use conclave_remote::{Address, ChatMessage, Drawing, Options, Remote, Server};
//!
//! # async fn example() -> Result<(), conclave_remote::RemoteError> {
//! let address = Address::read("http://localhost:8000/v1#org/model")?;
//! let server = Server::connect(address, Options::default())?;
//! let mut member = Remote::new("remote", server);
//! let (role, content) = ("user".to_owned(), "Why is the sky blue?".to_owned());
//! member.begin(vec![ChatMessage { role, content }], Drawing::greedy());
//! let draft = member.draft(10).await?;
//! println!("{}", draft.text);
//! # Ok(())
//! # }
//! ```

mod address;
mod asking;
#[cfg(feature = "client")]
mod client;
mod error;
#[cfg(feature = "jinja")]
mod jinja;
mod json;
pub mod judge;
pub mod key;
mod member;
mod server;
mod template;
#[cfg(feature = "client")]
mod threads;
mod transport;
mod wire;

pub use address::Address;
pub use error::RemoteError;
pub use json::read_json;
pub use judge::Judge;
pub use key::Key;
pub use member::{Drafted, Drawing, Remote, Verified};
pub use server::{Abilities, Lack, Options, Server};
pub use template::{ChatMessage, Template};
pub use transport::{Failure, MAX_BYTES, Request, Response, Transport};
pub use wire::Facts;
