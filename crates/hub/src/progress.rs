//! Progress reports of a download.

use std::time::{Duration, Instant};

/// Step of [`fetch`](crate::fetch()).
#[derive(Debug, Clone, PartialEq)]
pub enum Progress {
    /// Waiting for another process that downloads the same model.
    Waiting,
    /// Listing the model's files.
    Asking,
    /// Verifying the chunks of an earlier download.
    Checking {
        /// Bytes verified.
        done: u64,
        /// Bytes to verify.
        total: u64,
    },
    /// Receiving bytes.
    Downloading {
        /// Bytes stored, including earlier ones.
        loaded: u64,
        /// Size of the model.
        total: u64,
        /// Bytes per second, smoothed; 0 until known.
        rate: f64,
        /// Seconds left at that rate.
        seconds_left: Option<u64>,
    },
    /// A request failed and will be retried.
    Trouble {
        /// Description of the failure.
        what: String,
        /// Wait before the next attempt.
        wait: Duration,
    },
    /// Verifying the digests of whole files.
    Verifying {
        /// Bytes verified.
        done: u64,
        /// Bytes to verify.
        total: u64,
    },
}

/// Formats a size: 512 B, 1.5 MB, 4.37 GB (powers of ten, as hubs count).
pub fn in_words(bytes: u64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "shown with three digits")]
    let value = bytes as f64;
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..1_000_000 => format!("{:.0} kB", value / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", value / 1e6),
        _ => format!("{:.2} GB", value / 1e9),
    }
}

/// Bytes per second, smoothed over some seconds.
pub(crate) struct Rate {
    since: Instant,
    bytes: u64,
    rate: f64,
}

impl Rate {
    pub(crate) fn start() -> Self {
        Self {
            since: Instant::now(),
            bytes: 0,
            rate: 0.0,
        }
    }

    /// Counts received bytes.
    pub(crate) fn add(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Returns the current rate, and the seconds that `left` bytes take at it.
    pub(crate) fn now(&mut self, left: u64) -> (f64, Option<u64>) {
        let seconds = self.since.elapsed().as_secs_f64();
        if seconds >= 0.25 {
            #[expect(clippy::cast_precision_loss, reason = "a rate for people")]
            let recent = self.bytes as f64 / seconds;
            // A time constant of three seconds: readable, yet quick to show a broken connection.
            let kept = if self.rate == 0.0 {
                0.0
            } else {
                (-seconds / 3.0).exp()
            };
            self.rate = self.rate * kept + recent * (1.0 - kept);
            self.since = Instant::now();
            self.bytes = 0;
        }
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "seconds for people; the cast saturates"
        )]
        let seconds_left = (self.rate >= 1.0).then(|| (left as f64 / self.rate).ceil() as u64);
        (self.rate, seconds_left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_readable() {
        let shown: Vec<_> = [0, 999, 1_000, 1_500_000, 4_368_439_584]
            .map(in_words)
            .into();
        assert_eq!(shown, ["0 B", "999 B", "1 kB", "1.5 MB", "4.37 GB"]);
    }

    #[test]
    fn no_time_is_promised_before_a_byte_arrived() {
        assert_eq!(Rate::start().now(100), (0.0, None));
    }
}
