//! Times products of one weight matrix with 1, 4 and 30 rows, format by format:
//! `cargo run --release -p conclave-kernels --example products -- [outputs] [inputs]`.

use std::time::{Duration, Instant};

use conclave_kernels::*;

/// The best of this many runs counts.
const RUNS: usize = 7;

fn main() -> Result<(), GpuError> {
    let numbers: Vec<usize> = (std::env::args().skip(1))
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let (n, k) = match numbers[..] {
        [n, k] => (n, k),
        _ => (4096, 2048),
    };
    pollster::block_on(async {
        let gpu = Gpu::init(AdapterChoice::Best).await?;
        println!(
            "{} · [m, {k}] × [{n}, {k}], best of {RUNS}",
            gpu.adapter().name
        );
        for format in Format::ALL {
            // Bytes whose f16 are small numbers in every format.
            let blocks = vec![0x11; n * k / format.block() * format.block_bytes()];
            let matrix = Matrix::upload(&gpu, format, n, k, &blocks)?;
            for m in [1, 4, 30] {
                let x = gpu.upload(&vec![0.5_f32; m * k])?;
                let out = gpu.empty(4 * m * n)?;
                let mut best = Duration::MAX;
                for _ in 0..RUNS {
                    gpu.sync().await?;
                    let begun = Instant::now();
                    matmul(&gpu, &x, m, &matrix, Plus::default(), &out)?;
                    gpu.sync().await?;
                    best = best.min(begun.elapsed());
                }
                let seconds = best.as_secs_f64();
                println!(
                    "{format:?} m = {m}: {:.2} ms, {:.2} GB/s of weights, {:.1} GFLOP/s",
                    seconds * 1e3,
                    matrix.bytes() as f64 / seconds / 1e9,
                    (2 * m * n * k) as f64 / seconds / 1e9,
                );
            }
        }
        Ok(())
    })
}
