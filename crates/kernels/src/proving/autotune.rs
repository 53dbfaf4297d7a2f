//! Autotune: measures choices that a rule can only guess on the adapter in use; once for a device,
//! between its first model and the first answer.

use std::time::Duration;

use web_time::Instant;

use crate::ops::product::TILE_ROWS;
use crate::{
    Buffer, Choices, Format, Fused, GpuError, Launcher, Matrix, Norm, ProductKernel, Rows,
    product_by, rms_norm,
};

/// Rows and columns of the timed matrix: those of a model of a billion weights.
const SIDE: usize = 2048;

/// Number of timed runs; their median counts.
const RUNS: usize = 5;

/// Least duration of a run's launches: the wait after them takes a millisecond or two itself, and
/// some browsers' clocks tick in whole milliseconds.
const RUN: Duration = Duration::from_millis(3);

/// Most launches of a run.
const MAX_LAUNCHES: usize = 256;

/// Time limit; unmeasured choices keep the rule's value.
const TIME_LIMIT: Duration = Duration::from_millis(200);

/// Ratio of two kernels' times below which the first counts as faster; otherwise they tie.
const FASTER: f64 = 0.95;

/// Two ways to compute the same result; their times come in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rivals {
    /// Product of one row by `product_vector_subgroups` and by `product_vector`.
    Subgroups,
    /// Norm of one row: fused into its product by this kernel, and in a dispatch of its own.
    Norm(ProductKernel),
    /// Product of this many rows by `product_tile` and by `product_block`.
    Tile(usize),
}

impl Choices {
    /// Adjusts these choices by `time`, which returns the times of two rivals in order. A tie keeps
    /// the rule's choice; kernels absent here stay so: they failed their self-test.
    async fn measured(
        self,
        mut time: impl AsyncFnMut(Rivals) -> Result<[Duration; 2], GpuError>,
    ) -> Result<Self, GpuError> {
        let faster = |a: Duration, b: Duration| a.as_secs_f64() < FASTER * b.as_secs_f64();
        let mut measured = self;
        if self.serial {
            return Ok(self);
        }
        if self.subgroups {
            let [subgroups, plain] = time(Rivals::Subgroups).await?;
            measured.subgroups = faster(subgroups, plain);
        }
        if self.norm_inside {
            let [inside, apart] = time(Rivals::Norm(measured.product(1))).await?;
            measured.norm_inside = !faster(apart, inside);
        }
        if let (Some(usual), true) = (self.as_a_tile, self.blocks) {
            // A full tile always wins.
            let mut least = TILE_ROWS as usize;
            for rows in [28, 24, 20, 16] {
                let [tile, block] = time(Rivals::Tile(rows)).await?;
                let pays = match rows < usual {
                    true => faster(tile, block),
                    false => !faster(block, tile),
                };
                if !pays {
                    break;
                }
                least = rows;
            }
            measured.as_a_tile = Some(least);
        }
        Ok(measured)
    }
}

impl Launcher {
    /// Measures the choices that [`Choices::usual`] can only guess, on products with weights of
    /// this format, and sets them: whether subgroups compute one row's product, whether the norm is
    /// fused into it, and the least number of rows for which tiles are used. Call it after the
    /// self-test of a model with such weights, while nothing else runs. It takes a fifth of a
    /// second or little more, after the self-test of twins with subgroups. Returns `false` if
    /// nothing was measured: software adapters keep the usual choices, since they use other
    /// kernels, and building the kernels measured here would take seconds.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`], and errors since the last read.
    pub async fn autotune(&self, format: Format) -> Result<bool, GpuError> {
        if self.adapter().software {
            return Ok(false);
        }
        self.measure(format, SIDE, TIME_LIMIT).await?;
        Ok(true)
    }

    /// [`Self::autotune`] on a matrix `[side, side]`, also on software adapters.
    async fn measure(
        &self,
        format: Format,
        side: usize,
        patience: Duration,
    ) -> Result<(), GpuError> {
        let before = self.try_subgroups().await?;
        let race = Inputs::new(self, format, side, Instant::now() + patience)?;
        let mut measured = before
            .measured(async |rivals| race.time(rivals).await)
            .await?;
        if before.norm_inside && !measured.norm_inside {
            // The kernels to be launched instead are tried first.
            self.choose(measured);
            match self.test().await {
                Err(GpuError::Kernel { .. }) => measured.norm_inside = true,
                // A twin may have failed.
                tested => {
                    tested?;
                    measured = self.choices();
                }
            }
        }
        self.choose(measured);
        Ok(())
    }
}

/// Inputs for timing rivals.
struct Inputs<'a> {
    launcher: &'a Launcher,
    ends: Instant,
    /// `[side, side]`.
    matrix: Matrix,
    /// `[32, side]`.
    x: Buffer,
    out: Buffer,
    /// `[side]`.
    norm: Buffer,
    normed: Buffer,
    counts: Buffer,
}

impl<'a> Inputs<'a> {
    fn new(
        launcher: &'a Launcher,
        format: Format,
        side: usize,
        ends: Instant,
    ) -> Result<Self, GpuError> {
        // Bytes whose f16 are small numbers in every format.
        let blocks = vec![0x11; side * side / format.block() * format.block_bytes()];
        let rows = vec![0.5_f32; TILE_ROWS as usize * side];
        Ok(Self {
            launcher,
            ends,
            matrix: Matrix::upload(launcher, format, side, side, &blocks)?,
            x: launcher.upload(&rows)?,
            out: launcher.upload(&rows)?,
            norm: launcher.upload(&rows[..side])?,
            normed: launcher.upload(&rows[..side])?,
            counts: launcher.upload(&[0_u32])?,
        })
    }

    /// The times of equally many launches of each; equal where one has not passed its self-test,
    /// and after the time limit.
    async fn time(&self, rivals: Rivals) -> Result<[Duration; 2], GpuError> {
        const TIE: [Duration; 2] = [Duration::ZERO; 2];
        let passed = |kernel, normed| {
            let format = self.matrix.format();
            self.launcher.product_passed(kernel, format, normed)
        };
        let (count, fair) = match rivals {
            Rivals::Subgroups => (
                1,
                [ProductKernel::VectorSubgroups, ProductKernel::Vector]
                    .map(|kernel| passed(kernel, false)),
            ),
            Rivals::Norm(kernel) => (1, [true, false].map(|normed| passed(kernel, normed))),
            Rivals::Tile(rows) => (
                rows,
                [ProductKernel::Tile, ProductKernel::Block].map(|kernel| passed(kernel, false)),
            ),
        };
        if fair != [true; 2] {
            return Ok(TIE);
        }
        self.launcher.write(&self.counts, &[count as u32])?;
        // An idle GPU is slow at first.
        self.run(rivals, 1).await?;
        let (mut launches, mut runs) = (1, Vec::new());
        while runs.len() < RUNS {
            if Instant::now() >= self.ends {
                return Ok(TIE);
            }
            let [one, other] = self.run(rivals, launches).await?;
            if runs.is_empty() && one.min(other) < RUN && launches < MAX_LAUNCHES {
                launches *= 2;
            } else {
                runs.push([one, other]);
            }
        }
        Ok([0, 1].map(|which| {
            let mut times: Vec<Duration> = runs.iter().map(|run| run[which]).collect();
            times.sort();
            times[RUNS / 2]
        }))
    }

    /// Times of `launches` launches of each, including the wait for the last.
    async fn run(&self, rivals: Rivals, launches: usize) -> Result<[Duration; 2], GpuError> {
        let mut times = [Duration::ZERO; 2];
        for (first, time) in [true, false].into_iter().zip(&mut times) {
            let begun = Instant::now();
            (0..launches).try_for_each(|_| self.launch(rivals, first))?;
            self.launcher.sync().await?;
            *time = begun.elapsed();
        }
        Ok(times)
    }

    fn launch(&self, rivals: Rivals, first: bool) -> Result<(), GpuError> {
        const EPSILON: f32 = 1e-5;
        let norm = Norm {
            weight: &self.norm,
            epsilon: EPSILON,
            scratch: &self.normed,
            inside: true,
        };
        let (count, x, norm, kernel) = match (rivals, first) {
            (Rivals::Subgroups, true) => (1, &self.x, None, ProductKernel::VectorSubgroups),
            (Rivals::Subgroups, false) => (1, &self.x, None, ProductKernel::Vector),
            (Rivals::Norm(kernel), true) => (1, &self.x, Some(norm), kernel),
            (Rivals::Norm(kernel), false) => {
                let size = [1, self.matrix.cols()];
                rms_norm(
                    self.launcher,
                    &self.x,
                    &self.norm,
                    EPSILON,
                    size,
                    &self.normed,
                )?;
                (1, &self.normed, None, kernel)
            }
            (Rivals::Tile(rows), true) => (rows, &self.x, None, ProductKernel::Tile),
            (Rivals::Tile(rows), false) => (rows, &self.x, None, ProductKernel::Block),
        };
        let counts = &self.counts;
        let fused = Fused {
            norm,
            ..Fused::default()
        };
        let matrices = [&self.matrix];
        let rows = Rows { count, counts };
        product_by(
            self.launcher,
            (x, rows),
            &matrices,
            fused,
            &self.out,
            kernel,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AdapterChoice, Heads, Kernels, product, product_cpu, rms_norm_cpu};

    /// The choices by these milliseconds, and the rivals that were timed.
    fn decided(choices: Choices, ms: impl Fn(Rivals) -> [u64; 2]) -> (Choices, Vec<Rivals>) {
        let mut asked = Vec::new();
        let measured = choices.measured(async |rivals| {
            asked.push(rivals);
            Ok(ms(rivals).map(Duration::from_millis))
        });
        (pollster::block_on(measured).unwrap(), asked)
    }

    #[test]
    fn what_is_clearly_faster_is_chosen() {
        use ProductKernel::{Vector, VectorSubgroups};
        use Rivals::{Norm, Subgroups, Tile};
        let usual = Choices::usual(false);
        let tie = |_| [100, 100];
        let asked = vec![Norm(Vector), Tile(28), Tile(24)];
        assert_eq!(decided(usual, tie), (usual, asked));
        for (apart, norm_inside) in [(94, false), (96, true), (200, true)] {
            let ms = |rivals| match rivals {
                Norm(_) => [100, apart],
                _ => [100; 2],
            };
            let chosen = Choices {
                norm_inside,
                ..usual
            };
            assert_eq!(decided(usual, ms).0, chosen, "{apart}");
        }
        // Twins with subgroups that passed are not chosen yet, nor by a tie.
        let passed = Choices {
            subgroups: true,
            ..usual
        };
        for (time, subgroups) in [(94, true), (96, false), (100, false), (200, false)] {
            let ms = |rivals| match rivals {
                Subgroups => [time, 100],
                _ => [100; 2],
            };
            let chosen = Choices { subgroups, ..usual };
            let kernel = if subgroups { VectorSubgroups } else { Vector };
            let asked = vec![Subgroups, Norm(kernel), Tile(28), Tile(24)];
            assert_eq!(decided(passed, ms), (chosen, asked), "{time}");
        }
        // A block's time grows with its rows, a tile's does not.
        for (tile, as_a_tile) in [
            (10, 16),
            (155, 20),
            (170, 20),
            (195, 24),
            (235, 28),
            (290, 28),
            (300, 32),
        ] {
            let ms = |rivals| match rivals {
                Tile(rows) => [tile, 10 * rows as u64],
                _ => [100; 2],
            };
            let (chosen, asked) = decided(usual, ms);
            assert_eq!(chosen.as_a_tile, Some(as_a_tile), "{tile}");
            assert_eq!(asked.len() == 2, as_a_tile == 32, "no fewer rows are tried");
        }
    }

    #[test]
    fn what_has_failed_is_not_asked_for() {
        let usual = Choices::usual(false);
        let failed = Choices {
            norm_inside: false,
            as_a_tile: None,
            ..usual
        };
        let rows_one_by_one = Choices {
            blocks: false,
            norm_inside: false,
            ..usual
        };
        for choices in [failed, rows_one_by_one, Choices::usual(true)] {
            let others = |_| panic!("asked with {choices:?}");
            assert_eq!(decided(choices, others), (choices, Vec::new()));
        }
    }

    const FORMAT: Format = Format::Q8_0;

    /// A device with a GPU's kernels and a model of one format; some kernels are broken.
    fn tested(faults: &[(&str, &str, &str)]) -> (Launcher, Kernels) {
        let kernels = Kernels {
            embeddings: vec![FORMAT],
            head: FORMAT,
            products: vec![FORMAT],
            gates: vec![FORMAT],
            apart: false,
            post_norms: false,
            norms_rotated: false,
            convolves: None,
            recurrences: false,
            experts: Vec::new(),
            gated_heads: false,
            heads: vec![Heads {
                heads: 1,
                kv_heads: 1,
                width: 64,
                capacity: 64,
                exact: false,
            }],
        };
        let launcher = pollster::block_on(Launcher::init(AdapterChoice::Best))
            .unwrap_or_else(|error| panic!("this test needs an adapter: {error}"));
        for (name, right, wrong) in faults {
            let shader = crate::ops::shaders()
                .find(|shader| shader.name == *name)
                .unwrap();
            let text = shader.text().replace(right, wrong);
            launcher.alter(shader, text);
        }
        launcher.choose(Choices::usual(false));
        pollster::block_on(launcher.self_test(&kernels)).unwrap();
        (launcher, kernels)
    }

    /// Twins of one format: norm fused or not, gated or not.
    const TWINS: u64 = 4;

    fn measure(launcher: &Launcher) -> Choices {
        let patience = Duration::from_secs(60);
        pollster::block_on(launcher.measure(FORMAT, 256, patience)).unwrap();
        launcher.choices()
    }

    /// Products of some rows with a norm, by the chosen kernel, against the twin.
    fn products_are_right(launcher: &Launcher) {
        let (n, k) = (96, 64);
        // A scale and 32 bytes.
        let block =
            |at: usize| (0..34).map(move |i| if i < 2 { 0x11 } else { (7 * at + i * i) as u8 });
        let blocks: Vec<u8> = (0..n * k / FORMAT.block()).flat_map(block).collect();
        let mut weights = vec![0.0; n * k];
        conclave_weights::dequantise(conclave_weights::Format::Q8_0, &blocks, &mut weights)
            .unwrap();
        let matrix = Matrix::upload(launcher, FORMAT, n, k, &blocks).unwrap();
        for m in [1, 6, 18, 26, 32] {
            let x: Vec<f32> = (0..m * k).map(|i| (i % 37) as f32 - 18.0).collect();
            let norm: Vec<f32> = (0..k).map(|i| 1.0 + (i % 5) as f32).collect();
            let expected = product_cpu(
                &rms_norm_cpu(&x, &norm, 1e-5),
                k,
                &weights,
                None,
                None,
                None,
            );
            let [x, weight] = [
                launcher.upload(&x).unwrap(),
                launcher.upload(&norm).unwrap(),
            ];
            let [scratch, out] = [m * k, m * n].map(|count| launcher.allocate(4 * count).unwrap());
            let fused = Fused {
                norm: Some(Norm {
                    weight: &weight,
                    epsilon: 1e-5,
                    scratch: &scratch,
                    inside: true,
                }),
                ..Fused::default()
            };
            let rows = Rows {
                count: m,
                counts: &launcher.upload(&[m as u32]).unwrap(),
            };
            product(launcher, &x, rows, &[&matrix], fused, &out).unwrap();
            let found = pollster::block_on(launcher.read_f32(&[&out])).unwrap();
            let size = expected.iter().fold(0.0_f32, |top, v| top.max(v.abs()));
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= size / 1e4;
            assert!(size > 0.0 && found[0].len() == expected.len());
            assert!(found[0].iter().zip(&expected).all(near), "{m} rows");
        }
    }

    #[test]
    fn measuring_ends_with_choices_that_are_right() {
        let (launcher, kernels) = tested(&[]);
        let (memory, counted) = (launcher.memory_in_use(), launcher.counters());
        let chosen = measure(&launcher);
        let made = launcher.counters() - counted;
        // At least two pairs of rivals, run after run, all built before except twins with
        // subgroups.
        assert!(made.read_backs as usize > 2 * 2 * RUNS, "{made:?}");
        let twins = if launcher.has_subgroups() { TWINS } else { 0 };
        assert_eq!(made.pipelines, twins);
        assert!(matches!(chosen.as_a_tile, Some(16..=32)), "{chosen:?}");
        let of_the_rule = Choices {
            norm_inside: true,
            subgroups: false,
            as_a_tile: Some(28),
            ..chosen
        };
        assert_eq!(of_the_rule, Choices::usual(false), "the rest stays");
        assert_eq!(launcher.memory_in_use(), memory, "memory comes back");
        products_are_right(&launcher);
        if launcher.has_subgroups() {
            // They have passed, whatever was measured.
            launcher.choose(Choices {
                subgroups: true,
                ..Choices::usual(false)
            });
            let counted = launcher.counters();
            pollster::block_on(launcher.self_test(&kernels)).unwrap();
            assert_eq!(launcher.counters(), counted);
            products_are_right(&launcher);
        }
        // With a separate norm, its kernel is tried once.
        launcher.choose(Choices {
            norm_inside: false,
            ..chosen
        });
        pollster::block_on(launcher.test()).unwrap();
        let counted = launcher.counters();
        pollster::block_on(launcher.self_test(&kernels)).unwrap();
        assert_eq!(launcher.counters(), counted);
        products_are_right(&launcher);
    }

    #[test]
    fn what_has_failed_is_not_brought_back() {
        let (launcher, _) = tested(&[
            ("product_tile_q8_0", "x_row < m", "x_row + 1u < m"),
            (
                "product_vector_norm_q8_0",
                "+ params.epsilon",
                "+ 3.0 * params.epsilon",
            ),
        ]);
        let dropped = Choices {
            norm_inside: false,
            as_a_tile: None,
            ..Choices::usual(false)
        };
        assert_eq!(launcher.choices(), dropped);
        let measured = measure(&launcher);
        let without = Choices {
            subgroups: false,
            ..measured
        };
        assert_eq!(without, dropped);
        products_are_right(&launcher);
    }

    /// A twin that fails in one form is chosen in none.
    #[test]
    fn a_wrong_twin_with_subgroups_is_never_chosen() {
        for (name, right, wrong) in [
            (
                "product_vector_subgroups_q8_0",
                "subgroupAdd(swept.sums)",
                "swept.sums",
            ),
            (
                "product_vector_subgroups_norm_gated_q8_0",
                "subgroupAdd(swept.squares)",
                "swept.squares",
            ),
            // Not WGSL.
            ("product_vector_subgroups_gated_q8_0", "lanes", "no lanes"),
        ] {
            let (launcher, _) = tested(&[(name, right, wrong)]);
            if !launcher.has_subgroups() {
                println!("the adapter has no subgroups");
                return;
            }
            let tried = pollster::block_on(launcher.try_subgroups()).unwrap();
            assert_eq!(tried, Choices::usual(false), "{name}");
            assert_eq!(launcher.choices(), Choices::usual(false), "{name}");
            assert!(!measure(&launcher).subgroups, "{name}");
            products_are_right(&launcher);
        }
        let (launcher, _) = tested(&[]);
        let tried = pollster::block_on(launcher.try_subgroups()).unwrap();
        assert!(tried.subgroups, "the rest of this test is worth something");
        assert_eq!(launcher.choices(), Choices::usual(false));
    }

    #[test]
    fn without_time_or_kernels_that_have_passed_the_rule_stands() {
        let (launcher, _) = tested(&[]);
        pollster::block_on(launcher.try_subgroups()).unwrap();
        let counted = launcher.counters().dispatches;
        // No kernel of this format has been tried.
        let other = launcher.measure(Format::Q4_0, 256, Duration::from_secs(60));
        pollster::block_on(other).unwrap();
        assert_eq!(launcher.counters().dispatches, counted);
        pollster::block_on(launcher.measure(FORMAT, 256, Duration::ZERO)).unwrap();
        assert_eq!(launcher.choices(), Choices::usual(false));
        if launcher.adapter().software {
            assert!(!pollster::block_on(launcher.autotune(FORMAT)).unwrap());
        }
    }
}
