//! Errors of commands, each one line that says what to do next.

use std::path::{Path, PathBuf};

use conclave_ensemble::replay::ReplayError;
use conclave_ensemble::{RoundError, SettingsError};
use conclave_eval::tasks::TaskError;
use conclave_hub::HubError;
use conclave_kernels::GpuError;
use conclave_member::MemberError;
use conclave_model::ModelError;
use conclave_remote::RemoteError;
use conclave_rounds::{AnswerError, GrammarError};
use conclave_serve::ServeError;
use conclave_text::TextError;
use conclave_weights::{CheckpointError, SourceError};

#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error("{path}: {source}")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{path}: {source}")]
    Model {
        path: PathBuf,
        source: Box<MemberError>,
    },
    #[error("{path} is not the JSON asked for: {source}")]
    Json {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{path}: {source}")]
    Schema { path: PathBuf, source: GrammarError },
    #[error(transparent)]
    Member(#[from] MemberError),
    #[error(transparent)]
    Answer(#[from] AnswerError),
    #[error(transparent)]
    Run(#[from] ModelError),
    #[error(transparent)]
    Source(#[from] SourceError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error(transparent)]
    Text(#[from] TextError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Round(#[from] RoundError),
    #[error(transparent)]
    Replay(#[from] ReplayError),
    #[error(transparent)]
    Tasks(#[from] TaskError),
    #[error(transparent)]
    Gpu(#[from] GpuError),
    #[error(transparent)]
    Hub(#[from] HubError),
    #[error(transparent)]
    Remote(#[from] RemoteError),
    #[error(transparent)]
    Serve(#[from] ServeError),
    #[error("{0}")]
    Usage(String),
    #[error("standard output was closed: {0}")]
    Output(#[from] std::io::Error),
}

impl Failure {
    /// Whether it is of one member, whose model can't be used; not a fault of the command line.
    pub fn is_of_a_member(&self) -> bool {
        matches!(self, Self::Model { .. } | Self::Member(_))
    }

    pub fn file(path: &Path, source: std::io::Error) -> Self {
        Self::File {
            path: path.to_owned(),
            source,
        }
    }
}
