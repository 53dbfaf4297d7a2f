//! Rounds on the GPU make nothing once the first is over, and their memory is what was foretold:
//! alone in its process, to be countable.

use conclave_kernels::{AdapterChoice, Choices, GpuCounters, Launcher};
use conclave_model::{Sampler, Sampling, Session};

#[path = "held/session.rs"]
#[allow(dead_code, reason = "others use the rest of it")]
mod session;

/// Tokens of a segment.
const SEGMENT: usize = 3;

fn gpu() -> Launcher {
    pollster::block_on(Launcher::init(AdapterChoice::Best)).expect(
        "no GPU adapter: install a Vulkan driver, in software mesa-vulkan-drivers (lavapipe)",
    )
}

/// A round of a member whose draft and `others` of other lengths are candidates; `winner` is kept.
fn round(
    session: &mut Session,
    sampler: &mut Sampler,
    others: usize,
    winner: usize,
    logprobs: bool,
) {
    let draft = pollster::block_on(session.draft(SEGMENT, sampler, &[])).unwrap();
    let mut candidates = vec![draft.tokens];
    for other in 0..others {
        let first = 7 + other as u32;
        candidates.push((first..first + 1 + other as u32 % 5).collect());
    }
    pollster::block_on(session.verify(&candidates, logprobs)).unwrap();
    let count = candidates[winner].len();
    pollster::block_on(session.keep(winner, count)).unwrap();
}

fn made(counters: GpuCounters) -> [u64; 3] {
    [counters.buffers, counters.bind_groups, counters.pipelines]
}

/// Two members on one device, in `rounds` rounds of theirs with up to so many other candidates, of
/// any length.
fn make_nothing(names: [&str; 2], others: usize, choices: Choices, logprobs: bool, rounds: usize) {
    let gpu = gpu();
    gpu.choose(choices);
    let backend = gpu.clone();
    let mut members = names.map(|name| session::session(name, &backend, 256));
    let mut sampler = Sampler::new(Sampling::default(), 1);
    let prompt = [1, 2, 3, 4, 5];
    let begin = |members: &mut [Session]| {
        for member in members {
            pollster::block_on(member.prefill(&prompt)).unwrap();
        }
    };
    begin(&mut members);
    for member in &mut members {
        round(member, &mut sampler, 2, 0, logprobs);
    }
    let (first, held) = (gpu.counters(), gpu.memory_in_use());
    let reserved = gpu.memory_reserved();
    for number in 0..rounds {
        let member = &mut members[number % 2];
        let (others, winner) = (1 + number % others, number / 2 % 2);
        round(member, &mut sampler, others, winner, logprobs);
        if number % 60 == 59 {
            begin(&mut members);
        }
    }
    let later = gpu.counters() - first;
    println!("{rounds} rounds, {choices:?}: {later:?}");
    assert_eq!(made(later), [0; 3], "{choices:?}");
    assert_eq!(gpu.memory_in_use(), held);
    assert!(gpu.memory_reserved() <= reserved, "{reserved}");
    assert!(later.passes <= later.submits, "{later:?}");
}

/// Whatever an adapter launches, and whether log-probabilities are asked for.
#[test]
fn rounds_after_the_first_make_nothing() {
    for (software, logprobs, rounds) in [(true, false, 500), (true, true, 60), (false, false, 120)]
    {
        let names = ["qwen3-gguf", "gemma4-gguf"];
        make_nothing(names, 7, Choices::usual(software), logprobs, rounds);
    }
}

/// One row by subgroups, where the adapter has them.
#[test]
fn rounds_by_twins_with_subgroups_make_nothing() {
    let twins = Choices {
        subgroups: gpu().has_subgroups(),
        ..Choices::usual(false)
    };
    make_nothing(["qwen3-gguf", "gemma4-gguf"], 7, twins, true, 30);
    make_nothing(["lfm2_moe-gguf", "olmoe-gguf"], 7, twins, true, 30);
}

/// Recurrent states change their slots, and take no more than they did: of three candidates they
/// are what was foretold.
#[test]
fn rounds_between_recurrent_states_make_nothing() {
    let names = ["qwen3_5-hf", "granite4-h-gguf"];
    make_nothing(names, 2, Choices::usual(false), true, 60);
}

/// Experts are chosen anew in every round.
#[test]
fn rounds_among_experts_make_nothing() {
    for software in [true, false] {
        let names = ["lfm2_moe-gguf", "olmoe-gguf"];
        make_nothing(names, 7, Choices::usual(software), true, 60);
    }
}

/// Launches of a step after a short prefix and a long one: so many a layer, and around the layers
/// embedding, head, draw, the state that is left, and the norm where it is apart.
#[test]
fn a_step_takes_six_to_eight_launches_a_layer() {
    const LAYERS: u64 = 2;
    for (software, a_layer, around) in [(true, [8, 8], 5), (false, [6, 7], 4)] {
        let gpu = gpu();
        gpu.choose(Choices::usual(software));
        let backend = gpu.clone();
        let files = session::with_context("mistral-hf", 2048);
        let mut session = session::session_of(files, &backend, 2048);
        let mut sampler = Sampler::new(Sampling::default(), 1);
        for (prefix, a_layer) in [20, 1200].into_iter().zip(a_layer) {
            let prompt: Vec<u32> = (0..prefix).map(|i| i % 50).collect();
            pollster::block_on(session.prefill(&prompt)).unwrap();
            let [_, few, more] = [2, 2, 7].map(|tokens| {
                let before = gpu.counters();
                let draft = pollster::block_on(session.draft(tokens, &mut sampler, &[])).unwrap();
                assert_eq!(draft.tokens.len(), tokens);
                (gpu.counters() - before).dispatches
            });
            assert_eq!(more - few, 5 * (LAYERS * a_layer + around), "{prefix}");
        }
    }
}

/// Attention's launches depend on the context: over a long one threads are cooperative, also where
/// they are serial else. The load has built that too, and all else but the score heads.
#[test]
fn a_load_builds_what_a_long_context_launches() {
    let built = [512, 90_000].map(|tokens| {
        let gpu = gpu();
        gpu.choose(Choices::usual(true));
        let files = session::with_context("mistral-hf", tokens);
        let mut session = session::session_of(files, &gpu.clone(), 90_000);
        let loaded = gpu.counters().pipelines;
        pollster::block_on(session.prefill(&[1, 2, 3, 4, 5])).unwrap();
        round(
            &mut session,
            &mut Sampler::new(Sampling::default(), 1),
            2,
            0,
            false,
        );
        assert_eq!(gpu.counters().pipelines, loaded);
        loaded
    });
    // Attention, and what joins its chunks.
    assert_eq!(built[1], built[0] + 2);
}

/// The sizes that a page shows before a download are those that are allocated.
#[test]
fn memory_is_what_was_foretold() {
    /// Where results are copied to.
    const SPARE: u64 = 4096;
    let gpu = gpu();
    let backend = gpu.clone();
    for name in [
        "llama-gguf",
        "qwen2-gguf",
        "qwen3-gguf",
        "gemma2-gguf",
        "lfm2-gguf",
        "qwen3_5-gguf",
        "granite4-h-gguf",
        "gemma4-gguf",
        "lfm2_moe-gguf",
        "olmoe-gguf",
    ] {
        let before = gpu.memory_in_use();
        let mut session = session::session(name, &backend, 300);
        let memory = session.about().memory;
        let loaded = gpu.memory_in_use() - before;
        let foretold = memory.weights + memory.scratch;
        // What results of the model before were copied to may have been freed meanwhile.
        assert!(
            loaded + SPARE >= foretold,
            "{name}: {loaded}, foretold {memory:?}"
        );
        // Matrices end at a multiple of 16 bytes.
        assert!(
            loaded <= foretold + 16 * 100,
            "{name}: {loaded}, foretold {memory:?}"
        );
        pollster::block_on(session.prefill(&[1, 2, 3])).unwrap();
        let run = gpu.memory_in_use() - before - loaded;
        let spare = run - memory.kv;
        assert!(spare <= SPARE, "{name}: {spare}");
        drop(session);
        assert!(gpu.memory_in_use() <= before + spare, "{name}");
    }
}

/// A prompt longer than a turn, and one pass of as many candidates as there is room for.
#[test]
fn long_passes_run_in_portions() {
    let candidates: Vec<Vec<u32>> = (0..8)
        .map(|i| (0..60).map(|j| (i * 7 + j * 3) % 60).collect())
        .collect();
    let mut session = session::session("gemma-gguf", &gpu(), 200);
    let prefix = [5, 6, 7];
    pollster::block_on(session.prefill(&prefix)).unwrap();
    let together = pollster::block_on(session.verify(&candidates, true)).unwrap();
    for (found, candidate) in together.iter().zip(&candidates) {
        let alone = session.verify(std::slice::from_ref(candidate), true);
        let alone = pollster::block_on(alone).unwrap();
        let [found, wanted] = [found, &alone[0]].map(|score| score.mean_logprob.unwrap());
        assert!(
            (found - wanted).abs() < 1e-5 * wanted.abs(),
            "{found} is not {wanted}"
        );
    }
    pollster::block_on(session.verify(&candidates, true)).unwrap();
    pollster::block_on(session.keep(7, 60)).unwrap();
    let kept = pollster::block_on(session.next_logits()).unwrap();
    let whole = [&prefix[..], &candidates[7]].concat();
    let fresh = pollster::block_on(session.last_logits(&whole)).unwrap();
    assert!(session::relative_error(&kept, &fresh) < 1e-5);
}
