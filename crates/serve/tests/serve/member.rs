//! The server as a member of another ensemble, by the protocol of the tool and of the page, without
//! anybody giving its template.

use std::time::Duration;

use conclave_ensemble::Candidate;
use conclave_remote::{
    Abilities, Address, ChatMessage, Drawing, Options, Remote, Server, Verified,
};

use crate::stage::{SUM, Stage};

/// A member for a model of the server, which has begun with [`SUM`].
fn begun(stage: &Stage, model: &str) -> Remote {
    let options = Options {
        patience: Duration::from_secs(60),
        ..Options::default()
    };
    let address = Address::read(&format!("{}#{model}", stage.url("/v1"))).unwrap();
    let server = Server::connect(address, options).unwrap();
    assert_eq!(server.abilities(), Abilities::DraftsAndScores);
    assert_eq!((server.model(), server.lack()), (model, None));
    let mut member = Remote::new("Far", server);
    let (role, content) = ("user".to_owned(), SUM.to_owned());
    member.begin(vec![ChatMessage { role, content }], Drawing::greedy());
    member
}

fn candidate(text: &str, ended: bool) -> Candidate {
    Candidate {
        text: text.to_owned(),
        ended,
    }
}

fn harmonic(verified: &Verified) -> f64 {
    verified.score.harmonic.unwrap()
}

#[test]
fn an_ensemble_drafts_and_scores_what_it_drafted_above_the_rest() {
    let stage = Stage::new();
    let mut member = begun(&stage, "conclave");
    let mut answer = String::new();
    for _ in 0..12 {
        let draft = pollster::block_on(member.draft(10)).unwrap();
        let own = candidate(&draft.text, draft.ended);
        let candidates = [own, candidate(" unheard of é 🙂", false)];
        let row = pollster::block_on(member.verify(&candidates, true)).unwrap();
        let [own, wrong] = [&row[0], &row[1]].map(harmonic);
        assert!(own < 0.0 && own > wrong, "{draft:?} {own} {wrong}");
        answer.push_str(&draft.text);
        member.keep(0);
        if draft.ended {
            break;
        }
    }
    assert!(answer.contains("432"), "{answer}");
}

#[test]
fn an_ended_candidate_is_scored_on_what_closes_a_turn_too() {
    let stage = Stage::new();
    let mut member = begun(&stage, "Ada");
    let text = "347 + 85 = 432";
    let candidates = [
        candidate(text, false),
        candidate(text, true),
        candidate("", true),
    ];
    let row = pollster::block_on(member.verify(&candidates, true)).unwrap();
    assert_eq!(row[0].tokens, row[1].tokens);
    assert_ne!(row[0].score.mean_logprob, row[1].score.mean_logprob);
    assert_eq!(row[2].tokens, 0);
    assert!(
        harmonic(&row[2]) < -5.0,
        "an end at the very beginning is improbable"
    );
}
