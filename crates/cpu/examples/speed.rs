//! Times the products and the attention of a 135M model's steps (30 blocks, hidden 576, 9 heads on
//! 3, vocabulary 49,152), in CPU time, so that other processes do not count:
//!
//! ```sh
//! cargo run --release -p conclave-cpu --example speed [FORMAT ..]
//! cargo build --release -p conclave-cpu --example speed --target wasm32-unknown-unknown
//! node crates/cpu/examples/speed.mjs target/wasm32-unknown-unknown/release/examples/speed.wasm
//! ```

use std::cell::RefCell;
use std::hint::black_box;

use conclave_cpu::{Attention, Cache, Input, Matrix, Seen, Upload};
use conclave_weights::Format;

const BLOCKS: usize = 30;
const VOCABULARY: usize = 49_152;

struct Model {
    /// Query with key and value, output, gate, up, down.
    blocks: Vec<[Matrix; 5]>,
    head: Matrix,
}

thread_local! {
    static MODEL: RefCell<Option<Model>> = const { RefCell::new(None) };
    static CACHES: RefCell<Vec<Cache>> = const { RefCell::new(Vec::new()) };
}

/// Numbers from −1 to 1.
fn numbers(count: usize) -> Vec<f32> {
    let number = |i: usize| (i.wrapping_mul(2_654_435_761) >> 7) as u16;
    (0..count)
        .map(|i| f32::from(number(i)) / 32768.0 - 1.0)
        .collect()
}

/// A matrix of arbitrary quants and small scales.
fn matrix(format: Format, rows: usize, cols: usize) -> Option<Matrix> {
    let mut bytes: Vec<u8> = numbers(format.bytes_of(8 * cols)?)
        .into_iter()
        .map(|x| (x * 127.0) as i8 as u8)
        .collect();
    for block in bytes.chunks_exact_mut(format.block_bytes()) {
        format.set_scales(block, &mut || 1.0 / 1024.0).ok()?;
    }
    let mut upload = Upload::begin(format, rows, cols).ok()?;
    for _ in 0..rows / 8 {
        upload.push(&bytes).ok()?;
    }
    upload.finish().ok()
}

fn model(format: Format) -> Option<Model> {
    // Blocks of 256 do not fill rows of 576.
    let hidden = if format.block_elements() > 32 {
        512
    } else {
        576
    };
    let block = || {
        Some([
            matrix(format, 960, hidden)?,
            matrix(format, 576, hidden)?,
            matrix(format, 1536, hidden)?,
            matrix(format, 1536, hidden)?,
            matrix(format, 576, 1536)?,
        ])
    };
    Some(Model {
        blocks: (0..BLOCKS).map(|_| block()).collect::<Option<_>>()?,
        head: matrix(format, VOCABULARY, hidden)?,
    })
}

/// Makes the weights in the format of that ggml number; false for an unknown number.
#[unsafe(no_mangle)]
pub extern "C" fn prepare(ggml_type: u32) -> bool {
    let made = Format::from_ggml_type(ggml_type).and_then(model);
    MODEL.replace(made);
    MODEL.with_borrow(Option::is_some)
}

/// The products of a pass of `tokens` tokens, the head's for the last token only.
#[unsafe(no_mangle)]
pub extern "C" fn products(tokens: usize) {
    MODEL.with_borrow(|model| {
        let Some(model) = model else { return };
        let x = numbers(tokens * 1536);
        let mut input = Input::new();
        let mut out = vec![0.0; VOCABULARY.max(tokens * 1536)];
        for (i, matrix) in model.blocks.iter().flatten().enumerate() {
            // Gate and up have the same input.
            if i % 5 != 3 {
                input.set(&x[..tokens * matrix.cols()], matrix.cols());
            }
            let out = &mut out[..tokens * matrix.rows()];
            let _ = black_box(matrix.times(&input, 0..matrix.rows(), out));
        }
        input.set(&x[..model.head.cols()], model.head.cols());
        let out = &mut out[..VOCABULARY];
        let _ = black_box(model.head.times(&input, 0..VOCABULARY, out));
    });
}

/// The attention of a pass of `tokens` tokens after a prefix.
#[unsafe(no_mangle)]
pub extern "C" fn attention(tokens: usize, prefix: usize) {
    CACHES.with_borrow_mut(|caches| {
        caches.resize_with(BLOCKS, || {
            let mut cache = Cache::new(4608, 3, 64, false);
            let rows = numbers(4608 * 192);
            for (row, numbers) in rows.chunks_exact(192).enumerate() {
                cache.write(row, numbers, numbers);
            }
            cache
        });
        let queries = numbers(tokens * 576);
        let seen: Vec<Seen> = (prefix..prefix + tokens)
            .map(|row| Seen {
                prefix: 0..prefix,
                own: prefix..row + 1,
            })
            .collect();
        let attention = Attention {
            heads: 9,
            scale: 0.125,
            softcap: None,
        };
        let (mut scratch, mut out) = (Vec::new(), vec![0.0; tokens * 576]);
        for cache in caches {
            attention.run(cache, &queries, &seen, &mut scratch, &mut out);
            black_box(&out);
        }
    });
}

fn main() {
    #[cfg(target_os = "linux")]
    native::main();
}

#[cfg(target_os = "linux")]
mod native {
    use conclave_weights::Format;

    /// CPU time of a run in ms: the least of three batches of ten, since the clock is coarse.
    fn least(run: impl Fn()) -> f64 {
        let now = || {
            let times = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
            let spent = times
                .split(' ')
                .next()
                .and_then(|ns| ns.parse::<f64>().ok());
            spent.unwrap_or_default() / 1e6
        };
        let timed = |_| {
            let begin = now();
            (0..10).for_each(|_| run());
            (now() - begin) / 10.0
        };
        (0..3).map(timed).fold(f64::INFINITY, f64::min)
    }

    pub fn main() {
        let named: Vec<String> = std::env::args().skip(1).collect();
        let all = Format::ALL.into_iter();
        for format in
            all.filter(|format| named.is_empty() || named.iter().any(|name| name == format.name()))
        {
            super::prepare(format.ggml_type().expect("a type of ggml"));
            for tokens in [1, 20, 64] {
                let ms = least(|| super::products(tokens));
                println!("{format:5} products of {tokens:3} tokens: {ms:7.2} ms");
            }
        }
        if !named.is_empty() {
            return;
        }
        for (tokens, prefix) in [(1, 128), (1, 1024), (1, 4096), (20, 128), (20, 1024)] {
            let ms = least(|| super::attention(tokens, prefix));
            println!("attention of {tokens:3} tokens after {prefix:4}: {ms:7.2} ms");
        }
    }
}
