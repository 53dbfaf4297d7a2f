//! `conclave bench`: times of members and rounds, and their use of the GPU, measured as in the
//! page's bench. The JSON is specified in `web/src/bench/report.ts`.

mod alone;
mod counts;
mod rounds;
mod tables;
mod text;
mod times;

use std::time::Instant;

use conclave_kernels::Gpu;
use conclave_member::Member;
use conclave_model::Sampling;
use conclave_model::pass::rows_of;
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::Bench;
use crate::device::{self, Device};
use crate::failure::Failure;
use crate::members;

use alone::MemberReport;
use counts::{Meter, copy_bytes_per_second};
use rounds::RoundReport;

/// Measurement made at every prefix.
struct Course<'a> {
    sampling: Sampling,
    segment_tokens: usize,
    repeats: usize,
    limit_seconds: f64,
    /// Called after each measurement.
    tell: &'a dyn Fn(&str),
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Loaded {
    name: String,
    layers: usize,
    /// Size of its files in bytes.
    bytes: u64,
    /// Predicted bytes on the GPU: weights, keys and values of the context, scratch.
    weights: u64,
    kv: u64,
    scratch: u64,
    /// Bytes of one token's keys and values, over all layers.
    kv_row: f64,
}

impl Loaded {
    fn from_member(member: &Member) -> Self {
        let about = member.about();
        Self {
            name: member.name().to_owned(),
            layers: about.config.layers.len(),
            bytes: about.bytes,
            weights: about.memory.weights,
            kv: about.memory.kv,
            scratch: about.memory.scratch,
            kv_row: about.memory.kv as f64 / rows_of(about.context) as f64,
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Workload {
    models: String,
    format: String,
    sampling: Sampling,
    loaded: Vec<Loaded>,
    /// Bytes of GPU memory in use after all runs, and allocated from the driver.
    gpu_bytes: Option<u64>,
    gpu_bytes_reserved: Option<u64>,
    load_ms: f64,
    members: Vec<MemberReport>,
    rounds: Vec<RoundReport>,
}

/// Measures; returns JSON and tables.
pub async fn run(args: &Bench, device: &Device) -> Result<(Value, String), Failure> {
    let meter = Meter::new(device.gpu());
    // Before members fill the memory.
    let copy = match meter.gpu() {
        Some(gpu) => Some(copy_bytes_per_second(gpu).await?),
        None => None,
    };
    let started = Instant::now();
    let mut members = members::load(&args.members, device.backend())?;
    let load_ms = alone::ms_since(started);
    device.tune(&members).await?;
    let course = Course {
        sampling: args.drawing.sampling(),
        segment_tokens: args.segment_tokens,
        repeats: args.repeats,
        limit_seconds: f64::from(args.limit_seconds),
        tell: &|what| eprintln!("{what}"),
    };
    let (alone, rounds) = measure(&mut members, args, &course, meter).await?;
    let workload = Workload {
        models: names(&members),
        format: format_of(&members),
        sampling: course.sampling,
        loaded: members.iter().map(Loaded::from_member).collect(),
        gpu_bytes: meter.gpu().map(Gpu::memory_in_use),
        gpu_bytes_reserved: meter.gpu().map(Gpu::memory_reserved),
        load_ms,
        members: alone,
        rounds,
    };
    let adapter = match meter.gpu().map(Gpu::adapter) {
        Some(adapter) => json!({ "name": adapter.name, "software": adapter.software }),
        None => json!({ "name": device.name, "software": false }),
    };
    let kernels = device.choices().map(|choices| choices.to_string());
    let surroundings = json!({
        "place": "native",
        "browser": null,
        "cores": device::cores(),
        "isolated": true,
        "backend": if meter.gpu().is_some() { "webgpu" } else { "cpu" },
        "adapter": adapter,
        "kernels": kernels,
        "copyBytesPerSecond": copy,
    });
    let on = match &kernels {
        Some(kernels) => format!("{}: {kernels}", device.name),
        None => device.name.clone(),
    };
    let tables = tables::markdown(&on, &workload);
    Ok((
        json!({ "surroundings": surroundings, "workload": workload }),
        tables,
    ))
}

/// Measures each member alone at every prefix, then every ensemble.
async fn measure(
    members: &mut [Member],
    args: &Bench,
    course: &Course<'_>,
    meter: Meter<'_>,
) -> Result<(Vec<MemberReport>, Vec<RoundReport>), Failure> {
    let sizes = args.ensembles.iter().filter(|&&size| size > 1);
    if let Some(&size) = sizes.clone().find(|&&size| size > members.len()) {
        return Err(Failure::Usage(format!(
            "a round of {size} needs as many members; name them after --members, or ask for fewer \
            after --ensembles"
        )));
    }
    let (mut alone, mut rounds) = (Vec::new(), Vec::new());
    for member in members.iter_mut() {
        for &prefix in &args.prefixes {
            alone.push(alone::measure(member, prefix, course, meter).await?);
            (course.tell)(&format!("{}, prefix {prefix}", member.name()));
        }
    }
    for &size in sizes {
        for &drafting in &args.drafting {
            for &prefix in &args.prefixes {
                let taking_part = &mut members[..size];
                let round = rounds::measure(taking_part, drafting, prefix, course, meter).await?;
                rounds.push(round);
                (course.tell)(&format!("{size} members, prefix {prefix}"));
            }
        }
    }
    Ok((alone, rounds))
}

fn names(members: &[Member]) -> String {
    let names: Vec<&str> = members.iter().map(Member::name).collect();
    names.join(", ")
}

fn format_of(members: &[Member]) -> String {
    let mut formats: Vec<&str> = members
        .iter()
        .map(|member| member.about().quantisation.as_str())
        .collect();
    formats.sort_unstable();
    formats.dedup();
    formats.join(", ")
}
