//! Lists the files of a reference as they are now: commit, sizes and digests.

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
    CONFIG, FOLDER, INDEX, Listed, Repository, WEIGHTS, choose, file_address, is_commit, read_list,
    shards,
};
use crate::retry::{Failures, RequestError, RetryPolicy, wait};

/// Maximum size of a list of files.
const MAX_LIST_BYTES: u64 = 32 << 20;

/// Sends requests with retries, and reports failures.
pub(crate) struct Asker<'a> {
    pub(crate) client: &'a Client,
    pub(crate) policy: &'a RetryPolicy,
    pub(crate) progress: &'a mut dyn FnMut(Progress),
    pub(crate) cancel: &'a AtomicBool,
}

impl Asker<'_> {
    /// Returns the plan of a model that is not a path.
    ///
    /// # Errors
    /// Every [`HubError`] except those of the disk.
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
                let repo = format!("{owner}/{repo}");
                let found = self.repository(&what, &repo, file.as_deref(), revision)?;
                let index = || {
                    let endpoint = self.client.endpoint();
                    self.json(&what, &file_address(endpoint, &repo, &found.commit, INDEX))
                };
                let chosen = choose(&what, &repo, file.as_deref(), &found.files, index)?;
                let planned = chosen.into_iter().map(Planned::from_listed).collect();
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
        repo: &str,
        file: Option<&str>,
        revision: &str,
    ) -> Result<Repository, HubError> {
        let address = format!(
            "{}/api/models/{repo}/revision/{}?blobs=true",
            self.client.endpoint(),
            escaped(revision)
        );
        match self.json(what, &address) {
            Ok(list) => read_list(what, &list),
            // A mirror may have the files but no list.
            Err(HubError::NotThere { .. } | HubError::Status { .. }) => {
                self.probed(what, repo, file, revision)
            }
            Err(error) => Err(error),
        }
    }

    /// Finds the files of a repository without a list by requesting each usual file name.
    fn probed(
        &mut self,
        what: &str,
        repo: &str,
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
        // Popped from the end: the config comes first; without it there is no such folder.
        names.reverse();
        while let Some(path) = names.pop() {
            // Once known, the commit pins the remaining requests.
            let at = commit.as_deref().unwrap_or(revision);
            let address = file_address(self.client.endpoint(), repo, at, &path);
            let head = match self.again(what, |client| {
                Ok(Head::from_answer(&client.get(
                    &address,
                    Some(&(0..1)),
                    None,
                )?))
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
                Ok(Head::from_answer(&client.get(
                    &from,
                    Some(&(0..1)),
                    None,
                )?))
            })?;
            let bytes = head.bytes.ok_or_else(|| HubError::Nonsense {
                what: shown(&from),
                why: "its server does not say how long it is, so it could not tell when the file \
                    is complete"
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
        Ok((Sha256::digest(&said)[..40].to_owned(), files))
    }

    /// Fetches JSON; anything else may be a network's sign-in page.
    fn json(&mut self, what: &str, address: &str) -> Result<Vec<u8>, HubError> {
        self.again(what, |client| {
            let answer = client.get(address, None, None)?.read_all(MAX_LIST_BYTES)?;
            serde_json::from_slice::<IgnoredAny>(&answer)
                .map_err(|_| RequestError::Passing("the answer is no JSON".to_owned()))?;
            Ok(answer)
        })
    }

    /// Repeats a request until it succeeds or fails for good.
    fn again<T>(
        &mut self,
        what: &str,
        mut ask: impl FnMut(&Client) -> Result<T, RequestError>,
    ) -> Result<T, HubError> {
        let mut failures = Failures::new(self.policy, what);
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

/// File information in a response's headers.
struct Head {
    bytes: Option<u64>,
    commit: Option<String>,
    /// Digest of either kind from the hub.
    digest: Option<Digest>,
    /// SHA-256 from the hub; other servers' tags are not digests.
    linked: Option<Digest>,
    tag: Option<String>,
    ranges: bool,
}

impl Head {
    fn from_answer(answer: &Answer) -> Self {
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
