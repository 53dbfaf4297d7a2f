//! Answers that may call functions: text, calls, and text before a call; nothing else.

use std::time::{Duration, Instant};

use conclave_grammar::{Calls, Document, Function, GrammarError, Vocabulary, written};
use serde_json::{Value, json};

fn calls(required: bool, several: bool) -> Calls {
    let function = |name: &str, parameters: Value| Function {
        name: name.to_owned(),
        parameters,
        strict: false,
    };
    Calls {
        functions: vec![
            function(
                "add",
                json!({
                    "type": "object", "required": ["a"],
                    "properties": { "a": { "type": "integer" } },
                }),
            ),
            function("now", json!({ "type": "object", "properties": {} })),
        ],
        required,
        several,
        document: None,
    }
}

/// Tokens: every byte, and a mark as one token, as in Qwen's vocabulary.
fn vocabulary() -> Vocabulary {
    let bytes: Vec<[u8; 1]> = (0..=255).map(|byte| [byte]).collect();
    let marks: [&[u8]; 2] = [b"<tool_call>", b"</tool_call>\n<tool_call>"];
    let tokens = bytes.iter().map(<[u8; 1]>::as_slice).chain(marks);
    Vocabulary::read(&written(tokens)).unwrap()
}

/// Whether an answer of this form begins with `text`, and whether it may end there.
fn takes(calls: &Calls, text: &str) -> Option<bool> {
    let mut document: Document = vocabulary().calls(calls).unwrap();
    match document.accept(text) {
        Ok(()) => Some(document.is_whole()),
        Err(GrammarError::Text { .. }) => None,
        Err(error) => panic!("{text}: {error}"),
    }
}

const ADD: &str = "<tool_call>\n{\"name\": \"add\", \"arguments\": {\"a\": 5}}\n</tool_call>";
const NOW: &str = "<tool_call>\n{\"name\": \"now\", \"arguments\": {}}\n</tool_call>";

#[test]
fn an_answer_is_text_or_calls() {
    let both = format!("{ADD}\n{NOW}");
    let led = format!("I'll see.\n{ADD}");
    let free = calls(false, true);
    for (text, wanted) in [
        ("", Some(true)),
        ("It is 5 < 7, <tool_cal", Some(true)),
        ("{\"name\": 1}\n\nü", Some(true)),
        ("<tool_call>", Some(false)),
        ("<tool_call>{\"name\": \"add\", ", Some(false)),
        ("Well: <tool_call>\n{\"name\": \"n", Some(false)),
        (ADD, Some(true)),
        (&both, Some(true)),
        (&led, Some(true)),
        ("<tool_call>\nfive", None),
        ("<tool_call>\n{\"name\": \"sub", None),
        ("<tool_call>\n{\"name\": \"add\", \"arguments\": {}", None),
        (
            "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"a\"",
            None,
        ),
    ] {
        assert_eq!(takes(&free, text), wanted, "{text}");
    }
    assert_eq!(takes(&free, &format!("{ADD} and")), None);

    let one = calls(false, false);
    assert_eq!(takes(&one, ADD), Some(true));
    assert_eq!(takes(&one, &format!("{ADD}\n<")), None);
    let must = calls(true, true);
    assert_eq!(takes(&must, "I"), None);
    assert_eq!(takes(&must, ""), Some(false));
    assert_eq!(takes(&must, &both), Some(true));
}

#[test]
fn a_document_stands_in_for_text_where_a_schema_says_so() {
    let mut form = calls(false, true);
    form.document = Some(r#"{"type": "boolean"}"#.to_owned());
    assert_eq!(takes(&form, "true"), Some(true));
    assert_eq!(takes(&form, ADD), Some(true));
    assert_eq!(takes(&form, "yes"), None);
}

#[test]
fn a_mark_may_be_one_token_and_the_text_before_it_others() {
    let vocabulary = vocabulary();
    let mut document = vocabulary.calls(&calls(false, true)).unwrap();
    let allowed = |mask: &[u32], token: usize| mask[token / 32] >> (token % 32) & 1 == 1;
    let (mark, between, end) = (256, 257, 258);
    let mask = document.mask(&[]).unwrap();
    assert!(allowed(&mask, mark) && allowed(&mask, end));
    let mask = document.mask(&[u32::from(b'H'), mark as u32]).unwrap();
    assert!(allowed(&mask, usize::from(b'{')) && allowed(&mask, usize::from(b'\n')));
    assert!(!allowed(&mask, usize::from(b'x')) && !allowed(&mask, end));
    document
        .accept(ADD.strip_suffix("</tool_call>").unwrap())
        .unwrap();
    let mask = document.mask(&[]).unwrap();
    assert!(allowed(&mask, usize::from(b'<')) && allowed(&mask, between));
    assert!(!allowed(&mask, end));
    let mut one = vocabulary.calls(&calls(false, false)).unwrap();
    one.accept(ADD.strip_suffix("</tool_call>").unwrap())
        .unwrap();
    assert!(!allowed(&one.mask(&[]).unwrap(), between));
}

#[test]
fn arguments_are_an_object_without_further_fields() {
    let takes_arguments = |parameters: Value, arguments: &str| {
        let mut form = calls(true, false);
        form.functions[1].parameters = parameters;
        let begun = format!("<tool_call>\n{{\"name\": \"now\", \"arguments\": {arguments}");
        takes(&form, &format!("{begun}}}\n</tool_call>"))
    };
    for parameters in [
        json!({ "type": ["object", "null"], "properties": {} }),
        json!({ "title": "Nothing" }),
        json!({ "type": "object" }),
        json!({ "properties": { "x": { "type": "string" } } }),
        json!({ "anyOf": [{ "type": "object", "properties": { "x": {} } }, { "type": "null" }] }),
    ] {
        assert_eq!(
            takes_arguments(parameters.clone(), "{}"),
            Some(true),
            "{parameters}"
        );
        for other in ["null", "5", "[]", "{\"made_up\": 1}"] {
            assert_eq!(
                takes_arguments(parameters.clone(), other),
                None,
                "{parameters}: {other}"
            );
        }
    }
    let within = json!({ "properties": {
        "a": { "type": "object", "properties": { "b": { "type": "boolean" } } },
        "list": { "type": "array", "items": { "properties": { "c": { "type": "boolean" } } } },
        "free": { "type": "object" },
    } });
    for (arguments, takes) in [
        ("{\"a\": {\"b\": true}}", Some(true)),
        ("{\"a\": {\"made_up\": true}}", None),
        ("{\"list\": [{\"c\": true}]}", Some(true)),
        ("{\"list\": [{\"made_up\": true}]}", None),
        ("{\"free\": {\"made_up\": true}}", Some(true)),
    ] {
        assert_eq!(
            takes_arguments(within.clone(), arguments),
            takes,
            "{arguments}"
        );
    }
    let any = json!({ "type": "object", "required": ["a"] });
    assert_eq!(takes_arguments(any, "{\"a\": 1}"), Some(true));
    let listed = json!({ "enum": [{ "a": 1 }] });
    assert_eq!(takes_arguments(listed, "{\"a\": 1}"), Some(true));
}

#[test]
fn an_unsupported_schema_is_found_by_its_function() {
    let mut form = calls(false, true);
    assert!(form.check().is_ok());
    form.functions[1].strict = true;
    form.functions[1].parameters =
        json!({ "type": "object", "properties": { "a": { "uniqueItems": true } } });
    let (index, error) = form.check().unwrap_err();
    assert_eq!(index, Some(1));
    assert!(error.to_string().contains("#/properties/a"), "{error}");
}

/// Parameters, whether they are refused if strict, arguments that they allow and that they don't.
#[rustfmt::skip]
const PARAMETERS: [(&str, bool, &str, &str); 24] = [
    // Harmless.
    (r#"{"properties":{"a":{"type":"object","propertyNames":{"type":"string"},
        "additionalProperties":{"type":"integer"}}}}"#, false, r#"{"a":{"b":1}}"#, r#"{"a":{"b":""}}"#),
    (r#"{"propertyNames":{"type":"string"}}"#, false, r#"{"b":1}"#, "5"),
    (r#"{"properties":{"a":{"type":"string","format":"binary"}}}"#, false, r#"{"a":"x"}"#, r#"{"a":5}"#),
    (r#"{"properties":{"a":{"type":"integer"}},"required":null,"description":null,"additionalProperties":null}"#,
        false, "{}", r#"{"b":1}"#),
    (r#"{"type":"object","properties":null,"required":null}"#, false, "{}", r#"{"b":1}"#),
    (r#"{"properties":{"a":{"const":null,"enum":null,"format":null}}}"#, false, r#"{"a":null}"#, r#"{"a":5}"#),
    // Unsupported.
    (r#"{"properties":{"a":{"type":"array","items":{"type":"integer"},"uniqueItems":true}}}"#,
        true, r#"{"a":[1]}"#, r#"{"a":[""]}"#),
    (r#"{"properties":{"a":{"type":"object","propertyNames":{"enum":["b"]},"additionalProperties":{"type":"integer"}}}}"#,
        true, r#"{"a":{"b":1}}"#, r#"{"a":{"b":""}}"#),
    (r#"{"properties":{"a":{"type":"integer"}},"if":{"required":["a"]},"then":{"required":["a"]}}"#,
        true, r#"{"a":1}"#, r#"{"b":1}"#),
    (r#"{"properties":{"a":{"type":"integer"}},"if":{},"then":{"properties":{"b":{}}}}"#,
        true, r#"{"b":1}"#, r#"{"a":""}"#),
    (r#"{"properties":{"a":{"type":"integer"}},"dependentSchemas":{"a":{"properties":{"b":{}}}}}"#,
        true, r#"{"a":1, "b":1}"#, r#"{"a":""}"#),
    (r#"{"properties":{"a":{"type":"string","not":{"const":"x"}}}}"#, true, r#"{"a":"y"}"#, r#"{"a":1}"#),
    (r#"{"properties":{"a":{"type":"string","pattern":"^(?!x)[a-z]+$","maxLength":2}}}"#,
        true, r#"{"a":"yy"}"#, r#"{"a":"yyy"}"#),
    (r#"{"properties":{"a":{"type":"string","format":"email","pattern":"^(?!\\.).*$"}}}"#,
        true, r#"{"a":"a@b.c"}"#, r#"{"a":"@"}"#),
    (r#"{"properties":{"a":{"oneOf":[{"type":"integer"},{"type":"integer","minimum":5}]}}}"#,
        true, r#"{"a":1}"#, r#"{"a":""}"#),
    (r#"{"properties":{"a":{"type":"integer"}},"unevaluatedProperties":false}"#, true, r#"{"a":1}"#, r#"{"b":1}"#),
    (r#"{"properties":{"a":{"type":"integer"}},"dependentRequired":{"a":["b"]}}"#, true, r#"{"a":1}"#, r#"{"a":""}"#),
    (r#"{"properties":{"a":{"type":"array","contains":{"const":1},"minItems":1}}}"#,
        true, r#"{"a":[2]}"#, r#"{"a":[]}"#),
    (r#"{"properties":{"a":{"type":"object","minProperties":2,"properties":{"b":{"type":"integer"}}}}}"#,
        true, r#"{"a":{"b":1, "c":1}}"#, r#"{"a":{"b":""}}"#),
    // A supported part keeps to all of it.
    (r#"{"properties":{"a":{"type":"object","minProperties":1,"additionalProperties":{"type":"integer"}}}}"#,
        false, r#"{"a":{"b":1}}"#, r#"{"a":{}}"#),
    (r#"{"properties":{"a":{"type":"object","minProperties":1,"additionalProperties":{"type":"integer"}},
        "b":{"uniqueItems":true}}}"#, true, r#"{"a":{"b":1}}"#, r#"{"a":{}}"#),
    (r#"{"properties":{"a":{"$ref":"https://example.org/a"},"b":{"type":"integer"}}}"#,
        true, r#"{"a":1, "b":1}"#, r#"{"b":""}"#),
    (r#"{"properties":{"a":{"patternProperties":{"^(?=b)":{},"c":{}},"additionalProperties":false,
        "type":"object"},"b":{"type":"integer"}}}"#, true, r#"{"a":{"bc":1}}"#, r#"{"b":""}"#),
    (r##"{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"type":"string","pattern":"(?<!b)c"}}}"##,
        true, r#"{"a":"x"}"#, r#"{"a":1}"#),
];

#[test]
fn parameters_are_kept_as_far_as_they_are_supported_unless_they_are_strict() {
    for (parameters, refused, allowed, other) in PARAMETERS {
        let mut form = calls(true, false);
        form.functions[1].parameters = serde_json::from_str(parameters).unwrap();
        form.functions[1].strict = true;
        let strict = form.check().map_err(|(index, error)| {
            assert_eq!(index, Some(1), "{parameters}: {error}");
        });
        assert_eq!(strict.is_err(), refused, "{parameters}");
        for strict in [false, true] {
            if strict && refused {
                continue;
            }
            form.functions[1].strict = strict;
            form.check()
                .unwrap_or_else(|(_, error)| panic!("{parameters}: {error}"));
            let called = |arguments: &str| {
                format!("<tool_call>{{\"name\": \"now\", \"arguments\": {arguments}}}</tool_call>")
            };
            assert!(form.takes(&called(allowed)), "{parameters}: {allowed}");
            assert!(!form.takes(&called(other)), "{parameters}: {other}");
        }
    }
}

#[test]
fn a_required_field_that_is_not_described_is_left_out_unless_it_is_strict() {
    let mut form = calls(true, false);
    form.functions[1].parameters = json!({ "type": "object",
        "properties": { "q": { "type": "string" } }, "required": ["query", "q"] });
    assert!(form.check().is_ok());
    let called = |arguments: &str| {
        format!("<tool_call>{{\"name\": \"now\", \"arguments\": {arguments}}}</tool_call>")
    };
    assert!(form.takes(&called("{\"q\": \"x\"}")));
    assert!(!form.takes(&called("{}")));
    form.functions[1].strict = true;
    assert!(form.check().is_err());
}

#[test]
fn parameters_that_are_malformed_or_allow_nothing_are_refused_however_strict() {
    for parameters in [
        json!({ "properties": { "a": { "type": "strange" } } }),
        json!({ "properties": [] }),
        json!({ "properties": { "a": false }, "required": ["a"], "uniqueItems": true }),
    ] {
        let mut form = calls(true, false);
        form.functions[1].parameters = parameters.clone();
        for strict in [false, true] {
            form.functions[1].strict = strict;
            assert!(form.check().is_err(), "{parameters}");
        }
    }
}

#[test]
fn parameters_with_many_unsupported_parts_cost_little() {
    let parts = [
        json!({ "type": "string", "pattern": "([ab]*a[ab]{9}){1,50}", "uniqueItems": true }),
        json!({ "type": "string", "pattern": "(?=a)(\\p{L}{1,300}\\p{N}?){1,300}" }),
        json!({ "properties": { "a": {} }, "minProperties": 2, "patternProperties": {
            "a*b": {}, "(?=a)b": {}, "[ab]*a[ab]{9}": {}, "^[ab]*b": {} } }),
        json!({ "properties": { "a": { "$ref": "#/none" } }, "maxProperties": 2, "not": {} }),
    ];
    for part in parts {
        let mut form = calls(true, false);
        let named = (0..400).map(|number| (format!("p{number}"), part.clone()));
        form.functions[1].parameters = json!({ "properties": Value::Object(named.collect()) });
        let begun = Instant::now();
        let checked = form.check();
        let took = begun.elapsed();
        println!("{took:?} {part} {checked:?}");
        assert!(took < Duration::from_secs(10), "{part} took {took:?}");
    }
}

#[test]
fn what_is_ignored_in_a_tool_is_refused_in_a_strict_one_of_the_same_parameters() {
    let check = |strict| {
        let function = Function {
            name: "note".to_owned(),
            parameters: json!({ "properties": { "list": { "uniqueItems": true } } }),
            strict,
        };
        let calls = Calls {
            functions: vec![function],
            required: true,
            several: false,
            document: None,
        };
        calls.check()
    };
    for _ in 0..2 {
        assert!(check(false).is_ok());
        let (index, error) = check(true).unwrap_err();
        assert_eq!(index, Some(0));
        assert!(error.to_string().contains("uniqueItems"), "{error}");
    }
}
