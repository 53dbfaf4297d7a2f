//! A repository at one commit: its list of files, and the choice of those that make a model.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::Number;

use crate::address::escaped;
use crate::digest::Digest;
use crate::error::HubError;
use crate::name;
use crate::progress::in_words;
use crate::reference::{MAX_PARTS, all_parts, first_part, in_parts};

/// Files of a Hugging Face folder besides its weights, followed by the required ones.
pub(crate) const FOLDER: [&str; 7] = [
    CONFIG,
    "generation_config.json",
    TOKENIZER,
    "tokenizer_config.json",
    "chat_template.jinja",
    "chat_template.json",
    "processor_config.json",
];
const NEEDED: [&str; 2] = [CONFIG, TOKENIZER];
pub(crate) const CONFIG: &str = "config.json";
const TOKENIZER: &str = "tokenizer.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// Folder of named chat templates in a model's folder, and the ending of their names.
const MORE_TEMPLATES: &str = "additional_chat_templates/";
const TEMPLATE: &str = ".jinja";

/// Name of a template among a folder's named ones.
pub(crate) fn template(path: &str) -> Option<&str> {
    let name = path.strip_prefix(MORE_TEMPLATES)?;
    (name.ends_with(TEMPLATE) && !name.contains('/')).then_some(name)
}

pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) digest: Option<Digest>,
    /// Reason why it can't be used.
    pub(crate) fault: Option<&'static str>,
}

/// A repository at one commit.
pub(crate) struct Repository {
    pub(crate) commit: String,
    pub(crate) files: Vec<Listed>,
}

/// URL of a file on a hub.
pub(crate) fn file_address(endpoint: &str, repo: &str, revision: &str, path: &str) -> String {
    let path: Vec<String> = path.split('/').map(escaped).collect();
    format!(
        "{endpoint}/{repo}/resolve/{}/{}",
        escaped(revision),
        path.join("/")
    )
}

pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| b"0123456789abcdef".contains(&byte))
}

pub(crate) fn read_list(what: &str, list: &[u8]) -> Result<Repository, HubError> {
    #[derive(Deserialize)]
    struct List {
        sha: String,
        siblings: Vec<Sibling>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Sibling {
        rfilename: String,
        size: Option<Number>,
        blob_id: Option<String>,
        lfs: Option<Large>,
    }
    #[derive(Deserialize)]
    struct Large {
        sha256: Option<String>,
        size: Option<Number>,
    }
    let nonsense = |why: String| HubError::Nonsense {
        what: what.to_owned(),
        why,
    };
    let list: List = serde_json::from_slice(list)
        .map_err(|error| nonsense(format!("the hub's list of files can't be read: {error}")))?;
    if !is_commit(&list.sha) {
        return Err(nonsense("the hub names no commit".to_owned()));
    }
    let listed = |sibling: Sibling| {
        // Unsafe names are dropped; a request for one reports that it does not exist.
        name::check_path(&sibling.rfilename).ok()?;
        let large = sibling.lfs.as_ref();
        let size = large.and_then(|large| large.size.as_ref());
        let bytes = size.or(sibling.size.as_ref()).and_then(Number::as_u64);
        let sha256 = large.and_then(|large| large.sha256.as_deref());
        // For LFS files the blob id is that of the pointer file.
        let blob = sibling.blob_id.as_deref().filter(|_| large.is_none());
        let digest = match sha256 {
            Some(sha256) => Digest::sha256(sha256),
            None => blob.and_then(Digest::git_blob),
        };
        let fault = match (bytes, sha256, &digest) {
            (None, ..) => Some("does not say how long it is"),
            (_, Some(_), None) => Some("lists a SHA-256 that is none"),
            _ => None,
        };
        Some(Listed {
            path: sibling.rfilename,
            bytes: bytes.unwrap_or_default(),
            digest,
            fault,
        })
    };
    Ok(Repository {
        commit: list.sha,
        files: list.siblings.into_iter().filter_map(listed).collect(),
    })
}

/// Chooses the files that make a model; `index` fetches the shard index if it is needed.
pub(crate) fn choose<'a>(
    what: &str,
    repo: &str,
    file: Option<&str>,
    files: &'a [Listed],
    index: impl FnOnce() -> Result<Vec<u8>, HubError>,
) -> Result<Vec<&'a Listed>, HubError> {
    let chosen = match file {
        Some(file) => choose_file(what, repo, file, files)?,
        None => choose_folder(what, repo, files, index)?,
    };
    match chosen
        .iter()
        .find_map(|listed| Some((listed, listed.fault?)))
    {
        Some((listed, fault)) => Err(HubError::Nonsense {
            what: what.to_owned(),
            why: format!("of {} the hub {fault}", listed.path),
        }),
        None => Ok(chosen),
    }
}

fn choose_file<'a>(
    what: &str,
    repo: &str,
    file: &str,
    files: &'a [Listed],
) -> Result<Vec<&'a Listed>, HubError> {
    let wanted = all_parts(file);
    let found = wanted.iter().map(|path| {
        files
            .iter()
            .find(|listed| listed.path == *path)
            .ok_or_else(|| {
                let lacking = if path == file {
                    String::new()
                } else {
                    format!(" ({path} is missing)")
                };
                HubError::NotThere {
                    what: what.to_owned(),
                    hint: format!("{lacking}{}", offered(repo, files)),
                }
            })
    });
    found.collect()
}

fn choose_folder<'a>(
    what: &str,
    repo: &str,
    files: &'a [Listed],
    index: impl FnOnce() -> Result<Vec<u8>, HubError>,
) -> Result<Vec<&'a Listed>, HubError> {
    let find = |path: &str| files.iter().find(|listed| listed.path == path);
    let lacks = |why: String| HubError::NoModel {
        what: what.to_owned(),
        why: format!("{why}{}", offered(repo, files)),
    };
    if let Some(name) = NEEDED.into_iter().find(|name| find(name).is_none()) {
        return Err(lacks(format!("has no {name}")));
    }
    // Empty optional files are skipped.
    let taken = |listed: &&Listed| listed.bytes > 0 || NEEDED.contains(&listed.path.as_str());
    let named = |listed: &&Listed| template(&listed.path).is_some();
    let described = FOLDER.into_iter().filter_map(find);
    let mut chosen: Vec<&Listed> = described
        .chain(files.iter().filter(named))
        .filter(taken)
        .collect();
    if let Some(weights) = find(WEIGHTS) {
        chosen.push(weights);
        return Ok(chosen);
    }
    let listed = find(INDEX).ok_or_else(|| lacks(format!("has neither {WEIGHTS} nor {INDEX}")))?;
    chosen.push(listed);
    for name in shards(what, &index()?)? {
        chosen.push(find(&name).ok_or_else(|| lacks(format!("has no {name}")))?);
    }
    Ok(chosen)
}

/// Shard names listed in an index.
pub(crate) fn shards(what: &str, index: &[u8]) -> Result<BTreeSet<String>, HubError> {
    #[derive(Deserialize)]
    struct Index {
        weight_map: std::collections::HashMap<String, String>,
    }
    let nonsense = |why: String| HubError::Nonsense {
        what: what.to_owned(),
        why,
    };
    let index: Index = serde_json::from_slice(index)
        .map_err(|error| nonsense(format!("{INDEX} can't be read: {error}")))?;
    let names: BTreeSet<String> = index.weight_map.into_values().collect();
    if names.is_empty() || names.len() > MAX_PARTS as usize {
        return Err(nonsense(format!(
            "{INDEX} names no weights, or in too many files"
        )));
    }
    let shard = |name: &str| name::check(name).is_ok() && name.ends_with(".safetensors");
    match names.iter().find(|name| !shard(name)) {
        Some(name) => Err(nonsense(format!(
            "{INDEX} names weights in {}",
            name.escape_debug()
        ))),
        None => Ok(names),
    }
}

/// Lists the GGUF files, each as a reference to copy.
fn offered(repo: &str, files: &[Listed]) -> String {
    const MOST: usize = 12;
    let models: Vec<&Listed> = files
        .iter()
        .filter(|file| {
            file.path.to_ascii_lowercase().ends_with(".gguf") && first_part(&file.path) == file.path
        })
        .collect();
    if models.is_empty() {
        return "; the repository has no GGUF files either".to_owned();
    }
    let mut text = "; there are".to_owned();
    for model in models.iter().take(MOST) {
        let whole: u64 = match in_parts(&model.path) {
            Some((stem, count)) => {
                let of = |file: &&Listed| in_parts(&file.path) == Some((stem, count));
                files
                    .iter()
                    .filter(of)
                    .fold(0, |sum, file| sum.saturating_add(file.bytes))
            }
            None => model.bytes,
        };
        text += &format!("\n  hf:{repo}/{} ({})", model.path, in_words(whole));
    }
    if models.len() > MOST {
        text += &format!("\n  and {} more", models.len() - MOST);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Plan, Planned};
    use crate::reference::Reference;
    use serde_json::{Value, json};

    /// Plans a case and lists name, size and kind of digest of each file.
    fn taken(case: &Value) -> Result<Vec<String>, HubError> {
        let what = case["what"].as_str().unwrap();
        let Reference::Hub { file, .. } = what.parse()? else {
            panic!("{what} is of no hub")
        };
        let commit = "a".repeat(40);
        let list =
            json!({ "sha": case["commit"].as_str().unwrap_or(&commit), "siblings": case["files"] });
        let found = read_list(what, list.to_string().as_bytes())?;
        let index = || {
            Ok(json!({ "weight_map": case["index"] })
                .to_string()
                .into_bytes())
        };
        let chosen = choose(what, "o/r", file.as_deref(), &found.files, index)?;
        let files: Vec<_> = chosen.into_iter().map(Planned::from_listed).collect();
        let plan = Plan {
            reference: what.to_owned(),
            version: found.commit,
            files,
        };
        plan.check(what)?;
        let by = |digest: &Option<Digest>| match digest {
            Some(Digest::Sha256(_)) => "sha256",
            Some(Digest::GitBlob(_)) => "git",
            None => "length",
        };
        let files = plan.files.iter();
        Ok(files
            .map(|file| format!("{} {} {}", file.name, file.bytes, by(&file.digest)))
            .collect())
    }

    #[test]
    fn listings_mean_what_tool_and_page_agreed_on() {
        let table = include_str!("../../../tests/hub/listings.json");
        let table: Value = serde_json::from_str(table).unwrap();
        for case in table["cases"].as_array().unwrap() {
            match taken(case) {
                Ok(files) => assert_eq!(json!(files), case["takes"], "{case}"),
                Err(error) => {
                    let said = error.to_string();
                    let refused = case["tool"]
                        .as_str()
                        .is_some_and(|part| said.contains(part));
                    assert!(refused, "{case}: {said}");
                }
            }
        }
    }

    #[test]
    fn a_list_that_is_none_is_refused() {
        for list in [
            "",
            "{}",
            r#"{"sha": "../x", "siblings": []}"#,
            r#"{"sha": 1}"#,
        ] {
            assert!(read_list("x", list.as_bytes()).is_err(), "{list}");
        }
    }
}
