//! One layer of a model by the plain kernels and by the fused ones, in one run:
//! dispatches, and the best time of each for a decode step and a verify pass at several prefixes.
//! `cargo run --release -p conclave-kernels --example layer -- [hidden heads kv_heads width feed_forward]`;
//! the default is the shape of SmolLM2-135M, its weights in Q8_0.

use std::time::Instant;

use conclave_kernels::*;

const RUNS: usize = 15;
const FORMAT: Format = Format::Q8_0;

/// One layer and what a pass of it needs.
struct Layer {
    gpu: Gpu,
    heads: Heads,
    hidden: usize,
    wide: usize,
    places: Buffer,
    counts: Buffer,
    norm: Buffer,
    table: Buffer,
    stream: Buffer,
    normed: Buffer,
    /// Queries, keys and values apart, for the plain kernels.
    apart: [Buffer; 3],
    qkv: Buffer,
    q: Buffer,
    attended: Buffer,
    partials: Buffer,
    gate: [Buffer; 3],
    caches: [Buffer; 2],
    halves: [Buffer; 2],
    weights: [Matrix; 6],
    qkv_weight: Matrix,
    gate_up: Matrix,
}

impl Layer {
    fn new(gpu: &Gpu, m: usize, prefix: usize, shape: [usize; 5]) -> Result<Self, GpuError> {
        let [hidden, heads, kv_heads, width, wide] = shape;
        let heads = Heads {
            heads,
            kv_heads,
            width,
            capacity: prefix + m,
            exact: false,
        };
        let floats = |count: usize| gpu.upload(&vec![0.01_f32; count]);
        let matrix = |rows: usize, cols: usize| {
            let blocks = vec![0x11; rows * cols / FORMAT.block() * FORMAT.block_bytes()];
            Matrix::upload(gpu, FORMAT, rows, cols, &blocks)
        };
        let (q, kv) = (heads.heads * width, kv_heads * width);
        let chunks = attention_chunks(m, heads, prefix + m);
        let cache = heads.cache_bytes() / 2;
        Ok(Self {
            gpu: gpu.clone(),
            heads,
            hidden,
            wide,
            places: gpu.upload(&places_in_sequence(prefix as u32, m as u32))?,
            counts: gpu.upload(&[m as u32, chunks as u32])?,
            norm: floats(hidden)?,
            table: gpu.upload(&rope_table(prefix + m, &vec![0.1; width / 2], 1.0))?,
            stream: floats(m * hidden)?,
            normed: floats(m * hidden)?,
            apart: [floats(m * q)?, floats(m * kv)?, floats(m * kv)?],
            qkv: floats(m * heads.row())?,
            q: floats(m * q)?,
            attended: floats(m * q)?,
            partials: floats(attention_partials(m, heads, chunks))?,
            gate: [floats(m * wide)?, floats(m * wide)?, floats(m * wide)?],
            caches: [floats(cache)?, floats(cache)?],
            halves: [floats(cache / 2)?, floats(cache / 2)?],
            weights: [
                matrix(q, hidden)?,
                matrix(kv, hidden)?,
                matrix(kv, hidden)?,
                matrix(hidden, q)?,
                matrix(wide, hidden)?,
                matrix(hidden, wide)?,
            ],
            qkv_weight: matrix(heads.row(), hidden)?,
            gate_up: matrix(2 * wide, hidden)?,
        })
    }

    fn plain(&self, m: usize) -> Result<(), GpuError> {
        let Self { gpu, heads, .. } = self;
        let [q, k, v] = &self.apart;
        let [query, key, value, output, gate, down] = &self.weights;
        let times =
            |x: &Buffer, w: &Matrix, out: &Buffer| matmul(gpu, x, m, w, Plus::default(), out);
        let size = [m, self.hidden];
        rms_norm(gpu, &self.stream, &self.norm, 1e-5, size, &self.normed)?;
        times(&self.normed, query, q)?;
        times(&self.normed, key, k)?;
        times(&self.normed, value, v)?;
        let shape = RopeShape {
            tokens: m,
            heads: heads.heads,
            kv_heads: heads.kv_heads,
            width: heads.width,
            rotary: heads.width,
            capacity: heads.capacity,
            context: heads.capacity,
            pairs: Pairs::Halves,
        };
        let [keys, values] = &self.caches;
        rope_append(gpu, q, k, v, keys, values, &self.places, &self.table, shape)?;
        let shape = AttentionShape {
            tokens: m,
            heads: heads.heads,
            kv_heads: heads.kv_heads,
            width: heads.width,
            capacity: heads.capacity,
            scale: 0.1,
            window: None,
            softcap: None,
        };
        verify_attention(gpu, q, keys, values, &self.places, shape, &self.attended)?;
        let plus = Plus {
            bias: None,
            residual: Some(&self.stream),
        };
        matmul(gpu, &self.attended, m, output, plus, &self.stream)?;
        rms_norm(gpu, &self.stream, &self.norm, 1e-5, size, &self.normed)?;
        let [a, b, active] = &self.gate;
        times(&self.normed, gate, a)?;
        times(&self.normed, gate, b)?;
        gated(gpu, a, b, Activation::Silu, m * self.wide, active)?;
        matmul(gpu, active, m, down, plus, &self.stream)
    }

    fn fused(&self, m: usize) -> Result<(), GpuError> {
        let Self { gpu, heads, .. } = self;
        let rows = Rows {
            count: m,
            counts: &self.counts,
        };
        let norm = Fused {
            norm: Some(Norm {
                weight: &self.norm,
                epsilon: 1e-5,
                scratch: &self.normed,
            }),
            ..Fused::default()
        };
        let [_, _, _, output, _, down] = &self.weights;
        let [keys, values] = &self.halves;
        product(
            gpu,
            &self.stream,
            rows,
            &[&self.qkv_weight],
            norm,
            &self.qkv,
        )?;
        let rope = Rotary {
            table: &self.table,
            context: heads.capacity,
            rotary: heads.width,
        };
        append(
            gpu,
            &self.qkv,
            m,
            None,
            rope,
            &self.places,
            *heads,
            &self.q,
            [keys, values],
        )?;
        let scores = Scores {
            scale: 0.1,
            window: None,
            softcap: None,
        };
        attention(
            gpu,
            &self.q,
            rows,
            attention_chunks(m, *heads, heads.capacity),
            &self.places,
            *heads,
            scores,
            [keys, values],
            &self.partials,
            &self.attended,
        )?;
        let adds = Fused {
            adds: true,
            ..Fused::default()
        };
        product(gpu, &self.attended, rows, &[output], adds, &self.stream)?;
        let gate = Fused {
            gate: Some(Activation::Silu),
            ..norm
        };
        let active = &self.gate[2];
        product(gpu, &self.stream, rows, &[&self.gate_up], gate, active)?;
        product(gpu, active, rows, &[down], adds, &self.stream)
    }
}

fn main() -> Result<(), GpuError> {
    let numbers: Vec<usize> = (std::env::args().skip(1))
        .filter_map(|argument| argument.parse().ok())
        .collect();
    let shape = <[usize; 5]>::try_from(numbers).unwrap_or([576, 9, 3, 64, 1536]);
    pollster::block_on(async {
        let gpu = Gpu::init(AdapterChoice::Best).await?;
        println!("{} · {shape:?} in {FORMAT:?}", gpu.adapter().name);
        println!("rows | prefix | plain: dispatches, ms | fused: dispatches, ms | plain / fused");
        for (m, prefix) in [
            (1, 128),
            (1, 1024),
            (1, 4096),
            (20, 128),
            (20, 1024),
            (64, 1024),
        ] {
            let layer = Layer::new(&gpu, m, prefix, shape)?;
            let mut best = [f64::MAX; 2];
            let mut dispatches = [0; 2];
            for _ in 0..RUNS {
                for which in 0..2 {
                    gpu.sync().await?;
                    let before = gpu.counters().dispatches;
                    let begun = Instant::now();
                    if which == 0 {
                        layer.plain(m)?;
                    } else {
                        layer.fused(m)?;
                    }
                    gpu.sync().await?;
                    best[which] = best[which].min(begun.elapsed().as_secs_f64() * 1e3);
                    dispatches[which] = gpu.counters().dispatches - before;
                }
            }
            println!(
                "{m:4} | {prefix:6} | {}, {:.2} | {}, {:.2} | {:.2}",
                dispatches[0],
                best[0],
                dispatches[1],
                best[1],
                best[0] / best[1]
            );
        }
        Ok(())
    })
}
