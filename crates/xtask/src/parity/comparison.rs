//! Comparison of one model on one device with transformers: logits and greedy text.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail, ensure};
use serde_json::Value;

#[derive(Debug, Clone)]
pub struct Comparison {
    /// Family, as listed in `docs/measurements.md`.
    pub family: String,
    /// Configuration within the family.
    pub case: String,
    /// Format of the weights.
    pub format: String,
    /// Folder or file, relative to the folder of `models.json`.
    path: PathBuf,
    /// Stem of the reference files `.json` and `.f32`.
    reference: PathBuf,
    limit: f64,
    /// Format to quantise to while loading.
    quantise: Option<String>,
}

#[derive(Debug, Clone)]
pub enum Outcome {
    Compared {
        /// Largest difference of a logit relative to its row's largest magnitude, over all rows.
        error: f64,
        /// Limit of `error`.
        limit: f64,
        /// Number of leading greedy tokens that agree, and of all.
        greedy: (usize, usize),
    },
    /// The engine refused the model or failed, with its message.
    Failed(String),
}

impl Outcome {
    /// Returns whether the limit was met and the greedy text is the same.
    pub fn is_within_limit(&self) -> bool {
        match self {
            // NaN fails the limit.
            Self::Compared {
                error,
                limit,
                greedy,
            } => error <= limit && greedy.0 == greedy.1,
            Self::Failed(_) => false,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Compared {
                error,
                limit,
                greedy,
            } => {
                write!(
                    f,
                    "{error:.1e} of {limit:.0e}, greedy {} of {}",
                    greedy.0, greedy.1
                )?;
                f.write_str(if self.is_within_limit() {
                    ""
                } else {
                    "  MISSED"
                })
            }
            Self::Failed(message) => write!(f, "MISSED: {message}"),
        }
    }
}

pub fn listed(folder: &Path) -> Result<Vec<Comparison>> {
    let entries = json(&folder.join("models.json"))?;
    let entries = entries.as_array().context("models.json holds no list")?;
    entries
        .iter()
        .map(|entry| {
            let text = |key: &str| {
                entry[key]
                    .as_str()
                    .map(str::to_owned)
                    .ok_or_else(|| anyhow!("an entry of models.json has no {key}"))
            };
            Ok(Comparison {
                family: text("family")?,
                case: text("case")?,
                format: text("format")?,
                path: text("path")?.into(),
                reference: text("reference")?.into(),
                limit: entry["limit"]
                    .as_f64()
                    .context("an entry of models.json has no limit")?,
                quantise: entry["quantise"].as_str().map(str::to_owned),
            })
        })
        .collect()
}

impl Comparison {
    /// Returns whether the command line selects it; empty lists select all.
    pub fn wanted(&self, families: &[String], formats: &[String]) -> bool {
        let named = |names: &[String], own: &[&String]| {
            names.is_empty() || names.iter().any(|name| own.contains(&name))
        };
        named(families, &[&self.family, &self.case]) && named(formats, &[&self.format])
    }

    /// Runs the tool on the model and compares; `index` distinguishes concurrent runs.
    pub fn run(&self, tool: &Path, device: &str, folder: &Path, index: usize) -> Outcome {
        self.compared(tool, device, folder, index)
            .unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
    }

    fn compared(&self, tool: &Path, device: &str, folder: &Path, index: usize) -> Result<Outcome> {
        let stem = folder.join(&self.reference);
        let about = json(&stem.with_added_extension("json"))?;
        let wanted = floats(&stem.with_added_extension("f32"))?;
        let vocabulary = number(&about["vocabulary"])?;
        let prompts = about["prompts"].as_array().context("no prompts")?;

        let raw = folder.join(format!("logits-{}-{index}.f32", std::process::id()));
        let mut command = self.tool(tool, device, folder, "logits");
        command.arg("--all").arg("--raw").arg(&raw);
        for prompt in prompts {
            command.args(["--tokens", &ids(prompt)?]);
        }
        output(&mut command)?;
        let found = floats(&raw)?;
        let _ = std::fs::remove_file(&raw);

        let continuation: Vec<u64> = tokens(&about["greedy"]["continuation"])?;
        let mut command = self.tool(tool, device, folder, "generate");
        command
            .args([
                "--greedy",
                "--json",
                "--count",
                &continuation.len().to_string(),
            ])
            .args(["--tokens", &ids(&about["greedy"]["prompt"])?]);
        let said: Value = serde_json::from_str(&output(&mut command)?)?;
        let same = tokens(&said["tokens"])?
            .iter()
            .zip(&continuation)
            .take_while(|(a, b)| a == b)
            .count();
        Ok(Outcome::Compared {
            error: largest_error(&found, &wanted, vocabulary)?,
            limit: self.limit,
            greedy: (same, continuation.len()),
        })
    }

    fn tool(&self, tool: &Path, device: &str, folder: &Path, what: &str) -> Command {
        let mut command = Command::new(tool);
        command.args(["--device", device, what, "--model"]);
        command.arg(folder.join(&self.path));
        if let Some(kind) = &self.quantise {
            command.args(["--quantise", kind]);
        }
        command
    }
}

/// Standard output of a command of the tool.
///
/// # Errors
/// The last line of its standard error: the rest is its arguments and a driver's remarks.
fn output(command: &mut Command) -> Result<String> {
    let output = command.output().context("the tool did not start")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", said.lines().last().unwrap_or("it failed silently"));
    }
    Ok(String::from_utf8(output.stdout)?)
}

/// Largest difference between two logits of a row relative to the largest magnitude of the wanted
/// row, over all rows of `vocabulary` logits.
fn largest_error(found: &[f32], wanted: &[f32], vocabulary: usize) -> Result<f64> {
    ensure!(
        found.len() == wanted.len() && vocabulary > 0,
        "{} logits where {} belong",
        found.len(),
        wanted.len()
    );
    let rows = found.chunks(vocabulary).zip(wanted.chunks(vocabulary));
    let worst = rows.map(|(found, wanted)| {
        let largest = wanted
            .iter()
            .fold(0.0_f64, |most, &x| most.max(f64::from(x).abs()));
        let apart = found.iter().zip(wanted);
        // `f64::max` would ignore NaN.
        apart.fold(0.0_f64, |most, (&a, &b)| {
            let difference = (f64::from(a) - f64::from(b)).abs() / largest;
            if difference > most || difference.is_nan() {
                difference
            } else {
                most
            }
        })
    });
    Ok(worst.fold(0.0, |most, row| {
        if row > most || row.is_nan() {
            row
        } else {
            most
        }
    }))
}

fn json(path: &Path) -> Result<Value> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("{} can't be read", path.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))
}

fn floats(path: &Path) -> Result<Vec<f32>> {
    let bytes = std::fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    let (quads, rest) = bytes.as_chunks::<4>();
    ensure!(rest.is_empty(), "{} ends within a number", path.display());
    Ok(quads.iter().map(|quad| f32::from_le_bytes(*quad)).collect())
}

fn number(value: &Value) -> Result<usize> {
    let number = value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok());
    number.with_context(|| format!("{value} where a number belongs"))
}

fn tokens(list: &Value) -> Result<Vec<u64>> {
    let ids = list.as_array().map_or(&[][..], |ids| ids).iter();
    ids.map(|id| id.as_u64().context("a token that is no number"))
        .collect()
}

fn ids(list: &Value) -> Result<String> {
    let ids = tokens(list)?;
    Ok(ids.iter().map(u64::to_string).collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_relative_to_its_own_row_and_nan_is_the_worst() {
        let wanted = [1.0, -2.0, 100.0, 50.0];
        let error = largest_error(&[1.0, -1.5, 99.0, 50.0], &wanted, 2).unwrap();
        assert!((error - 0.25).abs() < 1e-9);
        let error = largest_error(&[f32::NAN, -2.0, 0.0, 50.0], &wanted, 2).unwrap();
        assert!(error.is_nan());
        let outcome = Outcome::Compared {
            error,
            limit: 1e-4,
            greedy: (24, 24),
        };
        assert!(!outcome.is_within_limit());
        assert!(largest_error(&[1.0, -2.0], &wanted, 2).is_err());
    }
}
