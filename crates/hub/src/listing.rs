//! Asks which files a reference means, as they are now: their commit, sizes and digests.

use std::sync::atomic::AtomicBool;

use serde::de::IgnoredAny;

use crate::address::{escaped, shown, split, unescaped};
use crate::client::{Answer, Client};
use crate::digest::{Digest, Sha256};
use crate::error::HubError;
use crate::plan::{Plan, Planned};
use crate::progress::Progress;
use crate::reference::{Reference, all_parts};
use crate::repository::{
    CONFIG, FOLDER, INDEX, Listed, Repository, WEIGHTS, address_of, choose, is_commit, read_list,
    shards,
};
use crate::retry::{Failures, Patience, Trouble, wait};

/// The longest list of files that is read.
const LIST_BYTES: u64 = 32 << 20;

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
                let index = || {
                    let endpoint = self.client.endpoint();
                    self.json(&what, &address_of(endpoint, &place, &found.commit, INDEX))
                };
                let chosen = choose(&what, &place, file.as_deref(), &found.files, index)?;
                let planned = chosen.into_iter().map(Planned::of).collect();
                (found.commit, planned)
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
        match self.json(what, &address) {
            Ok(list) => read_list(what, &list),
            // A mirror without lists may still have the files.
            Err(HubError::NotThere { .. } | HubError::Status { .. }) => {
                self.probed(what, place, file, revision)
            }
            Err(error) => Err(error),
        }
    }

    /// The files of a repository whose list can't be had: those that models have are asked for one
    /// by one.
    fn probed(
        &mut self,
        what: &str,
        place: &str,
        file: Option<&str>,
        revision: &str,
    ) -> Result<Repository, HubError> {
        let mut commit = None;
        let mut files = Vec::new();
        let mut names: Vec<String> = match file {
            Some(file) => all_parts(file),
            None => FOLDER
                .into_iter()
                .chain([WEIGHTS, INDEX])
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
                let index = self.json(what, &address)?;
                names.extend(shards(what, &index)?);
            }
            files.push(Listed {
                path,
                bytes,
                digest: head.digest,
                fault: None,
            });
        }
        Ok(Repository {
            commit: commit.unwrap_or_default(),
            files,
        })
    }

    fn files_at(&mut self, address: &str) -> Result<(String, Vec<Planned>), HubError> {
        let (folder, name, query) = split(address);
        let mut said = String::new();
        let mut files = Vec::new();
        for name in all_parts(name) {
            let from = format!("{folder}{name}{query}");
            let head = self.again(&shown(&from), |client| {
                Ok(Head::of(&client.get(&from, Some(&(0..1)), None)?))
            })?;
            let bytes = head.bytes.ok_or_else(|| HubError::Nonsense {
                what: shown(&from),
                why:
                    "its server does not say how long it is, so nothing could tell when it is whole"
                        .to_owned(),
            })?;
            said += &format!("{bytes} {:?}\n", head.tag);
            let linked = head.linked;
            files.push(Planned {
                name: unescaped(&name).unwrap_or_default(),
                from,
                bytes,
                digest: linked,
                tag: head.tag,
                no_ranges: !head.ranges,
            });
        }
        Ok((Sha256::of(&said)[..40].to_owned(), files))
    }

    /// A list or an index; what is none may be the page of a network that wants to be signed in to.
    fn json(&mut self, what: &str, address: &str) -> Result<Vec<u8>, HubError> {
        self.again(what, |client| {
            let answer = client.get(address, None, None)?.read_all(LIST_BYTES)?;
            serde_json::from_slice::<IgnoredAny>(&answer)
                .map_err(|_| Trouble::Passing("the answer is no JSON".to_owned()))?;
            Ok(answer)
        })
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
    ranges: bool,
}

impl Head {
    fn of(answer: &Answer) -> Self {
        let hub = |name| answer.hub_header(name);
        let linked = hub("x-linked-etag").and_then(Digest::sha256);
        Self {
            bytes: hub("x-linked-size")
                .and_then(|size| size.parse().ok())
                .or(answer.size()),
            commit: hub("x-repo-commit").map(str::to_owned),
            digest: linked
                .clone()
                .or_else(|| hub("etag").and_then(Digest::git_blob)),
            linked,
            tag: answer.tag().map(str::to_owned),
            ranges: answer.status != 200,
        }
    }
}
