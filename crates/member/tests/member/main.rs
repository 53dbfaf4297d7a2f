//! A member alone: its turns, drafts, thoughts and constraints.

mod bundled;
mod chosen;
mod constrained;
mod conversations;
mod loads;
mod novel;
mod second;
mod thinking;
mod turns;

#[path = "../speaker/mod.rs"]
mod speaker;
