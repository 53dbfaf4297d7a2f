//! Means over answers other than correctness: cost, length, wording.

use serde::Serialize;

use crate::interval::mean;
use crate::ways::Tried;

/// Means over the answers of one way.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Means {
    /// Tokens run per answer, without the prompt's.
    pub tokens: f64,
    /// Seconds per answer, without prompt processing.
    pub seconds: f64,
    /// Mean number of characters per answer.
    pub characters: f64,
    /// Ratio of characters to those of the best member; `None` without a best member.
    pub length: Option<f64>,
    /// Percent of distinct 4-grams, over the answers that have any.
    pub distinct: Option<f64>,
    /// Percent of the answers that repeat a turn of the conversation.
    pub repeats: f64,
    /// Percent of the answers with a role marker.
    pub markers: f64,
    /// Percent of the answers cut off at the limit.
    pub cut: f64,
    /// Nats per token under the reference member, over all tokens.
    pub nats_per_token: Option<f64>,
    /// The same per byte.
    pub nats_per_byte: Option<f64>,
    /// Number of questions without an answer.
    pub failed: usize,
}

impl Means {
    /// Means over `tried`; `best`, the best member's results on the same questions, scales the
    /// length.
    pub fn new(tried: &[&Tried], best: Option<&[&Tried]>) -> Self {
        let average = |figure: &dyn Fn(&Tried) -> f64| {
            let all: Vec<f64> = tried.iter().map(|tried| figure(tried)).collect();
            mean(&all).unwrap_or(0.0)
        };
        let percent =
            |is: &dyn Fn(&Tried) -> bool| average(&|tried| if is(tried) { 100.0 } else { 0.0 });
        let distinct: Vec<f64> = tried.iter().filter_map(|tried| tried.distinct).collect();
        let surprises = || tried.iter().filter_map(|tried| tried.surprise);
        let nats: f64 = surprises().map(|one| one.nats).sum();
        let over = |count: usize| (count > 0).then(|| nats / count as f64);
        let characters = average(&|tried| tried.characters as f64);
        let length = best.map(|best| {
            let all: Vec<f64> = best.iter().map(|tried| tried.characters as f64).collect();
            mean(&all).unwrap_or(0.0)
        });
        Self {
            tokens: average(&|tried| tried.tokens as f64),
            seconds: average(&|tried| tried.seconds),
            characters,
            length: length
                .filter(|&length| length > 0.0)
                .map(|length| characters / length),
            distinct: mean(&distinct).map(|share| 100.0 * share),
            repeats: percent(&|tried| tried.repeats),
            markers: percent(&|tried| tried.marker),
            cut: percent(&|tried| tried.cut),
            nats_per_token: over(surprises().map(|one| one.tokens).sum()),
            nats_per_byte: over(surprises().map(|one| one.bytes).sum()),
            failed: tried.iter().filter(|tried| tried.failed).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Surprise;

    #[test]
    fn each_mean_is_over_the_answers_that_have_the_figure() {
        let long = Tried {
            characters: 30,
            distinct: Some(0.5),
            repeats: true,
            surprise: Some(Surprise {
                nats: 6.0,
                tokens: 3,
                bytes: 12,
            }),
            ..Tried::default()
        };
        let short = Tried {
            characters: 10,
            failed: true,
            surprise: Some(Surprise {
                nats: 4.0,
                tokens: 1,
                bytes: 4,
            }),
            ..Tried::default()
        };
        let silent = Tried::default();
        let best = Tried {
            characters: 20,
            ..Tried::default()
        };
        let means = Means::new(&[&long, &short, &silent, &silent], Some(&[&best; 4][..]));
        assert_eq!((means.characters, means.length), (10.0, Some(0.5)));
        assert_eq!((means.distinct, means.repeats), (Some(50.0), 25.0));
        assert_eq!(means.nats_per_token, Some(2.5));
        assert_eq!(means.nats_per_byte, Some(0.625));
        assert_eq!((means.failed, means.cut), (1, 0.0));
        let none = Means::new(&[&silent], Some(&[&silent][..]));
        assert_eq!(
            (none.length, none.distinct, none.nats_per_byte),
            (None, None, None)
        );
    }
}
