//! Named rules of the ensemble.

use conclave_ensemble::{Rule, Settings};
use serde_json::Value;

use crate::args;
use crate::failure::Failure;

/// Parses a rule with optional settings (`paper+scoring=likelihood`).
///
/// # Errors
/// [`Failure::Usage`] that lists the valid names.
fn named(name: &str) -> Result<Settings, Failure> {
    let failed = |error: String| Failure::Usage(format!("the rule \"{name}\": {error}"));
    let mut parts = name.split('+');
    let rule = parts.next().unwrap_or_default();
    let rule: Rule = rule.parse().map_err(|error| failed(format!("{error}")))?;
    let settings = roomy(Settings::preset(rule));
    let mut settings = serde_json::to_value(settings).map_err(|e| failed(e.to_string()))?;
    for part in parts {
        let (switch, value) = part
            .split_once('=')
            .ok_or_else(|| failed(format!("write {part} as SWITCH=VALUE")))?;
        // Text other than a number or truth value is a name.
        settings[switch] = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    }
    serde_json::from_value(settings).map_err(|error| failed(error.to_string()))
}

/// Raises all limits of `settings` to their maximum: answers end by themselves or by the number of
/// tokens, equal for single members and the ensemble.
fn roomy(settings: Settings) -> Settings {
    let largest = |name: &str| {
        let range = Settings::ranges().remove(name);
        range.map_or(0, |range| range.high as usize)
    };
    Settings {
        max_rounds: largest("maxRounds").max(settings.max_rounds),
        max_repeats: Settings::MOST_REPEATS,
        max_characters: largest("maxCharacters").max(settings.max_characters),
        ..settings
    }
}

/// Rules to examine, each with the command line's other settings of the method.
///
/// # Errors
/// An unknown rule, or settings out of range.
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
        let settings = method.settings(roomy(Settings::preset(rule)));
        rules.push((rule.name().to_owned(), settings));
    }
    for (_, settings) in &rules {
        settings.validate()?;
    }
    Ok(rules)
}
