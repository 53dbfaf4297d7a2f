//! Measurements as Markdown.

use std::fmt::Write;

use super::Workload;
use super::counts::Counts;
use super::times::Spread;
use crate::args::Drafting;

/// Tables of members, rounds, and GPU operations.
pub fn markdown(device: &str, workload: &Workload) -> String {
    let mut text = String::new();
    // Writing to a `String` can't fail.
    let _ = write_times(&mut text, device, workload);
    let _ = write_counts(&mut text, workload);
    text
}

fn write_times(text: &mut String, device: &str, workload: &Workload) -> std::fmt::Result {
    writeln!(text, "{device}\n")?;
    writeln!(
        text,
        "| member | prefix | prefill tok/s | first token ms | step ms | tok/s | verify ms | rows |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|")?;
    for each in &workload.members {
        writeln!(
            text,
            "| {} | {} | {:.1} | {} | {} | {:.2} | {} | {} |",
            each.name,
            each.prefix,
            each.prefill.tokens_per_second,
            spread(each.first_token_ms),
            spread(each.draft_step.ms),
            each.draft_step.tokens_per_second,
            spread(each.verify.ms),
            each.verify.tokens,
        )?;
    }
    if workload.rounds.is_empty() {
        return Ok(());
    }
    writeln!(
        text,
        "\n| members | who drafts | prefix | round ms | first segment ms | tok/s | \
         tokens run | due |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|")?;
    for each in &workload.rounds {
        writeln!(
            text,
            "| {} | {} | {} | {} | {} | {:.2} | {:.1} | {:.1} |",
            each.members,
            match each.drafting {
                Drafting::All => "all",
                Drafting::Leader => "one",
            },
            each.prefix,
            spread(each.ms),
            spread(each.first_segment_ms),
            each.tokens_per_second,
            each.tokens_run,
            each.tokens_due,
        )?;
    }
    Ok(())
}

fn write_counts(text: &mut String, workload: &Workload) -> std::fmt::Result {
    let Some(bytes) = workload.gpu_bytes else {
        return Ok(());
    };
    writeln!(
        text,
        "\n{:.1} MB of GPU memory in use.\n",
        bytes as f64 / 1e6
    )?;
    writeln!(
        text,
        "| one of | what | prefix | read-backs | bytes | submits | passes | dispatches | writes | \
         buffers | bind groups | pipelines |"
    )?;
    writeln!(text, "|---|---|---|---|---|---|---|---|---|---|---|---|")?;
    for each in &workload.members {
        let kinds = [
            ("step", each.draft_step.counts),
            ("verify", each.verify.counts),
        ];
        for (what, counts) in kinds {
            line(text, &each.name, what, each.prefix, counts)?;
        }
    }
    for each in &workload.rounds {
        let members = format!("{} members", each.members);
        line(text, &members, "round", each.prefix, each.counts)?;
    }
    Ok(())
}

fn line(
    text: &mut String,
    of: &str,
    what: &str,
    prefix: usize,
    counts: Option<Counts>,
) -> std::fmt::Result {
    let Some(c) = counts else {
        return Ok(());
    };
    write!(text, "| {of} | {what} | {prefix} |")?;
    for count in [
        c.readbacks,
        c.read_bytes,
        c.submits,
        c.passes,
        c.dispatches,
        c.writes,
        c.buffers,
        c.bind_groups,
        c.pipelines,
    ] {
        let digits = if count.fract() == 0.0 { 0 } else { 2 };
        write!(text, " {count:.digits$} |")?;
    }
    writeln!(text)
}

fn spread(spread: Option<Spread>) -> String {
    spread.map_or_else(
        || "–".to_owned(),
        |s| format!("{:.2} ({:.2}–{:.2})", s.median, s.low, s.high),
    )
}
