//! A line on standard error with the progress of a download or a prompt; nothing without a
//! terminal.

use std::io::{IsTerminal, Write};

use conclave_hub::{Progress, in_words};
use conclave_remote::Remote;
use conclave_rounds::{Left, Round, Watch};

/// Progress line of a download.
pub struct Line {
    name: String,
    watched: bool,
    /// Number of characters on the screen.
    drawn: usize,
}

impl Line {
    /// Line of the model `name`; `quiet` if another program reads the output.
    pub fn new(name: String, quiet: bool) -> Self {
        let watched = !quiet && std::io::stderr().is_terminal();
        Self {
            name,
            watched,
            drawn: 0,
        }
    }

    pub fn show(&mut self, progress: &Progress) {
        if !self.watched {
            return;
        }
        draw(
            &format!("{}: {}", self.name, words(progress)),
            &mut self.drawn,
        );
        // Failures stay on the screen; other lines are overwritten.
        if matches!(progress, Progress::Trouble { .. }) {
            self.end();
        }
    }

    pub fn end(&mut self) {
        if std::mem::take(&mut self.drawn) > 0 {
            let _ = writeln!(std::io::stderr());
        }
    }
}

/// Progress line of members reading a conversation; erased at the end.
pub struct Reading {
    watched: bool,
    /// Number of characters on the screen.
    drawn: usize,
}

impl Reading {
    /// `quiet` if another program reads the output.
    pub fn new(quiet: bool) -> Self {
        let watched = !quiet && std::io::stderr().is_terminal();
        Self { watched, drawn: 0 }
    }

    /// Shows how many of its tokens `member` has read; nothing if it read them in one step.
    pub fn show(&mut self, member: &str, done: usize, total: usize) {
        if done == total {
            self.end();
        } else if self.watched {
            draw(
                &format!("{member} reads the conversation, {done} of {total} tokens"),
                &mut self.drawn,
            );
        }
    }

    /// Erases the line, if one was drawn.
    pub fn end(&mut self) {
        if self.drawn > 0 {
            draw("", &mut self.drawn);
            let _ = write!(std::io::stderr(), "\r");
        }
    }
}

/// Draws `text` over a line of `drawn` characters. Blanks erase the rest: a console of Windows
/// prints the command that would. A closed terminal ends nothing.
fn draw(text: &str, drawn: &mut usize) {
    let _ = write!(std::io::stderr(), "\r{text:0$}", *drawn);
    *drawn = text.chars().count();
}

/// Writes a line to standard error. A closed pipe or a full disk ends nothing.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Reports that a member left an answer.
pub fn tell_left(member: &str, left: &Left) {
    say(&format!(
        "{member} leaves: {}; the others go on",
        left.error
    ));
}

/// Reports that a member missed a round.
pub fn tell_late(member: &str, late: &Left) {
    say(&format!("{member} misses a round: {}", late.error));
}

/// Reports a member's server and abilities.
pub fn tell_remote(member: &Remote) {
    let (server, name) = (member.server(), member.name());
    let (host, can) = (server.host(), server.abilities().name());
    say(&format!(
        "{name} is at {host}, which hears the conversation; it {can}"
    ));
}

/// Observer of an answer's rounds only.
pub struct EachRound<F>(pub F);

impl<F: FnMut(&Round)> Watch for EachRound<F> {
    fn round(&mut self, round: &Round, _text: &str) {
        (self.0)(round);
    }

    fn left(&mut self, member: &str, left: &Left) {
        tell_left(member, left);
    }
}

fn words(progress: &Progress) -> String {
    match progress {
        Progress::Waiting => "another process downloads it, waiting".to_owned(),
        Progress::Asking => "asking for its files".to_owned(),
        Progress::Checking { done, total } => format!(
            "checking {} of {} that are here",
            in_words(*done),
            in_words(*total)
        ),
        Progress::Downloading {
            loaded,
            total,
            rate,
            seconds_left,
        } => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rate for people; the cast saturates"
            )]
            let rate = if *rate > 0.0 {
                format!(", {}/s", in_words(*rate as u64))
            } else {
                String::new()
            };
            let left = seconds_left
                .filter(|&left| left > 0)
                .map_or(String::new(), |left| format!(", {} left", duration(left)));
            format!("{} of {}{rate}{left}", in_words(*loaded), in_words(*total))
        }
        Progress::Trouble { what, wait } if wait.is_zero() => what.clone(),
        Progress::Trouble { what, wait } => {
            format!("{what}; trying again in {} s", wait.as_secs().max(1))
        }
        Progress::Verifying { done, total } => format!(
            "checking the whole, {} of {}",
            in_words(*done),
            in_words(*total)
        ),
    }
}

/// 45 s, 3 min, 1 h 20 min.
fn duration(seconds: u64) -> String {
    match seconds {
        0..=90 => format!("{seconds} s"),
        91..=5_400 => format!("{} min", seconds.div_ceil(60)),
        _ => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_bytes_rate_and_time() {
        let progress = Progress::Downloading {
            loaded: 120_000_000,
            total: 4_370_000_000,
            rate: 12_300_000.0,
            seconds_left: Some(346),
        };
        assert_eq!(
            words(&progress),
            "120.0 MB of 4.37 GB, 12.3 MB/s, 6 min left"
        );
        let progress = Progress::Downloading {
            loaded: 0,
            total: 1_000,
            rate: 0.0,
            seconds_left: None,
        };
        assert_eq!(words(&progress), "0 B of 1 kB");
    }
}
