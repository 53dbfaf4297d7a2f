//! Address of a remote member: `https://host/v1#MODEL`.

use crate::error::RemoteError;

/// Base URL of an OpenAI interface, and the model requested there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `https://host/v1`, without a trailing slash.
    base: String,
    /// Model name at the server; empty for its only model.
    model: String,
}

impl Address {
    /// Returns whether a member's spelling means a remote one.
    pub fn is_one(text: &str) -> bool {
        let scheme = text.starts_with("http://") || text.starts_with("https://");
        scheme && (text.contains('#') || text.trim_end_matches('/').ends_with("/v1"))
    }

    /// Parses `https://host/v1#MODEL`.
    ///
    /// # Errors
    /// [`RemoteError::Address`] without a scheme or host, or with user info, which would be visible
    /// wherever the address is.
    pub fn read(text: &str) -> Result<Self, RemoteError> {
        let wrong = |why| RemoteError::Address {
            address: text.split('?').next().unwrap_or_default().to_owned(),
            why,
        };
        let (base, model) = text.split_once('#').unwrap_or((text, ""));
        let base = base.trim_end_matches('/');
        let (scheme, rest) = base.split_once("://").ok_or(wrong("it has no http://"))?;
        let authority = rest.split('/').next().unwrap_or_default();
        if !matches!(scheme, "http" | "https") || authority.is_empty() {
            return Err(wrong("it is no http or https address of a host"));
        }
        if authority.contains('@') {
            return Err(RemoteError::Address {
                address: format!("{scheme}://…"),
                why: "it holds a name or a password: give the key by a variable or a file",
            });
        }
        if base.contains('?') || base.chars().any(|c| c.is_whitespace() || c.is_control()) {
            return Err(wrong("it has a question mark or white space in it"));
        }
        Ok(Self {
            base: base.to_owned(),
            model: model.to_owned(),
        })
    }

    /// `https://host/v1`.
    pub fn base(&self) -> &str {
        &self.base
    }

    /// URL outside of the OpenAI interface: `https://host`.
    pub fn root(&self) -> &str {
        self.base.strip_suffix("/v1").unwrap_or(&self.base)
    }

    /// Model name at the server.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Host and port.
    pub fn host(&self) -> &str {
        host(&self.base)
    }

    /// Returns whether requests can't be read in transit: TLS, or this machine.
    pub fn is_private(&self) -> bool {
        self.base.starts_with("https://") || is_this_machine(&self.base)
    }
}

/// Host of a URL, with its port.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or("", |(_, rest)| rest);
    rest.split('/').next().unwrap_or_default()
}

/// Returns whether a URL's host is this machine.
pub(crate) fn is_this_machine(url: &str) -> bool {
    let host = host(url);
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    matches!(name, "localhost" | "127.0.0.1" | "::1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_base_and_a_model() {
        let address = Address::read("https://host:8000/v1/#org/model").unwrap();
        assert_eq!(address.base(), "https://host:8000/v1");
        assert_eq!(address.root(), "https://host:8000");
        assert_eq!(
            (address.host(), address.model()),
            ("host:8000", "org/model")
        );
        assert!(address.is_private());
        assert_eq!(Address::read("http://localhost:1/v1").unwrap().model(), "");
        for wrong in [
            "host/v1#m",
            "ftp://host/v1",
            "https:///v1#m",
            "https://h/v1?key=1#m",
        ] {
            assert!(Address::read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_password_is_refused_and_not_repeated() {
        let told = Address::read("https://me:secret@host/v1#m").unwrap_err();
        assert!(!told.to_string().contains("secret"), "{told}");
        let told = Address::read("https://host/v1?key=secret#m").unwrap_err();
        assert!(!told.to_string().contains("secret"), "{told}");
    }

    #[test]
    fn what_crosses_in_the_clear_is_known() {
        let private = |text| Address::read(text).unwrap().is_private();
        assert!(private("http://127.0.0.1:80/v1") && private("http://[::1]:80/v1"));
        assert!(!private("http://10.0.0.1/v1") && !private("http://localhost.example/v1"));
    }

    #[test]
    fn files_and_downloads_are_no_remote_members() {
        assert!(Address::is_one("https://host/v1#m") && Address::is_one("http://host/v1"));
        assert!(!Address::is_one("https://host/model.gguf") && !Address::is_one("hf:a/b#c"));
    }
}
