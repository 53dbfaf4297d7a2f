//! What both wasm modules show JavaScript of a member: its moves, its files and its errors. Types and
//! errors cross here, and nothing else happens.

#![cfg(target_family = "wasm")]

mod failure;
mod files;
mod load;
mod member;

pub use failure::Failure;
pub use files::ModelFiles;
pub use load::{Adapter, load};
pub use member::Member;
