//! URLs as downloads need them: parts, redirect targets, and a form safe to display.

use std::net::{Ipv4Addr, Ipv6Addr};

use percent_encoding::{
    AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode,
};

/// Parts of an absolute `http` or `https` URL.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Parts<'a> {
    /// `http` or `https`.
    pub(crate) scheme: &'a str,
    /// Host, with the port if one is given.
    pub(crate) authority: &'a str,
    /// Path, up to the query.
    pub(crate) path: &'a str,
    /// Query, without its `?`.
    pub(crate) query: Option<&'a str>,
}

impl<'a> Parts<'a> {
    /// Splits a URL; `None` if it is invalid or contains user info.
    pub(crate) fn parse(address: &'a str) -> Option<Self> {
        if !address.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let address = address.split('#').next()?;
        let (scheme, rest) = address.split_once("://")?;
        if scheme != "http" && scheme != "https" {
            return None;
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.is_empty() || authority.contains(['@', '\\']) {
            return None;
        }
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (rest, None),
        };
        Some(Self {
            scheme,
            authority,
            path,
            query,
        })
    }

    /// The host without its port.
    pub(crate) fn host(&self) -> &'a str {
        match self.authority.rsplit_once(':') {
            Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
            _ => self.authority,
        }
    }

    /// Returns whether both have the same scheme, host and port.
    pub(crate) fn same_origin(&self, other: &Parts<'_>) -> bool {
        self.scheme == other.scheme && self.authority.eq_ignore_ascii_case(other.authority)
    }

    /// Returns whether the connection can't be read in transit: TLS, or this machine.
    pub(crate) fn is_private(&self) -> bool {
        self.scheme == "https" || self.is_this_machine()
    }

    /// Returns whether the host is this machine.
    pub(crate) fn is_this_machine(&self) -> bool {
        ["localhost", "127.0.0.1", "[::1]"].contains(&self.host())
    }
}

/// Normalises a URL that a user wrote; `None` if it is invalid or contains user info.
pub(crate) fn canonical(text: &str) -> Option<String> {
    // Browsers normalise these characters to others.
    if text.contains(|c: char| c.is_control() || c == '\\') {
        return None;
    }
    let (scheme, rest) = text.split('#').next()?.split_once("://")?;
    let scheme = scheme.to_ascii_lowercase();
    let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
    let authority = authority.to_ascii_lowercase();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority.as_str(), None),
    };
    if !is_host(host) {
        return None;
    }
    let usual = if scheme == "http" { 80 } else { 443 };
    let port = match port {
        Some(port) if port.len() <= 5 && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some(port.parse::<u16>().ok()?).filter(|port| *port != usual)
        }
        Some(_) => return None,
        None => None,
    };
    let port = port.map_or(String::new(), |port| format!(":{port}"));
    let plain = utf8_percent_encode(path.strip_suffix('?').unwrap_or(path), NOT_GRAPHIC);
    Some(format!("{scheme}://{host}{port}{plain}"))
}

/// Returns whether a host is spelt as browsers would normalise it. Punycode (`xn--`) is not
/// decoded, so some labels are accepted that browsers refuse; no name service resolves them.
fn is_host(host: &str) -> bool {
    if let Some(six) = host.strip_prefix('[') {
        let six = six.strip_suffix(']').unwrap_or_default();
        return six.parse::<Ipv6Addr>().is_ok_and(|read| {
            let [.., high, low] = read.segments();
            match read.to_ipv4_mapped() {
                Some(_) => six == format!("::ffff:{high:x}:{low:x}"),
                None => six == read.to_string(),
            }
        });
    }
    let named = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    let number = |label: &str| match label.strip_prefix("0x") {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    };
    host.split('.')
        .all(|label| !label.is_empty() && label.bytes().all(named))
        && (!host.rsplit('.').next().is_some_and(number) || host.parse::<Ipv4Addr>().is_ok())
}

/// Splits a URL into everything up to the last slash of its path, the file name, and the query with
/// its `?`.
pub(crate) fn split(address: &str) -> (&str, &str, &str) {
    let (path, query) = address.split_at(address.find('?').unwrap_or(address.len()));
    let (folder, name) = path.split_at(path.rfind('/').map_or(0, |at| at + 1));
    (folder, name, query)
}

/// Resolves the `location` header of a response from `from`; `None` if it may not be followed.
pub(crate) fn redirected(from: &str, location: &str) -> Option<String> {
    let base = Parts::parse(from)?;
    let (scheme, authority) = (base.scheme, base.authority);
    let named = |(scheme, _): (&str, &str)| scheme.bytes().all(|byte| byte.is_ascii_alphabetic());
    let to = if location.split_once("://").is_some_and(named) {
        location.to_owned()
    } else if location.starts_with("//") {
        format!("{scheme}:{location}")
    } else if location.starts_with('/') {
        format!("{scheme}://{authority}{location}")
    } else {
        let folder = base.path.rfind('/').map_or("/", |at| &base.path[..=at]);
        format!("{scheme}://{authority}{folder}{location}")
    };
    let parts = Parts::parse(&to)?;
    // Downgrading from TLS would let someone in between answer for the server.
    (base.scheme == "http" || parts.scheme == "https").then_some(to)
}

/// URL for display: without the query, which may hold a signature.
pub(crate) fn shown(address: &str) -> String {
    match Parts::parse(address) {
        Some(parts) => format!("{}://{}{}", parts.scheme, parts.authority, parts.path),
        None => "an invalid address".to_owned(),
    }
}

/// Characters escaped in a URL that a user wrote.
const NOT_GRAPHIC: &AsciiSet = &CONTROLS.add(b' ');

/// Characters escaped in a path segment: all but RFC 3986's unreserved ones.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~');

/// Percent-encodes one path segment.
pub(crate) fn escaped(segment: &str) -> String {
    utf8_percent_encode(segment, ESCAPED).to_string()
}

/// Percent-decodes a text; `None` if the result is not UTF-8.
pub(crate) fn unescaped(text: &str) -> Option<String> {
    Some(percent_decode_str(text).decode_utf8().ok()?.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_addresses_and_refuses_what_is_none() {
        let parts = Parts::parse("https://example.org:8443/a/b.gguf?x=1#y").unwrap();
        assert_eq!(
            (parts.host(), parts.path, parts.query),
            ("example.org", "/a/b.gguf", Some("x=1"))
        );
        for text in [
            "example.org/a",
            "ftp://example.org/a",
            "https://",
            "https://user:word@example.org/a",
            "https://a b/c",
            "http:///x",
        ] {
            assert_eq!(Parts::parse(text), None, "{text}");
        }
    }

    #[test]
    fn follows_redirects_of_every_form_and_never_to_an_open_line() {
        let from = "https://hub.example/o/r/resolve/main/f?x=1";
        let to = |location| redirected(from, location);
        assert_eq!(
            to("/cdn/f?s=1").as_deref(),
            Some("https://hub.example/cdn/f?s=1")
        );
        assert_eq!(
            to("g").as_deref(),
            Some("https://hub.example/o/r/resolve/main/g")
        );
        assert_eq!(
            to("//cdn.example/f").as_deref(),
            Some("https://cdn.example/f")
        );
        assert_eq!(
            to("https://cdn.example/f").as_deref(),
            Some("https://cdn.example/f")
        );
        assert_eq!(
            to("/cdn/f?from=https://hub.example").as_deref(),
            Some("https://hub.example/cdn/f?from=https://hub.example")
        );
        assert_eq!(to("http://cdn.example/f"), None);
        assert_eq!(to("file:///etc/passwd"), None);
        assert_eq!(
            redirected("http://127.0.0.1:1/f", "http://127.0.0.1:2/g").as_deref(),
            Some("http://127.0.0.1:2/g")
        );
    }

    #[test]
    fn what_is_shown_holds_no_signature() {
        assert_eq!(
            shown("https://cdn.example/f?Signature=secret"),
            "https://cdn.example/f"
        );
    }

    #[test]
    fn escapes_are_their_own_inverse() {
        assert_eq!(escaped("refs/pr/1 ü"), "refs%2Fpr%2F1%20%C3%BC");
        assert_eq!(
            unescaped("refs%2Fpr%2F1%20%C3%BC").as_deref(),
            Some("refs/pr/1 ü")
        );
        assert_eq!(unescaped("100%"), Some("100%".to_owned()));
        assert_eq!(unescaped("%ff"), None);
    }
}
