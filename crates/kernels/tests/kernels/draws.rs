//! Drawing tokens on the GPU.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

/// One run of draws from the same logits: the ids, and the final `next` and `place`.
fn draw(logits: &[f32], draws: Draws, random: &[u32], steps: usize) -> (Vec<u32>, Vec<u32>) {
    let vocabulary = logits.len();
    let place = Place {
        position: 6,
        row: 41,
        start: 7,
        prefix: 7,
    };
    let (logits, random) = (upload(logits), upload(random));
    let drawn = upload(&vec![77_u32; steps]);
    let (next, place) = (upload(&[5_u32, 0]), upload(&[place]));
    let scratch = marked(2 * vocabulary);
    let buffers = DrawBuffers {
        random: &random,
        scratch: &scratch,
        drawn: &drawn,
        next: &next,
        place: &place,
    };
    for _ in 0..steps + 1 {
        sample(gpu(), &logits, vocabulary, steps, draws, buffers).unwrap();
    }
    let read = pollster::block_on(gpu().read(&[&drawn, &next, &place])).unwrap();
    let words: Vec<Vec<u32>> = read
        .iter()
        .map(|bytes| bytemuck::pod_collect_to_vec(bytes))
        .collect();
    (words[0].clone(), [&words[1][..], &words[2]].concat())
}

/// The same by sorting and sums in f64, without rounding the weights, as a CPU samples.
fn plain(logits: &[f32], draws: Draws, number: u32) -> u32 {
    let capped = |logit: f32| match draws.softcap.map(f64::from) {
        Some(cap) => cap * (f64::from(logit) / cap).tanh(),
        None => f64::from(logit),
    };
    let top = capped(logits.iter().copied().fold(f32::MIN, f32::max));
    let weight = |id: &usize| ((capped(logits[*id]) - top) / f64::from(draws.temperature)).exp();
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]).then(a.cmp(&b)));
    order.retain(|id| weight(id) >= f64::from(draws.min_p));
    if draws.top_k > 0 {
        order.truncate(draws.top_k as usize);
    }
    let total: f64 = order.iter().map(weight).sum();
    let mut kept = 0.0;
    let last = order.iter().position(|id| {
        kept += weight(id);
        kept >= f64::from(draws.top_p) * total
    });
    order.truncate(last.map_or(order.len(), |last| last + 1));
    let mut left = f64::from(number) / 4_294_967_296.0 * order.iter().map(weight).sum::<f64>();
    for id in &order {
        left -= weight(id);
        if left < 0.0 {
            return *id as u32;
        }
    }
    order[0] as u32
}

/// Logits like a model's: most far below a few, some equal.
fn logits_of(numbers: &mut Numbers, vocabulary: usize, spread: f32) -> Vec<f32> {
    (0..vocabulary)
        .map(|_| {
            let height = numbers.signed();
            let logit = spread * height * height * height;
            if numbers.below(5) == 0 {
                logit.round()
            } else {
                logit
            }
        })
        .collect()
}

proptest! {
    #![proptest_config(cases(48))]

    #[test]
    fn a_draw_equals_its_twin(
        seed: u64, vocabulary in prop_oneof![1_usize..40, 1_usize..6000], spread in 0.0_f32..60.0,
        temperature in prop_oneof![Just(0.0), Just(0.6), 0.01_f32..4.0],
        top_k in prop_oneof![Just(0_u32), 1_u32..60, 1_u32..7000],
        top_p in prop_oneof![Just(1.0), Just(0.9), 0.0_f32..1.0],
        min_p in prop_oneof![Just(0.0), Just(0.05), Just(1.0), 0.0_f32..0.2],
    ) {
        let mut numbers = Numbers(seed);
        let mut logits = logits_of(&mut numbers, vocabulary, spread);
        if seed % 3 == 0 && vocabulary > 1 {
            logits[vocabulary / 2] = f32::NEG_INFINITY;
        }
        let draws = Draws { temperature, top_k, top_p, min_p, softcap: None };
        let mut random: Vec<u32> = (0..6).map(|_| numbers.bits() as u32).collect();
        random.extend([0, u32::MAX]);
        let (found, state) = draw(&logits, draws, &random, random.len());
        let expected: Vec<u32> =
            random.iter().map(|&number| sample_cpu(&logits, draws, number)).collect();
        prop_assert_eq!(&found, &expected);
        // The last id, the number of draws; position and row, advanced by each draw.
        prop_assert_eq!(state, vec![expected[7], 8, 14, 49, 7, 7]);
    }
}

/// The integer arithmetic is unnoticeable: it changes a few of ten thousand draws at most.
#[test]
fn draws_are_those_of_a_sort_and_sums_in_f64() {
    let mut numbers = Numbers(4);
    let mut different = 0;
    for case in 0..40 {
        let logits = logits_of(&mut numbers, 3000, 25.0);
        let draws = Draws {
            temperature: [0.6, 1.0, 1.7, 0.1][case % 4],
            top_k: [0, 40, 0][case % 3],
            top_p: [0.9, 1.0, 0.5, 0.95, 0.99][case % 5],
            min_p: [0.0, 0.1, 0.0, 0.01, 0.5, 0.002, 0.0][case % 7],
            softcap: None,
        };
        for _ in 0..250 {
            let number = numbers.bits() as u32;
            different +=
                usize::from(sample_cpu(&logits, draws, number) != plain(&logits, draws, number));
        }
    }
    assert!(different <= 5, "{different} of 10000 draws differ");
}

/// A softcap matches its definition, on the CPU and on the GPU. Their tanh is inexact and differs
/// between adapters: a draw at the boundary of two tokens may fall to the other one.
#[test]
fn softcapped_draws_are_those_of_the_definition() {
    let mut numbers = Numbers(5);
    let (mut total, mut of_cpu, mut of_gpu, mut uncapped) = (0, 0, 0, 0);
    for case in 0..24 {
        let logits = logits_of(&mut numbers, 400, 40.0);
        let draws = Draws {
            temperature: [0.6, 1.0, 1.7][case % 3],
            top_k: [0, 40][case % 2],
            top_p: [0.9, 1.0, 0.5, 0.99][case % 4],
            min_p: [0.0, 0.02, 0.1][case % 3],
            softcap: Some([20.0, 30.0, 50.0, 15.0][case / 2 % 4]),
        };
        let random: Vec<u32> = (0..40).map(|_| numbers.bits() as u32).collect();
        let (found, _) = draw(&logits, draws, &random, random.len());
        for (&number, &found) in random.iter().zip(&found) {
            let defined = plain(&logits, draws, number);
            let softcap = None;
            total += 1;
            of_cpu += usize::from(sample_cpu(&logits, draws, number) != defined);
            of_gpu += usize::from(found != defined);
            uncapped += usize::from(plain(&logits, Draws { softcap, ..draws }, number) != defined);
        }
    }
    assert!(of_cpu <= 2, "{of_cpu} of {total} draws differ on the CPU");
    assert!(of_gpu <= 2, "{of_gpu} of {total} draws differ on the GPU");
    assert!(
        uncapped > total / 2,
        "without a cap only {uncapped} of {total} differ"
    );
}

/// The largest vocabularies, flat and steep.
#[test]
fn a_draw_from_a_large_vocabulary_equals_its_twin() {
    let mut numbers = Numbers(8);
    let steep = logits_of(&mut numbers, 262_144, 30.0);
    let flat = vec![1.5; 151_936];
    let wide = Draws::default();
    let random = [0, 1 << 31, u32::MAX, 123_456_789];
    for (logits, draws) in [
        (&steep, wide),
        (
            &steep,
            Draws {
                top_k: 1000,
                top_p: 0.95,
                ..wide
            },
        ),
        (&flat, wide),
        (&flat, Draws { top_k: 7, ..wide }),
        (&flat, Draws { top_p: 0.3, ..wide }),
        (&flat, Draws { min_p: 1.0, ..wide }),
        (
            &steep,
            Draws {
                min_p: 0.001,
                ..wide
            },
        ),
    ] {
        let (found, _) = draw(logits, draws, &random, random.len());
        let expected: Vec<u32> = random
            .iter()
            .map(|&number| sample_cpu(logits, draws, number))
            .collect();
        assert_eq!(found, expected, "{draws:?}");
    }
}

/// The lowest of equal best; a logit of NaN or +∞, and no finite one, give no token.
#[test]
fn greedy_and_broken_rows() {
    let warm = Draws::default();
    let greedy = Draws {
        temperature: 0.0,
        ..warm
    };
    let mut row = vec![-1.0_f32; 700];
    (row[650], row[300], row[301]) = (3.0, 3.0, f32::NEG_INFINITY);
    assert_eq!(draw(&row, greedy, &[9], 1).0, [300]);
    let with = |at: usize, logit: f32| {
        let mut row = row.clone();
        row[at] = logit;
        row
    };
    let broken = [
        with(8, f32::NAN),
        with(699, f32::INFINITY),
        vec![f32::NEG_INFINITY; 300],
    ];
    let capped = Draws {
        softcap: Some(30.0),
        ..warm
    };
    for draws in [greedy, warm, capped] {
        for row in &broken {
            let (found, state) = draw(row, draws, &[9], 1);
            assert_eq!((found[0], sample_cpu(row, draws, 9)), (NO_TOKEN, NO_TOKEN));
            assert_eq!(state[..2], [NO_TOKEN, 1]);
        }
    }
}

/// The id drawn is the id embedded: two tokens without the CPU.
#[test]
fn an_embedding_reads_the_id_drawn() {
    let rows: Vec<u8> = (0..12_u32).flat_map(|i| (i as f32).to_le_bytes()).collect();
    let matrix = Matrix::upload(gpu(), Format::F32, 3, 4, &rows).unwrap();
    let (next, place) = (upload(&[0_u32, 0]), upload(&places_in_sequence(3, 1)));
    let (random, scratch, drawn) = (upload(&[0_u32]), marked(6), marked(1));
    let buffers = DrawBuffers {
        random: &random,
        scratch: &scratch,
        drawn: &drawn,
        next: &next,
        place: &place,
    };
    let draws = Draws {
        temperature: 0.0,
        ..Draws::default()
    };
    let (logits, out) = (upload(&[0.0_f32, 0.5, 2.0]), marked(4));
    sample(gpu(), &logits, 3, 1, draws, buffers).unwrap();
    embed(gpu(), &next, 1, &matrix, 1.0, &out).unwrap();
    assert_eq!(read(&[&out])[0], [8.0, 9.0, 10.0, 11.0]);
    let too_many = sample(gpu(), &logits, 1 << 20, 1, draws, buffers);
    assert!(matches!(too_many, Err(GpuError::Shape { .. })));
}
