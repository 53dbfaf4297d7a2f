//! Recurrent states: tokens of several runs in one pass, from states to states, and gates on heads.

use conclave_kernels::*;
use proptest::prelude::*;

use crate::support::*;

proptest! {
    #![proptest_config(cases(24))]

    #[test]
    fn a_recurrence_equals_its_twin(
        seed: u64, key_heads in 1_usize..4, group in 1_usize..4, key_width in 1_usize..40,
        value_width in 1_usize..80, taps in 2_usize..6, tiled: bool, delta: bool,
        lengths in prop::collection::vec(1_u32..9, 1..4),
    ) {
        let mut numbers = Numbers(seed);
        let slots = 2 * lengths.len();
        let rule = if delta { RecurrentRule::Delta } else { RecurrentRule::StateSpace };
        let of = Recurrence {
            rule,
            key_heads,
            value_heads: key_heads * group,
            key_width,
            value_width,
            taps,
            tiled,
            slots,
        };
        // Each from its own slot, or the beginning, to another, or the same.
        let mut first = 0;
        let mut runs: Vec<[u32; 4]> = Vec::new();
        for (run, &count) in lengths.iter().enumerate() {
            let from = match numbers.below(3) {
                0 => NO_SLOT,
                _ => 2 * run as u32,
            };
            runs.push([first, count, from, (2 * run + numbers.below(2)) as u32]);
            first += count;
        }
        let tokens = first as usize;
        let steps = runs.iter().flat_map(|&[_, count, from, _]| (0..count).map(move |i| [i, from]));
        let steps: Vec<[u32; 2]> = steps.collect();
        let projected = numbers.many(tokens * of.row());
        let taps = numbers.many(of.channels() * of.taps);
        let taps_bias = numbers.many(of.channels());
        let mut states = numbers.many(slots * of.state());
        let [bias, rate, skip] = [0; 3].map(|_| numbers.many(of.value_heads));
        let rate: Vec<f32> = rate.iter().map(|rate| -rate.abs()).collect();

        let (gpu_projected, gpu_states) = (upload(&projected), upload(&states));
        let (gpu_taps, gpu_taps_bias) = (upload(&taps), upload(&taps_bias));
        let mixed = marked(tokens * of.channels());
        let weights = RecurrentTaps { weight: &gpu_taps, bias: (!delta).then_some(&gpu_taps_bias) };
        let pass = RecurrentPass { projected: &gpu_projected, tokens, of, states: &gpu_states };
        recurrence_mix(gpu(), &pass, &upload(&steps), weights, &mixed).unwrap();
        let weights = RecurrentTaps { weight: &taps[..], bias: (!delta).then_some(&taps_bias[..]) };
        let mut expected = recurrence_mix_cpu(&projected, of, &steps, weights, &states);
        assert_close(&read(&[&mixed])[0], &expected, 1e-5);
        let (gpu_bias, gpu_rate, gpu_skip) = (upload(&bias), upload(&rate), upload(&skip));
        let heads = RecurrentHeads { bias: &gpu_bias, rate: &gpu_rate, skip: Some(&gpu_skip) };
        recurrence_rule(gpu(), &pass, (&upload(&runs), runs.len()), heads, &mixed).unwrap();
        let heads = RecurrentHeads { bias: &bias[..], rate: &rate[..], skip: Some(&skip[..]) };
        recurrence_rule_cpu(&projected, of, &runs, heads, &mut states, &mut expected);
        let found = read(&[&mixed, &gpu_states]);
        assert_close(&found[0], &expected, 1e-4);
        assert_close(&found[1], &states, 1e-4);
    }

    #[test]
    fn gated_heads_equal_their_twin(
        seed: u64, tokens in 1_usize..6, heads in 1_usize..6, width in 1_usize..90, normed: bool,
        after_gate: bool, silu: bool, apart in 0_usize..9, beside in 0_usize..9,
    ) {
        let mut numbers = Numbers(seed);
        let of = GatedHeads {
            heads, width, silu,
            row: [heads * width + 2 * beside, beside],
            gate_row: [heads * (width + apart) + 7, 7],
            gate_apart: width + apart,
        };
        let x = numbers.many(tokens * of.row[0]);
        // Wide enough for both ends of the curves.
        let gates: Vec<f32> = numbers
            .many(tokens * of.gate_row[0])
            .iter()
            .map(|v| v * 120.0)
            .collect();
        let weight = numbers.many(if after_gate { heads * width } else { width });
        let (out, gpu_weight) = (marked(tokens * heads * width + 4), upload(&weight));
        let norm = normed.then_some(GatedNorm { weight: &gpu_weight, epsilon: 1e-5, after_gate });
        gate_heads(gpu(), (&upload(&x), tokens), of, &upload(&gates), norm, &out).unwrap();
        let norm = normed.then_some(GatedNorm { weight: &weight[..], epsilon: 1e-5, after_gate });
        let expected = gate_heads_cpu(&x, of, &gates, norm);
        let found = &read(&[&out])[0];
        assert_close(&found[..expected.len()], &expected, 1e-5);
        prop_assert_eq!(&found[expected.len()..], &[MARK; 4]);
    }
}
