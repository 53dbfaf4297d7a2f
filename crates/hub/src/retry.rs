//! Which failures pass, and how long to wait for that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::HubError;

/// The longest wait that a server may ask for; beyond it, the user decides.
const PATIENCE: Duration = Duration::from_secs(120);

/// A request that failed.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// It may go well the next time: a broken line, a stall.
    Passing(String),
    /// The server is busy, and may say for how long.
    Busy { status: u16, wait: Option<Duration> },
    /// The server does not do ranges.
    NoRanges,
    /// The file is another than when the download began.
    Changed,
    /// Trying again would change nothing.
    Final(HubError),
}

impl From<HubError> for Trouble {
    fn from(error: HubError) -> Self {
        Self::Final(error)
    }
}

/// How often, and how soon, something is tried again.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    /// Failures in a row, without a byte between them, after which it ends.
    pub(crate) attempts: u32,
    /// The first wait; it doubles.
    pub(crate) pause: Duration,
}

/// Failures in a row.
pub(crate) struct Failures<'a> {
    patience: &'a Patience,
    what: &'a str,
    count: u32,
}

impl<'a> Failures<'a> {
    pub(crate) fn none(patience: &'a Patience, what: &'a str) -> Self {
        Self {
            patience,
            what,
            count: 0,
        }
    }

    /// Something went well in between.
    pub(crate) fn forget(&mut self) {
        self.count = 0;
    }

    /// Counts a failure: how long to wait, and what to tell.
    ///
    /// # Errors
    /// What is final, or has become so by its number.
    pub(crate) fn next(&mut self, trouble: Trouble) -> Result<(Duration, String), HubError> {
        let what = || self.what.to_owned();
        let mut slow_down = false;
        let (why, asked) = match trouble {
            Trouble::Final(error) => return Err(error),
            Trouble::Changed => return Err(HubError::Changed { what: what() }),
            Trouble::NoRanges => (
                "the server answers with another range than asked for".to_owned(),
                None,
            ),
            Trouble::Passing(why) => (why, None),
            Trouble::Busy {
                status,
                wait: Some(wait),
            } if wait > PATIENCE => {
                return Err(HubError::Later {
                    what: what(),
                    wait,
                    status,
                });
            }
            Trouble::Busy { status, wait } => {
                slow_down = status == 429 && wait.is_none();
                (format!("the server is busy (HTTP {status})"), wait)
            }
        };
        self.count += 1;
        if self.count >= self.patience.attempts {
            return Err(HubError::Unreachable {
                what: what(),
                why,
                attempts: self.count,
            });
        }
        let doubled = self
            .patience
            .pause
            .saturating_mul(1 << (self.count - 1).min(16))
            .saturating_mul(if slow_down { 10 } else { 1 })
            .min(PATIENCE);
        // Never sooner than usual, whatever is asked.
        Ok((asked.unwrap_or_default().max(doubled), why))
    }
}

/// Waits, unless `stop` comes first: then answers false.
pub(crate) fn wait(duration: Duration, stop: &AtomicBool) -> bool {
    let end = Instant::now() + duration;
    loop {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(Duration::from_millis(50)));
    }
}

/// Reads a `Retry-After`: seconds, or a date, which is taken relative to the server's own clock.
pub(crate) fn retry_after(header: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = header.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let seconds = seconds_of(header)?.checked_sub(seconds_of(date?)?)?;
    u64::try_from(seconds).ok().map(Duration::from_secs)
}

/// Seconds of `Wed, 21 Oct 2015 07:28:00 GMT`, counted from some day.
fn seconds_of(date: &str) -> Option<i64> {
    let mut words = date.split_ascii_whitespace().skip(1);
    let day: i64 = words.next()?.parse().ok()?;
    let month = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let name = words.next()?;
    let month = i64::try_from(month.iter().position(|month| *month == name)?).ok()?;
    let year: i64 = words
        .next()?
        .parse()
        .ok()
        .filter(|year| (1970..10_000).contains(year))?;
    let clock: Option<Vec<i64>> = words
        .next()?
        .split(':')
        .map(|part| part.parse().ok())
        .collect();
    let [hours, minutes, seconds] = clock?.try_into().ok()?;
    if !(1..=31).contains(&day) || hours > 24 || minutes > 60 || seconds > 61 {
        return None;
    }
    // Years begin with March here, so that the leap day comes last (Howard Hinnant's civil days).
    let (year, month) = if month < 2 {
        (year - 1, month + 10)
    } else {
        (year, month - 2)
    };
    let days = year * 365 + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    Some(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_those_that_tool_and_page_agreed_on() {
        let table = include_str!("../../../tests/hub/waits.json");
        let table: serde_json::Value = serde_json::from_str(table).unwrap();
        let seconds = |value: &serde_json::Value| value.as_f64().map(Duration::from_secs_f64);
        for case in table["retryAfter"].as_array().unwrap() {
            let read = retry_after(case["header"].as_str().unwrap(), case["date"].as_str());
            assert_eq!(read, seconds(&case["seconds"]), "{case}");
        }
        for case in table["waits"].as_array().unwrap() {
            let options = crate::Options::default();
            let patience = Patience {
                attempts: options.attempts,
                pause: options.pause,
            };
            let mut failures = Failures::none(&patience, "x");
            let busy = || Trouble::Busy {
                status: u16::try_from(case["status"].as_u64().unwrap()).unwrap(),
                wait: seconds(&case["retryAfter"]),
            };
            for wait in case["seconds"].as_array().unwrap() {
                assert_eq!(
                    Some(failures.next(busy()).unwrap().0),
                    seconds(wait),
                    "{case}"
                );
            }
            failures.next(busy()).unwrap_err();
        }
    }
}
