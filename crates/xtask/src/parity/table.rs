//! Parity table of `docs/measurements.md`: families by formats, with the worst figure of each.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::comparison::{Comparison, Outcome};

/// Columns: a heading, and the formats whose worst figure it shows.
const COLUMNS: [(&str, &[&str]); 11] = [
    ("folder, F32", &["hf-f32", "hf-shards", "hf-spelling-4"]),
    ("folder, BF16", &["hf-bf16"]),
    ("folder → Q8_0, Q4_0", &["hf-f32:q8_0", "hf-f32:q4_0"]),
    ("F32", &["f32"]),
    ("F16, BF16", &["f16", "bf16"]),
    ("Q8_0", &["q8_0"]),
    ("Q4_0, Q4_1", &["q4_0", "q4_1"]),
    ("Q4_K_M", &["q4_k_m"]),
    ("Q6_K", &["q6_k"]),
    (
        "Q5_0, Q5_1, Q2_K, Q3_K_M, Q5_K_M",
        &["q5_0", "q5_1", "q2_k", "q3_k_m", "q5_k_m"],
    ),
    (
        "IQ3_M, IQ4_NL, IQ4_XS, MXFP4",
        &["iq3_m", "iq4_nl", "iq4_xs", "mxfp4"],
    ),
];

pub fn markdown(outcomes: &[(&Comparison, Outcome)], devices: &[String]) -> String {
    let columns: Vec<_> = COLUMNS
        .iter()
        .filter(|(_, formats)| {
            outcomes
                .iter()
                .any(|(one, _)| formats.contains(&one.format.as_str()))
        })
        .collect();
    let mut families: Vec<&str> = Vec::new();
    for (one, _) in outcomes {
        if !families.contains(&one.family.as_str()) {
            families.push(&one.family);
        }
    }
    let mut text = String::new();
    // Writing to a `String` can't fail.
    let _ = write!(text, "| family (configurations) |");
    for (heading, _) in &columns {
        let _ = write!(text, " {heading} |");
    }
    let _ = writeln!(text, "\n|---|{}", "---|".repeat(columns.len()));
    for family in families {
        let own: Vec<_> = outcomes
            .iter()
            .filter(|(one, _)| one.family == family)
            .collect();
        let cases: BTreeSet<&str> = own.iter().map(|(one, _)| one.case.as_str()).collect();
        let _ = write!(text, "| {family} ({}) |", cases.len());
        for (_, formats) in &columns {
            let cell = own
                .iter()
                .filter(|(one, _)| formats.contains(&one.format.as_str()))
                .map(|(_, outcome)| outcome);
            let _ = write!(text, " {} |", worst(cell));
        }
        text.push('\n');
    }
    let _ = writeln!(
        text,
        "\nLargest |ours − transformers| over the largest logit of the row, of all rows of \
         prompts of 5, 37 and 300 tokens, on {}; a figure stands only where 24 greedy tokens \
         are identical.",
        devices.join(" and ")
    );
    text
}

/// Renders the cell of some outcomes.
fn worst<'a>(outcomes: impl Iterator<Item = &'a Outcome>) -> String {
    let mut most: Option<f64> = None;
    let mut missed = false;
    for outcome in outcomes {
        match outcome {
            Outcome::Failed(_) => return "failed".to_owned(),
            Outcome::Compared { greedy, .. } if greedy.0 < greedy.1 => {
                return format!("greedy {}/{}", greedy.0, greedy.1);
            }
            Outcome::Compared { error, .. } if error.is_nan() => return "NaN".to_owned(),
            Outcome::Compared { error, limit, .. } => {
                missed |= error > limit;
                most = Some(most.map_or(*error, |m| m.max(*error)));
            }
        }
    }
    match most {
        None => "–".to_owned(),
        Some(error) if missed => format!("**{error:.1e}**"),
        Some(error) => format!("{error:.0e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_says_the_worst_of_its_outcomes() {
        let held = |error| Outcome::Compared {
            error,
            limit: 1e-4,
            greedy: (24, 24),
        };
        assert_eq!(worst([held(2e-6), held(3e-5)].iter()), "3e-5");
        assert_eq!(worst([].iter()), "–");
        assert_eq!(worst([held(2e-6), held(2e-3)].iter()), "**2.0e-3**");
        assert_eq!(
            worst([held(2e-4), held(7e-3), held(3e-4)].iter()),
            "**7.0e-3**"
        );
        assert_eq!(worst([held(2e-6), held(f64::NAN)].iter()), "NaN");
        let parted = Outcome::Compared {
            error: 1e-6,
            limit: 1e-4,
            greedy: (7, 24),
        };
        assert_eq!(worst([parted].iter()), "greedy 7/24");
        let refused = Outcome::Failed("no".to_owned());
        assert_eq!(worst([held(2e-6), refused].iter()), "failed");
    }
}
