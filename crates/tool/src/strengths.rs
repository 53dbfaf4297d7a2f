//! `--trust`: measured strengths of members.

use std::collections::BTreeMap;
use std::path::Path;

use conclave_ensemble::strength;
use conclave_member::Member;
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::members::read;

/// Results of a member; its fields are those of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    pub right: usize,
    pub asked: usize,
}

/// Writes the file that [`apply`] reads.
pub fn write(path: &Path, measured: &BTreeMap<String, Measured>) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(measured).map_err(|source| Failure::Json {
        path: path.to_owned(),
        source,
    })?;
    std::fs::write(path, text + "\n").map_err(|source| Failure::file(path, source))
}

/// Sets members' strengths from the file at `path`: a JSON object of their names, each with `right`
/// and `asked`.
///
/// # Errors
/// [`Failure::File`], [`Failure::Json`], and [`Failure::Usage`] if a member is missing or was asked
/// nothing: measured and estimated strengths are not comparable.
pub fn apply(path: &Path, members: &mut [Member]) -> Result<(), Failure> {
    let measured: BTreeMap<String, Measured> =
        serde_json::from_slice(&read(path)?).map_err(|source| Failure::Json {
            path: path.to_owned(),
            source,
        })?;
    for member in members {
        let name = member.name().to_owned();
        match measured.get(&name) {
            Some(&Measured { right, asked }) if asked > 0 && right <= asked => {
                member.set_strength(strength::measured(right, asked));
            }
            found => {
                let what = match found {
                    Some(_) => "has no sound figures there",
                    None => "is not in it",
                };
                let there: Vec<&str> = measured.keys().map(String::as_str).collect();
                return Err(Failure::Usage(format!(
                    "--trust {}: {name} {what}; it has {}, and wants \
                    {{\"right\": …, \"asked\": …}} for each member. `conclave eval \
                    --write-trust FILE` writes one",
                    path.display(),
                    if there.is_empty() {
                        "no member".to_owned()
                    } else {
                        there.join(", ")
                    },
                )));
            }
        }
    }
    Ok(())
}
