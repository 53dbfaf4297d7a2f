//! Trials of the kernels that read weights: ragged in every dimension of a workgroup.

use super::numbers::{Numbers, unwritten};
use super::subject::Product;
use super::{Trial, close};
use crate::{
    Activation, Format, Fused, Gpu, GpuError, Head, Norm, ProductKernel, Rows, embed_cpu,
    product_by, product_cpu, rms_norm_cpu, score_head_cpu, score_partials,
};

pub(super) fn embed(gpu: &Gpu, format: Format) -> Result<Trial, GpuError> {
    let (ids, cols) = ([4_u32, 0, 7, 2], 768);
    let (matrix, numbers) = Numbers(7).matrix(gpu, format, [5, cols])?;
    let expected = embed_cpu(&ids, &numbers, cols, 1.5);
    let out = unwritten(gpu, ids.len() * cols)?;
    let (found, ids, count) = (out.clone(), gpu.upload(&ids)?, ids.len());
    let trial = Trial::new(move |launcher| crate::embed(launcher, &ids, count, &matrix, 1.5, &out));
    Ok(trial.numbers(&found, expected))
}

pub(super) fn product(gpu: &Gpu, product: Product) -> Result<Trial, GpuError> {
    const EPSILON: f32 = 1e-3;
    let Product {
        kernel,
        format,
        normed,
        gated,
    } = product;
    let (m, k) = match kernel {
        ProductKernel::Vector | ProductKernel::VectorSerial | ProductKernel::VectorSubgroups => {
            (1, 768)
        }
        ProductKernel::Block | ProductKernel::BlockSerial => (6, 768),
        ProductKernel::Tile => (35, 256),
    };
    let (n, columns) = if gated { (148, 74) } else { (75, 75) };
    let mut numbers = Numbers(8);
    let (matrix, weights) = numbers.matrix(gpu, format, [n, k])?;
    let [x, norm, bias, before] = [m * k, k, n, m * columns].map(|count| numbers.many(count));
    let behind_norm = match normed {
        true => rms_norm_cpu(&x, &norm, EPSILON),
        false => x.clone(),
    };
    // A launch of each, where there are two.
    let gates = match gated {
        true => vec![Some(Activation::Silu), Some(Activation::Gelu)],
        false => vec![None],
    };
    let [gpu_x, gpu_norm, gpu_bias] = [gpu.upload(&x)?, gpu.upload(&norm)?, gpu.upload(&bias)?];
    let counts = gpu.upload(&[m as u32])?;
    let mut outs = Vec::new();
    for &gate in &gates {
        outs.push((gate, gpu.upload(&before)?));
    }
    let found = outs.clone();
    let trial = Trial::new(move |launcher| {
        let rows = Rows {
            count: m,
            counts: &counts,
        };
        let norm = normed.then_some(Norm {
            weight: &gpu_norm,
            epsilon: EPSILON,
            // Unused when fused into a product.
            scratch: &gpu_norm,
            inside: true,
        });
        outs.iter().try_for_each(|(gate, out)| {
            let fused = Fused {
                norm,
                bias: Some(&gpu_bias),
                gate: *gate,
                adds: true,
            };
            product_by(launcher, (&gpu_x, rows), &[&matrix], fused, out, kernel)
        })
    });
    Ok(found.iter().fold(trial, |trial, (gate, out)| {
        let of = product_cpu(&behind_norm, k, &weights, Some(&bias), *gate, Some(&before));
        trial.numbers(out, of)
    }))
}

/// One logit a row, of ids at both ends of the vocabulary and past it.
pub(super) fn target_logits(gpu: &Gpu, format: Format) -> Result<Trial, GpuError> {
    let (targets, vocabulary, k) = ([11_u32, 0, 12, 5], 12, 768);
    let m = targets.len();
    let mut numbers = Numbers(10);
    let (weight, weights) = numbers.matrix(gpu, format, [vocabulary, k])?;
    let (x, bias) = (numbers.many(m * k), numbers.many(vocabulary));
    let scores = score_head_cpu(&x, k, &weights, Some(&bias), None, &targets);
    let out = unwritten(gpu, m)?;
    let found = out.clone();
    let (x, bias) = (gpu.upload(&x)?, gpu.upload(&bias)?);
    let (targets, counts) = (gpu.upload(&targets)?, gpu.upload(&[m as u32])?);
    let trial = Trial::new(move |launcher| {
        let rows = Rows {
            count: m,
            counts: &counts,
        };
        let head = Head {
            weight: &weight,
            bias: Some(&bias),
            softcap: None,
        };
        crate::target_logits(launcher, &x, rows, &targets, head, &out)
    });
    // The id past the end gives a number so low that all others would seem equal.
    let expected: Vec<f32> = scores.iter().map(|score| score[0].max(-9.0)).collect();
    Ok(trial.answer(&found, move |bytes| {
        let found: Vec<f32> = bytemuck::pod_collect_to_vec(bytes);
        close(
            &found.iter().map(|v| v.max(-9.0)).collect::<Vec<_>>(),
            &expected,
        )
    }))
}

/// Scores of a vocabulary of three tiles, the last not full.
pub(super) fn score(gpu: &Gpu, format: Format) -> Result<Trial, GpuError> {
    const VOCABULARY: usize = 150;
    const TILE: usize = 64;
    const TILES: usize = VOCABULARY.div_ceil(TILE);
    let (m, k) = (35, 256);
    let mut numbers = Numbers(9);
    let (weight, weights) = numbers.matrix(gpu, format, [VOCABULARY, k])?;
    let (x, bias) = (numbers.many(m * k), numbers.many(VOCABULARY));
    let targets: Vec<u32> = (0..m as u32)
        .map(|row| row * 11 % VOCABULARY as u32)
        .collect();
    let scores = |from: usize, to: usize| {
        let bias = Some(&bias[from..to]);
        score_head_cpu(&x, k, &weights[from * k..to * k], bias, None, &targets)
    };
    let whole = scores(0, VOCABULARY);
    // The log-sum-exp of every tile of each row, and the target's logit.
    let tiles: Vec<_> = (0..TILES)
        .map(|tile| scores(TILE * tile, VOCABULARY.min(TILE * (tile + 1))))
        .collect();
    let parts: Vec<f32> = (0..m)
        .flat_map(|row| {
            let sums = tiles.iter().map(move |tile| tile[row][1]);
            sums.chain([whole[row][0]])
        })
        .collect();
    let partials = unwritten(gpu, score_partials(m, &weight))?;
    let out = unwritten(gpu, 2 * m)?;
    let found = [partials.clone(), out.clone()];
    let (x, bias) = (gpu.upload(&x)?, gpu.upload(&bias)?);
    let (targets, counts) = (gpu.upload(&targets)?, gpu.upload(&[m as u32])?);
    let trial = Trial::new(move |launcher| {
        let rows = Rows {
            count: m,
            counts: &counts,
        };
        let head = Head {
            weight: &weight,
            bias: Some(&bias),
            softcap: None,
        };
        crate::score_head(launcher, &x, rows, &targets, head, [&partials, &out])
    });
    let [partials, out] = &found;
    let trial = trial.answer(partials, move |bytes| {
        let found: Vec<f32> = bytemuck::pod_collect_to_vec(bytes);
        let rows = found.chunks_exact(2 * TILES + 1);
        let joined = rows.flat_map(|row| {
            // The largest of a tile, and the sum relative to it.
            let sums = row[..2 * TILES].chunks_exact(2);
            sums.map(|part| part[0] + part[1].ln())
                .chain([row[2 * TILES]])
        });
        close(&joined.collect::<Vec<_>>(), &parts)
    });
    Ok(trial.numbers(out, whole.concat()))
}
