//! Whatever a member draws under a mask begins a document of the schema, with any tokenizer and
//! after text accepted from any member.

use std::time::{Duration, Instant};

use conclave_ensemble::cut;
use conclave_grammar::{Document, GrammarError, Vocabulary, check, written};
use conclave_text::Tokenizer;
use conclave_weights::Gguf;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use serde_json::Value;

/// A record of bounded size.
const RECORD: &str = r##"{
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "member": {"type": "boolean"},
        "tags": {"type": "array", "items": {"enum": ["red", "grün", "日本"]}, "minItems": 1, "maxItems": 3},
        "home": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/place"}]}
    },
    "required": ["name", "age", "member", "tags", "home"],
    "additionalProperties": false,
    "$defs": {
        "place": {
            "type": "object",
            "properties": {"city": {"type": "string", "pattern": "^[A-Z][a-z]{1,8}$"}},
            "required": ["city"],
            "additionalProperties": false
        }
    }
}"##;

/// Returns whether a value matches [`RECORD`].
fn is_record(value: &Value) -> bool {
    let Some(fields) = value.as_object() else {
        return false;
    };
    let letters = |text: &str| text.chars().count();
    let name = fields["name"].as_str();
    let tags = fields["tags"].as_array();
    let city = |home: &Value| {
        let city = home["city"].as_str().unwrap_or_default();
        let (first, rest) = city.split_at(1.min(city.len()));
        home.as_object().is_some_and(|home| home.len() == 1)
            && first.bytes().all(|byte| byte.is_ascii_uppercase())
            && (1..=8).contains(&rest.len())
            && rest.bytes().all(|byte| byte.is_ascii_lowercase())
    };
    fields.len() == 5
        && name.is_some_and(|name| (1..=12).contains(&letters(name)))
        && fields["age"].as_u64().is_some_and(|age| age <= 120)
        && fields["member"].is_boolean()
        && tags.is_some_and(|tags| {
            let known = |tag: &Value| tag == "red" || tag == "grün" || tag == "日本";
            (1..=3).contains(&tags.len()) && tags.iter().all(known)
        })
        && (fields["home"].is_null() || city(&fields["home"]))
}

struct Model {
    tokenizer: Tokenizer,
    vocabulary: Vocabulary,
}

fn model(name: &str) -> Model {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
    let file = std::fs::read(format!("{folder}{name}")).unwrap();
    let gguf = Gguf::parse_whole(&file).unwrap();
    let tokenizer = Tokenizer::from_gguf(gguf.metadata()).unwrap();
    let tokens: Vec<Vec<u8>> = (0..tokenizer.len())
        .map(|id| {
            let mut bytes = Vec::new();
            tokenizer.spell(id as u32, &mut bytes);
            bytes
        })
        .collect();
    let written = written(tokens.iter().map(Vec::as_slice));
    let vocabulary = Vocabulary::read(&written).unwrap();
    Model {
        tokenizer,
        vocabulary,
    }
}

/// Byte-level vocabularies, SentencePiece's with byte tokens, and the bundled members'.
const NAMES: [&str; 7] = [
    "tests/fixtures/text/smollm.gguf",
    "tests/fixtures/text/llama-bpe.gguf",
    "tests/fixtures/text/gemma.gguf",
    "tests/fixtures/text/sentencepiece.gguf",
    "web/members/ada.gguf",
    "web/members/quill.gguf",
    "web/members/juno.gguf",
];

/// Tokens that a mask allows, and whether the text may end.
fn allowed(mask: &[u32], tokens: u32) -> (Vec<u32>, bool) {
    let has = |bit: u32| mask[bit as usize / 32] >> (bit % 32) & 1 == 1;
    (
        (0..tokens).filter(|&token| has(token)).collect(),
        has(tokens),
    )
}

/// Draws a random segment of at most `limit` tokens: its text, and whether it ends the document.
fn draft(
    model: &Model,
    document: &mut Document,
    limit: usize,
    random: &mut ChaCha8Rng,
) -> (String, bool) {
    let mut drawn = Vec::new();
    let ended = loop {
        let mask = document.mask(&drawn).unwrap();
        let (tokens, may_end) = allowed(&mask, model.vocabulary.tokens());
        if tokens.is_empty() || (may_end && random.next_u32().is_multiple_of(2)) {
            break true;
        }
        if drawn.len() >= limit && std::str::from_utf8(&bytes(model, &drawn)).is_ok() {
            break false;
        }
        drawn.push(tokens[random.next_u32() as usize % tokens.len()]);
    };
    let text = String::from_utf8(bytes(model, &drawn)).unwrap();
    assert_eq!(text, model.tokenizer.decode(&drawn));
    (cut(&text, ended).to_owned(), ended)
}

fn bytes(model: &Model, tokens: &[u32]) -> Vec<u8> {
    let mut bytes = Vec::new();
    tokens
        .iter()
        .for_each(|&token| model.tokenizer.spell(token, &mut bytes));
    bytes
}

/// Writes an answer by segments of random members, all of which advance by its text.
fn answer(models: &[Model], schema: &str, seed: u64) -> String {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let begin = |model: &Model| model.vocabulary.document(schema).unwrap();
    let mut documents: Vec<Document> = models.iter().map(begin).collect();
    let mut answer = String::new();
    loop {
        let drafter = random.next_u32() as usize % models.len();
        let limit = 1 + random.next_u32() as usize % 10;
        let document = &mut documents[drafter];
        let (text, ended) = draft(&models[drafter], document, limit, &mut random);
        assert!(
            ended || !text.is_empty(),
            "a round adds something: {answer}"
        );
        answer += &text;
        for document in &mut documents {
            document.accept(&text).unwrap();
        }
        if ended {
            assert!(documents.iter_mut().all(Document::is_whole), "{answer}");
            return answer;
        }
    }
}

fn models() -> Vec<Model> {
    NAMES.map(model).into()
}

#[test]
fn every_answer_is_a_record_whoever_wrote_which_part() {
    let models = models();
    for seed in 0..60 {
        let answer = answer(&models, RECORD, seed);
        let record: Value = serde_json::from_str(&answer).unwrap_or_else(|error| {
            panic!("{seed}: {answer} is no JSON: {error}");
        });
        assert!(is_record(&record), "{seed}: {answer}");
    }
    // Each of them alone as well.
    for model in models {
        let answer = answer(&[model], RECORD, 7);
        assert!(
            is_record(&serde_json::from_str(&answer).unwrap()),
            "{answer}"
        );
    }
}

#[test]
fn whatever_is_not_bounded_is_json_as_far_as_it_goes() {
    let model = model(NAMES[0]);
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut document = model.vocabulary.document(r#"{"type": "object"}"#).unwrap();
    let mut text = String::new();
    for _ in 0..60 {
        let (segment, ended) = draft(&model, &mut document, 8, &mut random);
        document.accept(&segment).unwrap();
        text += &segment;
        if ended {
            break;
        }
    }
    let read = serde_json::from_str::<Value>(&text);
    assert!(
        read.is_ok() || read.is_err_and(|error| error.is_eof()),
        "{text}"
    );
    assert!(text.starts_with('{'));
}

#[test]
fn a_text_that_leaves_the_schema_is_refused() {
    let vocabulary = Vocabulary::read(&written([])).unwrap();
    let mut document = vocabulary.document(RECORD).unwrap();
    document.accept(r#"{"name":"A"#).unwrap();
    document.accept(r#"da", "age": 36"#).unwrap();
    assert!(!document.is_whole());
    let refused = document.accept(r#", "member": maybe"#).unwrap_err();
    assert!(matches!(refused, GrammarError::Text { .. }), "{refused}");
    // A vocabulary without tokens has none for the next step.
    let mut document = vocabulary.document(RECORD).unwrap();
    assert!(matches!(document.mask(&[]), Err(GrammarError::NoToken)));
    assert!(matches!(document.mask(&[5]), Err(GrammarError::NoToken)));
}

#[test]
fn what_can_not_be_honoured_is_named() {
    let refused = |schema: &str| check(schema).unwrap_err().to_string();
    for (schema, part, why) in [
        (
            r#"{"type":"object","properties":{"a":{"type":"array","uniqueItems":true}}}"#,
            "#/properties/a:",
            "uniqueItems",
        ),
        (
            r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"array","uniqueItems":true}}}"##,
            "#/$defs/a:",
            "uniqueItems",
        ),
        (
            r#"{"type":"object","properties":{"b":{"type":"number","minimum":5,"maximum":1}},"required":["b"]}"#,
            "#:",
            "'b' is unsatisfiable",
        ),
        (r#"{"type":"strange"}"#, "#:", "strange"),
        ("false", "#", "false"),
        ("5", "#:", "an object"),
        ("null", "#:", "an object"),
        (r#"["string"]"#, "#:", "an object"),
        (r##"{"$ref":"#"}"##, "#:", "no document is valid"),
    ] {
        let told = refused(schema);
        assert!(
            told.contains(part) && told.contains(why),
            "{schema}: {told}"
        );
    }
    assert!(refused("{").contains("not JSON"));
    assert!(check("true").is_ok());
    // A schema may not set the grammar's own options.
    assert!(check(r#"{"type":"object","x-guidance":{"lenient":true,"nonsense":1}}"#).is_ok());
    let lenient = r#"{"type":"array","uniqueItems":true,"x-guidance":{"lenient":true}}"#;
    assert!(check(lenient).is_err());
}

/// Chained definitions, each with the next in the place of `@`, before a last one.
fn chain(count: usize, part: &str) -> String {
    let defs: Vec<_> = (0..count)
        .map(|n| {
            let next = format!("{{\"$ref\":\"#/$defs/d{}\"}}", n + 1);
            format!("\"d{n}\":{}", part.replace('@', &next))
        })
        .collect();
    let defs = defs.join(",");
    format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{defs},\"d{count}\":{{}}}}}}")
}

const REQUIRES: &str = r#"{"type":"object","properties":{"a":@},"required":["a"]}"#;

#[test]
fn what_lies_deep_by_what_it_refers_to_is_refused() {
    for part in ["@", r#"{"allOf":[@]}"#, REQUIRES] {
        check(&chain(60, part)).unwrap();
        let told = check(&chain(400, part)).unwrap_err().to_string();
        assert!(told.contains("more than 256 deep"), "{told}");
    }
    // Parts that all refer to each other: as deep as their number.
    let web = |count: usize| {
        let all: Vec<_> = (0..count)
            .map(|n| format!("{{\"$ref\":\"#/$defs/d{n}\"}}"))
            .collect();
        let part = format!(
            "{{\"type\":\"object\",\"properties\":{{\"in\":{{\"anyOf\":[{}]}}}}}}",
            all.join(",")
        );
        let defs: Vec<_> = (0..count).map(|n| format!("\"d{n}\":{part}")).collect();
        format!(
            "{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{}}}}}",
            defs.join(",")
        )
    };
    check(&web(20)).unwrap();
    let begun = Instant::now();
    assert!(check(&web(90)).is_err());
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[test]
fn a_hostile_schema_costs_little_and_breaks_nothing() {
    let deep = |open: &str, close: &str, count| open.repeat(count) + "true" + &close.repeat(count);
    let many = |count: usize| {
        let names: Vec<_> = (0..count).map(|n| format!("\"p{n}\":{{}}")).collect();
        format!(
            "{{\"type\":\"object\",\"properties\":{{{}}}}}",
            names.join(",")
        )
    };
    // All combinations.
    let all_of_any = |all: usize, any: usize| {
        let one = |n: usize, m: usize| {
            format!(
                "{{\"type\":\"object\",\"properties\":{{\
                 \"a{n}\":{{\"const\":{m}}},\"b{n}{m}\":{{}}}}}}"
            )
        };
        let parts = (0..all).map(|n| {
            let any: Vec<_> = (0..any).map(|m| one(n, m)).collect();
            format!("{{\"anyOf\":[{}]}}", any.join(","))
        });
        let parts: Vec<_> = parts.collect();
        format!("{{\"allOf\":[{}]}}", parts.join(","))
    };
    let one_of = |count: usize| {
        let parts: Vec<_> = (0..count)
            .map(|n| {
                format!(
                    "{{\"type\":\"object\",\"properties\":{{\"kind\":{{\"const\":{n}}}}},\
                     \"required\":[\"kind\"]}}"
                )
            })
            .collect();
        format!("{{\"oneOf\":[{}]}}", parts.join(","))
    };
    // Each definition uses the next one twice: 2^40 of the last.
    let laughs = |part: &str, last: &str| {
        let defs: Vec<_> = (0..40)
            .map(|n| {
                let next = format!("{{\"$ref\":\"#/$defs/d{}\"}}", n + 1);
                format!("\"d{n}\":{}", part.replace('@', &next))
            })
            .collect();
        let defs = defs.join(",");
        format!("{{\"$ref\":\"#/$defs/d0\",\"$defs\":{{{defs},\"d40\":{last}}}}}")
    };
    let object = r#"{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"null"}}}"#;
    // No part is supported, and each takes time to test.
    let refused_everywhere = {
        let one = |n: usize| {
            format!(
                "\"p{n}\":{{\"type\":\"string\",\"pattern\":\"([ab]*a[ab]{{9}}){{1,50}}\",\
                 \"uniqueItems\":true}}"
            )
        };
        let parts: Vec<_> = (0..400).map(one).collect();
        format!("{{\"properties\":{{{}}}}}", parts.join(","))
    };
    let words = |count: usize| {
        let words: Vec<_> = (0..count).map(|n| format!("{:x}", n * 7_919)).collect();
        words.join("|")
    };
    let schemas = [
        laughs(r#"{"allOf":[@,@]}"#, object),
        laughs(r#"{"anyOf":[@,@]}"#, object),
        laughs(r#"{"oneOf":[@,@]}"#, object),
        laughs(r#"{"anyOf":[@,{"allOf":[@,{"required":["a"]}]}]}"#, object),
        laughs(r#"{"type":"array","prefixItems":[@,@],"minItems":2}"#, object),
        laughs(r#"{"type":"object","properties":{"a":@,"b":@},"required":["a","b"]}"#, object),
        chain(499, "@"),
        chain(499, r#"{"allOf":[@]}"#),
        chain(499, r#"{"anyOf":[@,{"type":"null"}]}"#),
        chain(499, r#"{"type":"array","items":@,"minItems":1}"#),
        chain(499, REQUIRES),
        refused_everywhere,
        format!("{{\"type\":\"string\",\"pattern\":\"^({})*$\"}}", words(20_000)),
        r#"{"type":"string","pattern":"(\\p{L}{1,300}\\p{N}?){1,300}"}"#.to_owned(),
        r#"{"type":"string","pattern":"(a?){300}a{300}"}"#.to_owned(),
        r#"{"type":"string","pattern":"(((a*)*)*)*b","maxLength":100000}"#.to_owned(),
        r#"{"allOf":[{"type":"string","pattern":"(ab|a|b)*a.{30}b"},{"type":"string","pattern":".*b.{31}a"}]}"#
            .to_owned(),
        r#"{"type":"array","contains":{"const":1},"minContains":1000000}"#.to_owned(),
        r#"{"$id":"http://[","$ref":"x#y","$anchor":"\u0000"}"#.to_owned(),
        r#"{"properties":5,"required":"a","items":[[]],"anyOf":{}}"#.to_owned(),
        all_of_any(2, 20),
        all_of_any(5, 20),
        all_of_any(20, 2),
        one_of(500),
        deep("{\"items\":", "}", 5000),
        deep("{\"not\":", "}", 60),
        deep("[", "]", 100_000),
        many(20_000),
        many(500),
        format!("\"{}\"", "x".repeat(1 << 20)),
        r##"{"$ref":"#"}"##.to_owned(),
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##
            .to_owned(),
        r##"{"allOf":[{"$ref":"#"},{"$ref":"#"}]}"##.to_owned(),
        r##"{"anyOf":[{"$ref":"#"},{"allOf":[{"$ref":"#"},{"items":{"$ref":"#"}}]}]}"##.to_owned(),
        r#"{"type":"string","minLength":1000000000}"#.to_owned(),
        r#"{"type":"array","minItems":1000000000,"items":{"type":"array","minItems":1000000000}}"#
            .to_owned(),
        r#"{"type":"object","minProperties":1000000}"#.to_owned(),
        r#"{"type":"string","pattern":"((((a{1,1000}){1,1000}){1,1000}){1,1000}){1,1000}"}"#
            .to_owned(),
        r#"{"type":"string","pattern":"(a|b)*a(a|b){60}c"}"#.to_owned(),
        r#"{"type":"string","pattern":"(?=.*a)(?=.*b)(?!.*c)[[:weird:]]"}"#.to_owned(),
        r#"{"type":"integer","multipleOf":0}"#.to_owned(),
        r#"{"type":"number","multipleOf":1e-300,"minimum":-1e308,"maximum":1e308}"#.to_owned(),
        r#"{"type":"integer","minimum":1e999}"#.to_owned(),
        r#"{"enum":[]}"#.to_owned(),
        r#"{"required":["a"],"additionalProperties":false}"#.to_owned(),
        r#"{"const":{"a":[1,{"b":null}]}}"#.to_owned(),
        r#"{"$ref":"https://example.org/schema"}"#.to_owned(),
        r#"{"patternProperties":{"(":{}, "^a":{}, "^ab":{}}}"#.to_owned(),
        format!(
            "{{\"enum\":[{}]}}",
            (0..500)
                .map(|n| n.to_string())
                .collect::<Vec<_>>()
                .join(",")
        ),
    ];
    let model = model(NAMES[0]);
    for schema in schemas {
        let begun = Instant::now();
        let mut random = ChaCha8Rng::seed_from_u64(3);
        let checked = check(&schema);
        if let Ok(mut document) = model.vocabulary.document(&schema) {
            let mut drawn = Vec::new();
            while drawn.len() < 8
                && let Ok(mask) = document.mask(&drawn)
            {
                let (tokens, _) = allowed(&mask, model.vocabulary.tokens());
                if tokens.is_empty() {
                    break;
                }
                drawn.push(tokens[random.next_u32() as usize % tokens.len()]);
            }
        }
        // An accepted schema can be begun.
        let first = model
            .vocabulary
            .document(&schema)
            .and_then(|mut document| document.mask(&[]));
        assert!(checked.is_err() || first.is_ok(), "{schema}: {first:?}");
        let (took, shown) = (begun.elapsed(), &schema[..schema.len().min(80)]);
        println!("{took:?} {shown} {checked:?}");
        assert!(took < Duration::from_secs(5), "{shown} took {took:?}");
    }
}

#[test]
fn a_vocabulary_that_is_damaged_is_an_error() {
    let whole = written([b"a".as_slice(), b"", b"bc", &[0xff, 1], &[b' '; 300]]);
    assert_eq!(Vocabulary::read(&whole).unwrap().tokens(), 5);
    for end in [1, 2, 4, 7, whole.len() - 1] {
        let cut = Vocabulary::read(&whole[..end]);
        assert!(matches!(cut, Err(GrammarError::Vocabulary(_))), "{end}");
    }
    let many = vec![0; 2 * ((1 << 20) + 1)];
    assert!(Vocabulary::read(&many).is_err());
}

#[test]
fn what_the_documents_promise_can_be_honoured() {
    for schema in [
        r#"{"oneOf":[{"type":"string"},{"type":"integer"}]}"#,
        r#"{"oneOf":[
            {"type":"object","properties":{"kind":{"const":"a"}},"required":["kind"]},
            {"type":"object","properties":{"kind":{"const":"b"}},"required":["kind"]}
        ]}"#,
        r#"{"allOf":[{"type":"object","properties":{"a":{"type":"null"}}},{"required":["a"]}]}"#,
        r#"{"type":"object","patternProperties":{"^x_":{"type":"number"}},"additionalProperties":false}"#,
        r#"{"type":"array","prefixItems":[{"type":"string"}],"items":{"type":"integer"},"maxItems":3}"#,
        r#"{"type":"string","format":"date-time"}"#,
        r#"{"type":"string","format":"email"}"#,
        r#"{"type":"number","minimum":0.5,"exclusiveMaximum":10,"multipleOf":0.25}"#,
        r#"{"type":["string","null"],"description":"why","default":null,"examples":[1],"title":"t"}"#,
        r##"{"type":"object","properties":{"next":{"$ref":"#"},"value":{"type":"integer"}},"required":["value"]}"##,
    ] {
        check(schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    }
    for schema in [
        r#"{"type":"array","uniqueItems":true}"#,
        r#"{"if":{"type":"string"},"then":{"minLength":1}}"#,
    ] {
        check(schema).unwrap_err();
    }
}

#[test]
fn properties_are_written_in_their_order() {
    let vocabulary = Vocabulary::read(&written([])).unwrap();
    let schema = r#"{"type":"object","properties":{"z":{"type":"null"},"a":{"type":"null"}},"required":["a","z"],"additionalProperties":false}"#;
    let mut document = vocabulary.document(schema).unwrap();
    document.accept(r#"{"z": null,"a":null}"#).unwrap();
    assert!(document.is_whole());
    let mut document = vocabulary.document(schema).unwrap();
    document.accept(r#"{"a""#).unwrap_err();
}

/// Schemas with keywords that restrict nothing, a document of each and a text that is none.
#[rustfmt::skip]
const HARMLESS: [(&str, &str, &str); 14] = [
    (r#"{"type":"object","propertyNames":{"type":"string"},"additionalProperties":{"type":"null"}}"#,
        r#"{"a": null}"#, r#"{"a": 1}"#),
    (r#"{"type":"object","propertyNames":{"type":["string"],"title":"t","format":"cuid"}}"#, r#"{"a": 1}"#, "1"),
    (r#"{"type":"object","propertyNames":true}"#, r#"{"a": 1}"#, "1"),
    (r#"{"type":"string","format":"path"}"#, r#""a""#, "1"),
    (r#"{"type":"string","format":"password","writeOnly":true}"#, r#""a""#, "1"),
    (r#"{"type":"array","items":{"type":"string","format":"ulid"}}"#, r#"["a"]"#, "[1]"),
    (r##"{"$ref":"#/$defs/a","$defs":{"a":{"type":"string","format":"jwt","pattern":"^a"}}}"##, r#""ab""#, r#""b""#),
    (r#"{"anyOf":[{"type":"string","format":"base64url"},{"type":"null"}]}"#, r#""a""#, "1"),
    (r#"{"type":"object","properties":{"a":{"type":"null"}},"required":null}"#, r#"{"a": null}"#, r#"{"a": 1}"#),
    (r#"{"type":"object","properties":null,"description":null,"$ref":null}"#, r#"{"a": 1}"#, "1"),
    (r#"{"type":"integer","enum":null,"minimum":null,"anyOf":null}"#, "5", r#""a""#),
    (r#"{"type":"array","items":null,"maxItems":null}"#, "[1]", "1"),
    // Values, and a property of such a name, stay.
    (r#"{"enum":[{"format":"path","a":null}]}"#, r#"{"format": "path", "a": null}"#, r#"{"format": "b"}"#),
    (r#"{"type":"object","properties":{"format":{"const":null},"propertyNames":{"type":"string"}}}"#,
        r#"{"format": null, "propertyNames": "a"}"#, r#"{"propertyNames": 1}"#),
];

#[test]
fn keywords_that_restrict_nothing_are_ignored() {
    let vocabulary = Vocabulary::read(&written([])).unwrap();
    for (schema, document, other) in HARMLESS {
        check(schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
        let mut whole = vocabulary.document(schema).unwrap();
        whole.accept(document).unwrap();
        assert!(whole.is_whole(), "{schema}");
        let mut whole = vocabulary.document(schema).unwrap();
        assert!(whole.accept(other).is_err(), "{schema}: {other}");
    }
}

#[test]
fn known_formats_stay_and_so_do_names_that_are_restricted() {
    let vocabulary = Vocabulary::read(&written([])).unwrap();
    for format in [
        "date",
        "date-time",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "time",
        "uri",
        "uuid",
    ] {
        let schema = format!(r#"{{"type":"string","format":"{format}"}}"#);
        let mut document = vocabulary.document(&schema).unwrap();
        assert!(document.accept("\"?\"").is_err(), "{format}");
    }
    for (schema, word) in [
        (
            r#"{"propertyNames":{"type":"string","pattern":"^a"}}"#,
            "propertyNames",
        ),
        (r#"{"propertyNames":{"enum":["a"]}}"#, "propertyNames"),
        (r#"{"propertyNames":false}"#, "propertyNames"),
        (r#"{"propertyNames":{"type":"integer"}}"#, "propertyNames"),
        (r#"{"type":"string","format":5}"#, "format"),
        (r#"{"not":{"type":"string"}}"#, "not"),
        (r#"{"type":"string","pattern":"(?!a)b"}"#, "look-ahead"),
        (r#"{"oneOf":[{"type":"integer"},{"minimum":5}]}"#, "oneOf"),
    ] {
        let refused = check(schema).unwrap_err().to_string();
        assert!(refused.contains(word), "{schema}: {refused}");
    }
}
