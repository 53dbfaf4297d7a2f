//! What a user calls a model: a place on a hub, an address, or a path.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::address::{Parts, shown, unescaped};
use crate::error::ReferenceError;
use crate::name::{check, check_path};

/// The hub's hosts: addresses copied from there mean what their `hf:` form means.
const HUB_HOSTS: [&str; 3] = ["huggingface.co", "www.huggingface.co", "hf.co"];

/// The revision meant if none is named.
const MAIN: &str = "main";

/// The most files of one model.
const MOST_PARTS: u32 = 1000;

/// Which model is meant.
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
    /// `hf:OWNER/REPO/FILE.gguf@REVISION`, or without the file the folder of weights and tokenizer.
    Hub {
        /// User or organisation.
        owner: String,
        /// Repository.
        repo: String,
        /// A GGUF file, of several parts the first; none for the whole folder.
        file: Option<String>,
        /// Branch, tag or commit.
        revision: String,
    },
    /// The address of a GGUF file, of several parts the first.
    Address(String),
    /// A file or a folder here; `-` is standard input.
    Path(PathBuf),
}

impl Reference {
    /// What a member made of this model is called if nobody says otherwise.
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
            Self::Address(address) => stem(Path::new(&file_of(address).unwrap_or_default())),
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

    /// Whether it has to be downloaded before it can be used.
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
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(ReferenceError::Empty);
        }
        if let Some((scheme, place)) = trimmed.split_once(':')
            && scheme.eq_ignore_ascii_case("hf")
        {
            return hub(trimmed, place.trim_start_matches('/'));
        }
        if trimmed.starts_with("http://") || trimmed.starts_with("https://") {
            return address(trimmed);
        }
        // A path may have spaces at its ends.
        Ok(Self::Path(PathBuf::from(text)))
    }
}

fn hub(text: &str, place: &str) -> Result<Reference, ReferenceError> {
    let fault = |why: &str| ReferenceError::Hub {
        text: shortened(text),
        why: why.to_owned(),
    };
    let (place, revision) = match place.split_once('@') {
        Some((place, revision)) => (place, revision),
        None => (place, MAIN),
    };
    let mut parts = place.trim_end_matches('/').splitn(3, '/');
    let owner = parts.next().unwrap_or_default();
    let repo = parts.next().ok_or_else(|| fault("names no repository"))?;
    let file = parts.next();
    for part in [owner, repo] {
        check(part).map_err(|error| fault(&format!("does not name a repository: {error}")))?;
    }
    check_path(revision)
        .map_err(|error| fault(&format!("has no revision behind its @: {error}")))?;
    // `.part` is the ending of our own folders.
    if revision.len() > 200 || revision.ends_with(".part") {
        return Err(fault("has a revision that is too long or ends with .part"));
    }
    if let Some(file) = file {
        check_path(file).map_err(|error| fault(&format!("does not name a file: {error}")))?;
        if !is_gguf(file) {
            return Err(fault(
                "names a file that is no .gguf; for a folder of safetensors leave the file out",
            ));
        }
        if file.len() > 200 {
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
        text: shown(text),
        why,
    };
    let text = text.split('#').next().unwrap_or_default();
    let parts = Parts::of(text).ok_or_else(|| {
        fault("is no address (or has a user's name in it, which would end up in listings)")
    })?;
    if HUB_HOSTS.contains(&parts.host()) {
        let segments: Vec<&str> = parts.path.trim_matches('/').split('/').collect();
        return match segments.as_slice() {
            [owner, repo] => hub(text, &format!("{owner}/{repo}")),
            [owner, repo, "tree", revision] => {
                hub(text, &format!("{owner}/{repo}@{}", plain(revision)))
            }
            [owner, repo, "resolve" | "blob", revision, file @ ..] if !file.is_empty() => hub(
                text,
                &format!(
                    "{owner}/{repo}/{}@{}",
                    plain(&file.join("/")),
                    plain(revision)
                ),
            ),
            _ => Err(fault("is no model's page and no file on the hub")),
        };
    }
    let name = file_of(text).ok_or_else(|| fault("names no file"))?;
    if !is_gguf(&name) {
        return Err(fault("is not the address of a .gguf file"));
    }
    check(&name).map_err(|error| fault(error.why))?;
    let folder = &text[..text.len() - parts.query.map_or(0, |query| query.len() + 1)];
    let folder = folder.rfind('/').map_or("", |at| &folder[..=at]);
    let query = parts
        .query
        .map_or(String::new(), |query| format!("?{query}"));
    let first = first_part(&name);
    // Only a name of several parts is written anew: an address means what its owner wrote.
    Ok(Reference::Address(if first == name {
        text.to_owned()
    } else {
        format!("{folder}{}{query}", crate::address::escaped(&first))
    }))
}

fn plain(text: &str) -> String {
    unescaped(text).unwrap_or_default()
}

fn shortened(text: &str) -> String {
    text.chars()
        .take(200)
        .flat_map(char::escape_debug)
        .collect()
}

/// The file's name in an address.
pub(crate) fn file_of(address: &str) -> Option<String> {
    let name = Parts::of(address)?
        .path
        .rsplit('/')
        .next()
        .and_then(unescaped)?;
    (!name.is_empty()).then_some(name)
}

fn is_gguf(name: &str) -> bool {
    name.len() > 5 && name.to_ascii_lowercase().ends_with(".gguf")
}

/// A model in several files names them `STEM-00001-of-00003.gguf`: the stem and the count.
pub(crate) fn in_parts(name: &str) -> Option<(&str, u32)> {
    let stem = name.strip_suffix(".gguf")?;
    let (stem, count) = stem.rsplit_once("-of-")?;
    let (stem, number) = stem.rsplit_once('-')?;
    let five = |text: &str| {
        (text.len() == 5)
            .then(|| text.parse::<u32>().ok())
            .flatten()
    };
    let (number, count) = (five(number)?, five(count)?);
    ((1..=count).contains(&number) && count <= MOST_PARTS).then_some((stem, count))
}

/// The name of one of several files.
pub(crate) fn part(stem: &str, number: u32, count: u32) -> String {
    format!("{stem}-{number:05}-of-{count:05}.gguf")
}

fn first_part(name: &str) -> String {
    in_parts(name).map_or_else(|| name.to_owned(), |(stem, count)| part(stem, 1, count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> String {
        text.parse::<Reference>().map_or_else(
            |error| format!("! {error}"),
            |reference| reference.to_string(),
        )
    }

    #[test]
    fn every_way_to_name_a_model() {
        for (text, means) in [
            ("hf:o/r/f.gguf", "hf:o/r/f.gguf"),
            ("HF:o/r/f.gguf@main", "hf:o/r/f.gguf"),
            ("hf://o/r/f.gguf", "hf:o/r/f.gguf"),
            ("hf:o/r/sub/f.GGUF@v1.0", "hf:o/r/sub/f.GGUF@v1.0"),
            ("hf:o/r@refs/pr/1", "hf:o/r@refs/pr/1"),
            ("hf:o/r/", "hf:o/r"),
            (
                "hf:o/r/f-00002-of-00003.gguf",
                "hf:o/r/f-00001-of-00003.gguf",
            ),
            (
                "https://huggingface.co/o/r/blob/main/f.gguf?download=true",
                "hf:o/r/f.gguf",
            ),
            (
                "https://huggingface.co/o/r/resolve/refs%2Fpr%2F1/a/f.gguf",
                "hf:o/r/a/f.gguf@refs/pr/1",
            ),
            ("https://huggingface.co/o/r", "hf:o/r"),
            ("https://hf.co/o/r/tree/v2", "hf:o/r@v2"),
            (
                "https://example.org/m/f%20x.gguf?key=1#top",
                "https://example.org/m/f%20x.gguf?key=1",
            ),
            (
                "https://example.org/f-00003-of-00003.gguf?k=1",
                "https://example.org/f-00001-of-00003.gguf?k=1",
            ),
            ("./model.gguf", "./model.gguf"),
            ("-", "-"),
        ] {
            assert_eq!(read(text), means, "{text}");
        }
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
            ("https://user:word@example.org/f.gguf", "is no address"),
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

    #[test]
    fn members_are_called_after_their_model() {
        for (text, name) in [
            ("hf:o/Repo", "Repo"),
            ("hf:o/r/a/f.gguf", "f"),
            ("https://example.org/g%20h.gguf", "g h"),
            ("dir/x.gguf", "x"),
            ("hf:o/r/s-00001-of-00002.gguf", "s"),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().name(), name);
        }
    }
}
