//! Servers' keys. A key lives in memory and in a request's header only: it can't be printed or
//! serialised.

use std::fmt;

use crate::address::Address;
use crate::error::RemoteError;

/// Key of a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Key(String);

impl Key {
    /// Creates a key from `text`, trimmed.
    ///
    /// # Errors
    /// [`RemoteError::Key`] if it can't be sent in a header.
    pub fn new(text: &str) -> Result<Self, RemoteError> {
        let text = text.trim();
        if text.is_empty() || text.bytes().any(|byte| !(0x21..0x7f).contains(&byte)) {
            return Err(RemoteError::Key("it is empty, or not plain letters"));
        }
        Ok(Self(text.to_owned()))
    }

    /// Value of the header `authorization`.
    pub fn header(&self) -> String {
        format!("Bearer {}", self.0)
    }

    pub(crate) fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Key(…)")
    }
}

/// Environment variable with the key of `address`: `CONCLAVE_KEY_` and its host, with every
/// character other than letters and digits as `_`: `CONCLAVE_KEY_API_EXAMPLE_COM` or
/// `CONCLAVE_KEY_LOCALHOST_8000`.
pub fn variable(address: &Address) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    };
    let host: String = address.host().chars().map(plain).collect();
    format!("CONCLAVE_KEY_{host}")
}

/// Finds the key of `address` in a file with a line `HOST KEY` for each; `#` begins a comment.
///
/// # Errors
/// [`RemoteError::Key`] of a malformed line.
pub fn among(lines: &str, address: &Address) -> Result<Option<Key>, RemoteError> {
    let mut found = None;
    for line in lines.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (host, key) = line
            .split_once(char::is_whitespace)
            .ok_or(RemoteError::Key("a line of the file is not `HOST KEY`"))?;
        let key = Key::new(key)?;
        if host.eq_ignore_ascii_case(address.host()) {
            found.get_or_insert(key);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_by_its_host_and_never_told() {
        let address = Address::read("https://api.example.com:8443/v1#m").unwrap();
        assert_eq!(variable(&address), "CONCLAVE_KEY_API_EXAMPLE_COM_8443");
        let lines = "# mine\nother.example secret-1\n\napi.example.com:8443   secret-2 \n";
        let key = among(lines, &address).unwrap().unwrap();
        assert_eq!(key.header(), "Bearer secret-2");
        assert_eq!(format!("{key:?}"), "Key(…)");
        let elsewhere = Address::read("https://api.example.com/v1#m").unwrap();
        assert_eq!(
            among(lines, &elsewhere),
            Ok(None),
            "another port is another server"
        );
        let told = among("api.example.com secret\u{7}", &address)
            .unwrap_err()
            .to_string();
        assert!(!told.contains("secret"), "{told}");
        assert!(among("secret", &address).is_err());
    }
}
