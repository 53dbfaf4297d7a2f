//! Models from elsewhere: what a reference means, where models are kept, and how they get there.
//!
//! Nothing that comes from the network is trusted: names are checked before they become paths,
//! sizes before they become files, and a model can be used only when each of its files is there
//! whole and has the digest that its hub gives.
//!
//! | to do this | use |
//! |---|---|
//! | read `hf:OWNER/REPO/FILE.gguf@REVISION`, an address or a path | [`Reference`] |
//! | know where models are kept, list and remove them | [`Cache`], [`Stored`] |
//! | get the path of a model, downloading what is missing | [`fetch`], [`Options`], [`Progress`] |
//!
//! # On disk
//!
//! ```text
//! CACHE/hf/OWNER/REPO/FILE.gguf/REVISION/        a complete model, all files checked
//!                                plan.json       its reference, its commit, its files with size and digest
//!                                files/          the files, and nothing else
//! CACHE/hf/OWNER/REPO/folder/REVISION/           a whole Hugging Face folder, likewise
//! CACHE/url/HOST/FILE.gguf-DIGEST/latest/        from any other address; DIGEST is of the address
//! CACHE/…/REVISION.part/                         the same while it is downloaded:
//!                  files/NAME.part               bytes at their offsets, with holes
//!                  files/NAME.chunks             the chunks that are done, each with its SHA-256
//! CACHE/locks/                                   one file a model; who downloads it holds its lock
//! ```
//!
//! `REVISION.part` becomes `REVISION` by a rename, once, when all is checked. A plan names one
//! commit, so a download that is taken up again never mixes two.

mod address;
mod cache;
mod chunks;
mod client;
mod digest;
mod download;
mod error;
mod fetch;
mod listing;
mod lock;
mod name;
mod options;
mod plan;
mod progress;
mod reference;
mod repository;
mod retry;
mod stored;
mod worker;

pub use cache::Cache;
pub use error::{HubError, NameError, ReferenceError};
pub use fetch::fetch;
pub use options::Options;
pub use progress::{Progress, in_words};
pub use reference::Reference;
pub use stored::Stored;
