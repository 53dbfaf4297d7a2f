//! The pure parts of the demo's server: requests, types, ranges, and which file an address means.

use std::ops::Range;
use std::path::{Component, Path, PathBuf};

/// The first line and the headers of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD`, …
    pub method: String,
    /// The address after the host, as sent.
    pub target: String,
    /// Header names in lower case, with their values.
    headers: Vec<(String, String)>,
}

impl Request {
    /// Reads a request's head (all up to the empty line). `None` when it is none.
    pub fn parse(head: &str) -> Option<Self> {
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ');
        let (method, target, protocol) = (first.next()?, first.next()?, first.next()?);
        if first.next().is_some() || !protocol.starts_with("HTTP/1.") || !target.starts_with('/') {
            return None;
        }
        let headers = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.trim().to_lowercase(), value.trim().to_owned()))
            .collect();
        Some(Self {
            method: method.to_owned(),
            target: target.to_owned(),
            headers,
        })
    }

    /// A header by its name in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The media type for a file, by its extension. Browsers refuse modules and wasm of a wrong one.
pub fn media_type(file: &Path) -> &'static str {
    let extension = file
        .extension()
        .map(|e| e.to_string_lossy().to_lowercase())
        .unwrap_or_default();
    match extension.as_str() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "webmanifest" => "application/manifest+json",
        "wasm" => "application/wasm",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" | "md" | "wgsl" | "ts" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

/// What part of a file a `Range` header asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it: no range, or one this server need not understand (RFC 9110, 14.2).
    Whole,
    /// These bytes.
    Bytes(Range<u64>),
    /// Bytes that the file does not have.
    Unsatisfiable,
}

/// Reads a `Range` header for a file of `length` bytes: one range of bytes, no lists.
pub fn part(header: Option<&str>, length: u64) -> Part {
    let Some((from, to)) = header
        .and_then(|value| value.strip_prefix("bytes="))
        .filter(|set| !set.contains(','))
        .and_then(|set| set.trim().split_once('-'))
    else {
        return Part::Whole;
    };
    let range = match (from.parse::<u64>(), to.parse::<u64>()) {
        (Ok(from), Ok(to)) if from <= to => from..to.saturating_add(1).min(length),
        (Ok(from), Err(_)) if to.is_empty() => from..length,
        (Err(_), Ok(last)) if from.is_empty() => length.saturating_sub(last)..length,
        _ => return Part::Whole,
    };
    if range.is_empty() {
        Part::Unsatisfiable
    } else {
        Part::Bytes(range)
    }
}

/// The file under `root` that a request's target means: percent-decoded, without query, a folder's
/// `index.html`. `None` when there is none, or when it would lie outside, by `..` or by a link.
///
/// `root` must be canonical.
pub fn file(root: &Path, target: &str) -> Option<PathBuf> {
    let path = target.split(['?', '#']).next()?;
    let decoded = decode(path)?;
    if decoded.contains(['\0', '\\']) {
        return None;
    }
    let relative = Path::new(decoded.trim_start_matches('/'));
    if !relative
        .components()
        .all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
    {
        return None;
    }
    let mut found = root.join(relative);
    if found.is_dir() {
        found.push("index.html");
    }
    let found = found.canonicalize().ok()?;
    (found.starts_with(root) && found.is_file()).then_some(found)
}

/// Undoes percent-encoding. `None` when it is malformed or no UTF-8.
fn decode(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || char::from(rest.next()?).to_digit(16);
            bytes.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_and_nonsense_is_not() {
        let head = "GET /a%20b?c HTTP/1.1\r\nHost: localhost\r\nRANGE:  bytes=0-1 \r\nno colon\r\n";
        let request = Request::parse(head).unwrap();
        assert_eq!(
            (request.method.as_str(), request.target.as_str()),
            ("GET", "/a%20b?c")
        );
        assert_eq!(request.header("range"), Some("bytes=0-1"));
        assert_eq!(request.header("cookie"), None);
        for bad in [
            "",
            "GET",
            "GET / HTTP/2",
            "GET http://x/ HTTP/1.1",
            "GET / a HTTP/1.1",
        ] {
            assert_eq!(Request::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn modules_and_wasm_have_the_types_browsers_insist_on() {
        let of = |name: &str| media_type(Path::new(name));
        assert_eq!(of("conclave_bg.wasm"), "application/wasm");
        assert!(of("x.js").starts_with("text/javascript") && of("X.MJS") == of("x.js"));
        assert_eq!(of("index.html"), "text/html; charset=utf-8");
        assert_eq!(of("page.css"), "text/css; charset=utf-8");
        assert_eq!(of("one.gguf"), "application/octet-stream");
        assert_eq!(of("LICENSE"), "application/octet-stream");
    }

    #[test]
    fn ranges_follow_the_specification() {
        let of = |header| part(Some(header), 100);
        assert_eq!(part(None, 100), Part::Whole);
        assert_eq!(of("bytes=0-0"), Part::Bytes(0..1));
        assert_eq!(of("bytes=10-19"), Part::Bytes(10..20));
        assert_eq!(of("bytes=90-"), Part::Bytes(90..100));
        assert_eq!(of("bytes=90-1000"), Part::Bytes(90..100));
        assert_eq!(of("bytes=-5"), Part::Bytes(95..100));
        assert_eq!(of("bytes=-500"), Part::Bytes(0..100));
        assert_eq!(of("bytes=100-"), Part::Unsatisfiable);
        assert_eq!(of("bytes=-0"), Part::Unsatisfiable);
        assert_eq!(of("bytes=0-18446744073709551615"), Part::Bytes(0..100));
        for whole in [
            "bytes=5-2",
            "bytes=a-b",
            "bytes=1-2,4-5",
            "lines=1-2",
            "bytes=-",
            "",
        ] {
            assert_eq!(of(whole), Part::Whole, "{whole}");
        }
        assert_eq!(part(Some("bytes=0-"), 0), Part::Unsatisfiable);
    }

    #[test]
    fn no_address_leads_out_of_the_folder() {
        let base = std::env::temp_dir().join(format!("conclave-http-{}", std::process::id()));
        let inside = base.join("inside");
        std::fs::create_dir_all(inside.join("sub page")).unwrap();
        std::fs::write(base.join("secret"), "s").unwrap();
        std::fs::write(inside.join("index.html"), "i").unwrap();
        std::fs::write(inside.join("sub page/index.html"), "j").unwrap();
        #[cfg(unix)]
        std::os::unix::fs::symlink(base.join("secret"), inside.join("link")).unwrap();
        let root = inside.canonicalize().unwrap();

        assert_eq!(file(&root, "/"), Some(root.join("index.html")));
        assert_eq!(
            file(&root, "/index.html?a=../b#c"),
            Some(root.join("index.html"))
        );
        assert_eq!(
            file(&root, "/sub%20page/"),
            Some(root.join("sub page/index.html"))
        );
        for outside in [
            "/../secret",
            "/%2e%2e/secret",
            "/sub%20page/../../secret",
            "/..%2fsecret",
            "//secret",
            "/..\\secret",
            "/link",
            "/%00",
            "/%zz",
            "/%f",
            "/%ff",
            "/absent",
            &format!("/{}", base.join("secret").display()),
        ] {
            assert_eq!(file(&root, outside), None, "{outside}");
        }
        std::fs::remove_dir_all(base).unwrap();
    }
}
