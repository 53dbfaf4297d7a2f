//! The rules that an ensemble may go by, under their names.

use conclave_ensemble::{Rule, Settings};
use serde_json::Value;

use crate::args;
use crate::failure::Failure;

/// The settings that `name` stands for: a rule, with switches put over it
/// (`paper+scoring=likelihood`).
///
/// # Errors
/// [`Failure::Usage`] that names what there is.
fn named(name: &str) -> Result<Settings, Failure> {
    let told = |error: String| Failure::Usage(format!("the rule \"{name}\": {error}"));
    let mut parts = name.split('+');
    let rule = parts.next().unwrap_or_default();
    let rule: Rule = rule.parse().map_err(|error| told(format!("{error}")))?;
    let settings = roomy(Settings::of(rule));
    let mut settings = serde_json::to_value(settings).map_err(|e| told(e.to_string()))?;
    for part in parts {
        let (switch, value) = part
            .split_once('=')
            .ok_or_else(|| told(format!("write {part} as SWITCH=VALUE")))?;
        // What is no number and no truth value is a name.
        settings[switch] = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    }
    serde_json::from_value(settings).map_err(|error| told(error.to_string()))
}

/// `settings` with the largest limits there are: answers end by themselves or by the number of
/// tokens, which is the same for members alone and for the ensemble.
fn roomy(settings: Settings) -> Settings {
    let largest = |name: &str| {
        let range = Settings::ranges().remove(name);
        range.map_or(0, |range| range.high as usize)
    };
    Settings {
        max_rounds: largest("maxRounds").max(settings.max_rounds),
        max_characters: largest("maxCharacters").max(settings.max_characters),
        ..settings
    }
}

/// The rules to examine, each with what else the command line says of the method.
///
/// # Errors
/// A rule that there isn't, or settings out of range.
pub fn chosen(args: &args::Eval) -> Result<Vec<(String, Settings)>, Failure> {
    let mut rules = Vec::new();
    for name in &args.rules {
        rules.push((name.clone(), args.method.settings(named(name)?)));
    }
    if rules.is_empty() {
        let rule = args.method.rule.unwrap_or_default();
        // A rule among the options would replace the limits.
        let method = args::Method {
            rule: None,
            ..args.method.clone()
        };
        let settings = method.settings(roomy(Settings::of(rule)));
        rules.push((rule.name().to_owned(), settings));
    }
    for (_, settings) in &rules {
        settings.validate()?;
    }
    Ok(rules)
}
