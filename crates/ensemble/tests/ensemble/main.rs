//! The method without models: golden vectors, its machine of moves, and properties.

mod golden;
mod judgement;
mod moves;
mod properties;
mod query;
mod replay;

#[path = "../cases/mod.rs"]
mod cases;
