//! Ids of texts and conversations, and texts of ids.

use conclave_text::{ChatTemplate, Tokenizer};
use conclave_weights::Checkpoint;

use crate::fixture::Reference;

const MODELS: [&str; 3] = ["smollm2", "gemma3", "qwen_coder"];

fn tokenizer(reference: &Reference) -> (Tokenizer, ChatTemplate) {
    let source = reference.source();
    let checkpoint = pollster::block_on(Checkpoint::open(&source)).unwrap();
    let description = checkpoint.description();
    let tokenizer = Tokenizer::from_checkpoint(description).unwrap();
    let template = ChatTemplate::from_checkpoint(description, &tokenizer).unwrap();
    (tokenizer, template)
}

/// The ids of a text with which a prompt begins.
pub fn ids_of(reference: &Reference, text: &str) -> Vec<u32> {
    with_bos(&tokenizer(reference).0, reference, text)
}

/// BOS where the references have it, then the text.
fn with_bos(tokenizer: &Tokenizer, reference: &Reference, text: &str) -> Vec<u32> {
    let first = reference.prompts[0].ids[0];
    let bos = tokenizer.bos().filter(|&bos| bos == first);
    let mut ids = Vec::from_iter(bos);
    ids.extend(tokenizer.encode(text).unwrap());
    ids
}

#[test]
#[ignore = "needs the published models: cargo xtask test --only real"]
fn text_becomes_the_ids_of_llama_cpp_and_ids_become_text() {
    for name in MODELS {
        let reference = Reference::read(name);
        let (tokenizer, _) = tokenizer(&reference);
        for prompt in &reference.prompts {
            let what = format!("{name}: {}", prompt.name);
            let ids = with_bos(&tokenizer, &reference, &prompt.text);
            assert_eq!(ids, prompt.ids, "{what}");
            let read = prompt.read.as_ref().unwrap_or(&prompt.text);
            assert_eq!(&tokenizer.decode(&ids), read, "{what}");
            // As it comes, a token at a time.
            let mut decoder = tokenizer.decoder();
            let text: String = ids.iter().map(|&id| decoder.push(id)).collect();
            assert_eq!(&(text + &decoder.flush()), read, "{what}");
        }
        for candidate in reference.in_line.iter().flat_map(|one| &one.candidates) {
            let ids = tokenizer.encode(&candidate.text).unwrap();
            assert_eq!(ids, candidate.ids, "{name}: {:?}", candidate.text);
            assert_eq!(tokenizer.decode(&ids), candidate.text, "{name}");
        }
    }
}

#[test]
#[ignore = "needs the published models: cargo xtask test --only real"]
fn conversations_become_the_ids_of_their_template() {
    for name in MODELS {
        let reference = Reference::read(name);
        let (tokenizer, template) = tokenizer(&reference);
        assert_eq!(
            template.is_own(),
            !reference.conversations.is_empty(),
            "{name}"
        );
        for conversation in &reference.conversations {
            let prompt = template.render(&conversation.messages, true).unwrap();
            assert_eq!(prompt.text(), conversation.text, "{name}");
            let ids = tokenizer.encode_prompt(&prompt).unwrap();
            assert_eq!(ids, conversation.ids, "{name}: {}", conversation.text);
        }
    }
}
