//! Short free-form stories from a small grammar; nothing here is checked.

use super::chance::Chance;
use super::words::{ANIMALS, COLOURS, NAMES};

pub(crate) fn story(chance: &mut Chance) -> (String, String) {
    let (hero, friend) = {
        // "a fox", never "a ant": the phrasings know no "an".
        let animals: Vec<&str> = ANIMALS
            .into_iter()
            .filter(|animal| !animal.starts_with(['a', 'e', 'i', 'o', 'u']))
            .collect();
        let pair = chance.sample(&animals, 2);
        (pair[0], pair[1])
    };
    let name = chance.pick(&NAMES);
    let colour = chance.pick(&COLOURS);
    let place = chance.pick(&[
        "forest", "garden", "river", "hill", "village", "island", "meadow", "old mill",
    ]);
    let text = chance.say(
        &[
            "Tell me a story about a {a}.",
            "Tell me a short story about a {a}.",
            "Write a story about a {a} and a {b}.",
            "Can you tell a story with a {a} in it?",
            "I would like a story about a {a} called {c}.",
            "Make up a little story about a {a}.",
        ],
        &[hero, friend, name],
    );
    let values = [hero, friend, name, colour, place];
    let parts = [
        chance.say(
            &[
                "Once upon a time a {a} called {c} lived near the {e}.",
                "There was once a {d} {a} named {c}.",
                "{c} was a small {a} who lived by the {e}.",
                "Long ago, near the {e}, lived a {a} called {c}.",
            ],
            &values,
        ),
        chance.say(
            &[
                "One morning {c} met a {b} who had lost a {d} hat.",
                "One day {c} found a {d} box under a tree.",
                "One evening a {b} came by and asked for help.",
                "On a rainy day {c} heard a {b} cry.",
                "Every day {c} walked to the {e} to look for a friend.",
            ],
            &values,
        ),
        chance.say(
            &[
                "They looked for it all day long.",
                "\"Do not be sad,\" said {c}. \"We will do it together.\"",
                "{c} was afraid at first, but soon began to laugh.",
                "Together with a {b} they crossed the {e}.",
                "A kind {b} showed {c} the way.",
            ],
            &values,
        ),
        chance.say(
            &[
                "In the end they were the best of friends.",
                "That night they ate soup and slept well.",
                "From then on {c} was never alone.",
                "And so the day ended with a song.",
                "Everyone in the {e} was happy again.",
            ],
            &values,
        ),
    ];
    (text, parts.join(" "))
}
