//! A draft that the GPU draws by itself is the one that the host draws from the model's logits, but
//! where these differ in their last bits just where two tokens meet.

use conclave_model::{Sampler, Sampling};

use crate::backends;
use crate::session::session;

/// Drafts of ten tokens by several seeds; with softcaps of the logits and without.
#[test]
fn a_device_draws_what_the_host_draws() {
    for model in ["gemma2-gguf", "qwen3-gguf"] {
        let [(_, cpu), (_, gpu)] = backends();
        let mut members = [cpu, gpu].map(|backend| session(model, backend.as_ref(), 256));
        let mut different: Vec<u64> = Vec::new();
        for seed in 0..30 {
            let prompt: Vec<u32> = (0..20).map(|i| (7 * seed as u32 + 3 * i) % 59).collect();
            let sampling = Sampling {
                temperature: 1.0,
                top_p: 0.95,
                seed,
                ..Sampling::default()
            };
            let [host, device] = members.each_mut().map(|member| {
                pollster::block_on(member.prefill(&prompt)).unwrap();
                let mut sampler = Sampler::new(sampling, 1);
                let draft = member.draft(10, &mut sampler, &[]);
                pollster::block_on(draft).unwrap().tokens
            });
            if device != host {
                different.push(seed);
            }
        }
        assert!(
            different.len() <= 2,
            "{model}: other drafts with the seeds {different:?}"
        );
    }
}
