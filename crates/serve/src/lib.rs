//! An ensemble with OpenAI's interface: `conclave serve`.
//!
//! | to | see |
//! |---|---|
//! | serve members | [`Server::bind`], [`Server::run`] |
//! | set address, access and queue length | [`Config`] |
//! | know the members' names in requests | [`name_apart`] |
//!
//! ```text
//! a client    → connections.rs
//! a request   → record.rs   its log line and its counts, once it is over
//!             → access.rs   its origin and its key
//!             → options.rs  its options, each checked, the rest rejected by name
//!             → queue.rs    its turn, fair between clients
//!             → work.rs     the members' thread: one request at a time
//!             → reply.rs    its answer, whole or as a stream
//! ```
//!
//! Members stay on the thread that calls [`Server::run`]; only requests and answers cross to the
//! HTTP threads.

mod access;
mod calls;
mod chat;
mod completions;
mod connections;
mod embeddings;
mod endpoints;
mod error;
mod functions;
mod messages;
mod metrics;
mod openapi;
mod options;
mod queue;
mod recent;
mod record;
mod reply;
mod responses;
mod routes;
mod server;
mod streaming;
mod tools;
mod turns;
mod work;

pub use server::{Config, Ensemble, ServeError, Server, name_apart, name_apart_from};
