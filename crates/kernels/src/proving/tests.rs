//! Every kernel is broken in turn, and the self-test must name it.

mod faults;

use std::task::{Context, Poll, Waker};

use conclave_gpu::Shader;

use super::*;
use crate::{AdapterChoice, Attention, Choices, Heads, Rows, Scores};
use faults::{FAULTS, MISREADINGS};

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

/// A kernel's name without its format's.
fn family(name: &str) -> String {
    let names = Format::ALL.map(|format| format!("_{}", format.stored().name().to_lowercase()));
    let without = names.iter().find_map(|of| name.strip_suffix(of.as_str()));
    without.unwrap_or(name).to_owned()
}

/// The choices that replace a kernel broken here.
fn without(name: &str, place: &str, usual: Choices) -> Option<Choices> {
    let mut safe = usual;
    if name == "attention_combine" || place.starts_with("whole") {
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

/// Runs the self-test with the text of `broken`'s shader replaced. Returns the reason if the kernel
/// is refused, `None` if the choices `safe` were taken instead.
///
/// # Panics
/// Panics at any other result.
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
