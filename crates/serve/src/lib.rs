//! An ensemble behind OpenAI's interface: `conclave serve`.
//!
//! | to | see |
//! |---|---|
//! | serve members | [`Server::bind`], [`Server::run`] |
//! | say where, to whom, and how many may wait | [`Config`] |
//!
//! ```text
//! a client    → connections.rs
//! a request   → access.rs   its origin and its key
//!             → options.rs  what it asks for, each option checked, the rest refused by name
//!             → queue.rs    its turn, fair between clients
//!             → work.rs     the members' thread: one request at a time
//!             → reply.rs    what came of it, whole or as a stream
//! ```
//!
//! Members live on the thread that calls [`Server::run`] and never leave it. All that crosses to
//! the threads of HTTP is what was asked and what came of it.

mod access;
mod chat;
mod completions;
mod connections;
mod error;
mod options;
mod queue;
mod reply;
mod routes;
mod server;
mod turns;
mod work;

pub use server::{Config, Ensemble, ServeError, Server};
