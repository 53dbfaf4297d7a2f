//! JSON as clients and servers really write it.

use std::borrow::Cow;

use serde_json::Value;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Bytes of `\ud83d`.
const ESCAPE: usize = 6;

/// Parses JSON that may begin with a byte order mark. Half a surrogate pair, which a client writes
/// that has cut a text between two UTF-16 units, is U+FFFD.
///
/// # Errors
/// `serde_json`'s.
pub fn read_json(bytes: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(&mended(
        bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes),
    ))
}

/// Memory of a map in a [`Value`]: even one entry has a node of its own.
const MAP: u64 = 640;

/// Memory of a value in a list or a map, or of a name in a map.
const VALUE: u64 = 80;

/// Memory of a byte of a text: the characters of some are listed.
const BYTE: u64 = 4;

/// Memory that [`read_json`] and the use of its values take, about and at most: in bytes, counted
/// by the marks outside of texts.
pub(crate) fn memory_of(json: &[u8]) -> u64 {
    let (mut quoted, mut escaped) = (false, false);
    let mut memory = json.len() as u64 * BYTE;
    for &byte in json {
        quoted ^= byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        memory += match byte {
            b'{' if !quoted => MAP,
            b',' | b'[' | b':' if !quoted => VALUE,
            _ => 0,
        };
    }
    memory
}

/// `json` with `\ufffd` for each escape of half a surrogate pair.
fn mended(json: &[u8]) -> Cow<'_, [u8]> {
    let mut mended = Cow::Borrowed(json);
    let mut at = 0;
    while let Some(found) = json[at..].iter().position(|&byte| byte == b'\\') {
        at += found;
        at += match (unit(json, at), unit(json, at + ESCAPE)) {
            (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => 2 * ESCAPE,
            (Some(0xd800..=0xdfff), _) => {
                mended.to_mut()[at..at + ESCAPE].copy_from_slice(b"\\ufffd");
                ESCAPE
            }
            _ => 2,
        };
        at = at.min(json.len());
    }
    mended
}

/// The UTF-16 unit whose escape begins at byte `at`.
fn unit(json: &[u8], at: usize) -> Option<u16> {
    let digits = json.get(at..at + ESCAPE)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn memory_is_counted_by_the_values_and_not_by_the_marks_in_texts() {
        let beyond_bytes = |text: &str| memory_of(text.as_bytes()) - BYTE * text.len() as u64;
        assert_eq!(beyond_bytes("[0,0,0]"), 3 * VALUE);
        assert_eq!(beyond_bytes(r#"{"a":[],"b":{}}"#), 2 * MAP + 4 * VALUE);
        for text in [r#""{,[:""#, r#""\"{,[:""#, r#""\\\"{,[:""#, r#""""#] {
            assert_eq!(beyond_bytes(text), 0, "{text}");
        }
        assert_eq!(beyond_bytes(r#"["\\",0]"#), 2 * VALUE);
    }

    #[test]
    fn half_a_surrogate_pair_and_a_byte_order_mark_cost_nothing() {
        let read = |text: &str| read_json(text.as_bytes()).unwrap();
        for (text, wanted) in [
            (r#""hi \ud83d""#, "hi \u{fffd}"),
            (r#""\ude00 hi""#, "\u{fffd} hi"),
            (r#""\ud83d\ude00""#, "\u{1f600}"),
            (
                r#""\ud83d\ud83d\ude00\ud83dx""#,
                "\u{fffd}\u{1f600}\u{fffd}x",
            ),
            (r#""\\ud83d \\\ud83d""#, "\\ud83d \\\u{fffd}"),
            (r#""\u00e9\n""#, "é\n"),
        ] {
            assert_eq!(read(text), json!(wanted), "{text}");
        }
        assert_eq!(read("\u{feff}[1]"), json!([1]));
        for wrong in ["\"\\ud83", "\"\\", "\\ud83d", ""] {
            assert!(read_json(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
