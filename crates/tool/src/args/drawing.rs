//! The sampling options on the command line, from the model crate's list of them.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use conclave_model::{SAMPLING_OPTIONS, Sampling, SamplingOption};

/// Sampling options.
#[derive(Debug, Clone, Args)]
pub struct Drawing {
    #[command(flatten)]
    listed: Listed,
    /// Seed: the same text on the same device.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Always take the most probable token.
    #[arg(long)]
    pub greedy: bool,
}

impl Drawing {
    /// Converts to the model crate's settings.
    pub fn sampling(&self) -> Sampling {
        let Listed(sampling) = self.listed;
        Sampling {
            temperature: if self.greedy {
                0.0
            } else {
                sampling.temperature
            },
            seed: self.seed,
            ..sampling
        }
    }
}

/// Values of all [`SAMPLING_OPTIONS`].
#[derive(Debug, Clone, Copy)]
struct Listed(Sampling);

impl Args for Listed {
    fn augment_args(command: Command) -> Command {
        command.args(SAMPLING_OPTIONS.iter().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Listed {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut listed = Self(Sampling::default());
        listed.update_from_arg_matches(matches)?;
        Ok(listed)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for option in &SAMPLING_OPTIONS {
            if let Some(&value) = matches.get_one(option.name) {
                (option.set)(&mut self.0, value);
            }
        }
        Ok(())
    }
}

fn argument(option: &'static SamplingOption) -> Arg {
    let default = (option.value)(&Sampling::default());
    Arg::new(option.name)
        .long(option.flag())
        .value_name(option.name.to_uppercase())
        .help(option.help)
        .default_value(default.to_string())
        .value_parser(move |value: &str| parsed(option, value))
}

fn parsed(option: &SamplingOption, value: &str) -> Result<f64, String> {
    let kind = if option.is_whole() {
        "whole number"
    } else {
        "number"
    };
    let number = value.parse().ok().filter(|number: &f64| {
        (0.0..=option.most).contains(number) && (!option.is_whole() || number.fract() == 0.0)
    });
    number.ok_or_else(|| format!("choose a {kind} from 0 to {}", option.most))
}
