//! Threads make the same bits as one thread.

use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use conclave_cpu::rows::{Activation, gated, rms_norm};
use conclave_cpu::{Attention, Cache, Input, Matrix, Seen, Threads, Upload, judge};
use conclave_weights::Format;

/// Pseudorandom numbers in −1..1.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

fn matrix(format: Format, rows: usize, cols: usize) -> Matrix {
    let mut bytes: Vec<u8> = numbers(format.bytes_of(rows * cols).unwrap(), 1)
        .into_iter()
        .map(|x| (x * 127.0) as i8 as u8)
        .collect();
    let mut scale = numbers(rows * cols, 2).into_iter();
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        let mut next = || scale.next().unwrap() / 64.0;
        format.set_scales(block, &mut next).unwrap();
    }
    let mut upload = Upload::begin(format, rows, cols).unwrap();
    upload.push(&bytes).unwrap();
    upload.finish().unwrap()
}

fn bits(numbers: &[f32]) -> Vec<u32> {
    numbers.iter().map(|number| number.to_bits()).collect()
}

/// Compares one thread's results with those of two, three and seven.
#[track_caller]
fn the_same(work: impl Fn() -> Vec<f32> + Sync) {
    let alone = work();
    assert!(alone.iter().any(|number| *number != 0.0));
    for count in [1, 2, 3, 7] {
        let threads = Threads::new(count);
        assert_eq!(threads.count(), count);
        assert_eq!(bits(&threads.run(&work)), bits(&alone), "{count} threads");
    }
}

#[test]
fn products_are_the_same() {
    for format in [Format::Q8_0, Format::Q4K, Format::F16] {
        // Rows that do not divide evenly into eights.
        let matrix = matrix(format, 1003, 512);
        for count in [1, 2, 5, 16, 61] {
            the_same(|| {
                let mut input = Input::new();
                input.set(&numbers(count * 512, 3), 512);
                let mut out = vec![0.0; count * 987];
                matrix.times(&input, 16..1003, &mut out).unwrap();
                out
            });
        }
    }
}

#[test]
fn judgements_are_the_same() {
    let head = matrix(Format::Q8_0, 5003, 512);
    the_same(|| {
        let mut input = Input::new();
        input.set(&numbers(4 * 512, 4), 512);
        let targets = [0, 17, 4096, 5002];
        let judged = judge(&head, None, None, &input, &targets, &mut Vec::new()).unwrap();
        let both = judged
            .into_iter()
            .map(|judged| [judged.logit, judged.log_sum_exp]);
        both.flatten().collect()
    });
}

#[test]
fn attention_is_the_same() {
    let (heads, groups, width, rows) = (5, 2, 32, 1024);
    let mut cache = Cache::new(rows, heads, width, false);
    for row in 0..rows {
        let [key, value] = [5, 6].map(|seed| numbers(heads * width, seed + 2 * row as u32));
        cache.write(row, &key, &value);
    }
    let attention = Attention {
        heads: heads * groups,
        scale: 0.2,
        softcap: None,
    };
    for tokens in [1, 2, 11] {
        the_same(|| {
            let queries = numbers(tokens * heads * groups * width, 7);
            let own = |token: usize| Seen {
                prefix: 0..rows - tokens,
                own: rows - tokens..rows - tokens + token + 1,
            };
            let seen: Vec<Seen> = (0..tokens).map(own).collect();
            let mut out = vec![0.0; queries.len()];
            attention.run(&cache, &queries, &seen, &mut Vec::new(), &mut out);
            out
        });
    }
}

#[test]
fn norms_and_gates_are_the_same() {
    let weight = numbers(576, 8);
    the_same(|| {
        let mut rows = numbers(301 * 576, 9);
        rms_norm(&mut rows, &weight, 1e-5);
        let up = numbers(301 * 576 - 3, 10);
        gated(Activation::Silu, &mut rows, &up);
        rows
    });
}

#[test]
fn tasks_run_at_the_same_time_with_the_same_results() {
    let product = || {
        let matrix = matrix(Format::Q8_0, 1003, 512);
        let mut input = Input::new();
        input.set(&numbers(61 * 512, 3), 512);
        let mut out = vec![0.0; 61 * 1003];
        matrix.times(&input, 0..1003, &mut out).unwrap();
        bits(&out)
    };
    let alone = product();
    let threads = Threads::new(3);
    // Each waits until all have begun.
    let (all, begun) = (Barrier::new(3), AtomicUsize::new(0));
    let tasks = (0..3).map(|index| {
        let (all, begun, product) = (&all, &begun, &product);
        move || {
            begun.fetch_add(1, SeqCst);
            all.wait();
            assert_eq!(begun.load(SeqCst), 3);
            (index, threads.run(product))
        }
    });
    let made = threads.concurrently(tasks);
    assert_eq!(made, [0, 1, 2].map(|index| (index, alone.clone())));
}

#[test]
fn tasks_have_no_more_threads_than_there_are() {
    let (running, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = Threads::new(2);
    let tasks = (0..5).map(|index| {
        let (running, most) = (&running, &most);
        move || {
            let now = 1 + running.fetch_add(1, SeqCst);
            most.fetch_max(now, SeqCst);
            std::thread::sleep(Duration::from_millis(5));
            running.fetch_sub(1, SeqCst);
            index
        }
    });
    assert_eq!(threads.concurrently(tasks), [0, 1, 2, 3, 4]);
    assert_eq!(most.load(SeqCst), 2, "as many tasks at once as threads");
    assert_eq!(Threads::ONE.concurrently([|| 7]), [7]);
    assert!(threads.concurrently(Vec::<fn() -> usize>::new()).is_empty());
}
