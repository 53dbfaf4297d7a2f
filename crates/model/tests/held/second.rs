//! A second draft leaves the first where it was least sure, goes on as a draft after the same
//! tokens would, and neither changes what verification says.

use conclave_model::{Sampler, Sampling};

use crate::backends;
use crate::session::{relative_error, session};

#[test]
fn a_second_draft_goes_on_from_the_next_best_token() {
    for model in ["llama-gguf", "gemma2-gguf", "lfm2-gguf"] {
        for (backend, on) in backends() {
            let what = format!("{model} on {backend}");
            let [mut drafting, mut other] = [0; 2].map(|_| session(model, on.as_ref(), 256));
            let prompt: Vec<u32> = (0..20).map(|i| (7 + 3 * i) % 59).collect();
            pollster::block_on(drafting.prefill(&prompt)).unwrap();
            let mut sampler = Sampler::new(Sampling::greedy(), 1);
            let first = drafting.draft(9, &mut sampler, &[]);
            let first = pollster::block_on(first).unwrap().tokens;

            // The least probable of the drafted tokens at these places, and its best alternative.
            let places = [0, 3, 6];
            let next = |tokens: &[u32], session: &mut conclave_model::Session| {
                let text = [prompt.as_slice(), tokens].concat();
                pollster::block_on(session.prefill(&text)).unwrap();
                pollster::block_on(session.next_logits()).unwrap()
            };
            let probability = |place: usize, session: &mut conclave_model::Session| {
                let logits = next(&first[..place], session);
                let own = logits[first[place] as usize];
                1.0 / logits.iter().map(|one| (one - own).exp()).sum::<f32>()
            };
            let sure = places.map(|place| probability(place, &mut other));
            let least = (0..3).min_by(|&a, &b| sure[a].total_cmp(&sure[b]));
            let place = places[least.unwrap()];
            let logits = next(&first[..place], &mut other);
            let alternative = (0..logits.len())
                .filter(|&id| id != first[place] as usize)
                .max_by(|&a, &b| logits[a].total_cmp(&logits[b]));

            let second = drafting.draft_second(&places, 1.0, 9, &mut sampler, &[]);
            let (second, likelier) = pollster::block_on(second).unwrap().expect("a margin of 1");
            assert!(!likelier, "{what}: the first is greedy");
            let second = second.tokens;
            assert_eq!(second.len(), 9, "{what}");
            assert_eq!(second[..place], first[..place], "{what}");
            assert_eq!(second[place] as usize, alternative.unwrap(), "{what}");
            for drawn in place + 1..9 {
                let logits = next(&second[..drawn], &mut other);
                let best = logits.iter().fold(f32::MIN, |most, &one| most.max(one));
                let most = logits.iter().fold(0.0_f32, |most, one| most.max(one.abs()));
                let short = best - logits[second[drawn] as usize];
                assert!(short < 2e-3 * most, "{what}, token {drawn}: {short}");
            }

            // Both are verified as by a session that has drafted nothing.
            next(&[], &mut other);
            let candidates = [first[..8].to_vec(), second[..8].to_vec(), vec![1, 2, 3]];
            let [found, wanted] = [&mut drafting, &mut other]
                .map(|session| pollster::block_on(session.verify(&candidates, true)).unwrap());
            for (found, wanted) in found.iter().zip(&wanted) {
                let [found, wanted] = [found, wanted].map(|score| score.harmonic.unwrap());
                assert!(
                    (found - wanted).abs() < 2e-3 * wanted.abs().max(1.0),
                    "{what}"
                );
            }
            // The first wins, whose rows the second has overwritten in part.
            pollster::block_on(drafting.keep(0, 8)).unwrap();
            let found = pollster::block_on(drafting.next_logits()).unwrap();
            assert!(
                relative_error(&found, &next(&first[..8], &mut other)) < 2e-3,
                "{what}"
            );
        }
    }
}

#[test]
fn a_drawn_token_may_be_the_less_probable_one() {
    for (backend, on) in backends() {
        let mut session = session("llama-gguf", on.as_ref(), 256);
        pollster::block_on(session.prefill(&[3, 1, 4, 1, 5])).unwrap();
        let logits = pollster::block_on(session.next_logits()).unwrap();
        let hot = Sampling {
            temperature: 3.0,
            top_p: 1.0,
            ..Sampling::default()
        };
        let mut found = 0;
        for seed in 0..8 {
            let mut sampler = Sampler::new(hot, seed);
            let first = pollster::block_on(session.draft(4, &mut sampler, &[])).unwrap();
            let second = session.draft_second(&[0], 1.0, 4, &mut sampler, &[]);
            let (second, likelier) = pollster::block_on(second).unwrap().expect("a margin of 1");
            let [first, second] = [first, second].map(|draft| logits[draft.tokens[0] as usize]);
            assert_eq!(likelier, second > first, "seed {seed} on {backend}");
            found += usize::from(likelier);
        }
        assert!(found > 0, "no token was drawn that is not the likeliest");
    }
}

#[test]
fn a_sure_member_and_a_recurrent_one_draft_once() {
    for (backend, on) in backends() {
        for (model, margin) in [("llama-gguf", 0.0), ("granite4-h-gguf", 1.0)] {
            let mut session = session(model, on.as_ref(), 256);
            pollster::block_on(session.prefill(&[3, 1, 4, 1, 5])).unwrap();
            let mut sampler = Sampler::new(Sampling::greedy(), 1);
            pollster::block_on(session.draft(6, &mut sampler, &[])).unwrap();
            let second = session.draft_second(&[0, 2], margin, 6, &mut sampler, &[]);
            assert!(
                pollster::block_on(second).unwrap().is_none(),
                "{model} on {backend}"
            );
        }
    }
}
