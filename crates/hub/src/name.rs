//! Checks names that become part of a path, for every platform.

use crate::error::NameError;

/// Maximum length of a name; file systems allow 255, and our suffixes are appended.
const MAX_BYTES: usize = 200;

/// Device names reserved by Windows, with any extension.
const DEVICES: [&str; 4] = ["con", "prn", "aux", "nul"];

/// Checks one path component.
///
/// # Errors
/// [`NameError`] with the problem.
pub(crate) fn check(name: &str) -> Result<(), NameError> {
    let fault = |why| {
        Err(NameError {
            // The name may be very long or contain terminal escapes.
            name: name.chars().take(80).flat_map(char::escape_debug).collect(),
            why,
        })
    };
    let odd = |c: char| !(c.is_alphanumeric() || "._-+=,() ".contains(c));
    if name.is_empty() || name.len() > MAX_BYTES {
        return fault("is empty or longer than 200 bytes");
    }
    if name.contains(odd) {
        return fault("has characters other than letters, digits and . _ - + = , ( )");
    }
    if name.starts_with(['.', ' ', '-']) || name.ends_with(['.', ' ']) {
        return fault("starts with a dot, a space or a dash, or ends with a dot or a space");
    }
    let stem = name
        .split('.')
        .next()
        .unwrap_or_default()
        .trim_end()
        .to_ascii_lowercase();
    let port = |kind| {
        stem.strip_prefix(kind)
            .is_some_and(|rest| rest.len() == 1 && rest.as_bytes()[0].is_ascii_digit())
    };
    if DEVICES.contains(&stem.as_str()) || port("com") || port("lpt") {
        return fault("is the name of a device on Windows");
    }
    Ok(())
}

/// Checks every component of a path separated by `/`.
///
/// # Errors
/// [`NameError`] for the first unsafe component.
pub(crate) fn check_path(path: &str) -> Result<(), NameError> {
    path.split('/').try_for_each(check)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_what_repositories_have() {
        for name in [
            "Qwen3-0.6B-Q4_K_M.gguf",
            "model-00001-of-00002.safetensors",
            "a b (1).gguf",
            "v1.0+x",
            "console",
            "größe-千问",
        ] {
            assert!(check(name).is_ok(), "{name}");
        }
        assert!(check_path("sub/model.gguf").is_ok());
    }

    #[test]
    fn refuses_what_would_leave_the_folder_or_surprise_a_platform() {
        for name in [
            "",
            ".",
            "..",
            ".hidden",
            "a/b",
            "a\\b",
            "C:x",
            "a\0b",
            "a\nb",
            "-rf",
            "nul",
            "NUL.gguf",
            "com1",
            "Lpt9.txt",
            "end.",
            "end ",
            "a%2Fb",
            "u\u{308}.gguf",
            "a\u{202e}b",
            "a*b",
            "a\u{1b}[2J",
            &"x".repeat(201),
            "con .gguf",
        ] {
            assert!(check(name).is_err(), "{name:?}");
        }
        for path in ["/etc/passwd", "a//b", "a/../b", "a/", ""] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
        let error = check("a\u{1b}[2J").unwrap_err().to_string();
        assert!(!error.contains('\u{1b}'), "{error:?}");
    }
}
