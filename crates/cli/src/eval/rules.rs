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
    let mut settings = serde_json::to_value(Settings::of(rule)).map_err(|e| told(e.to_string()))?;
    for part in parts {
        let (switch, value) = part
            .split_once('=')
            .ok_or_else(|| told(format!("write {part} as SWITCH=VALUE")))?;
        // What is no number and no truth value is a name.
        settings[switch] = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    }
    serde_json::from_value(settings).map_err(|error| told(error.to_string()))
}

/// The rules to examine, each with what else the command line says of the method, for answers of at
/// most `tokens`.
///
/// # Errors
/// A rule that there isn't, or settings out of range.
pub fn chosen(args: &args::Eval, tokens: usize) -> Result<Vec<(String, Settings)>, Failure> {
    let mut rules = Vec::new();
    for name in &args.rules {
        rules.push((name.clone(), args.method.settings(named(name)?)));
    }
    if rules.is_empty() {
        let rule = args.method.rule.unwrap_or_default();
        let settings = args.method.settings(Settings::default());
        rules.push((rule.name().to_owned(), settings));
    }
    for (_, settings) in &mut rules {
        settings.validate()?;
        if args.method.max_rounds.is_none() {
            settings.max_rounds = tokens.div_ceil(settings.segment_tokens);
        }
    }
    Ok(rules)
}
