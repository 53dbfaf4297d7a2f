//! Which failures pass, and how long to wait for that.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::HubError;

/// The longest wait that a server may ask for; beyond it, the user decides.
const PATIENCE: Duration = Duration::from_secs(120);

/// The longest wait of our own.
const LONGEST: Duration = Duration::from_secs(30);

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
            Trouble::Busy { status, wait } => (format!("the server is busy (HTTP {status})"), wait),
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
            .saturating_mul(1 << (self.count - 1).min(16));
        Ok((asked.unwrap_or(doubled.min(LONGEST)), why))
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
    fn waits_double_and_end() {
        let patience = Patience {
            attempts: 4,
            pause: Duration::from_millis(500),
        };
        let mut failures = Failures::none(&patience, "x");
        let mut next = || {
            failures
                .next(Trouble::Passing("cut".to_owned()))
                .map(|(wait, _)| wait.as_millis())
        };
        assert_eq!(
            (next().unwrap(), next().unwrap(), next().unwrap()),
            (500, 1000, 2000)
        );
        assert!(matches!(
            next(),
            Err(HubError::Unreachable { attempts: 4, .. })
        ));
    }

    #[test]
    fn a_server_is_obeyed_within_reason() {
        let patience = Patience {
            attempts: 4,
            pause: Duration::from_millis(500),
        };
        let busy = |seconds| Trouble::Busy {
            status: 429,
            wait: Some(Duration::from_secs(seconds)),
        };
        assert_eq!(
            Failures::none(&patience, "x")
                .next(busy(7))
                .unwrap()
                .0
                .as_secs(),
            7
        );
        assert!(Failures::none(&patience, "x").next(busy(120)).is_ok());
        let error = Failures::none(&patience, "x").next(busy(121)).unwrap_err();
        assert!(error.to_string().contains("121 s"), "{error}");
    }

    #[test]
    fn reads_both_forms_of_retry_after() {
        assert_eq!(retry_after(" 7 ", None), Some(Duration::from_secs(7)));
        let date = Some("Sat, 28 Feb 2026 23:59:58 GMT");
        assert_eq!(
            retry_after("Sun, 01 Mar 2026 00:00:03 GMT", date),
            Some(Duration::from_secs(5))
        );
        assert_eq!(
            retry_after(
                "Thu, 01 Jan 2026 00:00:00 GMT",
                Some("Wed, 31 Dec 2025 23:59:00 GMT")
            ),
            Some(Duration::from_secs(60))
        );
        assert_eq!(
            retry_after("Sat, 28 Feb 2026 23:00:00 GMT", date),
            None,
            "in the past"
        );
        for text in [
            "",
            "-1",
            "soon",
            "Sat, 99 Feb 2026 00:00:00 GMT",
            "x 1 Jan 99999999999999999 0:0:0",
            "x 1 Jan 2026 1:2",
        ] {
            assert_eq!(retry_after(text, date), None, "{text}");
        }
    }
}
