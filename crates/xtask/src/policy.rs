//! HTTP headers that a host should send, derived from the page.

use anyhow::{Result, anyhow, bail};

/// Directive that browsers accept only in a header.
const HEADER_ONLY: &str = "frame-ancestors 'self'";

/// Schemes whose content a page itself can generate.
const WRITTEN: [&str; 2] = ["data:", "blob:"];

/// Sources that would void the policy.
const FORBIDDEN: [&str; 9] = [
    "*",
    "'unsafe-inline'",
    "'unsafe-eval'",
    "'unsafe-hashes'",
    "http:",
    "https:",
    "ws:",
    "wss:",
    "filesystem:",
];

/// The one directive that may allow all of https: visitors fetch models from, and use members on,
/// servers of their choice. Those deliver data only; no script, style, frame or image.
const FETCHING: &str = "connect-src";

/// Reads the page's Content-Security-Policy from its `<meta http-equiv>`.
///
/// # Errors
/// If the page has none, or one that is not strict.
pub fn of_page(html: &str) -> Result<String> {
    let policy = html
        .split("<meta")
        .skip(1)
        .filter_map(|rest| rest.split('>').next())
        .find(|tag| {
            attribute(tag, "http-equiv")
                .is_some_and(|name| name.eq_ignore_ascii_case("content-security-policy"))
        })
        .and_then(|tag| attribute(tag, "content"))
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "))
        .ok_or_else(|| {
            anyhow!("the page has no <meta http-equiv=\"Content-Security-Policy\" content=…>")
        })?;
    check(&policy)?;
    Ok(policy)
}

fn check(policy: &str) -> Result<()> {
    let default = policy
        .split(';')
        .filter_map(|directive| directive.trim().strip_prefix("default-src "))
        .map(str::trim)
        .next();
    if !matches!(default, Some("'none'" | "'self'")) {
        bail!("the page's policy must start from default-src 'none' or 'self': {policy}");
    }
    for directive in policy.split(';') {
        let mut words = directive.split_whitespace();
        let name = words.next().unwrap_or_default();
        if let Some(word) = words.find(|&word| is_forbidden(name, &word.to_ascii_lowercase())) {
            bail!("the page's policy is not strict, its {name} allows {word}: {policy}");
        }
    }
    Ok(())
}

/// Returns whether a directive may not have this source. `default-src` counts as code, too.
fn is_forbidden(directive: &str, source: &str) -> bool {
    let of_code = ["default-src", "script-src", "worker-src"]
        .iter()
        .any(|name| directive.starts_with(name));
    FORBIDDEN.contains(&source) && !(directive == FETCHING && source == "https:")
        || of_code && WRITTEN.contains(&source)
}

/// All headers to send with the page, given its policy.
pub fn headers(policy: &str) -> Vec<(String, String)> {
    let policy = format!("{}; {HEADER_ONLY}", policy.trim_end_matches([';', ' ']));
    [
        ("Content-Security-Policy", policy.as_str()),
        // Isolation: precise clocks for the page's measurements, and no other origin in its
        // process.
        ("Cross-Origin-Opener-Policy", "same-origin"),
        ("Cross-Origin-Embedder-Policy", "require-corp"),
        ("Cross-Origin-Resource-Policy", "same-origin"),
        ("X-Content-Type-Options", "nosniff"),
        ("Referrer-Policy", "no-referrer"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}

/// Addresses that begin with `/` and so break when the page is served from a sub-path.
pub fn absolute_addresses(html: &str) -> Vec<String> {
    html.split('<')
        .filter_map(|rest| rest.split('>').next())
        .flat_map(|tag| {
            ["src", "href"]
                .into_iter()
                .filter_map(|a| attribute(tag, a))
        })
        .filter(|address| address.starts_with('/'))
        .map(str::to_owned)
        .collect()
}

/// Value of a quoted attribute in a tag.
fn attribute<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let start = tag.match_indices(name).find_map(|(at, _)| {
        let before = tag[..at].chars().next_back();
        let rest = tag[at + name.len()..].trim_start().strip_prefix('=')?;
        before
            .is_none_or(char::is_whitespace)
            .then_some(rest.trim_start())
    })?;
    let quote = start.chars().next().filter(|c| ['"', '\''].contains(c))?;
    start[1..].split(quote).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(policy: &str) -> String {
        format!(
            "<!doctype html><meta charset=\"utf-8\">\n<meta\n  \
            http-equiv=\"Content-Security-Policy\"\n  content=\"{policy}\"><script \
            src=\"./page.js\"></script>"
        )
    }

    #[test]
    fn the_policy_is_read_from_the_page() {
        let policy = of_page(&page(
            "default-src 'none';\n   script-src 'self' 'wasm-unsafe-eval';",
        ))
        .unwrap();
        assert_eq!(
            policy,
            "default-src 'none'; script-src 'self' 'wasm-unsafe-eval';"
        );
        let headers = headers(&policy);
        assert_eq!(headers[0].0, "Content-Security-Policy");
        assert_eq!(
            headers[0].1,
            "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; frame-ancestors 'self'"
        );
        assert!(
            headers
                .iter()
                .any(|(n, _)| n == "Cross-Origin-Opener-Policy")
        );
    }

    #[test]
    fn a_missing_or_loose_policy_is_refused() {
        assert!(of_page("<meta name=\"viewport\" content=\"x\">").is_err());
        for loose in [
            "script-src 'self'",
            "default-src *",
            "default-src 'self'; script-src 'self' 'unsafe-inline'",
            "default-src 'none'; connect-src *",
            "default-src 'none'; connect-src http:",
            "default-src 'none'; script-src 'self' https:",
            "default-src 'none'; img-src https:; connect-src 'self'",
            "default-src 'none'; script-src 'unsafe-eval';",
            "default-src 'none'; script-src 'self' data:",
            "default-src 'none'; script-src 'self'; script-src-elem 'self' blob:",
            "default-src 'none'; script-src 'self'; worker-src Blob:",
        ] {
            assert!(of_page(&page(loose)).is_err(), "{loose}");
        }
        for strict in [
            "default-src 'self'; img-src data: blob:",
            "default-src 'none'; connect-src 'self' https: http://127.0.0.1:*",
        ] {
            assert!(of_page(&page(strict)).is_ok(), "{strict}");
        }
    }

    #[test]
    fn only_addresses_from_the_root_break_on_a_sub_path() {
        let html = "<a href='#top'>/</a><link href=\"/page.css\"><script src=./a.js \
            data-src=\"/no\"></script><img src = '/x.png'>";
        assert_eq!(absolute_addresses(html), ["/page.css", "/x.png"]);
        assert!(absolute_addresses(&page("default-src 'none'")).is_empty());
    }
}
