//! A text that goes on with its own draft, unverified, is the text that a prompt of both would be.

use conclave_model::{Sampler, Sampling};

use crate::backends;
use crate::session::session;

#[test]
fn a_kept_draft_is_as_if_it_were_prompt() {
    for model in ["llama-gguf", "gemma2-gguf"] {
        for (backend, on) in backends() {
            let [mut drafting, mut reading] = [0; 2].map(|_| session(model, on.as_ref(), 256));
            let mut text: Vec<u32> = (0..20).map(|i| (7 + 3 * i) % 59).collect();
            pollster::block_on(drafting.prefill(&text)).unwrap();
            let mut sampler = Sampler::new(Sampling::default(), 1);
            // All of a draft, part of it, another end than its own, and more than it has.
            for kept in ["all", "part", "other", "more"] {
                let draft = drafting.draft(9, &mut sampler, &[]);
                let mut tokens = pollster::block_on(draft).unwrap().tokens;
                match kept {
                    "part" => tokens.truncate(4),
                    "other" => tokens[5] = (tokens[5] + 1) % 59,
                    "more" => tokens.extend([3, 4, 5]),
                    _ => (),
                }
                let before = drafting.counters();
                pollster::block_on(drafting.go_on(&tokens)).unwrap();
                let ran = drafting.counters().draft_tokens - before.draft_tokens;
                let wanted = match kept {
                    "part" => 0,
                    "other" | "more" => 4,
                    _ => 1,
                };
                assert_eq!(ran, wanted, "{model} on {backend}, {kept}");
                text.extend(&tokens);
                assert_eq!(drafting.prefix(), text, "{model} on {backend}, {kept}");
                pollster::block_on(reading.prefill(&text)).unwrap();
                let [found, wanted] = [&mut drafting, &mut reading]
                    .map(|session| pollster::block_on(session.next_logits()).unwrap());
                let most = wanted.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
                for (found, wanted) in found.iter().zip(&wanted) {
                    let far = (found - wanted).abs();
                    assert!(far < 2e-3 * most, "{model} on {backend}, {kept}: {far}");
                }
            }
            let beyond = vec![1; 256 - text.len() + 1];
            assert!(pollster::block_on(drafting.go_on(&beyond)).is_err());
            assert_eq!(drafting.prefix(), text, "a refusal changes nothing");
        }
    }
}
