//! Strict JSON parsing for untrusted files: sizes, depths and counts are limited, and a duplicate
//! key is an error (serde_json would keep the last).

use std::cell::Cell;
use std::fmt;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Largest number of values in one file. Gemma 3's tokenizer settings, the largest in use, have
/// about 50,000.
const MAX_VALUES: usize = 400_000;

/// Numbers that Python's `json` writes.
const WORDS: [&[u8]; 3] = [b"Infinity", b"-Infinity", b"NaN"];

/// Parses a file; the error names the fault and its position. serde_json limits the depth to 128.
pub(crate) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let left = Cell::new(MAX_VALUES);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Strict { left: &left }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    value.map_err(|error| error.to_string())
}

/// Replaces the numbers that Python's `json` writes and JSON lacks by `null`. The rest stays as it
/// is, sound or not.
pub fn without_python(json: Vec<u8>) -> Vec<u8> {
    let mut plain = Vec::new();
    let (mut copied, mut at, mut quoted) = (0, 0, false);
    while let Some(&byte) = json.get(at) {
        let mut length = 1;
        match byte {
            b'"' => quoted = !quoted,
            // With the letter after it.
            b'\\' => length = 2,
            b'I' | b'N' | b'-' if !quoted => {
                if let Some(word) = WORDS.iter().find(|word| json[at..].starts_with(word)) {
                    plain.extend_from_slice(&json[copied..at]);
                    plain.extend_from_slice(b"null");
                    length = word.len();
                    copied = at + length;
                }
            }
            _ => (),
        }
        at += length;
    }
    if copied == 0 {
        return json;
    }
    plain.extend_from_slice(&json[copied..]);
    plain
}

/// Builds a value, counting down the values left.
#[derive(Clone, Copy)]
struct Strict<'a> {
    left: &'a Cell<usize>,
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        match self.left.get().checked_sub(1) {
            Some(left) => self.left.set(left),
            None => {
                return Err(D::Error::custom(format!(
                    "it holds more than {MAX_VALUES} values"
                )));
            }
        }
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E: Error>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(array.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            if map.contains_key(&key) {
                return Err(A::Error::custom(format!("the key `{key}` occurs twice")));
            }
            map.insert(key, entries.next_value_seed(self)?);
        }
        Ok(map.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::{MAX_VALUES, parse, without_python};

    #[test]
    fn pythons_numbers_are_read_outside_of_strings() {
        let words =
            r#"{"Infinity": [0.0, Infinity, -Infinity], "a\\": NaN, "\"NaN": "a Infinity\\"}"#;
        let read = parse(&without_python(words.into())).unwrap();
        let expected = serde_json::json!({
            "Infinity": [0.0, null, null], "a\\": null, "\"NaN": "a Infinity\\",
        });
        assert_eq!(read, expected);
        for kept in [r#"{"a": "NaN"}"#, "Infinit", "\"NaN", "\"\\", "Na", ""] {
            assert_eq!(without_python(kept.into()), kept.as_bytes());
        }
        for bad in [
            "[NaNa]",
            "[-NaN]",
            "[Infinity5]",
            "[1Infinity]",
            "[infinity]",
        ] {
            assert!(parse(&without_python(bad.into())).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_are_those_of_serde_json() {
        let text =
            r#" {"a": [1, -2, 3.5, 1e300, 18446744073709551615, true, null, "ä\n"], "b": {}} "#;
        assert_eq!(
            parse(text.as_bytes()),
            Ok(serde_json::from_str::<Value>(text).unwrap())
        );
    }

    #[test]
    fn what_is_no_json_file_is_refused() {
        let doubled = parse(br#"{"a": {"b": 1, "c": 2, "b": 1}}"#).unwrap_err();
        assert!(doubled.contains("`b` occurs twice"), "{doubled}");
        let deep = [b"[".repeat(1000), b"]".repeat(1000)].concat();
        assert!(parse(&deep).unwrap_err().contains("recursion limit"));
        let many = [b"[0".to_vec(), b",0".repeat(MAX_VALUES), b"]".to_vec()].concat();
        assert!(parse(&many).unwrap_err().contains("more than"));
        for bad in [&b""[..], b"{", b"{} {}", b"\"\xff\"", b"nil", b"{\"a\" 1}"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
