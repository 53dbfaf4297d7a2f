//! Crossover points of the product kernels: the median time of each for passes of 1 to 64 rows, all
//! in one run. `cargo run --release -p conclave-kernels --example crossover -- [outputs] [inputs]`.

use std::time::Instant;

use conclave_kernels::*;

const RUNS: usize = 9;

fn main() -> Result<(), GpuError> {
    let numbers: Vec<usize> = (std::env::args().skip(1))
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let (n, k) = match numbers[..] {
        [n, k] => (n, k),
        _ => (1536, 1024),
    };
    pollster::block_on(async {
        let gpu = Launcher::init(AdapterChoice::Best).await?;
        println!("{} · [m, {k}] × [{n}, {k}], ms", gpu.adapter().name);
        let mut kernels = ProductKernel::ALL.to_vec();
        kernels.retain(|&kernel| kernel != ProductKernel::VectorSubgroups || gpu.has_subgroups());
        println!(
            "format |  m | vector |  block |   tile | serial vector | serial block | vector by subgroups"
        );
        for format in Format::ALL {
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
                let mut times = vec![Vec::new(); kernels.len()];
                for _ in 0..RUNS {
                    for (&kernel, times) in kernels.iter().zip(&mut times) {
                        gpu.sync().await?;
                        let begun = Instant::now();
                        let fused = Fused::default();
                        product_by(&gpu, &x, rows, &[&matrix], fused, &out, kernel)?;
                        gpu.sync().await?;
                        times.push(begun.elapsed().as_secs_f64() * 1e3);
                    }
                }
                let medians = times.iter_mut().map(|times| {
                    times.sort_by(f64::total_cmp);
                    format!("{:6.2}", times[RUNS / 2])
                });
                let medians: Vec<String> = medians.collect();
                println!("{format:?} | {m:2} | {}", medians.join(" | "));
            }
        }
        Ok(())
    })
}
