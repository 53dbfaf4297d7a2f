//! A self-test is worth what it finds: every kernel is broken in turn, and must be named.

use super::*;
use crate::launch::Shader;
use crate::{AdapterChoice, Choices};

fn open() -> Gpu {
    pollster::block_on(Gpu::init(AdapterChoice::Best))
        .unwrap_or_else(|error| panic!("this test needs an adapter: {error}"))
}

/// A model of one format.
fn all_in(format: Format) -> Kernels {
    Kernels {
        embedding: format,
        head: format,
        products: vec![format],
        gates: vec![format],
        exact: format == Format::F32,
    }
}

/// One whose gates are products apart.
fn apart() -> Kernels {
    Kernels {
        gates: Vec::new(),
        ..all_in(Format::Q8_0)
    }
}

fn run(gpu: &Gpu, kernels: &Kernels) -> Result<(), GpuError> {
    pollster::block_on(gpu.self_test(kernels))
}

/// The test again from the start, with these choices.
fn afresh(gpu: &Gpu, kernels: &Kernels, choices: Choices) -> Result<(), GpuError> {
    gpu.tried().clear();
    gpu.choose(choices);
    run(gpu, kernels)
}

#[test]
fn right_kernels_pass_with_one_wait_and_once() {
    let gpu = open();
    let usual = gpu.choices();
    for format in Format::ALL {
        let kernels = all_in(format);
        run(&gpu, &kernels).unwrap();
        let counted = gpu.counters();
        run(&gpu, &kernels).unwrap();
        assert_eq!(gpu.counters(), counted, "nothing is tried twice");
        let began = std::time::Instant::now();
        afresh(&gpu, &kernels, usual).unwrap();
        let made = gpu.counters() - counted;
        println!("{format:?}: {:?}, {made:?}", began.elapsed());
        assert_eq!((made.read_backs, made.pipelines), (1, 0), "{made:?}");
    }
    assert_eq!(gpu.choices(), usual, "nothing gave way");
}

/// Kernels whose names begin so, and a fault to put into them.
const FAULTS: &[(&str, &str, &str)] = &[
    ("embed", "* params.factor;", "* (params.factor + 1e-2);"),
    (
        "embed",
        "id >= params.vocabulary",
        "id > params.vocabulary + 2u",
    ),
    ("rms_norm", "params.epsilon)", "2.0 * params.epsilon)"),
    ("norm_add", "out[base + i] +=", "out[base + i] ="),
    (
        "norm_add",
        "i < params.quads; i += WORKGROUP",
        "i < WORKGROUP; i += WORKGROUP",
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
    ("append", "factor * q_norm", "1.001 * factor * q_norm"),
    ("append", "factor * k_norm", "1.001 * factor * k_norm"),
    (
        "append",
        "* turn.x + numbers[i - half]",
        "* turn.x - numbers[i - half]",
    ),
    ("append", "return numbers[i];", "return numbers[i] * 1.001;"),
    ("append", "params.context - 1u", "params.context - 2u"),
    (
        "append",
        "place.y >= params.capacity",
        "place.y + 1u >= params.capacity",
    ),
    ("attention", "* params.scale", "* (params.scale * 1.01)"),
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
    ("attention", "params.softcap\n", "params.softcap * 1.01\n"),
    (
        "attention_combine",
        "let fade = exp(its.x - top)",
        "let fade = exp(its.x - top) + 1e-2",
    ),
    ("keep_rows", "i < count", "i + 1u < count"),
    ("keep_rows", "= values[at];", "= keys[at];"),
    ("sample", "0x80000000u - ((rest", "0x80000000u + ((rest"),
    (
        "sample",
        "place[0] += vec4<u32>(1u, 1u",
        "place[0] += vec4<u32>(1u, 0u",
    ),
    ("sample", "3611622603u", "3938502376u"),
    ("sample", ">= cut.ties", "> cut.ties"),
    ("product_vector", "unit += LANES", "unit += 2u * LANES"),
    (
        "product_vector",
        "total * factor(all)",
        "total * factor(all) + vec2<f32>(1e-2)",
    ),
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
    ("product_block", "unit += LANES", "unit += 2u * LANES"),
    (
        "product_tile",
        "e += dots(tile_w[ws + 32u]",
        "e += dots(tile_w[ws + 33u]",
    ),
    ("product_tile", "x_row < m", "x_row + 1u < m"),
    ("score_head", "row >= params.rows", "row > params.rows"),
    (
        "score_head",
        "value = capped(value)",
        "value = capped(value) + 1e-2",
    ),
    ("score_combine", "i < params.tiles", "i + 1u < params.tiles"),
    ("score_combine", "log(part.y)", "log(part.y) + 1e-2"),
];

/// Faults in how blocks are read, for kernels whose names end so.
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
    ("_q4_k", "vec2<u32>(48u)", "vec2<u32>(16u)"),
    ("_q4_k", "- unit.minimum", "+ unit.minimum"),
    ("_q6_k", "- 32.0", "- 31.0"),
    ("_q6_k", "high << 4u", "high << 3u"),
];

/// What is launched instead of a broken kernel.
fn without(name: &str, usual: Choices) -> Option<Choices> {
    let mut safe = usual;
    if name.starts_with("product_tile") {
        safe.as_a_tile = None;
    } else if name.starts_with("product_block") {
        safe.blocks = false;
    } else if name.starts_with("product_vector_norm") {
        safe.norm_inside = false;
    } else if name == "attention_combine" {
        safe.chunks = false;
    } else {
        return None;
    }
    Some(safe)
}

/// The shaders that these models launch, with either form of the norm.
fn launched(gpu: &Gpu) -> Vec<(&'static Shader, Kernels)> {
    let mut all: Vec<(&'static Shader, Kernels)> = Vec::new();
    let models = Format::ALL.map(all_in).into_iter().chain([apart()]);
    for kernels in models {
        for subject in kernels.subjects(Choices::usual(false)) {
            let trial = subject.trial(gpu).unwrap();
            for kernel in gpu.noted(&trial.launches).unwrap() {
                if !all
                    .iter()
                    .any(|(known, _)| known.name == kernel.shader.name)
                {
                    all.push((kernel.shader, kernels.clone()));
                }
            }
        }
    }
    all
}

#[test]
fn every_kernel_that_is_wrong_is_found() {
    let gpu = open();
    let usual = Choices::usual(false);
    let all = launched(&gpu);
    let (mut broken, mut faults_found) = (HashSet::new(), HashSet::new());
    for (shader, kernels) in &all {
        let (name, text) = (shader.name, shader.text());
        let of_kernel = FAULTS.iter().filter(|(of, ..)| name.starts_with(of));
        let of_format = MISREADINGS.iter().filter(|(of, ..)| name.ends_with(of));
        let faults = of_kernel.chain(of_format);
        for (_, from, to) in faults.filter(|(_, from, _)| text.contains(from)) {
            gpu.queue()
                .bindings()
                .alter(shader, text.replacen(from, to, 1));
            let found = afresh(&gpu, kernels, usual);
            match (without(name, usual), found) {
                (Some(safe), Ok(())) => assert_eq!(gpu.choices(), safe, "{name}: `{to}`"),
                (
                    None,
                    Err(GpuError::Kernel {
                        adapter, kernel, ..
                    }),
                ) => {
                    assert_eq!((kernel, &adapter), (name, &gpu.adapter().name), "`{to}`");
                }
                (_, found) => panic!("{name} with `{to}`: {found:?}"),
            }
            broken.insert(name);
            faults_found.insert((from, to));
        }
        gpu.queue().bindings().alter(shader, text);
        afresh(&gpu, kernels, usual).unwrap();
        assert_eq!(gpu.choices(), usual, "{name} is whole again");
    }
    let missed = all
        .iter()
        .filter(|(shader, _)| !broken.contains(shader.name));
    let missed: Vec<_> = missed.map(|(shader, _)| shader.name).collect();
    assert!(missed.is_empty(), "never broken: {missed:?}");
    let tried = FAULTS.iter().chain(MISREADINGS);
    let idle: Vec<_> = tried
        .filter(|(_, from, to)| !faults_found.contains(&(from, to)))
        .collect();
    assert!(idle.is_empty(), "in no kernel: {idle:?}");
}
