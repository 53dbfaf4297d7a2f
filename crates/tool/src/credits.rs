//! Writers of an answer, and members whose single vote outweighed all others'.
//!
//! The page shows the same (`web/src/page/credits.ts`); both are tested with
//! `tests/credits/lines.json`.

use std::fmt::Write;

use conclave_rounds::Round;

/// Members, by index, credited with a round.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[cfg_attr(test, derive(serde::Deserialize))]
#[cfg_attr(test, serde(rename_all = "camelCase", default))]
pub struct Credit {
    /// The winner, and members that drafted the same segment.
    pub writers: Vec<usize>,
    /// Members whose single vote decided the round.
    pub turned_by: Vec<usize>,
}

impl From<&Round> for Credit {
    fn from(round: &Round) -> Self {
        let writers = round
            .writers
            .iter()
            .map(|&candidate| round.drafters[candidate]);
        let turned = round.turned_by.iter().map(|&place| round.active[place]);
        Self {
            writers: writers.collect(),
            turned_by: turned.collect(),
        }
    }
}

/// Line below an answer; `None` for a single member, or without rounds.
pub fn line(names: &[String], rounds: &[Credit]) -> Option<String> {
    if names.len() < 2 || rounds.is_empty() {
        return None;
    }
    let count = |has: &dyn Fn(&Credit) -> bool| rounds.iter().filter(|round| has(round)).count();
    let members = 0..names.len();
    let wrote = |member: usize| count(&|round| round.writers.contains(&member));
    let (mut some, none): (Vec<_>, Vec<_>) = members.clone().partition(|&member| wrote(member) > 0);
    some.sort_by_key(|&member| std::cmp::Reverse(wrote(member)));
    let mut line = String::from("Written by");
    for (place, &member) in some.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let _ = write!(line, "{comma} {} {}", names[member], wrote(member));
        if place == 0 {
            let _ = write!(line, " of {}", plural(rounds.len(), "segment"));
        }
    }
    for &member in &none {
        let _ = write!(line, ", {} none", names[member]);
    }
    let alike = count(&|round| round.writers.len() > 1);
    if alike > 0 {
        let _ = write!(line, "; {alike} in the same words");
    }
    line.push('.');
    let turned = |member: usize| count(&|round| round.turned_by.contains(&member));
    let mut turning: Vec<usize> = members.filter(|&member| turned(member) > 0).collect();
    turning.sort_by_key(|&member| std::cmp::Reverse(turned(member)));
    for (place, &member) in turning.iter().enumerate() {
        let (name, rounds) = (&names[member], turned(member));
        let _ = match place {
            0 => write!(
                line,
                " {name}'s vote decided {} against all the others",
                plural(rounds, "round")
            ),
            _ => write!(line, ", {name}'s {rounds}"),
        };
    }
    if !turning.is_empty() {
        line.push('.');
    }
    Some(line)
}

fn plural(count: usize, one: &str) -> String {
    let ending = if count == 1 { "" } else { "s" };
    format!("{count} {one}{ending}")
}

#[cfg(test)]
mod tests {
    use conclave_ensemble::Candidate;
    use serde::Deserialize;

    use super::*;

    #[derive(Deserialize)]
    struct Table {
        cases: Vec<Case>,
    }

    #[derive(Deserialize)]
    struct Case {
        members: Vec<String>,
        rounds: Vec<Credit>,
        line: Option<String>,
    }

    #[test]
    fn the_line_is_the_pages() {
        let table = include_str!("../../../tests/credits/lines.json");
        let table: Table = serde_json::from_str(table).unwrap();
        assert!(table.cases.len() > 5);
        for case in table.cases {
            assert_eq!(line(&case.members, &case.rounds), case.line);
        }
    }

    #[test]
    fn a_round_is_credited_to_members_also_after_one_has_left() {
        let draft = |text: &str| Candidate {
            text: text.to_owned(),
            ended: false,
        };
        let round = Round {
            active: vec![0, 2, 3],
            drafters: vec![0, 2, 3],
            candidates: vec![draft("Rome"), draft("Paris"), draft("Paris")],
            tokens: vec![1, 1, 1],
            scores: Vec::new(),
            verified: true,
            normalised: Vec::new(),
            totals: Vec::new(),
            winner: 1,
            writers: vec![1, 2],
            turned_by: vec![1],
            counts: Vec::new(),
            weights: Vec::new(),
            exited: Vec::new(),
            abstained: Vec::new(),
        };
        let credit = Credit {
            writers: vec![2, 3],
            turned_by: vec![2],
        };
        assert_eq!(Credit::from(&round), credit);
    }
}
