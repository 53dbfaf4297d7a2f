//! Properties of every question: its own answer passes, a changed one fails, equal seeds give equal
//! questions, and training never contains an examination question.

use conclave_eval::skills::{Mix, Role, Skill, check, conversation, final_answer, question};
use std::collections::HashSet;

const MANY: u64 = 4000;

#[test]
fn every_answer_passes_its_own_check() {
    for index in 0..MANY {
        let asked = question(1, index);
        assert!(check(&asked, &asked.answer), "{asked:?}");
    }
}

#[test]
fn a_corrupted_final_answer_fails() {
    for index in 0..MANY {
        let asked = question(2, index);
        let right = final_answer(&asked.answer).expect("checked skills state an answer");
        let (working, _) = asked
            .answer
            .rsplit_once("Answer:")
            .expect("checked skills state an answer");
        // One digit or letter changed, one more, one missing, and a later change of mind.
        let last = right.chars().last().expect("not empty");
        let other = match last {
            '0'..='8' => (last as u8 + 1) as char,
            '9' => '0',
            'z' => 'a',
            letter => (letter as u8 + 1) as char,
        };
        let kept = &right[..right.len() - last.len_utf8()];
        for wrong in [
            format!("{working}Answer: {kept}{other}."),
            format!("{working}Answer: {right}{other}."),
            format!("{working}Answer: {kept}."),
            format!("{} Answer: {kept}{other}.", asked.answer),
            working.to_string(),
            format!("{right}."),
        ] {
            assert!(!check(&asked, &wrong), "{wrong:?} passed for {asked:?}");
        }
    }
}

#[test]
fn spaces_case_and_the_full_stop_do_not_matter() {
    let asked = (0..)
        .map(|index| question(3, index))
        .find(|asked| asked.skill == Skill::Sort)
        .expect("one in eight");
    let right = final_answer(&asked.answer).expect("checked");
    for reply in [
        format!("ANSWER:{}", right.to_uppercase()),
        format!("Some working. Answer:  {}  \n", right.replace(", ", " ,  ")),
        format!("Answer: {right}.\nThat is all."),
    ] {
        assert!(check(&asked, &reply), "{reply:?}");
    }
}

#[test]
fn the_same_seed_asks_the_same_and_another_asks_others() {
    let run = |seed| {
        (0..80)
            .map(|index| question(seed, index))
            .collect::<Vec<_>>()
    };
    assert_eq!(run(4), run(4));
    let texts: HashSet<String> = run(4).into_iter().map(|asked| asked.text).collect();
    let shared = run(5)
        .into_iter()
        .filter(|asked| texts.contains(&asked.text))
        .count();
    assert!(
        shared <= 2,
        "{shared} of 80 questions are the same under another seed"
    );
}

#[test]
fn skills_take_turns() {
    for (place, skill) in Skill::CHECKED.into_iter().enumerate() {
        assert_eq!(question(6, 800 + place as u64).skill, skill);
        assert_eq!(Skill::from_name(skill.name()), Some(skill));
    }
}

#[test]
fn training_asks_other_questions_than_an_examination_of_the_same_seed() {
    let exam: HashSet<String> = (0..MANY)
        .map(|index| question(7, index))
        .filter(|asked| asked.skill == Skill::Add)
        .map(|asked| asked.answer)
        .collect();
    let mix = Mix::new(vec![(Skill::Add, 1)]).expect("a share above zero");
    let met = (0..MANY)
        .flat_map(|index| conversation(7, index, &mix).questions)
        .filter(|asked| exam.contains(&asked.answer))
        .count();
    // A few small sums coincide by chance; a shared stream would make all coincide.
    assert!(
        met * 50 < exam.len(),
        "{met} of {} examined sums were trained",
        exam.len()
    );
}

#[test]
fn answers_span_two_to_eight_segments() {
    // A segment is ten tokens; digits and punctuation take a token each, words one or two.
    let tokens = |text: &str| {
        text.split(' ')
            .map(|word| 1 + word.chars().filter(|c| !c.is_alphabetic()).count())
            .sum::<usize>()
    };
    let lengths: Vec<usize> = (0..MANY)
        .map(|index| tokens(&question(8, index).answer))
        .collect();
    let long = lengths.iter().filter(|&&length| length > 80).count();
    let short = lengths.iter().filter(|&&length| length < 10).count();
    assert!(
        long * 50 < lengths.len(),
        "{long} of {} answers are longer than eight segments",
        lengths.len()
    );
    assert!(
        short * 10 < lengths.len(),
        "{short} of {} answers fit one segment",
        lengths.len()
    );
}

#[test]
fn conversations_alternate_and_some_follow_up() {
    let mix = Mix::even();
    let mut turns = [0_usize; 5];
    for index in 0..2000 {
        let drawn = conversation(9, index, &mix);
        turns[drawn.questions.len()] += 1;
        let spoken: Vec<Role> = drawn
            .messages
            .iter()
            .map(|message| message.role)
            .filter(|&role| role != Role::System)
            .collect();
        for (place, role) in spoken.iter().enumerate() {
            assert_eq!(
                *role,
                if place % 2 == 0 {
                    Role::User
                } else {
                    Role::Assistant
                }
            );
        }
        assert_eq!(spoken.len(), 2 * drawn.questions.len());
        for (asked, reply) in drawn
            .questions
            .iter()
            .zip(drawn.messages.iter().filter(|m| m.role == Role::Assistant))
        {
            assert_eq!(asked.answer, reply.content);
        }
    }
    assert!((180..=300).contains(&turns[2]), "{turns:?}");
    assert!(turns[3] > 0 && turns[4] > 0, "{turns:?}");
}

#[test]
fn a_mix_is_kept() {
    let mix = Mix::new(vec![(Skill::Sort, 3), (Skill::Story, 1), (Skill::Add, 0)]).expect("shares");
    let asked: Vec<Skill> = (0..2000)
        .flat_map(|index| conversation(10, index, &mix).questions)
        .map(|q| q.skill)
        .collect();
    let sorts =
        asked.iter().filter(|&&skill| skill == Skill::Sort).count() as f64 / asked.len() as f64;
    assert!((0.70..0.80).contains(&sorts), "{sorts}");
    assert!(!asked.contains(&Skill::Add));
    assert!(Mix::new(vec![(Skill::Add, 0)]).is_none());
}

#[test]
fn sums_are_right_by_another_way() {
    // The reference answers are recomputed from the question's own numbers.
    for index in 0..MANY {
        let asked = question(11, index);
        let numbers: Vec<i64> = asked
            .text
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|digits| digits.parse().ok())
            .collect();
        let expected = match asked.skill {
            Skill::Add => numbers[0] + numbers[1],
            Skill::Subtract => (numbers[0] - numbers[1]).abs(),
            _ => continue,
        };
        assert_eq!(
            final_answer(&asked.answer),
            Some(expected.to_string()),
            "{asked:?}"
        );
    }
}

#[test]
fn stories_are_told_and_never_checked() {
    let mix = Mix::new(vec![(Skill::Story, 1)]).expect("a share above zero");
    let told: HashSet<String> = (0..50)
        .map(|index| conversation(12, index, &mix).questions[0].clone())
        .inspect(|asked| assert!(!check(asked, &asked.answer)))
        .map(|asked| asked.answer)
        .collect();
    assert!(told.len() >= 49, "stories repeat");
}
