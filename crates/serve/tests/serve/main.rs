//! The server against its own members and recorded requests.

mod access;
mod answers;
mod chosen;
mod embeddings;
mod forms;
mod judging;
mod liberal;
mod many;
mod member;
mod records;
mod responses;
mod stage;
mod tools;
mod unable;
mod wide;

#[path = "../../../member/tests/speaker/mod.rs"]
mod speaker;
