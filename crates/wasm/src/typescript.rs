//! Writes the types that cross to JavaScript, with their comments wrapped at 100 columns, and the
//! checks and defaults of the method's settings and of sampling: `generated.ts` and
//! `generated-settings.ts` in `web/src/protocol`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use conclave_ensemble::{
    Candidate, Draft, Exit, Leader, Rate, Reward, Round, Rule, Score, Scoring, SettingRange,
    Settings, Stop, Update, VerifiedScore,
};
use conclave_member::{Begun, Message, Thinking, Thought};
use conclave_model::{Counters, Memory, SAMPLING_OPTIONS, Sampling, SamplingOption};
use serde_json::{Map, Value};
use ts_rs::{Config, TS};

use crate::load::{Adapter, Choices, Chosen, Options};
use crate::member::{About, FormatInMemory};

const HOW: &str = "CONCLAVE_WRITE=1 cargo test -p conclave-wasm";

/// Widest line of the page's sources.
const COLUMNS: usize = 100;

/// A type as its comment and its declaration, a field a line.
fn declaration<T: TS>() -> String {
    // Integers cross as numbers, or not at all.
    let declared = T::decl(&Config::new().with_large_int("number"));
    let fields = declared.strip_prefix(&format!("type {} = {{ ", T::ident(&Config::new())));
    let written = match fields.and_then(|fields| fields.strip_suffix(" };")) {
        Some(fields) if !fields.contains('}') => {
            let name = T::ident(&Config::new());
            format!("interface {name} {{\n{fields}\n}}")
        }
        _ => declared,
    };
    let mut out = T::docs().map(|docs| comment(&docs, "")).unwrap_or_default() + "export ";
    let mut docs = String::new();
    for line in written.lines() {
        // All lines of a field's comment but the last begin or continue with a star.
        match line.trim() {
            "" => {}
            line if docs.is_empty() && !line.starts_with("/**") => out += &format!("{line}\n"),
            line => {
                docs += &format!("{line}\n");
                if let Some((docs_of_field, field)) = docs.split_once("*/\n")
                    && !field.is_empty()
                {
                    out += &comment(docs_of_field, "  ");
                    out += &format!("  {};\n", field.trim().trim_end_matches(','));
                    docs.clear();
                }
            }
        }
    }
    out
}

/// A comment in the style of the page's sources, without rustdoc's examples and links.
fn comment(docs: &str, indent: &str) -> String {
    let lines = docs
        .split("```")
        .next()
        .unwrap_or(docs)
        .lines()
        .map(|line| {
            line.trim()
                .trim_end_matches("*/")
                .trim_start_matches("/**")
                .trim_start_matches('*')
                .trim()
        });
    let text = lines
        .filter(|line| !line.is_empty())
        .map(unlinked)
        .collect::<Vec<_>>()
        .join(" ");
    let one = format!("{indent}/** {text} */\n");
    if one.chars().count() <= COLUMNS {
        return one;
    }
    let mut out = format!("{indent}/**\n");
    let mut line = format!("{indent} *");
    for word in text.split(' ') {
        if line.chars().count() + 1 + word.chars().count() > COLUMNS {
            out += &format!("{line}\n");
            line = format!("{indent} *");
        }
        line += &format!(" {word}");
    }
    out + &format!("{line}\n{indent} */\n")
}

/// The line with the name of each of rustdoc's links in place of the link.
fn unlinked(line: &str) -> String {
    let mut parts = line.split("`](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('`');
        text += part.split_once(')').map_or(part, |(_, rest)| rest);
    }
    text.replace("[`", "`")
        .replace("`]", "`")
        .replace("`mod@crate::", "`")
}

#[test]
fn the_page_has_the_types_that_cross() {
    let types = [
        declaration::<Message>(),
        declaration::<Sampling>(),
        declaration::<Thinking>(),
        declaration::<Exit>(),
        declaration::<Leader>(),
        declaration::<Settings>(),
        declaration::<SettingRange>(),
        declaration::<Rule>(),
        declaration::<Candidate>(),
        declaration::<Draft>(),
        declaration::<Score>(),
        declaration::<VerifiedScore>(),
        declaration::<Round>(),
        declaration::<Options>(),
        declaration::<FormatInMemory>(),
        declaration::<Memory>(),
        declaration::<About<'_>>(),
        declaration::<Adapter>(),
        declaration::<Choices>(),
        declaration::<Chosen>(),
        declaration::<Begun>(),
        declaration::<Thought>(),
        declaration::<Counters>(),
        declaration::<Stop>(),
    ];
    let wanted = format!(
        "/**\n * The types that cross from Rust, from its structs and their comments. Written \
        by\n * `{HOW}`: change those.\n */\n\n{}",
        types.join("\n")
    );
    compare("generated.ts", &wanted);
}

/// The check of each setting, by its default, a line each.
fn checks(settings: &Map<String, Value>, indent: &str) -> String {
    let named = |name: &str| match name {
        "scoring" => quoted(Scoring::ALL.iter().map(|one| one.name())),
        "reward" => quoted(Reward::ALL.iter().map(|one| one.name())),
        "rate" => quoted(Rate::ALL.iter().map(|one| one.name())),
        "update" => quoted(Update::ALL.iter().map(|one| one.name())),
        _ => panic!("{name} has no list of values here"),
    };
    let check = |(name, value): (&String, &Value)| {
        let check = match value {
            Value::Bool(_) => "flag".to_owned(),
            Value::Number(number) if number.is_u64() => "count".to_owned(),
            Value::Number(_) => "number".to_owned(),
            Value::String(_) => format!("oneOf({})", named(name)),
            Value::Object(fields) => {
                let inner = checks(fields, &format!("{indent}  "));
                format!("nullable(exact({{\n{inner}{indent}}}))")
            }
            other => panic!("{name} is {other}"),
        };
        format!("{indent}{name}: {check},\n")
    };
    // Sorted, with or without serde_json's `preserve_order`.
    settings
        .iter()
        .collect::<BTreeMap<_, _>>()
        .into_iter()
        .map(check)
        .collect()
}

/// Name of an option in TypeScript.
fn camel(option: &SamplingOption) -> String {
    let mut words = option.name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (start, rest) = word.split_at(1);
        name + &start.to_uppercase() + rest
    })
}

/// The check of each number of sampling, its defaults but for the seed, its names in requests and
/// its controls.
fn sampling() -> String {
    let all = |line: fn(&SamplingOption) -> String| -> String {
        let lines = SAMPLING_OPTIONS
            .iter()
            .map(|option| format!("  {}: {},\n", camel(option), line(option)));
        lines.collect()
    };
    let check = |option: &SamplingOption| {
        let kind = if option.is_whole() { "whole" } else { "within" };
        format!("{kind}(0, {})", option.most)
    };
    let control = |option: &SamplingOption| {
        let most = if option.usual < u32::MAX.into() {
            format!("    max: {},\n", option.usual)
        } else {
            String::new()
        };
        format!(
            "{{\n    label: {:?},\n    help: {:?},\n    min: 0,\n{most}    step: {},\n  }}",
            option.label, option.help, option.step
        )
    };
    let param = |option: &SamplingOption| {
        format!(
            "  /** {} */\n  {}?: number | null;\n",
            option.help, option.name
        )
    };
    let params: String = SAMPLING_OPTIONS.iter().map(param).collect();
    let most = SAMPLING_OPTIONS[0].most;
    assert_eq!(SAMPLING_OPTIONS[0].name, "temperature");
    format!(
        "/** The checks of all sampling options but the seed. */\nexport const samplingChecks = \
        {{\n{}}};\n\nexport const sampling = exact({{\n  ...samplingChecks,\n  // The largest that is \
        exact.\n  seed: whole(0, Number.MAX_SAFE_INTEGER),\n}});\n\n/** Sampling of an answer that \
        asks for none. */\nexport const defaultSampling = {{\n{}}};\n\n/** Highest temperature. */\n\
        export const maxTemperature = {most};\n\n/** Names in OpenAI's requests. */\nexport const \
        requestNames = {{\n{}}} as const;\n\n/** Sampling options by their names in OpenAI's \
        requests; `null` stands for the default. */\nexport interface SamplingParams \
        {{\n{params}}}\n\n/** Controls of the page. */\nexport const \
        samplingControls = {{\n{}}};\n",
        all(check),
        all(|option| (option.value)(&Sampling::default()).to_string()),
        all(|option| format!("{:?}", option.name)),
        all(control),
    )
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("{name:?}")).collect();
    names.join(", ")
}

#[test]
fn the_page_checks_the_settings_that_are_there() {
    let map = |settings: &Settings| match serde_json::to_value(settings) {
        Ok(Value::Object(map)) => map,
        other => panic!("{other:?}"),
    };
    let all = Settings {
        exit: Some(Exit::default()),
        leader: Some(Leader::default()),
        ..Settings::default()
    };
    let presets = Rule::ALL.iter().map(|&rule| {
        let settings = serde_json::to_string_pretty(&Settings::preset(rule)).unwrap();
        format!("export const {} = {settings} as const;\n", rule.name())
    });
    let wanted = format!(
        "/**\n * The checks of the method's settings and of sampling, the settings of each rule, and \
        the default\n * sampling, from `crates/ensemble/src/settings.rs` and \
        `crates/model/src/sampling.rs`. Written by\n * `{HOW}`.\n */\nimport {{ count, exact, \
        flag, nullable, number, oneOf, whole, within }} from \"./check.ts\";\n\n\
        /** The engine knows and checks the ranges. */\nexport const settings = \
        exact({{\n{}}});\n\n{}\n{}",
        checks(&map(&all), "  "),
        sampling(),
        presets.collect::<String>(),
    );
    compare("generated-settings.ts", &wanted);
}

/// Compares a file of `web/src/protocol` with what is wanted, or writes it.
fn compare(name: &str, wanted: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../../web/src/protocol").join(name);
    if std::env::var_os("CONCLAVE_WRITE").is_some() {
        return std::fs::write(path, wanted).unwrap();
    }
    let found = std::fs::read_to_string(path).unwrap();
    let wrong = found.lines().zip(wanted.lines()).find(|(a, b)| a != b);
    assert_eq!(wrong, None, "{name} is out of date: {HOW}");
    assert_eq!(found, wanted, "{name} is out of date: {HOW}");
}
