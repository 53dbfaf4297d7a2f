//! A report as Markdown: correctness, ceiling, groups, cost and writers.

use std::fmt::{Result, Write};

use crate::against::Difference;
use crate::ceiling::Ceiling;
use crate::interval::Interval;
use crate::means::Means;
use crate::report::{Report, Row};
use crate::rounds::{Rounds, Times};
use crate::ways::Kind;

/// Renders the tables of `report`.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = write_all(report, &mut text);
    text
}

fn write_all(report: &Report, text: &mut String) -> Result {
    if !report.ways.is_empty() {
        right(report, text)?;
        cost(report, text)?;
        exchange(report, text)?;
        by_group(report, text)?;
        ceiling(report, text)?;
    }
    open(report, text)?;
    draws(report, text)?;
    rounds(report, text)
}

fn right(report: &Report, text: &mut String) -> Result {
    let best = report.best.as_deref().unwrap_or("the best member");
    let closed = report.asked - report.open;
    write!(
        text,
        "| % right of {closed} | all | 95 % | over {best} | 95 % |"
    )?;
    for group in report.by_group.keys() {
        write!(text, " {group} |")?;
    }
    writeln!(
        text,
        "\n|---|---|---|---|---|{}",
        "---|".repeat(report.by_group.len())
    )?;
    for row in &report.ways {
        let Row {
            percent, interval, ..
        } = row;
        write!(
            text,
            "| {} | {percent:.1} | {} | {} |",
            title(&row.name, row.kind),
            range(*interval),
            points(row.difference.as_ref())
        )?;
        for group in report.by_group.keys() {
            match row.groups.get(group) {
                Some(percent) => write!(text, " {percent:.0} |")?,
                None => text.push_str(" |"),
            }
        }
        text.push('\n');
    }
    Ok(())
}

/// Column titles for [`means`].
const MEANS: &str = "tokens run | seconds | characters | length beside the best member | \
                     % distinct 4-grams | \
                     % repeating a turn | % with a role marker | % at the limit | failed |";

fn means(means: &Means) -> String {
    format!(
        "{:.0} | {:.2} | {:.0} | {} | {} | {:.1} | {:.1} | {:.1} | {} |",
        means.tokens,
        means.seconds,
        means.characters,
        optional(means.length, 2),
        optional(means.distinct, 1),
        means.repeats,
        means.markers,
        means.cut,
        means.failed
    )
}

fn cost(report: &Report, text: &mut String) -> Result {
    write!(text, "\n| an answer | {MEANS}\n|---|{}\n", "---|".repeat(9))?;
    for row in &report.ways {
        let name = title(&row.name, row.kind);
        writeln!(text, "| {name} | {}", means(&row.means))?;
    }
    Ok(())
}

/// Questions lost and gained in comparison with the best member.
fn exchange(report: &Report, text: &mut String) -> Result {
    let best = report.best.as_deref().unwrap_or("the best member");
    write!(
        text,
        "\n| beside {best} | lost of those it has right | gained of those it has wrong | \
         over each group's best member | 95 % |\n|---|---|---|---|---|\n"
    )?;
    for row in report.ways.iter().filter(|row| row.kind != Kind::Oracle) {
        if let Some(over) = &row.difference {
            writeln!(
                text,
                "| {} | {} | {} |",
                title(&row.name, row.kind),
                lost_and_gained(over),
                points(row.over_groups.as_ref())
            )?;
        }
    }
    Ok(())
}

fn by_group(report: &Report, text: &mut String) -> Result {
    text.push_str(
        "\n| group | questions | its best member | % right | β | rule | % right | over it | \
         95 % | lost | gained | \
         % of rounds by others than the main writer | first text, 95th percentile, s | \
         answer over the slowest |\n",
    );
    writeln!(text, "|{}", "---|".repeat(14))?;
    for (name, group) in &report.by_group {
        let rules = group.ways.iter().filter(|way| way.kind == Kind::Ensemble);
        for (rule, rounds) in rules.zip(&group.rules) {
            let over = rule.over_group_best.as_ref();
            writeln!(
                text,
                "| {name} | {} | {} | {:.1} | {} | {} | {:.1} | {} | {} | {:.0} | {} | {} |",
                group.questions,
                group.best,
                group.percent,
                optional(group.ceiling.map(|ceiling| ceiling.percent), 1),
                rounds.name,
                rule.percent,
                points(over),
                over.map_or_else(|| " | ".to_owned(), lost_and_gained),
                rounds.others,
                optional(rounds.times.first_p95, 2),
                optional(rounds.times.over_slowest, 2),
            )?;
        }
    }
    Ok(())
}

fn ceiling(report: &Report, text: &mut String) -> Result {
    let Some(Ceiling {
        questions,
        wrong,
        percent,
        interval,
        gain,
        gain_high,
        ..
    }) = report.ceiling
    else {
        return Ok(());
    };
    writeln!(
        text,
        "\nβ: every member gets {wrong} of {questions} questions wrong, {percent:.1} % \
         (95 %: {}). No rule that emits one member's greedy answer can gain more than {gain:.1} \
         points over the best member on these questions, nor more than {gain_high:.1} with β \
         at the lower end (arXiv 2606.27288).",
        range(interval)
    )
}

fn open(report: &Report, text: &mut String) -> Result {
    if report.open_ways.is_empty() {
        return Ok(());
    }
    if !text.is_empty() {
        text.push('\n');
    }
    let asked = report.open_ways.iter();
    let surprise = asked.clone().any(|row| row.means.nats_per_token.is_some());
    let (titles, more) = match surprise {
        true => (" nats a token | nats a byte |", 2),
        false => ("", 0),
    };
    let columns = "---|".repeat(9 + more);
    write!(
        text,
        "| answers to {} open questions | {MEANS}{titles}\n|---|{columns}\n",
        report.open
    )?;
    for row in asked {
        let name = title(&row.name, row.kind);
        write!(text, "| {name} | {}", means(&row.means))?;
        if surprise {
            let Means {
                nats_per_token,
                nats_per_byte,
                ..
            } = row.means;
            let (token, byte) = (optional(nats_per_token, 3), optional(nats_per_byte, 3));
            write!(text, " {token} | {byte} |")?;
        }
        text.push('\n');
    }
    Ok(())
}

fn draws(report: &Report, text: &mut String) -> Result {
    if report.draws.is_empty() {
        return Ok(());
    }
    write!(
        text,
        "\n| sampled, means over the seeds | % right | 95 % | over the best member sampled | \
         95 % | {MEANS}\n|---|{}\n",
        "---|".repeat(13)
    )?;
    for row in &report.draws {
        let difference = row.difference.map_or_else(
            || " | ".to_owned(),
            |over| format!("{:+.1} | {}", over.points, signed(over.interval)),
        );
        writeln!(
            text,
            "| {} | {} | {} | {difference} | {}",
            title(&row.name, row.kind),
            optional(row.percent, 1),
            row.interval.map(range).unwrap_or_default(),
            means(&row.means)
        )?;
    }
    Ok(())
}

fn rounds(report: &Report, text: &mut String) -> Result {
    text.push('\n');
    for rule in &report.rules {
        let shares = rule
            .segments
            .iter()
            .map(|one| format!("{} {:.0} %", one.member, one.share));
        let shares: Vec<String> = shares.collect();
        write!(
            text,
            "{}: {:.1} rounds an answer, segments by {}.",
            rule.name,
            rule.rounds as f64 / report.asked.max(1) as f64,
            shares.join(", ")
        )?;
        if rule.saved > 0.0 {
            write!(
                text,
                " {:.1} members a round: {:.0} % of the calls saved by those that left.",
                rule.active, rule.saved
            )?;
        }
        further(rule, text)?;
        text.push('\n');
    }
    Ok(())
}

/// Further figures of the rounds, as sentences.
fn further(rule: &Rounds, text: &mut String) -> Result {
    if rule.others > 0.0 {
        let others = rule.others;
        write!(
            text,
            " {others:.0} % of the rounds by others than the main writer."
        )?;
    }
    if rule.beyond > 0 {
        let beyond = rule.beyond;
        write!(text, " {beyond} right where every member alone is wrong.")?;
    }
    let Times {
        first: Some(first),
        first_p95: Some(p95),
        ..
    } = rule.times
    else {
        return Ok(());
    };
    write!(
        text,
        " First text after {first:.2} s (median; 95th percentile {p95:.2} s)"
    )?;
    if let (Some(slowest), Some(over)) = (&rule.times.slowest, rule.times.over_slowest) {
        write!(
            text,
            ", the whole answer {over:.2} times as long as {slowest}'s own"
        )?;
    }
    text.push('.');
    Ok(())
}

fn lost_and_gained(over: &Difference) -> String {
    let Difference {
        right,
        lost,
        wrong,
        gained,
        ..
    } = over;
    format!("{lost} of {right} | {gained} of {wrong}")
}

/// Renders two cells.
fn points(over: Option<&Difference>) -> String {
    over.map_or_else(
        || "|".to_owned(),
        |over| format!("{:+.1} | {}", over.points, signed(over.interval)),
    )
}

fn range(interval: Interval) -> String {
    format!("{:.1} to {:.1}", interval.low, interval.high)
}

fn signed(interval: Interval) -> String {
    format!("{:+.1} to {:+.1}", interval.low, interval.high)
}

fn optional(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(String::new, |value| format!("{value:.digits$}"))
}

fn title(name: &str, kind: Kind) -> String {
    match kind {
        Kind::Ensemble => format!("**{name}**"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Answer, Draw, Played, Surprise, Together};
    use crate::report::tests::forty;

    /// Lines of each block of `text`; checks that table rows have as many columns as titles.
    fn blocks(text: &str) -> Vec<Vec<&str>> {
        let blocks = text
            .trim_end()
            .split("\n\n")
            .map(|block| block.lines().collect());
        let blocks: Vec<Vec<&str>> = blocks.collect();
        for table in blocks.iter().filter(|block| block[0].starts_with('|')) {
            let columns = |row: &str| row.matches('|').count();
            for row in table {
                assert_eq!(columns(row), columns(table[0]), "{row}\n{}", table[0]);
            }
        }
        blocks
    }

    #[test]
    fn tables_have_a_row_a_way_and_as_many_columns_as_titles() {
        let (run, mut outcomes) = forty();
        for outcome in &mut outcomes {
            outcome.rules[0].played = vec![Played {
                seconds: 0.25,
                text: "yes".to_owned(),
                ..Played::default()
            }];
        }
        let report = Report::new(&run, &outcomes);
        let text = markdown(&report);
        let blocks = blocks(&text);
        let row = |block: usize, wanted: &str| {
            let rows = &blocks[block];
            assert!(rows.contains(&wanted), "{}", rows.join("\n"));
        };
        assert_eq!(blocks[0].len(), 2 + report.ways.len());
        assert!(blocks[0][0].ends_with("| over B alone, greedy | 95 % | even | odd |"));
        let ensemble = blocks[0]
            .iter()
            .find(|row| row.contains("ensemble"))
            .unwrap();
        assert!(
            ensemble.starts_with("| **ensemble, paper** | 90.0 | "),
            "{text}"
        );
        assert!(ensemble.contains(" | +15.0 | "), "{text}");
        let cost = "| **ensemble, paper** | 20 | 0.50 | 3 | 0.52 |  | 0.0 | 0.0 | 10.0 | 0 |";
        row(1, cost);
        let exchange = &blocks[2];
        let lost = "| **ensemble, paper** | 4 of 30 | 10 of 10 | +15.0 | ";
        assert!(exchange.iter().any(|row| row.starts_with(lost)), "{text}");
        let group = "| even | 20 | B alone, greedy | 75.0 | 0.0 | paper | 90.0 | +15.0 | ";
        assert!(blocks[3].iter().any(|row| row.starts_with(group)), "{text}");
        assert!(
            blocks[3][2].ends_with(" | 2 of 15 | 5 of 5 | 33 | 0.25 | 1.00 |"),
            "{text}"
        );
        let beta =
            "β: every member gets 0 of 40 questions wrong, 0.0 % (95 %: 0.0 to 8.8). No rule";
        assert!(blocks[4][0].starts_with(beta), "{text}");
        assert!(blocks[4][0].contains("more than 25.0 points over the best member"));
        let wanted = "paper: 2.0 rounds an answer, segments by A 67 %, B 33 %. \
                      1.5 members a round: 25 % of the calls saved by those that left. \
                      33 % of the rounds by others than the main writer. \
                      First text after 0.25 s (median; 95th percentile 0.25 s), \
                      the whole answer 1.00 times as long as B's own.";
        assert_eq!(blocks[5], [wanted]);
        assert_eq!(blocks.len(), 6);
    }

    #[test]
    fn open_questions_and_draws_have_tables_of_their_own() {
        let (run, mut outcomes) = forty();
        let surprise = Some(Surprise {
            nats: 3.0,
            tokens: 2,
            bytes: 8,
        });
        for outcome in &mut outcomes {
            outcome.open = true;
            outcome.rules[0].answer.surprise = surprise;
            outcome.draws = vec![Draw {
                seed: 4,
                alone: vec![Answer::default(), Answer::default()],
                rules: vec![Together::default()],
            }];
        }
        let run = crate::ways::Run {
            draws: vec![4],
            ..run
        };
        let text = markdown(&Report::new(&run, &outcomes));
        let blocks = blocks(&text);
        assert!(blocks[0][0].starts_with("| answers to 40 open questions | tokens run"));
        assert!(blocks[0][4].ends_with(" | 0 | 1.500 | 0.375 |"), "{text}");
        assert!(blocks[0][2].ends_with(" | 0 |  |  |"), "{text}");
        assert!(blocks[1][0].starts_with("| sampled, means"));
        assert_eq!((blocks[0].len(), blocks[1].len()), (5, 5));
        assert_eq!(blocks.len(), 3, "no percentages");
    }
}
