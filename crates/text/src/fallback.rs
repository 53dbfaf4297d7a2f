//! Templates for models without one.
//!
//! Most such models are base models: they continue texts and have never seen a conversation. Asked
//! as `User: …` they repeat the question as often as they answer it; after a few questions with
//! answers they answer. The examples are of facts that no user should need to ask; of 60 plain
//! questions Gemma 3 270M answers 13 correctly as `User: …` and 29 after them
//! (tests/eval-log.md).

/// ChatML, if the vocabulary has its tokens.
pub(crate) const CHATML: &str = "{% for message in messages %}<|im_start|>{{ message.role }}\n\
    {{ message.content }}<|im_end|>\n{% endfor %}\
    {% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

/// Questions and answers, a blank line after each answer.
pub(crate) const QUESTIONS: &str = concat!(
    "Question: What is the opposite of up?\nAnswer: The opposite of up is down.\n\n",
    "Question: Write the word moon in capital letters.\nAnswer: MOON\n\n",
    "Question: Tom has two marbles and finds one more. How many marbles does he have?\n",
    "Answer: Tom has 2 + 1 = 3 marbles.\n\n",
    "Question: Lena put the red key in a drawer. Where is the key?\n\
     Answer: The key is in a drawer.\n\n",
    "Question: Answer yes or no: Is ice warm?\nAnswer: No\n\n",
    "{% for message in messages %}",
    "{% if message.role == 'assistant' %}Answer: {{ message.content }}\n\n",
    "{% elif message.role == 'user' %}Question: {{ message.content }}\n",
    "{% else %}{{ message.content }}\n\n{% endif %}",
    "{% endfor %}{% if add_generation_prompt %}Answer:{% endif %}",
);

/// End of an answer in [`QUESTIONS`].
pub(crate) const CLOSING: &str = "\n\n";

/// Beginnings of another turn in [`QUESTIONS`], for answers that are not closed.
pub(crate) const OPENINGS: [&str; 2] = ["\nQuestion:", "\nAnswer:"];
