//! Temporary failures, and the waits before retries.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use httpdate::parse_http_date;

use crate::error::HubError;

/// Longest wait accepted from a server; for longer ones the user decides.
const MAX_WAIT: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) enum RequestError {
    /// Temporary: a broken or stalled connection.
    Passing(String),
    /// The server is busy, and may say for how long.
    Busy { status: u16, wait: Option<Duration> },
    /// The server does not support ranges.
    NoRanges,
    /// The file has changed since the download began.
    Changed,
    /// Permanent: a retry would not help.
    Final(HubError),
}

impl From<HubError> for RequestError {
    fn from(error: HubError) -> Self {
        Self::Final(error)
    }
}

/// Limits of retries.
#[derive(Debug, Clone)]
pub(crate) struct RetryPolicy {
    /// Number of failures in a row, without a byte in between, after which to give up.
    pub(crate) attempts: u32,
    /// First wait; doubles with each failure.
    pub(crate) pause: Duration,
}

pub(crate) struct Failures<'a> {
    policy: &'a RetryPolicy,
    what: &'a str,
    count: u32,
}

impl<'a> Failures<'a> {
    pub(crate) fn new(policy: &'a RetryPolicy, what: &'a str) -> Self {
        Self {
            policy,
            what,
            count: 0,
        }
    }

    /// Resets the count after a success.
    pub(crate) fn reset(&mut self) {
        self.count = 0;
    }

    /// Counts a failure; returns how long to wait, and its description.
    ///
    /// # Errors
    /// A permanent failure, or too many in a row.
    pub(crate) fn next(&mut self, trouble: RequestError) -> Result<(Duration, String), HubError> {
        let what = || self.what.to_owned();
        let mut slow_down = false;
        let (why, asked) = match trouble {
            RequestError::Final(error) => return Err(error),
            RequestError::Changed => return Err(HubError::Changed { what: what() }),
            RequestError::NoRanges => (
                "the server answers with another range than asked for".to_owned(),
                None,
            ),
            RequestError::Passing(why) => (why, None),
            RequestError::Busy {
                status,
                wait: Some(wait),
            } if wait > MAX_WAIT => {
                return Err(HubError::Later {
                    what: what(),
                    wait,
                    status,
                });
            }
            RequestError::Busy { status, wait } => {
                slow_down = status == 429 && wait.is_none();
                (format!("the server is busy (HTTP {status})"), wait)
            }
        };
        self.count += 1;
        if self.count >= self.policy.attempts {
            return Err(HubError::Unreachable {
                what: what(),
                why,
                attempts: self.count,
            });
        }
        let doubled = self
            .policy
            .pause
            .saturating_mul(1 << (self.count - 1).min(16))
            .saturating_mul(if slow_down { 10 } else { 1 })
            .min(MAX_WAIT);
        // A server may only lengthen the usual wait.
        Ok((asked.unwrap_or_default().max(doubled), why))
    }
}

/// Waits; returns false if `stop` is set first.
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

/// Parses `Retry-After`: seconds, or a date relative to the server's own clock.
pub(crate) fn retry_after(header: &str, date: Option<&str>) -> Option<Duration> {
    if let Ok(seconds) = header.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let (then, now) = (parse_http_date(header).ok()?, parse_http_date(date?).ok()?);
    then.duration_since(now).ok()
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
            let policy = RetryPolicy {
                attempts: options.attempts,
                pause: options.pause,
            };
            let mut failures = Failures::new(&policy, "x");
            let busy = || RequestError::Busy {
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
