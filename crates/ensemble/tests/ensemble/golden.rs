//! The authors' printed numbers, reproduced by the code in use.

use conclave_ensemble::{
    Exit, Query, Rule, Score, Settings, Update,
    replay::{Run, replay},
};
use serde::Deserialize;

const NORMALISATION: &str = include_str!("../../../../tests/golden/normalisation.json");
const WEIGHTS: &str = include_str!("../../../../tests/golden/weights-13-rounds.json");
const NOISE: &str = include_str!("../../../../tests/golden/noise-candidate.json");

#[derive(Deserialize)]
struct Normalisation {
    raw: Vec<Vec<f64>>,
    normalised: Vec<Vec<f64>>,
    winner_with_equal_weights: usize,
}

#[derive(Deserialize)]
struct Weights {
    tolerance: f64,
    counts: Vec<[usize; 3]>,
    weights: Vec<[f64; 3]>,
}

#[derive(Deserialize)]
struct Noise {
    totals: Vec<Vec<f64>>,
    winner: Vec<usize>,
}

fn scores(raw: &[Vec<f64>]) -> Vec<Vec<Score>> {
    let score = |&number: &f64| Score {
        mean_logit: Some(number),
        ..Score::default()
    };
    raw.iter()
        .map(|row| row.iter().map(score).collect())
        .collect()
}

#[test]
fn the_printed_normalisation_and_its_winner() {
    let golden: Normalisation = serde_json::from_str(NORMALISATION).unwrap();
    // Selection with the weights before feedback: equal ones.
    let settings = Settings {
        update: Update::After,
        ..Settings::preset(Rule::Paper)
    };
    let mut query = Query::new(3, settings).unwrap();
    let shares = query.normalise(&scores(&golden.raw)).unwrap();
    for (row, printed) in shares.iter().zip(&golden.normalised) {
        for (share, printed) in row.iter().zip(printed) {
            // Three decimals; the source truncated some of them instead of rounding.
            assert!((share - printed).abs() < 1e-3, "{share} against {printed}");
        }
    }
    let winner = query.select(&shares).unwrap().winner;
    assert_eq!(winner, golden.winner_with_equal_weights);
}

/// Counts c_j by their definition, `[candidates]`: pairs of a verifier other than j and a candidate
/// m other than j that it scores no higher than j; at least 1.
fn counts_by_definition(scores: &[[usize; 3]; 3]) -> [usize; 3] {
    let mut counts = [0; 3];
    for (verifier, row) in scores.iter().enumerate() {
        for j in 0..3 {
            for m in 0..3 {
                if verifier != j && m != j && row[j] >= row[m] {
                    counts[j] += 1;
                }
            }
        }
    }
    counts.map(|count| count.max(1))
}

/// Scores of three verifiers whose counts differ as `counts` do: a constant added to all counts
/// changes no weight.
fn scores_with(counts: [usize; 3]) -> ([[usize; 3]; 3], [usize; 3]) {
    for more in 0..=3 {
        let wanted = counts.map(|count| count + more);
        for code in 0..3_usize.pow(9) {
            let digit = |place: usize| code / 3_usize.pow(place as u32) % 3 + 1;
            let scores =
                std::array::from_fn(|row| std::array::from_fn(|column| digit(3 * row + column)));
            if counts_by_definition(&scores) == wanted {
                return (scores, wanted);
            }
        }
    }
    panic!("no scores have the counts {counts:?}");
}

#[test]
fn the_39_printed_weights() {
    let golden: Weights = serde_json::from_str(WEIGHTS).unwrap();
    assert_eq!(golden.counts.len(), 13);
    let matrices: Vec<_> = golden.counts.iter().map(|&c| scores_with(c)).collect();
    let rounds: Vec<_> = matrices
        .iter()
        .map(|(matrix, _)| serde_json::json!({ "scores": matrix }))
        .collect();
    let run: Run =
        serde_json::from_value(serde_json::json!({"members": ["a", "b", "c"], "rounds": rounds}))
            .unwrap();
    for update in [Update::Before, Update::After] {
        let settings = Settings {
            update,
            ..Settings::preset(Rule::Paper)
        };
        let replayed = replay(&run, &settings).unwrap();
        let mut checked = 0;
        for (k, round) in replayed.rounds.iter().enumerate() {
            assert_eq!(round.counts, matrices[k].1, "round {}", k + 1);
            for (weight, printed) in round.weights.iter().zip(golden.weights[k]) {
                let error = (weight - printed).abs();
                assert!(
                    error <= golden.tolerance,
                    "round {}: {weight} against {printed}",
                    k + 1
                );
                checked += 1;
            }
        }
        assert_eq!(checked, 39);
    }
}

#[test]
fn the_printed_form_does_not_reproduce_them() {
    // The reason why the code form is the default.
    let golden: Weights = serde_json::from_str(WEIGHTS).unwrap();
    let settings = Settings {
        rate: conclave_ensemble::Rate::Printed,
        ..Settings::preset(Rule::Paper)
    };
    let mut query = Query::new(3, settings).unwrap();
    let mut worst: f64 = 0.0;
    for (counts, printed) in golden.counts.iter().zip(&golden.weights) {
        let (matrix, _) = scores_with(*counts);
        let raw: Vec<Vec<f64>> = matrix.map(|row| row.map(|s| s as f64).to_vec()).to_vec();
        let shares = query.normalise(&scores(&raw)).unwrap();
        let weights = query.feedback(&shares).unwrap().weights;
        query.stop(&conclave_ensemble::Candidate {
            text: " word".into(),
            ended: false,
        });
        for (weight, printed) in weights.iter().zip(printed) {
            worst = worst.max((weight - printed).abs());
        }
    }
    assert!(worst > 0.03, "{worst}");
}

/// Score matrices whose totals under equal weights are the printed ones, while every verifier, the
/// writer of the noise too, puts `vanity` more on its own candidate.
fn noisy_rounds(totals: &[Vec<f64>], vanity: f64) -> Vec<Vec<Vec<f64>>> {
    let n = totals[0].len();
    let own = |i: usize, j: usize| if i == j { vanity } else { 0.0 };
    let row = |totals: &[f64], i: usize| -> Vec<f64> {
        (0..n)
            .map(|j| totals[j] + own(i, j) - vanity / n as f64)
            .collect()
    };
    totals
        .iter()
        .map(|totals| (0..n).map(|i| row(totals, i)).collect())
        .collect()
}

#[test]
fn noise_never_wins() {
    let golden: Noise = serde_json::from_str(NOISE).unwrap();
    for vanity in [0.0, 0.03, 0.06] {
        let rounds = noisy_rounds(&golden.totals, vanity);
        // The printed totals, by selection under equal weights.
        for (raw, printed) in rounds.iter().zip(&golden.totals) {
            let mut query = Query::new(4, Settings::preset(Rule::Paper)).unwrap();
            let shares = query.normalise(&scores(raw)).unwrap();
            let sum: f64 = printed.iter().sum();
            for (total, printed) in query.select(&shares).unwrap().totals.iter().zip(printed) {
                assert!(
                    (total - printed / sum).abs() < 1e-12,
                    "{total} against {printed}"
                );
            }
        }
        // The four rounds as one query, weights moving, with and without self-votes.
        for self_votes in [true, false] {
            let settings = Settings {
                self_votes,
                ..Settings::preset(Rule::Paper)
            };
            let run: Run = serde_json::from_value(serde_json::json!({
                "members": ["Qwen2", "Mistral", "GLM-4", "noise"],
                "rounds": rounds
                    .iter()
                    .map(|r| serde_json::json!({ "scores": r }))
                    .collect::<Vec<_>>(),
            }))
            .unwrap();
            let replayed = replay(&run, &settings).unwrap();
            for (k, round) in replayed.rounds.iter().enumerate() {
                let noise = round.totals[3];
                assert!(
                    round.totals[..3].iter().all(|&total| total > noise),
                    "round {}",
                    k + 1
                );
                assert!(
                    round.weights[..3].iter().all(|&w| w > round.weights[3]),
                    "round {}",
                    k + 1
                );
                assert_eq!(round.counts[3], 1);
                if vanity == 0.0 {
                    assert_eq!(round.winner, golden.winner[k], "round {}", k + 1);
                }
            }
        }
        // With model exit only the noise leaves.
        let settings = Settings {
            exit: Some(Exit::default()),
            ..Settings::preset(Rule::Paper)
        };
        let mut query = Query::new(4, settings).unwrap();
        let mut gone = Vec::new();
        for raw in &rounds {
            let present = query.active().to_vec();
            let raw: Vec<Vec<f64>> = present
                .iter()
                .map(|&i| present.iter().map(|&j| raw[i][j]).collect())
                .collect();
            let shares = query.normalise(&scores(&raw)).unwrap();
            query.feedback(&shares).unwrap();
            let winner = query.select(&shares).unwrap().winner;
            gone.extend(query.exit(winner).unwrap());
            query.stop(&conclave_ensemble::Candidate {
                text: " word".into(),
                ended: false,
            });
        }
        assert!(gone.is_empty() || gone == [3], "{gone:?}");
        assert!(vanity > 0.0 || gone == [3], "the noise stayed");
    }
}
