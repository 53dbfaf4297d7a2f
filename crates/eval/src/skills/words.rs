//! Word lists: a few hundred everyday words, none in two categories.

/// Animals.
pub(crate) const ANIMALS: [&str; 36] = [
    "ant", "bear", "bee", "bird", "camel", "cat", "cow", "crab", "deer", "dog", "donkey", "duck",
    "eagle", "fish", "fox", "frog", "goat", "goose", "hen", "horse", "lion", "lizard", "mouse",
    "owl", "panda", "pig", "rabbit", "shark", "sheep", "snake", "spider", "swan", "tiger",
    "turtle", "whale", "wolf",
];

pub(crate) const COLOURS: [&str; 12] = [
    "red", "blue", "green", "yellow", "brown", "black", "white", "pink", "purple", "grey",
    "violet", "golden",
];

/// Category names (plural) and their words.
pub(crate) const CATEGORIES: [(&str, &[&str]); 8] = [
    ("animals", &ANIMALS),
    ("colours", &COLOURS),
    (
        "foods",
        &[
            "apple", "banana", "bean", "bread", "butter", "cake", "carrot", "cheese", "cherry",
            "corn", "egg", "grape", "honey", "jam", "lemon", "melon", "milk", "noodle", "nut",
            "onion", "pasta", "peach", "pear", "pepper", "pizza", "plum", "potato", "rice",
            "salad", "salt", "soup", "sugar", "tomato", "walnut",
        ],
    ),
    (
        "clothes",
        &[
            "belt", "boot", "cap", "coat", "dress", "glove", "hat", "jacket", "scarf", "shirt",
            "shoe", "skirt", "sock", "sweater", "tie", "vest",
        ],
    ),
    (
        "tools",
        &[
            "axe", "broom", "brush", "drill", "fork", "hammer", "knife", "ladder", "nail",
            "needle", "pencil", "rake", "rope", "saw", "screw", "shovel", "spoon", "wrench",
        ],
    ),
    (
        "vehicles",
        &[
            "bicycle", "boat", "bus", "car", "ferry", "lorry", "plane", "rocket", "ship", "sled",
            "taxi", "tractor", "train", "tram", "truck", "van",
        ],
    ),
    (
        "furniture",
        &[
            "bed", "bench", "chair", "cupboard", "desk", "drawer", "lamp", "mirror", "shelf",
            "sofa", "stool", "table",
        ],
    ),
    (
        "body parts",
        &[
            "ankle", "arm", "back", "chin", "ear", "elbow", "eye", "finger", "foot", "hand",
            "head", "knee", "leg", "mouth", "neck", "nose", "shoulder", "thumb", "toe", "tooth",
        ],
    ),
];

pub(crate) const NAMES: [&str; 20] = [
    "Tom", "Mia", "Ben", "Lena", "Sam", "Eva", "Max", "Nora", "Paul", "Zoe", "Leo", "Anna", "Jack",
    "Lily", "Omar", "Rosa", "Emil", "Kate", "Hugo", "Ida",
];

/// Countable things for word problems.
pub(crate) const THINGS: [&str; 18] = [
    "apples", "pears", "eggs", "books", "coins", "stamps", "pencils", "marbles", "cards", "shells",
    "stickers", "cookies", "flowers", "stones", "balls", "buttons", "cups", "toys",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_word_is_in_two_categories() {
        let mut seen = HashSet::new();
        for (_, list) in CATEGORIES {
            for word in list {
                assert!(seen.insert(*word), "{word} is listed twice");
            }
        }
    }
}
