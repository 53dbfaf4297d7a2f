//! Every kernel is broken in turn, and the self-test must name it.

use std::task::{Context, Poll, Waker};

use conclave_gpu::Shader;

use super::*;
use crate::{AdapterChoice, Attention, Choices, Heads, Rows, Scores};

fn open() -> Launcher {
    pollster::block_on(Launcher::init(AdapterChoice::Best))
        .unwrap_or_else(|error| panic!("this test needs an adapter: {error}"))
}

/// Heads with caches of `capacity` rows.
fn heads(exact: bool, capacity: usize) -> Heads {
    Heads {
        heads: 1,
        kv_heads: 1,
        width: 256,
        capacity,
        exact,
    }
}

/// A model of one format.
fn all_in(format: Format) -> Kernels {
    Kernels {
        embeddings: vec![format],
        head: format,
        products: vec![format],
        gates: vec![format],
        apart: false,
        post_norms: false,
        norms_rotated: false,
        heads: vec![heads(format == Format::F32, 64)],
        convolves: Some(format == Format::F32),
        recurrences: true,
        experts: vec![format],
        gated_heads: true,
    }
}

/// A model with separate gates, norms after products, and wide heads in some blocks.
fn apart(format: Format) -> Kernels {
    let mut kernels = all_in(format);
    let wide = Heads {
        width: 512,
        ..kernels.heads[0]
    };
    kernels.heads.push(wide);
    Kernels {
        apart: true,
        post_norms: true,
        norms_rotated: true,
        ..kernels
    }
}

/// Models that together launch every kernel.
fn models() -> impl Iterator<Item = Kernels> {
    let others = [Format::F32, Format::Q8_0].map(apart);
    Format::ALL.map(all_in).into_iter().chain(others)
}

fn run(launcher: &Launcher, kernels: &Kernels) -> Result<(), GpuError> {
    pollster::block_on(async {
        launcher.self_test(kernels).await?;
        launcher.self_test_scores(kernels.head).await
    })
}

fn subjects(kernels: &Kernels, choices: Choices) -> Vec<Subject> {
    [
        kernels.subjects(choices),
        vec![Subject::Score(kernels.head)],
    ]
    .concat()
}

/// Repeats the test for these subjects, with these choices.
fn again(
    launcher: &Launcher,
    kernels: &Kernels,
    subjects: &[Subject],
    choices: Choices,
) -> Result<(), GpuError> {
    launcher
        .proofs()
        .passed
        .retain(|(subject, _)| !subjects.contains(subject));
    launcher.choose(choices);
    run(launcher, kernels)
}

#[test]
fn right_kernels_pass_and_only_once() {
    let launcher = open();
    let usual = launcher.choices();
    for format in Format::ALL {
        let kernels = all_in(format);
        run(&launcher, &kernels).unwrap();
        let counted = launcher.counters();
        run(&launcher, &kernels).unwrap();
        assert_eq!(launcher.counters(), counted, "nothing is tried twice");
        again(&launcher, &kernels, &subjects(&kernels, usual), usual).unwrap();
        let made = launcher.counters() - counted;
        assert_eq!((made.read_backs, made.pipelines), (1, 0), "{made:?}");
    }
    assert_eq!(launcher.choices(), usual, "nothing gave way");
}

/// Runs tasks concurrently; returns their results.
fn side_by_side<T>(tasks: impl Iterator<Item = impl Future<Output = T>>) -> Vec<T> {
    let mut tasks: Vec<_> = tasks.map(|task| (Box::pin(task), None)).collect();
    let mut context = Context::from_waker(Waker::noop());
    while tasks.iter().any(|(_, outcome)| outcome.is_none()) {
        for (task, outcome) in &mut tasks {
            if outcome.is_none()
                && let Poll::Ready(found) = task.as_mut().poll(&mut context)
            {
                *outcome = Some(found);
            }
        }
    }
    tasks.into_iter().filter_map(|(_, found)| found).collect()
}

#[test]
fn members_that_ask_at_once_are_one_test() {
    let made = [1, 4].map(|members| {
        let launcher = open();
        let kernels = all_in(Format::Q4_0);
        let loads = side_by_side((0..members).map(|_| launcher.self_test(&kernels)));
        let scores = side_by_side((0..members).map(|_| launcher.self_test_scores(kernels.head)));
        assert!(loads.iter().chain(&scores).all(Result::is_ok));
        (launcher.counters(), launcher.proofs().purposes.len())
    });
    assert_eq!(made[0], made[1]);
    assert!(made[0].0.pipelines > 0 && made[0].0.read_backs == 2);
}

/// An abandoned load neither blocks another one nor has its kernels tested for it.
#[test]
fn a_test_that_is_dropped_leaves_nothing() {
    let launcher = open();
    let usual = launcher.choices();
    let mut dropped = Box::pin(launcher.self_test_scores(Format::Q8_0));
    let mut context = Context::from_waker(Waker::noop());
    assert!(dropped.as_mut().poll(&mut context).is_pending());
    let mut waits = Box::pin(launcher.self_test_scores(Format::Q4_0));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    // As in a test that found a kernel wrong and tries its twin.
    launcher.choose(Choices::usual(!usual.serial));
    drop(dropped);
    assert_eq!(launcher.choices(), usual);
    pollster::block_on(waits).unwrap();
    assert_eq!(launcher.proofs().purposes, [Purpose::Scores(Format::Q4_0)]);
}

/// Each gets the failure, and none waits forever.
#[test]
fn members_that_ask_at_once_all_hear_of_a_failure() {
    let launcher = open();
    let shader = &crate::ops::score_head::COMBINE_SHADER;
    let text = shader.text().replace("log(part.y)", "log(part.y) + 1e-2");
    launcher.alter(shader, text);
    let found = side_by_side((0..3).map(|_| launcher.self_test_scores(Format::Q8_0)));
    let named = |result: &Result<(), GpuError>| match result {
        Err(GpuError::Kernel { kernel, .. }) => *kernel == shader.name,
        _ => false,
    };
    assert!(found.len() == 3 && found.iter().all(named), "{found:?}");
    assert!(launcher.proofs().purposes.is_empty());
}

/// Prefixes of kernel names, and a fault to put into them.
const FAULTS: &[(&str, &str, &str)] = &[
    ("embed", "* params.factor;", "* (params.factor + 1e-2);"),
    (
        "embed",
        "id >= params.vocabulary",
        "id > params.vocabulary + 2u",
    ),
    ("rms_norm", "params.epsilon)", "2.0 * params.epsilon)"),
    ("norm_add", "(out[base + i] + ", "("),
    ("norm_add", "* params.each", "* 1u"),
    ("norm_add", "params.scaled == 1u", "false"),
    (
        "norm_add",
        "i < params.quads; i += THREADS",
        "i < THREADS; i += THREADS",
    ),
    ("pick_norm", "params.rows - 1u)", "params.rows - 2u)"),
    ("pick_norm", "* weight[i];", "* weight[i] + 1e-2;"),
    ("put_rows", "row < params.rows", "row + 1u < params.rows"),
    (
        "gather_rows",
        "item % params.quads];",
        "item % params.quads] + 1e-2;",
    ),
    ("gated", "g / (1.0 +", "g / (1.01 +"),
    ("gated", "0.5 * g", "0.501 * g"),
    ("gated", "+ params.first", ""),
    ("gated", "* params.across", "* params.columns"),
    ("product_vector_gated", "g / (1.0 +", "g / (1.01 +"),
    ("product_vector_gated", "0.5 * g", "0.501 * g"),
    ("product_tile_gated", "0.5 * g", "0.501 * g"),
    (
        "append",
        "return q_norm[head.weights + i]",
        "return 1.001 * q_norm[head.weights + i]",
    ),
    (
        "append",
        "return k_norm[head.weights + i]",
        "return 1.001 * k_norm[head.weights + i]",
    ),
    ("append", "v = rotated(head, i);", "v = number(head, i);"),
    (
        "append",
        "* rotation.x + number(head, i - half)",
        "* rotation.x - number(head, i - half)",
    ),
    ("append", "return v;", "return v * 1.001;"),
    ("append", "(params.normed & 4u) > 0u", "false"),
    ("append", "params.context - 1u", "params.context - 2u"),
    (
        "append",
        "place.y >= params.capacity",
        "place.y + 1u >= params.capacity",
    ),
    ("attention", "* params.scale", "* (params.scale * 1.01)"),
    (
        "attention_serial",
        "(params.scale *",
        "(1.01 * params.scale *",
    ),
    ("attention_exact_serial", "key.w > key.z", "key.w >= key.z"),
    (
        "attention",
        "place.x - params.window + 1u",
        "place.x - params.window",
    ),
    (
        "attention",
        "row >= s.begin && row <= s.row",
        "row >= s.begin && row < s.row",
    ),
    (
        "attention",
        "params.softcap * tanh",
        "params.softcap * 1.01 * tanh",
    ),
    (
        "attention_combine",
        "let fade = exp(its.x - top)",
        "let fade = exp(its.x - top) + 1e-2",
    ),
    (
        "attention_wide",
        "first_column + local % columns",
        "local % columns",
    ),
    (
        "attention_combine",
        "i < quads; i += WORKGROUP",
        "i < min(quads, WORKGROUP); i += WORKGROUP",
    ),
    ("attention_serial", "joined(into", "1.01 * joined(into"),
    (
        "attention_exact_serial",
        "joined(into",
        "1.01 * joined(into",
    ),
    ("keep_rows", "i < count", "i + 1u < count"),
    ("keep_rows", "= values[at];", "= keys[at];"),
    ("keep_rows_of_one", "cache[at];", "cache[into];"),
    ("convolve", "sum = bias[channel];", "sum = -bias[channel];"),
    ("convolve", "back <= own)", "back < own)"),
    ("convolve", "back > own + place.w", "back >= own + place.w"),
    ("convolve", "row >= first", "row > first"),
    (
        "convolve",
        "place.y >= params.capacity",
        "place.y + 1u >= params.capacity",
    ),
    ("append", "params.gated * which", "params.gated"),
    ("recurrence_mix", "back <= step.x", "back < step.x"),
    ("recurrence_mix", "step.y == NO_SLOT", "step.y != NO_SLOT"),
    (
        "recurrence_mix",
        "(back - step.x);",
        "(back - step.x) + 1u;",
    ),
    (
        "recurrence_mix",
        "factor *= inverseSqrt",
        "factor /= inverseSqrt",
    ),
    ("recurrence_mix", "+ 1e-6", "+ 1e-2"),
    ("recurrence_rule", "log(1.0 + exp(", "log(1.1 + exp("),
    ("recurrence_rule", "x > 20.0", "x < 20.0"),
    (
        "recurrence_rule",
        "params.tiled == 1u",
        "params.tiled == 0u",
    ),
    (
        "recurrence_rule",
        "mixed[value] - decay",
        "mixed[value] - 1.01 * decay",
    ),
    ("recurrence_rule", "begin = run.w;", "begin = run.z;"),
    (
        "recurrence_rule",
        "at >= params.taps - 1u",
        "at > params.taps - 1u",
    ),
    ("recurrence_rule", "run.z != NO_SLOT", "run.z == NO_SLOT"),
    (
        "recurrence_mix",
        "sum = bias[first + i];",
        "sum = -bias[first + i];",
    ),
    ("recurrence_mix", "params.delta == 0u", "params.delta == 2u"),
    ("recurrence_rule", "skip[head] *", "skip[0] *"),
    (
        "recurrence_rule",
        "softplus * mixed[value]",
        "decay * mixed[value]",
    ),
    (
        "recurrence_rule",
        "params.delta * params.value_heads",
        "params.value_heads",
    ),
    ("gate_heads", "params.norm_apart + i]", "params.norm_apart]"),
    (
        "gate_heads",
        "head * params.norm_apart",
        "params.norm_apart",
    ),
    (
        "gate_heads",
        "v *= curve(gates[gate + i]);",
        "v *= gates[gate + i];",
    ),
    ("gate_heads", "params.silu == 1u", "params.silu == 0u"),
    (
        "gate_heads",
        "head * params.gate_apart",
        "head * params.width",
    ),
    ("route", "bits >> 31u == 1u", "bits >> 31u == 2u"),
    ("route", "key += bias[i]", "key += 0.5 * bias[i]"),
    ("route", "/ sum;\n}", "* sum;\n}"),
    ("route", "-max(x, -80.0)", "-max(x, -2.0)"),
    ("route", "&& j < i", "&& j > i"),
    ("group_choices", "(found + 3u)", "(found + 2u)"),
    ("group_choices", "filled == 4u", "filled == 3u"),
    ("group_choices", "i = all + local", "i = all + local + 1u"),
    (
        "experts_vector",
        "choice / params.each",
        "choice / params.used",
    ),
    (
        "experts_vector",
        "expert * params.n + columns_of",
        "columns_of",
    ),
    (
        "experts_vector",
        "min(mine + 1u, pairs() - 1u)",
        "min(mine, pairs() - 1u)",
    ),
    ("experts_vector_serial", "sums.zw", "sums.xw"),
    (
        "experts_vector_subgroups",
        "subgroupAdd(swept.sums)",
        "swept.sums",
    ),
    (
        "experts_vector_subgroups",
        "params.each, lane, lanes)",
        "params.each, lane + 1u, lanes)",
    ),
    (
        "experts_vector_subgroups",
        "min(first + PAIRS, pairs())",
        "min(first + PAIRS, pairs() - 1u)",
    ),
    ("experts_vector_subgroups", "total.zw", "total.xw"),
    (
        "experts_block",
        "(NO_CHOICE)) / params.each",
        "(NO_CHOICE)) / params.used",
    ),
    ("experts_block", "put_pair(four[row]", "put_pair(four.x"),
    (
        "experts_block_serial",
        "put_pair(four[i]",
        "put_pair(four.x",
    ),
    (
        "experts_block_serial",
        "vec2<f32>(sums.c[i]",
        "vec2<f32>(sums.a[i]",
    ),
    ("join_experts", "scores[choice] * made", "made"),
    ("join_experts", "factor /= total", "factor *= total"),
    ("join_experts", "out[i] += factor", "out[i] = factor"),
    (
        "join_experts",
        "var factor = params.scale",
        "var factor = 1.0",
    ),
    ("sample", "0x80000000u - ((rest", "0x80000000u + ((rest"),
    (
        "sample",
        "place[0] += vec4<u32>(1u, 1u",
        "place[0] += vec4<u32>(1u, 0u",
    ),
    ("sample", "3611622603u", "3938502376u"),
    ("sample", ">= cut.ties", "> cut.ties"),
    ("product_vector", "unit += lanes", "unit += 2u * lanes"),
    (
        "product_vector",
        "total * factor(all)",
        "total * factor(all) + vec2<f32>(1e-2)",
    ),
    (
        "product_vector_subgroups",
        "subgroupAdd(swept.sums)",
        "swept.sums",
    ),
    (
        "product_vector_subgroups",
        "group.z, lane, lanes)",
        "group.z, lane + 1u, lanes)",
    ),
    (
        "product_vector_subgroups",
        "min(first + PAIRS, pairs())",
        "min(first + PAIRS, pairs() - 1u)",
    ),
    ("product_vector_subgroups", "total.zw", "total.xw"),
    (
        "product_vector_subgroups_norm",
        "subgroupAdd(swept.squares)",
        "swept.squares",
    ),
    ("product_vector_serial", "sums.zw", "sums.xw"),
    ("product_vector_serial", "2u * local", "local"),
    (
        "product_vector_norm",
        "+ params.epsilon",
        "+ 3.0 * params.epsilon",
    ),
    (
        "product_block",
        "min(mine + 1u, pairs() - 1u)",
        "min(mine, pairs() - 1u)",
    ),
    ("product_block", "unit += lanes", "unit += 2u * lanes"),
    (
        "product_block_serial",
        "vec2<f32>(sums.c[i]",
        "vec2<f32>(sums.a[i]",
    ),
    (
        "product_block_serial",
        "min(BLOCK, m - top)",
        "min(2u, m - top)",
    ),
    (
        "product_tile",
        "e += dots(tile_w[ws + 32u]",
        "e += dots(tile_w[ws + 33u]",
    ),
    ("product_tile", "x_row < m", "x_row + 1u < m"),
    ("target_logit", "sum += bias[id]", "sum -= bias[id]"),
    (
        "target_logit",
        "id >= params.vocabulary",
        "id > params.vocabulary",
    ),
    ("score_head", "row >= params.rows", "row > params.rows"),
    (
        "score_head",
        "value = capped(value)",
        "value = capped(value) + 1e-2",
    ),
    ("score_combine", "i < params.tiles", "i + 1u < params.tiles"),
    ("score_combine", "log(part.y)", "log(part.y) + 1e-2"),
];

/// Faults in reading blocks, by suffix of kernel names.
const MISREADINGS: &[(&str, &str, &str)] = &[
    (
        "_f32",
        "return unit.weights;",
        "return unit.weights + 1e-2;",
    ),
    ("_f16", "q == 1u", "q != 1u"),
    ("_q8_0", "at >> 1u", "at >> 2u"),
    ("_q8_0", "signed_bytes(unit", "bytes(unit"),
    ("_q4_0", "- 8.0", "- 7.0"),
    ("_q4_1", "+ unit.minimum", "- unit.minimum"),
    ("_q4_1", "factors.x, factors.y", "factors.y, factors.x"),
    ("_q4_k", "vec2<u32>(48u)", "vec2<u32>(16u)"),
    ("_q4_k", "- unit.minimum", "+ unit.minimum"),
    ("_q6_k", "- 32.0", "- 31.0"),
    ("_q6_k", "high << 4u", "high << 3u"),
    ("_bf16", "0xffff0000u", "0xfffe0000u"),
    ("_q5_0", "- 16.0", "- 15.0"),
    ("_q5_1", "+ unit.minimum", "- unit.minimum"),
    ("_q5_1", "2u * at + 1u", "2u * at"),
    ("_q2_k", "nibbles >> 4u", "nibbles >> 5u"),
    ("_q3_k", "- 4.0)", "- 3.0)"),
    ("_q3_k", "highs << vec2<u32>(4u)", "highs << vec2<u32>(3u)"),
    ("_q5_k", "fifths, q) << 4u", "fifths, q) << 3u"),
    ("_iq2_xxs", "14u, 21u", "14u, 20u"),
    ("_iq2_xs", "0x01ff01ffu", "0x01ff00ffu"),
    ("_iq2_s", "(8u, 12u)", "(12u, 8u)"),
    ("_iq3_xxs", "+ 2u * last", "+ last"),
    ("_iq3_s", "(1u) + 2u * threes", "(2u) + 2u * threes"),
    ("_iq4_nl", "0x26190d01u", "0x26190d02u"),
    ("_iq4_xs", "16u + 2u * group", "15u + 2u * group"),
    ("_mxfp4", "0xf4f8fafcu", "0xf4f8fafdu"),
];

/// A kernel's name without its format's.
fn family(name: &str) -> String {
    let names = Format::ALL.map(|format| format!("_{}", format.stored().name().to_lowercase()));
    let without = names.iter().find_map(|of| name.strip_suffix(of.as_str()));
    without.unwrap_or(name).to_owned()
}

/// The choices that replace a kernel broken here.
fn without(name: &str, place: &str, usual: Choices) -> Option<Choices> {
    let mut safe = usual;
    if name == "attention_combine" || place.starts_with("joined") {
        safe.chunks = false;
    } else if name.contains("_serial") || name.ends_with("_few") {
        safe.serial = false;
    } else if name.starts_with("product_tile") {
        safe.as_a_tile = None;
    } else if name.starts_with("product_block") || name.starts_with("experts_block") {
        safe.blocks = false;
    } else if name.contains("_subgroups") {
        safe.subgroups = false;
    } else if name.starts_with("product_vector_norm") {
        safe.norm_inside = false;
    } else {
        return None;
    }
    Some(safe)
}

/// A shader that models launch, one such model, and its subject.
struct Launched {
    shader: &'static Shader,
    kernels: Kernels,
    subjects: Vec<Subject>,
}

/// All of them, with these choices.
fn launched(launcher: &Launcher, usual: Choices) -> Vec<Launched> {
    let mut all: Vec<Launched> = Vec::new();
    launcher.choose(usual);
    for kernels in models() {
        for subject in subjects(&kernels, usual) {
            let trial = subject.trial(launcher).unwrap();
            for kernel in launcher.noted(&trial.launches).unwrap() {
                let shader = kernel.shader;
                match all.iter_mut().find(|l| l.shader.name == shader.name) {
                    Some(known) => known.subjects.push(subject),
                    None => all.push(Launched {
                        shader,
                        kernels: kernels.clone(),
                        subjects: vec![subject],
                    }),
                }
            }
        }
    }
    all
}

/// The self-test's result with a kernel's text replaced.
#[track_caller]
fn is_found(
    launcher: &Launcher,
    usual: Choices,
    safe: Option<Choices>,
    broken: &Launched,
    text: String,
) -> Option<String> {
    let name = broken.shader.name;
    launcher.alter(broken.shader, text);
    match (
        safe,
        again(launcher, &broken.kernels, &broken.subjects, usual),
    ) {
        (Some(safe), Ok(())) => {
            assert_eq!(launcher.choices(), safe, "{name}");
            None
        }
        (
            None,
            Err(GpuError::Kernel {
                adapter,
                kernel,
                reason,
            }),
        ) => {
            assert_eq!((kernel, &adapter), (name, &launcher.adapter().name));
            Some(reason)
        }
        (_, found) => panic!("{name}: {found:?}"),
    }
}

#[test]
fn every_kernel_that_is_wrong_is_found() {
    let launcher = open();
    // The norm fused into products; everything serial; with subgroups, where available.
    let mut usuals = [false, true].map(Choices::usual).to_vec();
    if launcher.has_subgroups() {
        usuals.push(Choices {
            subgroups: true,
            ..usuals[0]
        });
    }
    for kernels in models() {
        // So that only a broken kernel's own trials run.
        let apart = Choices {
            norm_inside: false,
            ..usuals[0]
        };
        for &choices in usuals.iter().chain([&apart]) {
            again(&launcher, &kernels, &[], choices).unwrap();
        }
    }
    let (mut broken, mut found) = (HashSet::new(), HashSet::new());
    let mut tried = HashSet::new();
    for &usual in &usuals {
        let all = launched(&launcher, usual);
        for launched in &all {
            let (name, text) = (launched.shader.name, launched.shader.text());
            if broken.contains(name) {
                continue;
            }
            let of_kernel = FAULTS.iter().filter(|(of, ..)| name.starts_with(of));
            let of_format = MISREADINGS.iter().filter(|(of, ..)| name.ends_with(of));
            let faults = of_kernel.chain(of_format);
            for fault @ (_, from, to) in faults.filter(|(_, from, _)| text.contains(from)) {
                // A kernel's own faults in one of its formats, a format's in all of its kernels.
                if !fault.0.starts_with('_') && !tried.insert((family(name), fault)) {
                    continue;
                }
                let safe = without(name, from, usual);
                is_found(&launcher, usual, safe, launched, text.replacen(from, to, 1));
                broken.insert(name);
                found.insert(fault);
            }
            launcher.alter(launched.shader, text);
            again(&launcher, &launched.kernels, &launched.subjects, usual).unwrap();
            assert_eq!(launcher.choices(), usual, "{name} is whole again");
        }
        let names = all.iter().map(|launched| launched.shader.name);
        let missed: Vec<_> = names.filter(|name| !broken.contains(name)).collect();
        assert!(missed.is_empty(), "never broken: {missed:?}");
    }
    let faults = FAULTS.iter().chain(MISREADINGS);
    let of_twins = |name: &str| name.contains("_subgroups");
    let idle: Vec<_> = faults
        .filter(|fault| launcher.has_subgroups() || !of_twins(fault.0))
        .filter(|fault| !found.contains(fault))
        .collect();
    assert!(idle.is_empty(), "in no kernel: {idle:?}");
}

/// Any number of lanes in a subgroup, and of subgroups in a workgroup: workgroups of other sizes
/// cover the cases that an adapter's own size does not.
#[test]
fn twins_with_subgroups_are_right_whatever_there_is_of_them() {
    let launcher = open();
    if !launcher.has_subgroups() {
        println!("the adapter has no subgroups");
        return;
    }
    let usual = Choices::usual(false);
    let twins = Choices {
        subgroups: true,
        ..usual
    };
    let kernels = all_in(Format::Q4_0);
    again(&launcher, &kernels, &[], usual).unwrap();
    // Lavapipe of Mesa 22.3 omits a partial last subgroup from num_subgroups unless it is the only
    // one; workgroups of 64 have none.
    for threads in [1, 2, 3, 4, 8, 16, 32, 64, 128, 256] {
        for shader in crate::subgroups::families().into_iter().flatten() {
            let wide = format!("@workgroup_size({threads})");
            let text = shader.text().replace("@workgroup_size(64)", &wide);
            assert!(text.contains(&wide));
            launcher.alter(shader, text);
        }
        again(&launcher, &kernels, &subjects(&kernels, twins), twins).unwrap();
        assert_eq!(launcher.choices(), twins, "{threads} threads");
    }
}

/// The first kernel of one token's attention.
fn attention_of(launcher: &Launcher, heads: Heads, chunks: usize) -> &'static str {
    let [keys, values] = [0, 1].map(|_| launcher.allocate(heads.cache_bytes()).unwrap());
    let [q, counts, places, partials, out] = [0; 5].map(|_| launcher.allocate(1 << 14).unwrap());
    let of = Attention {
        q: &q,
        rows: Rows {
            count: 1,
            counts: &counts,
        },
        chunks,
        places: &places,
        heads,
        scores: Scores {
            scale: 1.0,
            window: None,
            softcap: None,
        },
        caches: [&keys, &values],
        partials: &partials,
        out: &out,
    };
    let launches = |launcher: &Launcher| crate::attention(launcher, of);
    launcher.noted(launches).unwrap()[0].shader.name
}

/// Where serial threads compute attention, cooperative ones do over long caches, in one chunk or
/// more.
#[test]
fn what_serves_long_caches_is_tried_too() {
    let usual = Choices::usual(true);
    for (format, name) in [
        (Format::Q8_0, "attention"),
        (Format::F32, "attention_exact"),
    ] {
        let exact = format == Format::F32;
        let launcher = open();
        launcher.choose(usual);
        for (capacity, chunks, long) in [(9_000, 1, true), (9_000, 2, false), (4_500, 1, false)] {
            let heads = heads(exact, capacity);
            assert_eq!(crate::serial::attention::fits(heads, 1), capacity != 9_000);
            assert_eq!(
                attention_of(&launcher, heads, chunks) == name,
                long,
                "{heads:?}"
            );
        }

        let kernels = Kernels {
            heads: vec![heads(exact, 9_000)],
            ..all_in(format)
        };
        run(&launcher, &all_in(format)).unwrap();
        let before = launcher.counters();
        run(&launcher, &kernels).unwrap();
        let made = launcher.counters() - before;
        // Attention, and the join of its chunks.
        assert_eq!((made.pipelines, made.read_backs), (2, 1), "{name}");
        let shader = crate::ops::shaders()
            .find(|shader| shader.name == name)
            .unwrap();
        let text = shader.text().replace("row <= s.row", "row < s.row");
        launcher.alter(shader, text);
        let [whole, chunks] = [
            Subject::Attention {
                exact,
                long: true,
                wide: false,
            },
            Subject::Chunks {
                exact,
                long: true,
                wide: false,
            },
        ];
        // Without chunks it may still be right.
        again(&launcher, &kernels, &[chunks], usual).unwrap();
        assert!(!launcher.choices().chunks);
        let found = again(&launcher, &kernels, &[whole], usual);
        let named = matches!(&found, Err(GpuError::Kernel { kernel, .. }) if *kernel == name);
        assert!(named, "{name}: {found:?}");
    }
}

/// A kernel that a driver does not compile is found before it is launched.
#[test]
fn a_kernel_that_is_refused_gives_way_or_is_named() {
    let launcher = open();
    let usual = Choices::usual(false);
    let all = launched(&launcher, usual);
    for name in ["product_tile_q8_0", "gather_rows"] {
        let launched = all.iter().find(|l| l.shader.name == name).unwrap();
        let text = launched.shader.text();
        let wide = text.replace("@workgroup_size(64)", "@workgroup_size(2048)");
        let safe = without(name, "", usual);
        let reason = is_found(&launcher, usual, safe, launched, wide);
        assert!(reason.is_none_or(|reason| reason.contains("2048")));
        launcher.alter(launched.shader, text);
    }
}
