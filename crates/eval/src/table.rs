//! A report as Markdown: what is right, what it costs, who wrote it.

use std::fmt::Write;

use crate::report::{Report, Row};
use crate::ways::Kind;

/// The tables of `report`.
pub fn markdown(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string can't fail.
    let _ = right(report, &mut text);
    let _ = cost(report, &mut text);
    let _ = rounds(report, &mut text);
    text
}

fn right(report: &Report, text: &mut String) -> std::fmt::Result {
    let best = report.best.as_deref().unwrap_or("the best member");
    write!(
        text,
        "| % right of {} | all | 95 % | over {best} | 95 % |",
        report.asked
    )?;
    for group in report.groups.keys() {
        write!(text, " {group} |")?;
    }
    writeln!(
        text,
        "\n|---|---|---|---|---|{}",
        "---|".repeat(report.groups.len())
    )?;
    for row in &report.ways {
        let Row {
            percent, interval, ..
        } = row;
        write!(
            text,
            "| {} | {percent:.1} | {:.1} to {:.1} |",
            title(row),
            interval.low,
            interval.high
        )?;
        match row.difference {
            Some(over) => write!(
                text,
                " {:+.1} | {:+.1} to {:+.1} |",
                over.points, over.interval.low, over.interval.high
            )?,
            None => text.push_str(" | |"),
        }
        for group in report.groups.keys() {
            match row.groups.get(group) {
                Some(percent) => write!(text, " {percent:.0} |")?,
                None => text.push_str(" |"),
            }
        }
        text.push('\n');
    }
    Ok(())
}

fn cost(report: &Report, text: &mut String) -> std::fmt::Result {
    text.push_str(
        "\n| an answer | tokens run | seconds | characters | % with a role marker | % at the limit | failed |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in &report.ways {
        writeln!(
            text,
            "| {} | {:.0} | {:.2} | {:.0} | {:.1} | {:.1} | {} |",
            title(row),
            row.tokens,
            row.seconds,
            row.characters,
            row.markers,
            row.cut,
            row.failed
        )?;
    }
    Ok(())
}

fn rounds(report: &Report, text: &mut String) -> std::fmt::Result {
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
        text.push('\n');
    }
    Ok(())
}

fn title(row: &Row) -> String {
    match row.kind {
        Kind::Ensemble => format!("**{}**", row.name),
        _ => row.name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::forty;

    #[test]
    fn tables_have_a_row_a_way_and_as_many_columns_as_titles() {
        let (run, outcomes) = forty();
        let report = Report::of(&run, &outcomes);
        let text = markdown(&report);
        let mut blocks = text.split("\n\n");
        let mut block = || -> Vec<&str> { blocks.next().unwrap().lines().collect() };
        for (columns, wanted) in [
            (7, "| **ensemble, paper** | 90.0 | "),
            (
                7,
                "| **ensemble, paper** | 20 | 0.50 | 3 | 0.0 | 10.0 | 0 |",
            ),
        ] {
            let rows = block();
            assert_eq!(rows.len(), 2 + report.ways.len());
            for row in &rows {
                assert_eq!(row.matches('|').count(), columns + 1, "{row}");
            }
            assert!(rows.iter().any(|row| row.starts_with(wanted)), "{text}");
        }
        let rounds = block();
        let wanted = "paper: 2.0 rounds an answer, segments by A 67 %, B 33 %. \
                      1.5 members a round: 25 % of the calls saved by those that left.";
        assert_eq!(rounds, [wanted]);
        assert!(text.contains("| B alone, greedy | 75.0 |") && text.contains("over B alone"));
        assert!(text.contains(" | +15.0 | "), "{text}");
    }
}
