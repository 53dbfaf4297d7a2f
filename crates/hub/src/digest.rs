//! Digests of files and chunks, and those that hubs list.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use ring::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use serde::{Deserialize, Serialize};

use crate::error::HubError;

/// Digest that a hub lists for a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Digest {
    /// SHA-256 of the bytes in hexadecimal: LFS files.
    Sha256(String),
    /// Git's blob id, SHA-1 over a header and the bytes: small files. Used only to detect transfer
    /// errors.
    GitBlob(String),
}

impl Digest {
    /// Parses a SHA-256, with or without quotes.
    pub(crate) fn sha256(text: &str) -> Option<Self> {
        hexadecimal(text, 64).map(Self::Sha256)
    }

    /// Parses a git blob id, with or without quotes.
    pub(crate) fn git_blob(text: &str) -> Option<Self> {
        hexadecimal(text, 40).map(Self::GitBlob)
    }

    pub(crate) fn text(&self) -> &str {
        let (Self::Sha256(text) | Self::GitBlob(text)) = self;
        text
    }

    /// Computes this kind of digest over a file. Calls `read` with the size of each piece.
    pub(crate) fn compute(
        &self,
        path: &Path,
        read: &mut dyn FnMut(u64),
    ) -> Result<String, HubError> {
        let mut file = File::open(path).map_err(HubError::disk(path))?;
        let mut context = match self {
            Self::Sha256(_) => Context::new(&SHA256),
            Self::GitBlob(_) => {
                let bytes = file.metadata().map_err(HubError::disk(path))?.len();
                let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
                context.update(format!("blob {bytes}\0").as_bytes());
                context
            }
        };
        let mut piece = vec![0; 1 << 18];
        loop {
            let count = file.read(&mut piece).map_err(HubError::disk(path))?;
            if count == 0 {
                return Ok(hex(context.finish().as_ref()));
            }
            context.update(&piece[..count]);
            read(count as u64);
        }
    }
}

#[derive(Clone)]
pub(crate) struct Sha256(Context);

impl Sha256 {
    pub(crate) fn new() -> Self {
        Self(Context::new(&SHA256))
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(crate) fn finish(self) -> String {
        hex(self.0.finish().as_ref())
    }

    /// SHA-256 of a text, in hexadecimal.
    pub(crate) fn digest(text: &str) -> String {
        hex(ring::digest::digest(&SHA256, text.as_bytes()).as_ref())
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hexadecimal(text: &str, digits: usize) -> Option<String> {
    let text = text.trim().trim_start_matches("W/").trim_matches('"');
    let is = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is.then(|| text.to_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_gits_id_of_hello() {
        let path = std::env::temp_dir().join(format!("conclave-digest-{}", std::process::id()));
        std::fs::write(&path, "hello\n").unwrap();
        let of = |digest: Digest| digest.compute(&path, &mut |_| ()).unwrap();
        // `printf 'hello\n' | git hash-object --stdin`, `… | sha256sum`
        assert_eq!(
            of(Digest::GitBlob(String::new())),
            "ce013625030ba8dba906f756967f9e9ca394464a"
        );
        assert_eq!(
            of(Digest::Sha256(String::new())),
            "5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03"
        );
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn takes_only_digests_for_digests() {
        assert_eq!(
            Digest::sha256(&format!("\"{}\"", "AB".repeat(32))),
            Some(Digest::Sha256("ab".repeat(32)))
        );
        assert_eq!(Digest::sha256("\"an-etag\""), None);
        assert_eq!(Digest::git_blob(&"z".repeat(40)), None);
    }
}
