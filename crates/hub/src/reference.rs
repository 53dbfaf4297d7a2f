//! References to models: a file or folder on a hub, a URL, or a path.
//!
//! The page uses the same rules; both are tested with `tests/hub/references.json`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::address::{Parts, canonical, escaped, shown, split, unescaped};
use crate::error::ReferenceError;
use crate::name::{check, check_path};

/// Hosts of the hub: their URLs are converted to the `hf:` form.
const HUB_HOSTS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];

/// Revision used if none is given.
const MAIN: &str = "main";

/// Maximum length of a percent-encoded path or revision: each becomes a folder name.
const MAX_PATH_BYTES: usize = 200;

/// Maximum length of a URL.
const MAX_ADDRESS_BYTES: usize = 4096;

/// Maximum number of files of a model's weights.
pub(crate) const MAX_PARTS: u32 = 1000;

/// Reference to a model.
///
/// ```
/// use conclave_hub::Reference;
/// let reference: Reference = "hf:owner/model-GGUF/model-Q4_K_M.gguf".parse()?;
/// assert_eq!(reference.to_string(), "hf:owner/model-GGUF/model-Q4_K_M.gguf");
/// assert_eq!(reference.name(), "model-Q4_K_M");
/// # Ok::<(), conclave_hub::ReferenceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reference {
    /// `hf:OWNER/REPO/FILE.gguf@REVISION`; without a file, the folder of weights and tokenizer.
    Hub {
        /// User or organisation.
        owner: String,
        /// Repository.
        repo: String,
        /// GGUF file, the first of several parts; `None` for the whole folder.
        file: Option<String>,
        /// Branch, tag or commit.
        revision: String,
    },
    /// URL of a GGUF file, the first of several parts.
    Address(String),
    /// Local file or folder; `-` is standard input.
    Path(PathBuf),
}

impl Reference {
    /// Default name of a member that uses this model.
    pub fn name(&self) -> String {
        let stem = |path: &Path| {
            let stem = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            match in_parts(&format!("{stem}.gguf")) {
                Some((whole, _)) => whole.to_owned(),
                None => stem,
            }
        };
        match self {
            Self::Hub {
                file: Some(file), ..
            } => stem(Path::new(file)),
            Self::Hub { repo, .. } => repo.clone(),
            Self::Address(address) => stem(Path::new(&file_name_in(address).unwrap_or_default())),
            Self::Path(path) if path.is_dir() => {
                let whole = path.canonicalize().unwrap_or_else(|_| path.clone());
                whole
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned()
            }
            Self::Path(path) => stem(path),
        }
    }

    /// Returns whether the model must be downloaded before use.
    pub fn is_remote(&self) -> bool {
        !matches!(self, Self::Path(_))
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hub {
                owner,
                repo,
                file,
                revision,
            } => {
                write!(f, "hf:{owner}/{repo}")?;
                if let Some(file) = file {
                    write!(f, "/{file}")?;
                }
                if revision != MAIN {
                    write!(f, "@{revision}")?;
                }
                Ok(())
            }
            Self::Address(address) => f.write_str(address),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for Reference {
    type Err = ReferenceError;

    fn from_str(text: &str) -> Result<Self, ReferenceError> {
        // White space of browsers and of Unicode.
        let trimmed = text.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
        if trimmed.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if let Some((scheme, place)) = trimmed.split_once(':') {
            match scheme.to_ascii_lowercase().as_str() {
                "hf" => return in_hub(trimmed, place.strip_prefix("//").unwrap_or(place)),
                "http" | "https" => return address(trimmed),
                _ if place.starts_with("//") => {
                    return Err(ReferenceError::Address {
                        text: shortened(trimmed),
                        why: "starts neither with hf: nor with https:",
                    });
                }
                _ => {}
            }
        }
        // Untrimmed: a path may begin or end with spaces.
        Ok(Self::Path(PathBuf::from(text)))
    }
}

/// Parses the part after `hf:`.
fn in_hub(text: &str, place: &str) -> Result<Reference, ReferenceError> {
    let (place, revision) = place.split_once('@').unwrap_or((place, MAIN));
    let mut parts = place.strip_suffix('/').unwrap_or(place).splitn(3, '/');
    let mut next = || parts.next();
    let (owner, repo) = (next().unwrap_or_default(), next().unwrap_or_default());
    hub(text, owner, repo, next(), revision)
}

fn hub(
    text: &str,
    owner: &str,
    repo: &str,
    file: Option<&str>,
    revision: &str,
) -> Result<Reference, ReferenceError> {
    let fault = |why: &str| ReferenceError::Hub {
        text: shortened(text),
        why: why.to_owned(),
    };
    if repo.is_empty() {
        return Err(fault("names no repository"));
    }
    for name in [owner, repo] {
        check(name).map_err(|error| fault(&format!("does not name a repository: {error}")))?;
        let odd = |c: char| !(c.is_ascii_alphanumeric() || "._-".contains(c));
        if name.contains(odd) || name.contains("..") || name.len() > 96 {
            return Err(fault("does not name a repository of the hub"));
        }
    }
    check_path(revision)
        .map_err(|error| fault(&format!("has no valid revision after its @: {error}")))?;
    if is_gguf(revision) {
        return Err(fault("has a file after its @, where the revision belongs"));
    }
    // `.part` is the suffix of our own folders.
    if escaped(revision).len() > MAX_PATH_BYTES || revision.ends_with(".part") {
        return Err(fault("has a revision that is too long or ends with .part"));
    }
    if let Some(file) = file {
        check_path(file).map_err(|error| fault(&format!("does not name a file: {error}")))?;
        if !is_gguf(file) {
            return Err(fault(
                "names a file that is not .gguf; for a folder of safetensors leave the file out",
            ));
        }
        if escaped(file).len() > MAX_PATH_BYTES {
            return Err(fault("has too long a path"));
        }
    }
    Ok(Reference::Hub {
        owner: owner.to_owned(),
        repo: repo.to_owned(),
        file: file.map(first_part),
        revision: revision.to_owned(),
    })
}

fn address(text: &str) -> Result<Reference, ReferenceError> {
    let fault = |why| ReferenceError::Address {
        text: shortened(&shown(text)),
        why,
    };
    let none = || {
        fault("is not a valid address (or has a user's name in it, which would end up in listings)")
    };
    let plain = canonical(text).ok_or_else(none)?;
    if plain.len() > MAX_ADDRESS_BYTES {
        return Err(fault("is longer than 4096 bytes"));
    }
    let parts = Parts::parse(&plain).ok_or_else(none)?;
    // An undecodable segment stays as it is, as in the page.
    let decoded = |segment: &str| unescaped(segment).unwrap_or_else(|| segment.to_owned());
    let segments: Vec<String> = parts.path.split('/').map(decoded).collect();
    if HUB_HOSTS.contains(&parts.authority) {
        return page(text, &segments)
            .unwrap_or_else(|| Err(fault("is no model's page and no file on the hub")));
    }
    let name = segments
        .last()
        .filter(|name| !name.is_empty())
        .ok_or_else(|| fault("names no file"))?;
    if !is_gguf(name) {
        return Err(fault("is not the address of a .gguf file"));
    }
    check(name).map_err(|error| fault(error.why))?;
    if escaped(name).len() > MAX_PATH_BYTES {
        return Err(fault("has too long a name"));
    }
    if segments
        .iter()
        .any(|segment| segment == "." || segment == "..")
    {
        return Err(fault("has dots for folders in it"));
    }
    let (folder, name, query) = split(&plain);
    Ok(Reference::Address(format!(
        "{folder}{}{query}",
        first_part(name)
    )))
}

/// Reference for a page of the hub, if it may show a model.
fn page(text: &str, segments: &[String]) -> Option<Result<Reference, ReferenceError>> {
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    let whole = segments.strip_suffix(&[""]).unwrap_or(&segments);
    Some(match whole {
        ["", owner, repo] => hub(text, owner, repo, None, MAIN),
        ["", owner, repo, "tree", revision] => hub(text, owner, repo, None, revision),
        [
            "",
            owner,
            repo,
            "resolve" | "blob" | "raw",
            revision,
            file @ ..,
        ] => hub(text, owner, repo, Some(&file.join("/")), revision),
        _ => return None,
    })
}

fn shortened(text: &str) -> String {
    text.chars()
        .take(200)
        .flat_map(char::escape_debug)
        .collect()
}

/// File name in a URL.
pub(crate) fn file_name_in(address: &str) -> Option<String> {
    unescaped(split(address).1)
}

fn is_gguf(name: &str) -> bool {
    name.len() > 5 && name.to_ascii_lowercase().ends_with(".gguf")
}

/// Splits `STEM-00001-of-00003.gguf`, the name of a file in parts, into stem and count.
pub(crate) fn in_parts(name: &str) -> Option<(&str, u32)> {
    let stem = name.strip_suffix(".gguf")?;
    let (stem, count) = stem.rsplit_once("-of-")?;
    let (stem, number) = stem.rsplit_once('-')?;
    let five = |text: &str| {
        let digits = text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse::<u32>().ok()).flatten()
    };
    let (number, count) = (five(number)?, five(count)?);
    ((1..=count).contains(&number) && count <= MAX_PARTS).then_some((stem, count))
}

/// Names of all parts of a model, given one of them.
pub(crate) fn all_parts(name: &str) -> Vec<String> {
    match in_parts(name) {
        Some((stem, count)) => (1..=count)
            .map(|number| part(stem, number, count))
            .collect(),
        None => vec![name.to_owned()],
    }
}

/// Name of the first part, which identifies the model.
pub(crate) fn first_part(name: &str) -> String {
    in_parts(name).map_or_else(|| name.to_owned(), |(stem, count)| part(stem, 1, count))
}

fn part(stem: &str, number: u32, count: u32) -> String {
    format!("{stem}-{number:05}-of-{count:05}.gguf")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(text: &str) -> String {
        text.parse::<Reference>().map_or_else(
            |error| format!("! {error}"),
            |reference| reference.to_string(),
        )
    }

    #[test]
    fn every_reference_means_what_tool_and_page_agreed_on() {
        let table = include_str!("../../../tests/hub/references.json");
        let table: Value = serde_json::from_str(table).unwrap();
        let cases = table["cases"].as_array().unwrap();
        assert!(cases.len() >= 150);
        for case in cases {
            let text = case["text"].as_str().unwrap();
            if case["refused"] == true {
                assert!(read(text).starts_with('!'), "{text}: {}", read(text));
                continue;
            }
            let reference: Reference = text.parse().unwrap();
            assert_eq!(parts_of(&reference), case["means"], "{text}");
            let one = case["as"].as_str().unwrap_or(text);
            assert_eq!(
                (reference.to_string().as_str(), read(one).as_str()),
                (one, one)
            );
            if let Some(name) = case["name"].as_str() {
                assert_eq!(reference.name(), name, "{text}");
            }
        }
    }

    fn parts_of(reference: &Reference) -> Value {
        match reference {
            Reference::Hub {
                owner,
                repo,
                file: Some(file),
                revision,
            } => json!({ "owner": owner, "repo": repo, "file": file, "revision": revision }),
            Reference::Hub {
                owner,
                repo,
                file: None,
                revision,
            } => json!({ "owner": owner, "repo": repo, "revision": revision }),
            Reference::Address(address) => json!({ "address": address }),
            Reference::Path(path) => json!({ "path": path }),
        }
    }

    #[test]
    fn no_address_is_too_long_to_be_stored() {
        let address = |length| format!("{:x<length$}", "https://example.org/f.gguf?");
        assert_eq!(read(&address(4096)).len(), 4096);
        assert!(read(&address(4097)).starts_with('!'));
    }

    #[test]
    fn what_names_no_model_says_how_to_name_one() {
        for (text, part) in [
            ("", "no model is named"),
            ("hf:", "names no repository"),
            ("hf:gpt2", "names no repository"),
            ("hf:../r", "starts with a dot"),
            ("hf:o/r/../../x.gguf", "does not name a file"),
            ("hf:o/r/f.gguf@../main", "revision"),
            ("hf:o/r/f.gguf@", "revision"),
            ("hf:o/r/model.safetensors", "leave the file out"),
            ("hf:o/r/a\u{1b}.gguf", "other than letters"),
            (
                "https://user:word@example.org/f.gguf",
                "is not a valid address",
            ),
            ("https://example.org/", "names no file"),
            ("https://example.org/f.bin", "not the address of a .gguf"),
            ("https://example.org/..%2Ff.gguf", "other than letters"),
            ("https://huggingface.co/docs", "no model's page"),
        ] {
            let error = read(text);
            assert!(
                error.starts_with('!') && error.contains(part) && error.contains(".gguf"),
                "{text}: {error}"
            );
            assert!(
                !error.contains('\u{1b}') && !error.contains("word"),
                "{error}"
            );
        }
    }
}
