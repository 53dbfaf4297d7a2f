//! Answers that may call functions: text, calls, and text before a call; nothing else.

use conclave_grammar::{Calls, Document, Function, GrammarError, Vocabulary, written};
use serde_json::{Value, json};

fn calls(required: bool, several: bool) -> Calls {
    let function = |name: &str, parameters: Value| Function {
        name: name.to_owned(),
        parameters,
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
    let any = json!({ "type": "object", "required": ["a"] });
    assert_eq!(takes_arguments(any, "{\"a\": 1}"), Some(true));
    let listed = json!({ "enum": [{ "a": 1 }] });
    assert_eq!(takes_arguments(listed, "{\"a\": 1}"), Some(true));
}

#[test]
fn an_unsupported_schema_is_found_by_its_function() {
    let mut form = calls(false, true);
    assert!(form.check().is_ok());
    form.functions[1].parameters =
        json!({ "type": "object", "properties": { "a": { "uniqueItems": true } } });
    let (index, error) = form.check().unwrap_err();
    assert_eq!(index, Some(1));
    assert!(error.to_string().contains("#/properties/a"), "{error}");
}
