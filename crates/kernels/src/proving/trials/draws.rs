//! The trial of the sampler: consecutive draws from many nearly equal tokens, so that a small error
//! in their weights changes a draw.

use super::Trial;
use super::numbers::{Numbers, unwritten};
use crate::{DrawBuffers, Draws, Gpu, GpuError, Place, sample_cpu};

pub(super) fn sample(gpu: &Gpu) -> Result<Trial, GpuError> {
    const VOCABULARY: usize = 1500;
    const STEPS: usize = 6;
    let draws = Draws {
        temperature: 0.8,
        top_k: 900,
        top_p: 0.95,
        min_p: 0.03,
        softcap: None,
    };
    let mut numbers = Numbers(6);
    let random: Vec<u32> = (0..STEPS).map(|_| numbers.bits() as u32).collect();
    // Some are equal: ties.
    let logits = numbers.many(VOCABULARY).into_iter();
    let logits: Vec<f32> = logits.map(|v| (v * 128.0).round() / 64.0).collect();
    let drawn: Vec<u32> = (random.iter())
        .map(|&number| sample_cpu(&logits, draws, number))
        .collect();
    let next = vec![drawn[STEPS - 1], STEPS as u32];
    let place = Place {
        position: 6,
        row: 41,
        start: 7,
        prefix: 7,
    };
    let moved = vec![6 + STEPS as u32, 41 + STEPS as u32, 7, 7];
    let [logits, random] = [gpu.upload(&logits)?, gpu.upload(&random)?];
    let scratch = unwritten(gpu, 2 * VOCABULARY)?;
    let found = [
        gpu.upload(&[0_u32; STEPS])?,
        gpu.upload(&[0_u32; 2])?,
        gpu.upload(&[place])?,
    ];
    let [of_drawn, of_next, of_place] = found.clone();
    let trial = Trial::new(move |launcher| {
        let buffers = DrawBuffers {
            random: &random,
            scratch: &scratch,
            drawn: &of_drawn,
            next: &of_next,
            place: &of_place,
        };
        (0..STEPS)
            .try_for_each(|_| crate::sample(launcher, &logits, VOCABULARY, STEPS, draws, buffers))
    });
    let [of_drawn, of_next, of_place] = &found;
    let trial = trial.words(of_drawn, drawn).words(of_next, next);
    Ok(trial.words(of_place, moved))
}
