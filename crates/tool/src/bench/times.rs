//! Statistics of timings: median and spread.

use serde::Serialize;

/// Milliseconds of repeated measurements.
#[derive(Debug, Default)]
pub struct Times(pub Vec<f64>);

/// Median and quartiles.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub count: usize,
}

impl Times {
    /// Interpolated quantile `part`; NaN if empty.
    fn at(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = part * sorted.len().saturating_sub(1) as f64;
        let value = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let (below, above) = (value(place.floor() as usize), value(place.ceil() as usize));
        below + (above - below) * place.fract()
    }

    /// Median; NaN if empty.
    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// Spread; `None` if empty.
    pub fn spread(&self) -> Option<Spread> {
        (!self.0.is_empty()).then(|| Spread {
            median: self.at(0.5),
            low: self.at(0.25),
            high: self.at(0.75),
            count: self.0.len(),
        })
    }
}

/// Repeats of one measurement: how many are left, and whether the time limit is reached.
///
/// The first run warms up and is not counted; if it alone exceeds the limit, it is the only
/// measurement and is reported as cold.
#[derive(Debug)]
pub struct Repeats {
    left: usize,
    limit_ms: f64,
    spent_ms: f64,
    /// Whether the first run is the one that counts.
    pub cold: bool,
    first: bool,
}

impl Repeats {
    /// At most `count` repeats, started within `limit_seconds`; at least one counts.
    pub fn new(count: usize, limit_seconds: f64) -> Self {
        Self {
            left: count,
            limit_ms: limit_seconds * 1e3,
            spent_ms: 0.0,
            cold: false,
            first: true,
        }
    }

    /// Returns whether another one is due.
    pub fn due(&self) -> bool {
        self.first || self.left > 0
    }

    /// Records a run of `ms`; returns whether it counts.
    pub fn counts(&mut self, ms: f64) -> bool {
        self.spent_ms += ms;
        let late = self.spent_ms > self.limit_ms;
        if std::mem::take(&mut self.first) {
            self.cold = late;
            if late {
                self.left = 0;
            }
            return late;
        }
        self.left = if late { 0 } else { self.left - 1 };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_lie_between_the_values() {
        let times = Times(vec![4.0, 1.0, 3.0, 2.0]);
        let wanted = Spread {
            median: 2.5,
            low: 1.75,
            high: 3.25,
            count: 4,
        };
        assert_eq!(times.spread(), Some(wanted));
        assert!(Times::default().median().is_nan());
        assert_eq!(Times::default().spread(), None);
    }

    /// Returns which repeats of these durations count, and whether they are cold.
    fn counted(count: usize, limit_seconds: f64, ms: &[f64]) -> (Vec<bool>, bool) {
        let mut repeats = Repeats::new(count, limit_seconds);
        let mut ms = ms.iter();
        let mut counts = Vec::new();
        while repeats.due() {
            counts.push(repeats.counts(*ms.next().unwrap()));
        }
        (counts, repeats.cold)
    }

    #[test]
    fn the_first_time_counts_only_where_it_is_all_there_is_time_for() {
        let all = counted(2, 10.0, &[3000.0, 1000.0, 1000.0]);
        assert_eq!(all, (vec![false, true, true], false));
        let cut = counted(5, 10.0, &[4000.0, 4000.0, 4000.0]);
        assert_eq!(cut, (vec![false, true, true], false));
        let cold = counted(5, 10.0, &[11_000.0]);
        assert_eq!(cold, (vec![true], true));
    }
}
