//! Crossover points of the product kernels: the median time of each for passes of 1 to 64 rows, all
//! in one run. `cargo run --release -p conclave-kernels --example crossover -- [outputs] [inputs]
//! [formats]`.

use std::time::{Duration, Instant};

use conclave_kernels::*;

const RUNS: usize = 9;

/// Least duration of a run, so that the wait after it does not count, and its most launches.
const RUN: Duration = Duration::from_millis(3);
const MOST_LAUNCHES: u32 = 256;

fn main() -> Result<(), GpuError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let numbers: Vec<usize> = (arguments.iter())
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let (n, k) = match numbers[..] {
        [n, k] => (n, k),
        _ => (1536, 1024),
    };
    let mut formats = Format::ALL.to_vec();
    if let Some(named) = arguments.get(2..).filter(|named| !named.is_empty()) {
        formats.retain(|format| named.contains(&format!("{format:?}")));
    }
    pollster::block_on(async {
        let gpu = Launcher::init(AdapterChoice::Best).await?;
        println!(
            "{} · [m, {k}] × [{n}, {k}], µs a launch",
            gpu.adapter().name
        );
        let mut kernels = ProductKernel::ALL.to_vec();
        kernels.retain(|&kernel| kernel != ProductKernel::VectorSubgroups || gpu.has_subgroups());
        println!(
            "format |  m | vector |  block |   tile | serial vector | serial block | \
             vector by subgroups"
        );
        for format in formats {
            // Bytes whose f16 are small numbers in every format.
            let blocks = vec![0x11; n * k / format.block() * format.block_bytes()];
            let matrix = Matrix::upload(&gpu, format, n, k, &blocks)?;
            for m in [1, 2, 4, 8, 12, 16, 20, 24, 28, 32, 64] {
                let x = gpu.upload(&vec![0.5_f32; m * k])?;
                let out = gpu.allocate(4 * m * n)?;
                let counts = gpu.upload(&[m as u32])?;
                let rows = Rows {
                    count: m,
                    counts: &counts,
                };
                let run = async |kernel, launches| {
                    let begun = Instant::now();
                    for _ in 0..launches {
                        let fused = Fused::default();
                        product_by(&gpu, (&x, rows), &[&matrix], fused, &out, kernel)?;
                    }
                    gpu.sync().await?;
                    Ok::<_, GpuError>(begun.elapsed() / launches)
                };
                let mut launches = Vec::new();
                for &kernel in &kernels {
                    // Builds the pipeline.
                    run(kernel, 1).await?;
                    let one = run(kernel, 1).await?.as_nanos().max(1);
                    let enough = RUN.as_nanos().div_ceil(one) as u32;
                    launches.push(enough.clamp(1, MOST_LAUNCHES));
                }
                let mut times = vec![Vec::new(); kernels.len()];
                for _ in 0..RUNS {
                    for (at, times) in times.iter_mut().enumerate() {
                        let each = run(kernels[at], launches[at]).await?;
                        times.push(each.as_secs_f64() * 1e6);
                    }
                }
                let medians = times.iter_mut().map(|times| {
                    times.sort_by(f64::total_cmp);
                    format!("{:6.1}", times[RUNS / 2])
                });
                let medians: Vec<String> = medians.collect();
                println!("{format:?} | {m:2} | {}", medians.join(" | "));
            }
        }
        Ok(())
    })
}
