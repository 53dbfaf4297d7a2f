//! The same tokens are as probable whatever came before: a judged text's to the bit on every
//! backend, a candidate's among others to the bit on the CPU and within 1e-5 nats on a software
//! GPU. On other GPUs products of few rows and of many sum in another order.

use conclave_kernels::{AdapterChoice, Choices, Launcher};
use conclave_model::{Backend, Sampler, Sampling, Session};

use crate::backends;
use crate::session::{session, session_of};

/// Tokens before those that are judged, and all of them: more than a chunk of any backend.
const READ: usize = 155;
const WHOLE: usize = 211;

/// Tokens of a draft, and of the prompt before the first.
const DRAFTED: usize = 10;
const PROMPT: usize = 21;

/// Difference in nats that is allowed on a GPU.
const TOLERANCE: f32 = 1e-5;

/// A way to a state of the session before it reads the text.
type Way = fn(&mut Session, &[u32]);

const WAYS: [(&str, Way); 9] = [
    ("afresh", |_, _| ()),
    ("token by token", |session, text| in_steps(session, text, 1)),
    ("in sevens", |session, text| in_steps(session, text, 7)),
    ("after 97", |session, text| in_steps(session, text, 97)),
    ("after another text that begins alike", |session, text| {
        let other = [&text[..43], &other(text, 43, 90)].concat();
        pollster::block_on(session.prefill(&other)).unwrap();
    }),
    ("from a saved prefix", |session, text| {
        pollster::block_on(session.prefill(&text[..66])).unwrap();
        let saved = pollster::block_on(session.save(61)).unwrap().unwrap();
        session.release();
        session.restore(&saved).unwrap();
    }),
    ("verified in line and kept", |session, text| {
        pollster::block_on(session.prefill(&text[..38])).unwrap();
        for begin in [38, 51, 64] {
            let candidates = [
                other(text, begin, 5),
                text[begin..begin + 13].to_vec(),
                other(text, begin, 9),
            ];
            pollster::block_on(session.verify(&candidates, false)).unwrap();
            pollster::block_on(session.keep(1, 13)).unwrap();
        }
    }),
    ("drafted", |session, text| {
        drafted(session, text, |session, own| {
            pollster::block_on(session.go_on(&own)).unwrap();
        });
    }),
    ("drafted, verified and kept", |session, text| {
        drafted(session, text, |session, own| {
            let count = own.len();
            let candidates = [other(text, 60, 6), own];
            pollster::block_on(session.verify(&candidates, true)).unwrap();
            pollster::block_on(session.keep(1, count)).unwrap();
        });
    }),
];

fn in_steps(session: &mut Session, text: &[u32], of: usize) {
    for end in (0..=READ).step_by(of).skip(1) {
        pollster::block_on(session.prefill(&text[..end])).unwrap();
    }
}

/// Drafts the text's beginning again, each draft made part of it by `keep`.
fn drafted(session: &mut Session, text: &[u32], keep: impl Fn(&mut Session, Vec<u32>)) {
    pollster::block_on(session.prefill(&text[..PROMPT])).unwrap();
    for begin in (PROMPT..).step_by(DRAFTED).take(4) {
        let own = draft(session, DRAFTED);
        assert_eq!(
            own,
            text[begin..begin + DRAFTED],
            "a greedy draft is repeated"
        );
        keep(session, own);
    }
}

fn draft(session: &mut Session, limit: usize) -> Vec<u32> {
    let mut sampler = Sampler::new(Sampling::greedy(), 0);
    let draft = session.draft(limit, &mut sampler, &[]);
    pollster::block_on(draft).unwrap().tokens
}

/// A text that consists of a session's own drafts, after its beginning.
fn text(session: &mut Session) -> Vec<u32> {
    let mut text: Vec<u32> = (0..PROMPT as u32).map(|i| (7 + 5 * i * i) % 59).collect();
    pollster::block_on(session.prefill(&text)).unwrap();
    while text.len() < WHOLE {
        let own = draft(session, DRAFTED.min(WHOLE - text.len()));
        pollster::block_on(session.go_on(&own)).unwrap();
        text.extend(own);
    }
    text
}

/// As many tokens other than the text's.
fn other(text: &[u32], from: usize, count: usize) -> Vec<u32> {
    let tokens = text[from..from + count].iter();
    tokens.map(|id| (id + 1) % 59).collect()
}

fn judged(session: &mut Session, text: &[u32], way: Way) -> Vec<f32> {
    session.release();
    way(session, text);
    let mut all = pollster::block_on(session.judge(text, READ)).unwrap();
    all.split_off(all.len() - (WHOLE - READ))
}

/// A member of the page, whose weights are quantised.
fn bundled(name: &str) -> Vec<(String, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../web/members");
    let bytes = std::fs::read(format!("{folder}/{name}.gguf")).unwrap();
    vec![("model.gguf".to_owned(), bytes)]
}

/// A session on a bundled member or a fixture, its text, and how probable that is afresh.
fn afresh(model: &str, backend: &dyn Backend) -> (Session, Vec<u32>, Vec<f32>) {
    let mut session = match model.contains('-') {
        true => session(model, backend, 256),
        false => session_of(bundled(model), backend, 256),
    };
    let text = text(&mut session);
    let wanted = judged(&mut session, &text, WAYS[0].1);
    (session, text, wanted)
}

/// Largest difference between two rows, in nats.
fn far(found: &[f32], wanted: &[f32]) -> f32 {
    assert_eq!(found.len(), wanted.len());
    let far = found.iter().zip(wanted).map(|(a, b)| (a - b).abs());
    far.fold(0.0, f32::max)
}

#[test]
fn tokens_are_as_probable_whatever_came_before() {
    for (backend_name, backend) in backends() {
        let most = match backend_name {
            "cpu" => 0.0,
            _ => TOLERANCE,
        };
        for model in [
            "ada",
            "juno",
            "quill",
            "llama-gguf",
            // Windows and wide heads; convolutions; recurrences; experts.
            "gemma2-gguf",
            "gemma4-gguf",
            "lfm2-gguf",
            "qwen3_5-gguf",
            "granite4-h-gguf",
            "lfm2_moe-gguf",
        ] {
            let (mut session, text, wanted) = afresh(model, backend.as_ref());
            for (way, run) in WAYS {
                let far = far(&judged(&mut session, &text, run), &wanted);
                assert!(
                    far <= most,
                    "{model} on {backend_name}, {way}: {far:e} nats"
                );
            }
            // Each token as a candidate among others.
            pollster::block_on(session.prefill(&text[..READ])).unwrap();
            let mut in_line = Vec::new();
            for id in &text[READ..] {
                let candidates = [other(&text, 20, 9), vec![*id, 3], vec![*id]];
                let scores = pollster::block_on(session.verify(&candidates, true)).unwrap();
                in_line.push(scores[2].mean_logprob.unwrap() as f32);
                pollster::block_on(session.keep(2, 1)).unwrap();
            }
            let far = far(&in_line, &wanted);
            assert!(
                far <= most,
                "{model} on {backend_name}, in line: {far:e} nats"
            );
        }
    }
}

/// As on a GPU that is none in software: products of one row, of few and of many have kernels of
/// their own.
#[test]
fn judged_texts_are_the_same_by_kernels_that_sum_in_another_order() {
    let gpu = pollster::block_on(Launcher::init(AdapterChoice::Best)).unwrap();
    gpu.choose(Choices::usual(false));
    for (model, ways) in [("ada", &WAYS[2..]), ("qwen3_5-gguf", &WAYS[4..6])] {
        let (mut session, text, wanted) = afresh(model, &gpu);
        for &(way, run) in ways {
            assert_eq!(judged(&mut session, &text, run), wanted, "{model}, {way}");
        }
    }
}

/// Whole passes of an earlier text are kept, and none after tokens that ran otherwise.
#[test]
fn whole_passes_of_a_judged_text_are_kept() {
    let gpu = pollster::block_on(Launcher::init(AdapterChoice::Best)).unwrap();
    gpu.choose(Choices::usual(false));
    let mut session = session("llama-gguf", &gpu, 512);
    let text: Vec<u32> = (0..300).map(|i| (7 + 5 * i * i + i / 60) % 59).collect();
    let known = 290;
    let mut judge = |before: &[&[u32]]| {
        for text in before {
            pollster::block_on(session.prefill(text)).unwrap();
        }
        let run = session.counters().prefill_tokens;
        let judged = pollster::block_on(session.judge(&text, known)).unwrap();
        (judged, session.counters().prefill_tokens - run)
    };
    let (wanted, run) = judge(&[]);
    assert_eq!((wanted.len(), run), (299, 300));
    let chunk = 256;
    assert_eq!(judge(&[]), (wanted[chunk..].to_vec(), 300 - chunk));
    let longer = [&text[..], &[3, 4]].concat();
    assert_eq!(judge(&[&longer]), (wanted[chunk..].to_vec(), 300 - chunk));
    let again = judge(&[&text[..100], &text[..280]]);
    assert_eq!(again, (wanted, 300));
}
