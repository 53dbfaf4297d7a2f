//! Self-test of the open core: compares its kernels with their CPU twins on the GPU in use, before
//! a model answers with them. Drivers compile a kernel wrongly more often than they fail, and burn
//! does not report a wrong kernel. A failure ends the load, since no kernel of this core has a safe
//! twin.

use std::sync::Arc;

use burn::tensor::{Int, Tensor, TensorData};
use conclave_kernels::{
    Format, GpuError, Heads, Heard, Projected, Rotary, Scores, append_cpu, attention_cpu, close,
    experts_cpu, places_in_line, places_in_sequence, product_cpu,
};
use conclave_model::ModelError;
use conclave_weights::dequantise;

use crate::device::{Burn, refused};
use crate::operations::{self, Rows};
use crate::weights::Matrix;

/// Numbers of rows of x that products are tried with: one at a time, four, a tile, and one more.
const ROWS: [usize; 4] = [1, 5, 32, 33];

/// First rows of a model's own weights in one format, for trying the kernels.
#[derive(Debug)]
pub struct Sample {
    /// Format of the rows.
    pub format: Format,
    /// Numbers in a row.
    pub cols: usize,
    /// Whole rows in GGUF's layout.
    pub rows: Vec<u8>,
    /// The same rows on the GPU.
    pub matrix: Matrix,
}

/// Tries products with the rows of `sample`, and lookups of these rows.
///
/// # Errors
/// [`GpuError::Kernel`] for a wrong result, and the device's.
pub async fn prove_products(burn: &Burn, heard: &Heard, sample: &Sample) -> Result<(), ModelError> {
    let k = sample.cols;
    let n = sample.rows.len() / (k / sample.format.block() * sample.format.block_bytes());
    let mut weights = vec![0.0; n * k];
    dequantise(sample.format.stored(), &sample.rows, &mut weights).map_err(refused)?;
    for m in ROWS {
        let x = numbers(m * k);
        let wanted = product_cpu(&x, k, &weights, None, None, None);
        let x = Tensor::from_data(TensorData::new(x, [m, k]), burn.device());
        let found = burn.read(sample.matrix.product(x), heard).await?;
        judge(burn, "product", &found, &wanted)?;
    }
    // Each row an expert of its own, of which each row of x goes through two.
    let (x, chosen) = (numbers(ROWS[1] * k), (0..2 * ROWS[1]).map(|i| i * 7 % n));
    let chosen: Vec<u32> = chosen.map(|expert| expert as u32).collect();
    let wanted = experts_cpu(&x, k, &weights, n, &chosen);
    let x = Tensor::from_data(TensorData::new(x, [ROWS[1], k]), burn.device());
    let chosen = burn.ints(bytemuck::cast_slice(&chosen).to_vec());
    let found = sample.matrix.of_experts(&x, &chosen, n);
    judge(burn, "experts", &burn.read(found, heard).await?, &wanted)?;
    let ids = burn.ints((0..n as i32).rev().collect());
    let found = burn.read(sample.matrix.rows(ids), heard).await?;
    let wanted: Vec<f32> = weights.chunks(k).rev().flatten().copied().collect();
    judge(burn, "embed", &found, &wanted)
}

/// Tries the append and the masked attention: two candidates in line after a prefix.
///
/// # Errors
/// As [`prove_products`].
pub async fn prove_attention(
    burn: &Burn,
    heard: &Heard,
    heads: Heads,
    scores: Scores,
) -> Result<(), ModelError> {
    const PREFIX: usize = 9;
    let heads = Heads {
        capacity: 32,
        ..heads
    };
    let device = burn.device();
    let caches: [Tensor<2, Int>; 2] =
        std::array::from_fn(|_| Tensor::zeros([heads.capacity, heads.row_words()], device));
    let mut packed = [(); 2].map(|()| vec![0_u32; heads.capacity * heads.row_words()]);
    let in_line = places_in_line(PREFIX as u32, &[3, 4]);
    for places in [places_in_sequence(0, PREFIX as u32), in_line] {
        let count = places.len();
        let qkv = numbers(count * heads.row());
        let [keys, values] = &mut packed;
        // What reaches the operation has been normalised and rotated.
        let (all, both) = ((&qkv[..], Projected::All), [&mut keys[..], &mut values[..]]);
        let rope = Rotary {
            table: &[][..],
            context: 1,
            rotary: 0,
        };
        let wanted = append_cpu(all, None, rope, &places, heads, both);
        let wanted = attention_cpu(&wanted, [keys, values], &places, heads, scores);
        let shape = [count, heads.heads + 2 * heads.kv_heads, heads.width];
        let qkv = Tensor::<3>::from_data(TensorData::new(qkv, shape), device);
        let words = burn.ints(bytemuck::cast_slice(&places).to_vec());
        let rows = Rows {
            places: Arc::new(places),
            heads,
            host: None,
        };
        let query = operations::append(qkv, caches.clone(), words.clone(), rows.clone());
        let found = operations::attention(query, caches.clone(), words, rows, scores);
        judge(burn, "attention", &burn.read(found, heard).await?, &wanted)?;
    }
    Ok(())
}

/// Numbers between −1 and 1 with a long period.
fn numbers(count: usize) -> Vec<f32> {
    let number = |i: usize| (i * 37 % 1009) as f32 / 504.0 - 1.0;
    (0..count).map(number).collect()
}

/// Compares the result `found` with `wanted`, the CPU twin's; the error for a difference ends the
/// load.
fn judge(
    burn: &Burn,
    kernel: &'static str,
    found: &[f32],
    wanted: &[f32],
) -> Result<(), ModelError> {
    close(found, wanted).map_err(|reason| {
        let adapter = burn.name();
        GpuError::Kernel {
            adapter,
            kernel,
            reason,
        }
        .into()
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use conclave_model::reading::WeightSink;

    use super::*;
    use crate::weights::BurnWeights;

    /// A sample of Q8_0 whose matrix has other numbers in one of its rows.
    #[test]
    fn a_matrix_that_multiplies_wrongly_is_reported() {
        let burn = pollster::block_on(Burn::wgpu()).expect("a Vulkan driver is installed");
        let (format, cols, count) = (Format::Q8_0, 64, 12);
        // A scale and 32 bytes.
        let block =
            |at: usize| (0..34).map(move |i| if i < 2 { 0x2c } else { (7 * at + i * i) as u8 });
        let rows: Vec<u8> = (0..2 * count).flat_map(block).collect();
        let sink = BurnWeights {
            burn: &burn,
            heard: burn.listen(),
            quantise: None,
            samples: RefCell::default(),
        };
        let mut upload = sink.begin(format.stored(), count, cols).unwrap();
        sink.push(&mut upload, &rows).unwrap();
        sink.finish(upload).unwrap();
        let mut sample = sink.proofs().unwrap().pop().unwrap();
        assert_eq!((sample.cols, sample.rows.len()), (cols, rows.len()));
        pollster::block_on(prove_products(&burn, &sink.heard, &sample)).unwrap();
        // Last block of the last row, its last number.
        *sample.rows.last_mut().unwrap() ^= 0x40;
        let found = pollster::block_on(prove_products(&burn, &sink.heard, &sample))
            .map_err(|e| e.to_string());
        assert!(
            found.as_ref().is_err_and(|error| error.contains("product")),
            "{found:?}"
        );

        let heads = Heads {
            heads: 4,
            kv_heads: 2,
            width: 16,
            capacity: 0,
            exact: false,
        };
        let scores = Scores {
            scale: 0.25,
            window: None,
            softcap: Some(30.0),
        };
        pollster::block_on(prove_attention(&burn, &sink.heard, heads, scores)).unwrap();
    }
}
