//! Finds out which files a reference means, as they are now: their commit, sizes and digests.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;

use serde::Deserialize;

use crate::address::{escaped, shown};
use crate::client::{Answer, Client};
use crate::digest::{Digest, Sha256};
use crate::error::HubError;
use crate::name;
use crate::plan::{Plan, Planned};
use crate::progress::{Progress, in_words};
use crate::reference::{Reference, file_of, in_parts, part};
use crate::retry::{Failures, Patience, Trouble, wait};

/// The longest list of files that is read.
const LIST_BYTES: u64 = 32 << 20;

/// What a Hugging Face folder must have, and what it may have beside its weights.
const CONFIG: &str = "config.json";
const OPTIONAL: [&str; 4] = [
    "generation_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
];
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

/// A repository's file.
struct Listed {
    path: String,
    bytes: u64,
    digest: Option<Digest>,
}

/// A repository at one commit.
struct Repository {
    commit: String,
    files: Vec<Listed>,
}

/// Asks, again where that may help, and says so.
pub(crate) struct Asker<'a> {
    pub(crate) client: &'a Client,
    pub(crate) patience: &'a Patience,
    pub(crate) progress: &'a mut dyn FnMut(Progress),
    pub(crate) cancel: &'a AtomicBool,
}

impl Asker<'_> {
    /// The plan of a model that is not a path.
    ///
    /// # Errors
    /// All of [`HubError`] but those of the disk.
    pub(crate) fn plan(&mut self, reference: &Reference) -> Result<Plan, HubError> {
        (self.progress)(Progress::Asking);
        let what = reference.to_string();
        let (version, files) = match reference {
            Reference::Hub {
                owner,
                repo,
                file,
                revision,
            } => {
                let place = format!("{owner}/{repo}");
                let found = self.repository(&what, &place, file.as_deref(), revision)?;
                let chosen = match file {
                    Some(file) => choose_file(&what, &place, file, &found.files)?,
                    None => choose_folder(&what, &place, &found.files)?,
                };
                let planned = chosen.into_iter().map(|listed| Planned {
                    name: listed
                        .path
                        .rsplit('/')
                        .next()
                        .unwrap_or_default()
                        .to_owned(),
                    from: listed.path.clone(),
                    bytes: listed.bytes,
                    digest: listed.digest.clone(),
                    tag: None,
                    no_ranges: false,
                });
                (found.commit, planned.collect())
            }
            Reference::Address(address) => self.files_at(address)?,
            Reference::Path(_) => {
                return Err(HubError::Nonsense {
                    what,
                    why: "it is a path, nothing to download".to_owned(),
                });
            }
        };
        let plan = Plan {
            reference: what.clone(),
            version,
            files,
        };
        plan.check(&what)?;
        Ok(plan)
    }

    fn repository(
        &mut self,
        what: &str,
        place: &str,
        file: Option<&str>,
        revision: &str,
    ) -> Result<Repository, HubError> {
        let address = format!(
            "{}/api/models/{place}/revision/{}?blobs=true",
            self.client.endpoint(),
            escaped(revision)
        );
        let list = self.again(what, |client| {
            client.get(&address, None, None)?.read_all(LIST_BYTES)
        });
        match list {
            Ok(list) => read_list(what, &list),
            // A mirror without lists may still have the files.
            Err(HubError::NotThere { .. } | HubError::Status { .. }) => {
                self.probed(what, place, file, revision)
            }
            Err(error) => Err(error),
        }
    }

    /// The files of a repository whose list can't be had: those that models have are asked for one by one.
    fn probed(
        &mut self,
        what: &str,
        place: &str,
        file: Option<&str>,
        revision: &str,
    ) -> Result<Repository, HubError> {
        let mut commit = None;
        let mut files = Vec::new();
        let mut names: Vec<String> = match file.map(|file| (file, in_parts(file))) {
            Some((_, Some((stem, count)))) => (1..=count)
                .map(|number| part(stem, number, count))
                .collect(),
            Some((file, None)) => vec![file.to_owned()],
            None => [CONFIG, WEIGHTS, INDEX]
                .into_iter()
                .chain(OPTIONAL)
                .map(str::to_owned)
                .collect(),
        };
        // The last is asked first: the config, or the hub has no such folder.
        names.reverse();
        while let Some(path) = names.pop() {
            // Once the commit is known all come from it.
            let at = commit.as_deref().unwrap_or(revision);
            let address = address_of(self.client.endpoint(), place, at, &path);
            let head = match self.again(what, |client| {
                Ok(Head::of(&client.get(&address, Some(&(0..1)), None)?))
            }) {
                Err(HubError::NotThere { .. }) if file.is_none() && path != CONFIG => continue,
                Err(HubError::NotThere { .. }) => {
                    return Err(HubError::NotThere {
                        what: what.to_owned(),
                        hint: format!(": the hub knows no {path} at {revision}"),
                    });
                }
                head => head?,
            };
            let nonsense = |why: &str| HubError::Nonsense {
                what: what.to_owned(),
                why: format!("of {path} the hub {why}"),
            };
            let of = head
                .commit
                .filter(|commit| is_commit(commit))
                .ok_or_else(|| nonsense("names no commit"))?;
            if *commit.get_or_insert_with(|| of.clone()) != of {
                return Err(nonsense("names another commit than of the files before"));
            }
            let bytes = head
                .bytes
                .ok_or_else(|| nonsense("does not say how long it is"))?;
            if path == INDEX && !files.iter().any(|file: &Listed| file.path == WEIGHTS) {
                let index = self.again(what, |client| {
                    client.get(&address, None, None)?.read_all(LIST_BYTES)
                })?;
                names.extend(shards(what, &index)?);
            }
            files.push(Listed {
                path,
                bytes,
                digest: head.digest,
            });
        }
        Ok(Repository {
            commit: commit.unwrap_or_default(),
            files,
        })
    }

    fn files_at(&mut self, address: &str) -> Result<(String, Vec<Planned>), HubError> {
        let name = file_of(address).unwrap_or_default();
        let query = address.find('?').map_or("", |at| &address[at..]);
        let path = &address[..address.len() - query.len()];
        let folder = path.rfind('/').map_or("", |at| &path[..=at]);
        let mut said = String::new();
        let mut files = Vec::new();
        let all: Vec<(String, String)> = match in_parts(&name) {
            Some((stem, count)) => (1..=count)
                .map(|number| part(stem, number, count))
                .map(|name| (format!("{folder}{}{query}", escaped(&name)), name))
                .collect(),
            None => vec![(address.to_owned(), name)],
        };
        for (from, name) in all {
            let head = self.again(&shown(&from), |client| {
                Ok(Head::of(&client.get(&from, Some(&(0..1)), None)?))
            })?;
            let bytes = head.bytes.ok_or_else(|| HubError::Nonsense {
                what: shown(&from),
                why:
                    "its server does not say how long it is, so nothing could tell when it is whole"
                        .to_owned(),
            })?;
            said += &format!("{bytes} {:?} {:?}\n", head.tag, head.changed);
            let linked = head.linked;
            files.push(Planned {
                name,
                from,
                bytes,
                digest: linked,
                tag: head.tag,
                no_ranges: !head.ranges,
            });
        }
        Ok((Sha256::of(&said)[..40].to_owned(), files))
    }

    /// Does something with the network until it goes well or failed for good.
    fn again<T>(
        &mut self,
        what: &str,
        mut ask: impl FnMut(&Client) -> Result<T, Trouble>,
    ) -> Result<T, HubError> {
        let mut failures = Failures::none(self.patience, what);
        loop {
            let trouble = match ask(self.client) {
                Ok(answer) => return Ok(answer),
                Err(trouble) => trouble,
            };
            let (pause, why) = failures.next(trouble)?;
            (self.progress)(Progress::Trouble {
                what: why,
                wait: pause,
            });
            if !wait(pause, self.cancel) {
                return Err(HubError::Stopped);
            }
        }
    }
}

/// What the headers of an answer say of a file.
struct Head {
    bytes: Option<u64>,
    commit: Option<String>,
    /// From the hub, whichever kind it names.
    digest: Option<Digest>,
    /// The SHA-256 that a hub names; nobody else's tag is taken for one.
    linked: Option<Digest>,
    tag: Option<String>,
    changed: Option<String>,
    ranges: bool,
}

impl Head {
    fn of(answer: &Answer) -> Self {
        let hub = |name| answer.hub_header(name);
        let length = match answer.status {
            200 => answer.length(),
            _ => answer.content_range().1,
        };
        let linked = hub("x-linked-etag").and_then(Digest::sha256);
        Self {
            bytes: hub("x-linked-size")
                .and_then(|size| size.parse().ok())
                .or(length),
            commit: hub("x-repo-commit").map(str::to_owned),
            digest: linked
                .clone()
                .or_else(|| hub("etag").and_then(Digest::git_blob)),
            linked,
            tag: answer.tag().map(str::to_owned),
            changed: answer.header("last-modified").map(str::to_owned),
            ranges: answer.status != 200,
        }
    }
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

fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn read_list(what: &str, list: &[u8]) -> Result<Repository, HubError> {
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
    // Files whose size or name can't be taken are left out here: whoever asks for one hears that it is not there.
    let listed = |sibling: Sibling| {
        let large = sibling.lfs.as_ref();
        let bytes = large.and_then(|large| large.size).or(sibling.size)?;
        let digest = match large.and_then(|large| large.sha256.as_deref()) {
            Some(sha256) => Digest::sha256(sha256),
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

fn choose_file<'a>(
    what: &str,
    place: &str,
    file: &str,
    files: &'a [Listed],
) -> Result<Vec<&'a Listed>, HubError> {
    let wanted: Vec<String> = match in_parts(file) {
        Some((stem, count)) => (1..=count)
            .map(|number| part(stem, number, count))
            .collect(),
        None => vec![file.to_owned()],
    };
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

fn choose_folder<'a>(
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
fn shards(what: &str, index: &[u8]) -> Result<BTreeSet<String>, HubError> {
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
    let is_first =
        |path: &str| in_parts(path).is_none_or(|(stem, count)| path == part(stem, 1, count));
    let models: Vec<&Listed> = files
        .iter()
        .filter(|file| file.path.to_ascii_lowercase().ends_with(".gguf") && is_first(&file.path))
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
        let found = read(r#"{"rfilename": "../../etc/passwd", "size": 1}, {"rfilename": "a.gguf", "size": 1, "lfs": {"sha256": "no", "size": 5}}, {"rfilename": "b.gguf"}"#).unwrap();
        assert_eq!(found.files.len(), 1);
        assert_eq!((found.files[0].bytes, &found.files[0].digest), (5, &None));
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
