//! Options of the method.

use clap::Args;
use conclave_ensemble::{
    Exit, Leader, Rate, Reward, Rule, Scoring, Settings, SettingsError, Update,
};

use crate::failure::Failure;

#[derive(Debug, Clone, Args)]
pub struct Method {
    /// Preset of all settings below: `harmonic` (the default, best in our measurements), `leader`
    /// (the same with leader drafts, faster where members mostly agree) or `paper` (as published).
    /// The options below override it.
    #[arg(long)]
    pub rule: Option<Rule>,
    /// L, the maximum tokens of a member's draft in a round [default: 32].
    #[arg(long, value_name = "TOKENS")]
    pub segment_tokens: Option<usize>,
    /// `harmonic` (1 / (0.5 + ln(1 + Σ (1/p − 1))) of a candidate's tokens), `logit` (their mean
    /// raw logit) or `likelihood` (softmax of their mean log-probability) [default: harmonic].
    #[arg(long)]
    pub scoring: Option<Scoring>,
    /// Score a candidate that ends the answer on its end too: `on` or `off` [default: on].
    #[arg(
        long,
        value_name = "on|off",
        num_args = 0..=1,
        default_missing_value = "on",
        value_parser = on_off
    )]
    pub score_end: Option<bool>,
    /// Influence of a member's strength from the first round on: starting weights are proportional
    /// to strength^POWER; 0 makes them equal. See --trust for strengths [default: 0.75].
    #[arg(
        id = "trust-power",
        long,
        value_name = "POWER",
        allow_negative_numbers = true
    )]
    pub trust: Option<f64>,
    /// Reward of the feedback: the others' `shares`, or `counts` of their preferences [default:
    /// shares].
    #[arg(long)]
    pub reward: Option<Reward>,
    /// Strength of the feedback; 0 for none [default: 1].
    #[arg(long, allow_negative_numbers = true)]
    pub alpha: Option<f64>,
    /// Learning rate: `code` (α/(k√N)), `printed` (α/(N√k)) or `fixed-share` [default: code].
    #[arg(long)]
    pub rate: Option<Rate>,
    /// Part of the weight that fixed-share redistributes evenly each round [default: 0.05].
    #[arg(long)]
    pub fixed_share: Option<f64>,
    /// Apply feedback `before` or `after` the selection of its round [default: before].
    #[arg(long)]
    pub update: Option<Update>,
    /// Count members' votes for their own candidates: `on` or `off`. With two members they always
    /// count [default: on].
    #[arg(
        long,
        value_name = "on|off",
        num_args = 0..=1,
        default_missing_value = "on",
        value_parser = on_off
    )]
    pub self_votes: Option<bool>,
    /// Divide each member's shares by its largest, so that all count equally for their favourites:
    /// `on` or `off` [default: on].
    #[arg(
        long,
        value_name = "on|off",
        num_args = 0..=1,
        default_missing_value = "on",
        value_parser = on_off
    )]
    pub level: Option<bool>,
    /// Extra weight of a member's vote where it is sure of the answer it has drafted; 0 for none
    /// [default: 0.5].
    #[arg(long, value_name = "POWER", allow_negative_numbers = true)]
    pub confidence: Option<f64>,
    /// Difference of two tokens' probabilities below which a member drafts a second candidate in
    /// the first round; 0 for none [default: 0.2].
    #[arg(long, value_name = "MARGIN", allow_negative_numbers = true)]
    pub branch: Option<f64>,
    /// Surprise in nats at its own finished draft up to which the strongest member answers without
    /// the others, in a conversation only with a word that is new in it; 0 always asks all
    /// [default: 1.5].
    #[arg(long, value_name = "NATS", allow_negative_numbers = true)]
    pub alone: Option<f64>,
    /// Once the strongest member's draft ends the answer, let only drafts that end it be
    /// candidates, and longer ones that agree with these: `on` or `off` [default: on].
    #[arg(
        long,
        value_name = "on|off",
        num_args = 0..=1,
        default_missing_value = "on",
        value_parser = on_off
    )]
    pub ended_only: Option<bool>,
    /// Let candidates with the same answer in another form share their votes: `on` or `off`
    /// [default: on].
    #[arg(
        long,
        value_name = "on|off",
        num_args = 0..=1,
        default_missing_value = "on",
        value_parser = on_off
    )]
    pub agree: Option<bool>,
    /// Factor on the total of a candidate that only repeats earlier text, or that ends unsure of
    /// itself; 1 for none [default: 0.5].
    #[arg(long, value_name = "FACTOR", allow_negative_numbers = true)]
    pub discount: Option<f64>,
    /// Maximum surprise, to its own drafter, of a candidate that ends while an equally strong
    /// member goes on [default: 2.6].
    #[arg(long, value_name = "NATS", allow_negative_numbers = true)]
    pub sure: Option<f64>,
    /// Part of the vote above which a member whose candidate has won and goes on drafts the next
    /// segments alone; 1 for never [default: 0.53].
    #[arg(long, value_name = "PART", allow_negative_numbers = true)]
    pub lead: Option<f64>,
    /// Let one member draft for all while no other doubts it.
    #[arg(long)]
    pub leader: bool,
    /// Surprise of a member at a leader's segment above which all draft: higher is faster, lower is
    /// safer; implies --leader [default: 5].
    #[arg(long, value_name = "NATS", allow_negative_numbers = true)]
    pub doubt: Option<f64>,
    /// Let all draft in every round, overriding the rule.
    #[arg(long, conflicts_with_all = ["leader", "doubt"])]
    pub no_leader: bool,
    /// Let members with poor rounds leave for the rest of the answer.
    #[arg(long)]
    pub exit: bool,
    /// Keep every member to the end, even if a recording lets them leave.
    #[arg(long, conflicts_with_all = ["exit", "exit_warmup", "exit_temperature", "exit_threshold"])]
    pub no_exit: bool,
    /// Rounds before a member may leave; implies --exit [default: 3].
    #[arg(long, value_name = "ROUNDS")]
    pub exit_warmup: Option<usize>,
    /// Patience of the exit rule; implies --exit [default: 6.0].
    #[arg(long, value_name = "T0")]
    pub exit_temperature: Option<f64>,
    /// Keep-probability, times the number of members, below which one leaves; implies --exit
    /// [default: 0.5].
    #[arg(long, value_name = "D")]
    pub exit_threshold: Option<f64>,
    /// Accept any candidate that ends the answer at once, unverified; also a leader's.
    #[arg(long)]
    pub fast: bool,
    /// Maximum number of rounds of an answer [default: 64; of `serve` none, a request's
    /// `max_tokens` or the context ends it].
    #[arg(long)]
    pub max_rounds: Option<usize>,
    /// End the answer after this many rounds in a row in which all candidates only repeat earlier
    /// text; in the last but one, draft anew without it [default: 3; of `serve` none].
    #[arg(long, value_name = "ROUNDS")]
    pub max_repeats: Option<usize>,
    /// End the answer with the segment that brings it to this many characters [default: 4096; of
    /// `serve` none].
    #[arg(long)]
    pub max_characters: Option<usize>,
}

/// Settings with each of these fields from the command line, where it is there.
macro_rules! overridden {
    ($settings:ident with $args:ident: $($field:ident),+ $(,)?) => {
        Settings {
            $($field: $args.$field.unwrap_or($settings.$field),)+
            ..$settings
        }
    };
}

/// Checks settings of the command line.
///
/// # Errors
/// The first number out of its range, with the name of its option.
pub fn check(settings: &Settings) -> Result<(), Failure> {
    settings.validate().map_err(|error| match &error {
        SettingsError::Range {
            setting,
            value,
            low,
            high,
        } => Failure::Usage(format!(
            "{} {value}: choose a value from {low} to {high}",
            option_of(setting)
        )),
        _ => error.into(),
    })
}

/// Option of a setting's number by its name in JSON: `--max-rounds` of `maxRounds`.
fn option_of(setting: &str) -> String {
    match setting {
        "leader.doubt" => return "--doubt".to_owned(),
        // `--trust` names a file of measured strengths.
        "trust" => return "--trust-power".to_owned(),
        _ => {}
    }
    let mut option = "--".to_owned();
    for letter in setting.chars() {
        match letter {
            '.' => option.push('-'),
            letter if letter.is_ascii_uppercase() => {
                option.extend(['-', letter.to_ascii_lowercase()]);
            }
            letter => option.push(letter),
        }
    }
    option
}

fn on_off(value: &str) -> Result<bool, String> {
    match value {
        "on" | "true" | "yes" => Ok(true),
        "off" | "false" | "no" => Ok(false),
        _ => Err("say `on` or `off`".to_owned()),
    }
}

impl Method {
    /// Returns `settings` with the answer limits of the command line.
    pub fn limited(&self, settings: Settings) -> Settings {
        overridden! { settings with self: max_rounds, max_repeats, max_characters }
    }

    /// Returns `defaults`, overridden by the command line.
    pub fn settings(&self, defaults: Settings) -> Settings {
        let defaults = self.rule.map_or(defaults, Settings::preset);
        let exit = self.exit
            || self.exit_warmup.is_some()
            || self.exit_temperature.is_some()
            || self.exit_threshold.is_some();
        let exit = exit.then(|| {
            let default = defaults.exit.unwrap_or_default();
            Exit {
                warmup: self.exit_warmup.unwrap_or(default.warmup),
                temperature: self.exit_temperature.unwrap_or(default.temperature),
                threshold: self.exit_threshold.unwrap_or(default.threshold),
            }
        });
        let leader = (self.leader || self.doubt.is_some()).then(|| {
            let default = defaults.leader.unwrap_or_default();
            Leader {
                doubt: self.doubt.unwrap_or(default.doubt),
            }
        });
        let settings = overridden! {
            defaults with self:
            segment_tokens, scoring, score_end, trust, reward, alpha, rate, fixed_share, update,
            self_votes, level, confidence, branch, alone, ended_only, agree, discount, sure, lead,
        };
        Settings {
            leader: leader.or(defaults.leader.filter(|_| !self.no_leader)),
            exit: exit.or(defaults.exit.filter(|_| !self.no_exit)),
            fast: self.fast || defaults.fast,
            ..self.limited(settings)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn a_number_out_of_its_range_is_named_by_its_option() {
        let command = Cli::command();
        let serve = command.find_subcommand("serve").unwrap();
        let known: Vec<String> = serve
            .get_arguments()
            .filter_map(|one| Some(format!("--{}", one.get_long()?)))
            .collect();
        for setting in Settings::ranges().into_keys() {
            assert!(known.contains(&option_of(setting)), "{setting}");
        }
        let default = Settings::default;
        let no_text = Settings {
            max_characters: 0,
            ..default()
        };
        let trusting = Settings {
            trust: 9.0,
            ..default()
        };
        for (settings, told) in [
            (no_text, "--max-characters 0: "),
            (trusting, "--trust-power 9: "),
        ] {
            let error = check(&settings).unwrap_err().to_string();
            assert!(error.starts_with(told), "{error}");
        }
    }
}
