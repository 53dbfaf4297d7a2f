//! Plan of a download: one commit, its files, their sizes and digests.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::error::HubError;
use crate::name;
use crate::repository::{Listed, template};

/// Maximum size of a model, 16 TiB; a larger claim is an error of the server.
const MAX_MODEL_BYTES: u64 = 1 << 44;

/// Files of a model as listed when its download began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Plan {
    /// Reference, as users write it.
    pub(crate) reference: String,
    /// Commit; for a URL, a digest of the server's description of the file.
    pub(crate) version: String,
    /// Files; the one to open comes first, unless the model is a folder.
    pub(crate) files: Vec<Planned>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Planned {
    /// Name in the model's folder, or path there of a named template.
    pub(crate) name: String,
    /// URL, or path in the repository.
    pub(crate) from: String,
    pub(crate) bytes: u64,
    /// Digest of the bytes, if known.
    pub(crate) digest: Option<Digest>,
    /// Strong entity tag or date, for files without a digest.
    pub(crate) tag: Option<String>,
    /// Whether the server is known to ignore ranges.
    #[serde(default)]
    pub(crate) no_ranges: bool,
}

impl Planned {
    /// A repository's file, stored under the last component of its path; a named template keeps its
    /// folder, by which it is known.
    pub(crate) fn from_listed(listed: &Listed) -> Self {
        let name = match template(&listed.path) {
            Some(_) => &listed.path,
            None => listed.path.rsplit('/').next().unwrap_or_default(),
        };
        Self {
            name: name.to_owned(),
            from: listed.path.clone(),
            bytes: listed.bytes,
            digest: listed.digest.clone(),
            tag: None,
            no_ranges: false,
        }
    }
}

impl Plan {
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Checks names, sizes and duplicates of a plan from the network.
    pub(crate) fn check(&self, what: &str) -> Result<(), HubError> {
        let nonsense = |why: String| {
            Err(HubError::Nonsense {
                what: what.to_owned(),
                why,
            })
        };
        let mut total = 0_u64;
        let mut seen = std::collections::HashSet::new();
        for file in &self.files {
            let name = template(&file.name).unwrap_or(&file.name);
            name::check(name).map_err(|source| HubError::Name {
                what: what.to_owned(),
                source,
            })?;
            // Some file systems ignore case.
            if !seen.insert(file.name.to_lowercase()) {
                return nonsense(format!("there are two files by the name {}", file.name));
            }
            total = total.saturating_add(file.bytes);
            if total > MAX_MODEL_BYTES {
                return nonsense(format!(
                    "{} is said to have {} bytes, which no model has",
                    file.name, file.bytes
                ));
            }
            if file.bytes == 0 {
                return nonsense(format!("{} is empty", file.name));
            }
        }
        if self.files.is_empty() {
            return nonsense("it has no files".to_owned());
        }
        Ok(())
    }

    /// Reads a plan; `None` if it is missing or invalid.
    pub(crate) fn read(path: &Path) -> Option<Self> {
        let plan: Self = serde_json::from_slice(&std::fs::read(path).ok()?).ok()?;
        plan.check("").ok()?;
        Some(plan)
    }

    /// Writes the plan atomically.
    pub(crate) fn write(&self, path: &Path) -> Result<(), HubError> {
        let text =
            serde_json::to_vec_pretty(self).map_err(|error| HubError::disk(path)(error.into()))?;
        let beside = path.with_extension("new");
        std::fs::write(&beside, text).map_err(HubError::disk(&beside))?;
        std::fs::rename(&beside, path).map_err(HubError::disk(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(files: &[(&str, u64)]) -> Plan {
        let file = |&(name, bytes): &(&str, u64)| Planned {
            name: name.to_owned(),
            from: name.to_owned(),
            bytes,
            digest: None,
            tag: None,
            no_ranges: false,
        };
        Plan {
            reference: String::new(),
            version: String::new(),
            files: files.iter().map(file).collect(),
        }
    }

    #[test]
    fn refuses_what_no_model_has() {
        assert!(plan(&[("a.gguf", 1)]).check("x").is_ok());
        assert!(
            plan(&[("additional_chat_templates/rag.jinja", 1)])
                .check("x")
                .is_ok()
        );
        for files in [
            &[("../a.gguf", 1)][..],
            &[("additional_chat_templates/../a.jinja", 1)],
            &[("additional_chat_templates/a.gguf", 1)],
            &[("other/a.jinja", 1)],
            &[("a.gguf", 1), ("A.gguf", 1)],
            &[("ü.gguf", 1), ("Ü.gguf", 1)],
            &[("a.gguf", u64::MAX), ("b.gguf", u64::MAX)],
            &[("a.gguf", 0)],
            &[],
        ] {
            assert!(plan(files).check("x").is_err(), "{files:?}");
        }
    }
}
