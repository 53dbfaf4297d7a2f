//! A repository at one commit: its list of files, and those of them that make a model.

use std::collections::BTreeSet;

use serde::Deserialize;

use crate::address::escaped;
use crate::digest::Digest;
use crate::error::HubError;
use crate::name;
use crate::progress::in_words;
use crate::reference::{all_parts, first_part, in_parts};

/// What a Hugging Face folder must have, and what it may have beside its weights.
pub(crate) const CONFIG: &str = "config.json";
pub(crate) const OPTIONAL: [&str; 4] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";

/// A repository's file.
pub(crate) struct Listed {
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) digest: Option<Digest>,
}

/// A repository at one commit.
pub(crate) struct Repository {
    pub(crate) commit: String,
    pub(crate) files: Vec<Listed>,
}

/// Where a hub has a file.
pub(crate) fn address_of(endpoint: &str, place: &str, revision: &str, path: &str) -> String {
    let path: Vec<String> = path.split('/').map(escaped).collect();
    format!(
        "{endpoint}/{place}/resolve/{}/{}",
        escaped(revision),
        path.join("/")
    )
}

pub(crate) fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
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
        size: Option<u64>,
        blob_id: Option<String>,
        lfs: Option<Large>,
    }
    #[derive(Deserialize)]
    struct Large {
        #[serde(alias = "oid")]
        sha256: Option<String>,
        size: Option<u64>,
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
    // Files whose size, digest or name can't be taken are left out here: whoever asks for one hears that it is not there.
    let listed = |sibling: Sibling| {
        let large = sibling.lfs.as_ref();
        let bytes = large.and_then(|large| large.size).or(sibling.size)?;
        let digest = match large.and_then(|large| large.sha256.as_deref()) {
            Some(sha256) => Some(Digest::sha256(sha256)?),
            None => sibling.blob_id.as_deref().and_then(Digest::git_blob),
        };
        name::check_path(&sibling.rfilename).ok()?;
        Some(Listed {
            path: sibling.rfilename,
            bytes,
            digest,
        })
    };
    Ok(Repository {
        commit: list.sha,
        files: list.siblings.into_iter().filter_map(listed).collect(),
    })
}

pub(crate) fn choose_file<'a>(
    what: &str,
    place: &str,
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
                    hint: format!("{lacking}{}", offered(place, files)),
                }
            })
    });
    found.collect()
}

pub(crate) fn choose_folder<'a>(
    what: &str,
    place: &str,
    files: &'a [Listed],
) -> Result<Vec<&'a Listed>, HubError> {
    let find = |path: &str| files.iter().find(|listed| listed.path == path);
    let lacks = |why: String| HubError::NoModel {
        what: what.to_owned(),
        why: format!("{why}{}", offered(place, files)),
    };
    let config = find(CONFIG).ok_or_else(|| lacks("has no config.json".to_owned()))?;
    let mut chosen = vec![config];
    // Empty optional files are as good as none.
    chosen.extend(
        OPTIONAL
            .into_iter()
            .filter_map(find)
            .filter(|listed| listed.bytes > 0),
    );
    if let Some(weights) = find(WEIGHTS) {
        chosen.push(weights);
        return Ok(chosen);
    }
    let index = find(INDEX)
        .ok_or_else(|| lacks("has no model.safetensors and no index of several".to_owned()))?;
    let shards: Vec<&Listed> = files
        .iter()
        .filter(|listed| shard(&listed.path).is_some())
        .collect();
    let count = shards
        .first()
        .and_then(|listed| shard(&listed.path))
        .map_or(0, |(_, count)| count);
    let numbers: BTreeSet<_> = shards
        .iter()
        .filter_map(|listed| shard(&listed.path))
        .collect();
    if count == 0
        || !numbers
            .into_iter()
            .eq((1..=count).map(|number| (number, count)))
    {
        return Err(lacks(format!(
            "has an index of weights in several files, and {} of the {count} files",
            shards.len()
        )));
    }
    chosen.push(index);
    chosen.extend(shards);
    Ok(chosen)
}

/// `model-00001-of-00003.safetensors`: 1 and 3.
fn shard(path: &str) -> Option<(u32, u32)> {
    let (number, count) = path
        .strip_prefix("model-")?
        .strip_suffix(".safetensors")?
        .split_once("-of-")?;
    let five = |text: &str| (text.len() == 5).then(|| text.parse().ok()).flatten();
    Some((five(number)?, five(count)?))
}

/// The shards that an index names.
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
    match names.iter().find(|name| shard(name).is_none()) {
        Some(name) => Err(nonsense(format!(
            "{INDEX} names weights in {}",
            name.escape_debug()
        ))),
        None => Ok(names),
    }
}

/// The GGUF files there are, each as a reference to copy.
fn offered(place: &str, files: &[Listed]) -> String {
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
        text += &format!("\n  hf:{place}/{} ({})", model.path, in_words(whole));
    }
    if models.len() > MOST {
        text += &format!("\n  and {} more", models.len() - MOST);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(files: &[(&str, u64)]) -> Vec<Listed> {
        files
            .iter()
            .map(|&(path, bytes)| Listed {
                path: path.to_owned(),
                bytes,
                digest: None,
            })
            .collect()
    }

    fn names(chosen: Result<Vec<&Listed>, HubError>) -> Result<Vec<String>, String> {
        chosen
            .map(|files| files.iter().map(|file| file.path.clone()).collect())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_folder_is_what_a_model_needs_and_no_more() {
        let files = listed(&[
            ("README.md", 1),
            ("config.json", 1),
            ("model.safetensors", 9),
            ("onnx/model.onnx", 9),
            ("pytorch_model.bin", 9),
            ("tokenizer.json", 1),
        ]);
        assert_eq!(
            names(choose_folder("x", "o/r", &files)).unwrap(),
            ["config.json", "tokenizer.json", "model.safetensors"]
        );
        let two = [
            "model-00001-of-00002.safetensors",
            "model-00002-of-00002.safetensors",
        ];
        let files = listed(&[
            ("config.json", 1),
            (INDEX, 1),
            (two[0], 9),
            (two[1], 9),
            ("consolidated.safetensors", 18),
        ]);
        assert_eq!(
            names(choose_folder("x", "o/r", &files)).unwrap(),
            ["config.json", INDEX, two[0], two[1]]
        );
        let error = names(choose_folder("x", "o/r", &files[..3])).unwrap_err();
        assert!(error.contains("1 of the 2"), "{error}");
    }

    #[test]
    fn what_is_not_there_is_answered_by_what_is() {
        let files = listed(&[
            ("a-Q4_0.gguf", 4_000_000_000),
            ("b-00001-of-00002.gguf", 1_000),
            ("b-00002-of-00002.gguf", 2_000),
        ]);
        let error = names(choose_folder("hf:o/r@main", "o/r", &files)).unwrap_err();
        assert!(
            error.contains("hf:o/r/a-Q4_0.gguf (4.00 GB)")
                && error.contains("hf:o/r/b-00001-of-00002.gguf (3 kB)"),
            "{error}"
        );
        assert!(!error.contains("b-00002"), "{error}");
        let parts = names(choose_file("x", "o/r", "b-00001-of-00002.gguf", &files)).unwrap();
        assert_eq!(parts, ["b-00001-of-00002.gguf", "b-00002-of-00002.gguf"]);
        assert!(
            names(choose_file(
                "x",
                "o/r",
                "b-00001-of-00002.gguf",
                &files[..2]
            ))
            .unwrap_err()
            .contains("00002-of-00002.gguf is missing")
        );
    }

    #[test]
    fn a_list_from_the_network_is_not_believed() {
        let sha = "a".repeat(40);
        let read = |siblings: &str| {
            read_list(
                "x",
                format!(r#"{{"sha": "{sha}", "siblings": [{siblings}]}}"#).as_bytes(),
            )
        };
        let found = read(r#"{"rfilename": "../../etc/passwd", "size": 1}, {"rfilename": "a.gguf", "size": 1, "lfs": {"sha256": "no", "size": 5}}, {"rfilename": "b.gguf"}, {"rfilename": "c.gguf", "size": 1, "lfs": {"size": 5}}"#).unwrap();
        let found: Vec<_> = found
            .files
            .iter()
            .map(|file| (file.path.as_str(), file.bytes))
            .collect();
        assert_eq!(found, [("c.gguf", 5)]);
        for list in [
            "",
            "{}",
            r#"{"sha": "../x", "siblings": []}"#,
            r#"{"sha": 1}"#,
        ] {
            assert!(read_list("x", list.as_bytes()).is_err(), "{list}");
        }
        assert!(read(r#"{"rfilename": "a", "size": -1}"#).is_err());
    }
}
