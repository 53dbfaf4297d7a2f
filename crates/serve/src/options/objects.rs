//! Options that are objects: errors name their fields in full.

use serde_json::Value;

use super::Options;
use crate::error::ApiError;

impl Options {
    /// Returns whether a stream ends with the usage.
    pub(super) fn stream_options(&mut self, stream: bool) -> Result<bool, ApiError> {
        const NAME: &str = "stream_options";
        let mut options = match self.take(NAME) {
            None => return Ok(false),
            // Whole answers always include it.
            Some(Value::Object(_)) if !stream => return Ok(false),
            Some(Value::Object(options)) => Self::inside(NAME, options),
            Some(_) => {
                let message = "`stream_options` have to be an object.";
                return Err(ApiError::option(NAME, message));
            }
        };
        let usage = options.flag("include_usage")?;
        // Padding against traffic analysis; our streams have none.
        options.flag("include_obfuscation")?;
        options.nothing_else()?;
        Ok(usage)
    }

    /// Takes the JSON schema of the answer as text; `None` for plain text. The schema itself is not
    /// checked.
    ///
    /// # Errors
    /// 400 for an invalid format.
    pub fn response_format(&mut self) -> Result<Option<String>, ApiError> {
        const NAME: &str = "response_format";
        const ANY: &str = r#"{"type":"object"}"#;
        let wrong = |message: &str| Err(ApiError::option(NAME, message));
        let mut format = match self.take(NAME) {
            None => return Ok(None),
            Some(Value::Object(format)) => Self::inside(NAME, format),
            Some(_) => return wrong("`response_format` has to be an object."),
        };
        let kind = format.take("type");
        let kind = kind.as_ref().map(Value::as_str);
        let schema = match kind.unwrap_or(if format.fields.is_empty() {
            Some("text")
        } else {
            None
        }) {
            Some("text") => None,
            // Some clients write the schema here, as llama.cpp's server takes it.
            Some("json_object") => match format.take("schema") {
                None => Some(ANY.to_owned()),
                Some(schema @ Value::Object(_)) => Some(schema.to_string()),
                Some(_) => return wrong("The schema of `response_format` has to be an object."),
            },
            Some("json_schema") => {
                let described = match (format.take("json_schema"), format.take("schema")) {
                    (Some(Value::Object(described)), None) => described,
                    // The Responses interface writes them beside the type.
                    (None, Some(schema)) => {
                        let named = ["name", "description", "strict"];
                        let named = named.map(|name| Some((name.to_owned(), format.take(name)?)));
                        let named = named.into_iter().flatten();
                        named.chain([("schema".to_owned(), schema)]).collect()
                    }
                    _ => {
                        return wrong(
                            "`response_format` of this type has to have a `json_schema`.",
                        );
                    }
                };
                let mut described = Self::inside("response_format.json_schema", described);
                let schema = described.take("schema");
                // Name and description are unused; schemas are always strict.
                described.text("name")?;
                described.text("description")?;
                described.flag("strict")?;
                described.nothing_else()?;
                match schema {
                    Some(schema @ (Value::Object(_) | Value::Bool(_))) => Some(schema.to_string()),
                    Some(_) => {
                        return wrong("The schema of `response_format` has to be an object.");
                    }
                    None => Some(ANY.to_owned()),
                }
            }
            _ => {
                return wrong(
                    "There is no such type of `response_format`; there are text, json_object and \
                     json_schema.",
                );
            }
        };
        format.nothing_else()?;
        Ok(schema)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_response_format_is_a_schema_or_words() {
        let format = |format: Value| {
            let body = json!({ "response_format": format }).to_string();
            Options::read(body.as_bytes()).unwrap().response_format()
        };
        for words in [Value::Null, json!({}), json!({ "type": "text" })] {
            assert_eq!(format(words).unwrap(), None);
        }
        let any = Some(r#"{"type":"object"}"#.to_owned());
        assert_eq!(format(json!({ "type": "json_object" })).unwrap(), any);
        let of = |described| json!({ "type": "json_schema", "json_schema": described });
        assert_eq!(format(of(json!({ "name": "any" }))).unwrap(), any);
        let inline = json!({ "required": ["a"] });
        for kind in ["json_object", "json_schema"] {
            let found = format(json!({ "type": kind, "schema": inline })).unwrap();
            assert_eq!(found, Some(inline.to_string()), "{kind}");
        }
        let named = json!({ "type": "json_schema", "name": "sum", "strict": true,
            "description": "a sum", "schema": inline });
        assert_eq!(format(named).unwrap(), Some(inline.to_string()));
        let wrong = json!({ "type": "json_schema", "strict": "yes", "schema": inline });
        assert!(format(wrong).is_err());
        // In the order in which its fields are written.
        let body = r#"{"response_format":{"type":"json_schema","json_schema":{
            "name":"sum","strict":true,"description":"a sum",
            "schema":{"type":"object","properties":{"z":{},"a":{}}}}}}"#;
        let schema = Options::read(body.as_bytes()).unwrap().response_format();
        let wanted = r#"{"type":"object","properties":{"z":{},"a":{}}}"#;
        assert_eq!(schema.unwrap().as_deref(), Some(wanted));
        for (wrong, name) in [
            (json!("json"), "response_format"),
            (json!({ "schema": {} }), "response_format"),
            (json!({ "type": 5 }), "response_format"),
            (json!({ "type": "yaml" }), "response_format"),
            (json!({ "type": "json_schema" }), "response_format"),
            (of(json!({ "schema": "x" })), "response_format"),
            (
                json!({ "type": "json_object", "schema": 5 }),
                "response_format",
            ),
            (
                of(json!({ "schema": {}, "grammar": "x" })),
                "response_format.json_schema.grammar",
            ),
            (
                of(json!({ "strict": "very" })),
                "response_format.json_schema.strict",
            ),
            (
                json!({ "type": "text", "schema": {} }),
                "response_format.schema",
            ),
        ] {
            let error = format(wrong.clone()).expect_err(&wrong.to_string());
            assert_eq!(error.param.as_deref(), Some(name), "{wrong}");
        }
    }
}
