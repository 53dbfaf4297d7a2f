//! Downloads models and keeps them in a cache: references, resumable downloads, verification.
//!
//! Nothing from the network is trusted: names are checked before they become paths, sizes before
//! they become files, and a model is used only when each file is complete and matches its hub's
//! digest.
//!
//! | to | use |
//! |---|---|
//! | parse `hf:OWNER/REPO/FILE.gguf@REVISION`, a URL or a path | [`Reference`] |
//! | choose the folder, list and remove models | [`Cache`], [`Stored`] |
//! | get a model's path, downloading what is missing | [`fetch()`], [`Options`], [`Progress`] |
//!
//! ```
//! use std::sync::atomic::AtomicBool;
//!
//! use conclave_hub::{Cache, Options, Reference, fetch};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::env::temp_dir().join("conclave-hub-example.gguf");
//! # std::fs::write(&file, "GGUF")?;
//! # let text = file.to_str().ok_or("the path is not UTF-8")?;
//! // `text` may as well be hf:OWNER/REPO/FILE.gguf or https://HOST/FILE.gguf.
//! let reference: Reference = text.parse()?;
//! let cache = Cache::new("models");
//! let path = fetch(
//!     &reference,
//!     &cache,
//!     &Options::default(),
//!     &mut |_| (),
//!     &AtomicBool::new(false),
//! )?;
//! assert!(path.exists());
//! # Ok(())
//! # }
//! ```
//! # Layout on disk
//!
//! ```text
//! CACHE/hf/OWNER/REPO/FILE.gguf/REVISION/        a complete model, all files verified
//!                                plan.json       its reference, commit, and files with size and
//!                                                digest
//!                                files/          the files, and nothing else
//! CACHE/hf/OWNER/REPO/folder/REVISION/           a whole Hugging Face folder, likewise
//! CACHE/url/HOST/FILE.gguf-DIGEST/latest/        from any other URL; DIGEST is of the URL
//! CACHE/…/REVISION.part/                         the same during the download:
//!                  files/NAME.part               bytes at their offsets, with holes
//!                  files/NAME.chunks             the finished chunks, each with its SHA-256
//! CACHE/locks/                                   one lock file per model, held while downloading
//! ```
//!
//! `REVISION.part` is renamed to `REVISION` once everything is verified. A plan names one commit,
//! so a resumed download never mixes two.

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
