//! The rules that an ensemble may go by, under their names.

use conclave_ensemble::{Scoring, Settings};

use crate::args;
use crate::failure::Failure;

/// The settings of the rule called `name`.
///
/// # Errors
/// [`Failure::Usage`] that names those there are.
fn named(name: &str) -> Result<Settings, Failure> {
    match name {
        "paper" | "logit" => Ok(Settings::default()),
        "likelihood" => Ok(Settings {
            scoring: Scoring::Likelihood,
            ..Settings::default()
        }),
        _ => Err(Failure::Usage(format!(
            "there is no rule \"{name}\"; choose of paper, logit, likelihood"
        ))),
    }
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
        let settings = args.method.settings(Settings::default());
        rules.push((settings.scoring.name().to_owned(), settings));
    }
    for (_, settings) in &mut rules {
        settings.validate()?;
        if args.method.max_rounds.is_none() {
            settings.max_rounds = tokens.div_ceil(settings.segment_tokens);
        }
    }
    Ok(rules)
}
