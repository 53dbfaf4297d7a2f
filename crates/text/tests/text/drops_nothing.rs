//! No message of a user or a system vanishes: templates that drop one get it in the user's turn, or
//! are refused.

use conclave_text::{ChatTemplate, Message, TextError, Tokenizer, Tool};
use conclave_weights::{Gguf, Value};

fn template(source: &str) -> ChatTemplate {
    let gguf = include_bytes!("../../../../tests/fixtures/text/smollm.gguf");
    let mut metadata = Gguf::parse_whole(gguf).unwrap().metadata().clone();
    metadata.set("tokenizer.chat_template", Value::String(source.to_owned()));
    ChatTemplate::from_gguf(&metadata, &Tokenizer::from_gguf(&metadata).unwrap()).unwrap()
}

fn rendered(source: &str, turns: &[(&str, &str)]) -> Result<String, TextError> {
    let said = turns.iter().map(|(role, text)| Message::new(*role, *text));
    let prompt = template(source).render_adapted(&said.collect::<Vec<_>>(), false);
    Ok(prompt?.text().to_owned())
}

/// Phi 3's form: other roles are dropped.
const TWO_ROLES: &str = "{% for m in messages %}{% if m.role == 'user' %}<u>{{ m.content|trim }}\
    {% elif m.role == 'assistant' %}<a>{{ m.content.split('</think>')[-1] }}{% endif %}\
    {% endfor %}";

/// Llama 2's form: a system message is part of the first question.
const IN_QUESTION: &str = "{% if messages[0].role == 'system' %}\
    {% set system, turns = messages[0].content, messages[1:] %}\
    {% else %}{% set system, turns = '', messages %}{% endif %}\
    {% for m in turns %}{% if m.role == 'user' %}\
    [{{ (system ~ '|' if loop.first and system) ~ m.content }}]\
    {% elif m.role == 'assistant' %}{{ m.content }}{% endif %}{% endfor %}";

/// Mistral Nemo's form: a system message is part of the last question, and a lone one is dropped.
const IN_LAST: &str = "{% set system = messages[0].content if messages[0].role == 'system' %}\
    {% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}\
    [{{ (system ~ '|' if loop.last and system) ~ m.content }}]{% else %}{{ m.content }}\
    {% endif %}{% endfor %}";

const ESCAPED: &str = "{% for m in messages %}{{ m.content|trim|tojson }},{% endfor %}";

/// SmolLM 3's form: the words that switch thinking are cut.
const SWITCHES: &str = "{% for m in messages %}<{{ m.role }}>\
    {{ m.content.replace('/no_think', '').strip() }}{% endfor %}";

/// A template, roles and texts of a conversation, and the prompt.
type Row<'a> = (&'a str, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn a_message_that_a_template_drops_moves_to_the_user_s_turn() {
    let (system, user, assistant) = ("system", "user", "assistant");
    let brief = (system, "Be brief.");
    let rows: [Row<'_>; 12] = [
        (
            TWO_ROLES,
            &[brief, (user, " Why? ")],
            "<u>Be brief.\n\n Why?",
        ),
        (
            TWO_ROLES,
            &[("developer", "Shout."), (user, "Why?")],
            "<u>Shout.\n\nWhy?",
        ),
        (
            TWO_ROLES,
            &[
                (user, "One?"),
                (assistant, "<think>Hm</think>Yes."),
                (user, "Two?"),
                brief,
            ],
            "<u>One?<a>Yes.<u>Two?\n\nBe brief.",
        ),
        (
            TWO_ROLES,
            &[(system, " "), (user, "a\n\nb"), (assistant, "")],
            "<u>a\n\nb<a>",
        ),
        (IN_QUESTION, &[brief, (user, "Why?")], "[Be brief.|Why?]"),
        (IN_QUESTION, &[brief], "[Be brief.]"),
        (
            IN_QUESTION,
            &[(user, "One?"), (assistant, "Yes."), brief, (user, "Two?")],
            "[One?]Yes.[Be brief.\n\nTwo?]",
        ),
        (
            IN_LAST,
            &[brief, (user, "One?"), (assistant, "Yes."), (user, "Two?")],
            "[One?]Yes.[Be brief.|Two?]",
        ),
        (IN_LAST, &[brief], "[Be brief.]"),
        (
            ESCAPED,
            &[
                (system, "Say \"a\".\n"),
                (user, "One\n\"é\"?"),
                (user, "<|im_end|>"),
            ],
            "\"Say \\\"a\\\".\",\"One\\n\\\"é\\\"?\",\"<|im_end|>\",",
        ),
        (
            SWITCHES,
            &[(system, "Be brief. /no_think"), (user, "Why?")],
            "<system>Be brief.<user>Why?",
        ),
        (
            SWITCHES,
            &[(system, "/no_think"), (user, "Why?")],
            "<system><user>Why?",
        ),
    ];
    for (source, turns, wanted) in rows {
        assert_eq!(
            rendered(source, turns).as_deref(),
            Ok(wanted),
            "{turns:?}\n{source}"
        );
    }
}

#[test]
fn a_template_that_drops_a_message_in_each_way_is_refused() {
    let last = "{{ messages[-1].content }}";
    let no_user = "{% for m in messages if m.role != 'user' %}{{ m.content }}{% endfor %}";
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 4012\n";
    let rows = [
        (last, "the question"),
        (no_user, "the question"),
        (pointer, "the question"),
        ("<!DOCTYPE html><title>Not found</title>", "the question"),
        ("{\"chat_template\": \"Hi\"}", "the question"),
        (
            "\u{fffd}\u{fffd}{\0%\0 \0i\0f\0 \0x\0 \0%\0}\0",
            "the question",
        ),
        (
            "{% for m in messages[-3:] %}{{ '' if loop.first else m.content }}{% endfor %}",
            "the question",
        ),
        (
            "{% for m in messages[1:] %}{{ m.content }}{% endfor %}\
             {{ raise_exception('no') if messages[0].role == 'user' }}",
            "the system message",
        ),
    ];
    let turns = [
        ("system", "Be brief."),
        ("user", "Why?"),
        ("assistant", "So."),
        ("user", "Oh?"),
    ];
    for (source, part) in rows {
        let error = rendered(source, &turns).unwrap_err();
        assert_eq!(error, TextError::TemplateDrops { part }, "{source}");
        let text = error.to_string();
        assert!(text.contains(part) && text.contains("--template"), "{text}");
    }
    // A refusal of the unchanged conversation stays the reason.
    let refuses = "{{ raise_exception('no') if messages[0].role == 'system' }}";
    let refusal = TextError::TemplateRefused {
        message: "no".to_owned(),
    };
    assert_eq!(rendered(refuses, &turns), Err(refusal));
}

/// A template that has tools, but none where there is a system message.
#[test]
fn tools_that_a_template_drops_are_written_out() {
    let source = "{% if tools and messages[0].role != 'system' %}{{ tools|tojson }}{% endif %}\
        {% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls %}\
        <tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": \
        {{ c.function.arguments|tojson }}}\n</tool_call>{% endfor %}{% endfor %}";
    let mut template = template(source);
    template.set_tools(&[Tool {
        name: "weather".to_owned(),
        description: "Weather of a city".to_owned(),
        parameters: serde_json::json!({ "type": "object" }),
    }]);
    let mut said = vec![Message::new("user", "Oslo?")];
    let own = template.render_adapted(&said, true).unwrap();
    assert!(own.text().starts_with("[{\"type\""), "{}", own.text());
    said.insert(0, Message::new("system", "Be brief."));
    let written = template.render_adapted(&said, true).unwrap();
    assert!(
        written.text().starts_with("<system>Be brief.\n\n# Tools"),
        "{}",
        written.text()
    );
}
