//! A hostile template ends in an error before it has taken much memory; an honest one renders a
//! long conversation.

#[path = "../../weights/tests/allocation/mod.rs"]
mod allocation;

use std::time::Instant;

use allocation::measured;
use conclave_text::{ChatTemplate, Message, TextError, Tokenizer};
use conclave_weights::{Gguf, Metadata, Value};

fn metadata() -> Metadata {
    let gguf = include_bytes!("../../../tests/fixtures/text/smollm.gguf");
    Gguf::parse_whole(gguf).unwrap().metadata().clone()
}

fn template(metadata: &mut Metadata, source: &str) -> Result<ChatTemplate, TextError> {
    metadata.set("tokenizer.chat_template", Value::String(source.to_owned()));
    ChatTemplate::from_gguf(metadata, &Tokenizer::from_gguf(metadata).unwrap())
}

/// Maximum bytes of a rendering beside its input: the work limit, and room for operations that turn
/// a letter into three bytes or into a value.
const MOST: usize = 1 << 29;

#[test]
fn templates_that_build_without_end_are_stopped() {
    let twice = |what: &str| {
        format!(
            "{{% set n = namespace(x='ab', l=[1]) %}}\
             {{% for i in range(60) %}}{what}{{% endfor %}}{{{{ n.x|length }}}}"
        )
    };
    let big = |what: &str| format!("{{% set big = 'a\n ' * 100000 %}}{what}");
    let raw = "R".repeat(1 << 20);
    let folded = vec!["('a' * 99999999)"; 60].join(" ~ ");
    let bombs = [
        twice("{% set n.x = n.x ~ n.x %}"),
        twice("{% set n.x = n.x + n.x %}"),
        twice("{% set n.x = n.x * 2 %}"),
        twice("{% set n.x = 'x'.join([n.x, n.x]) %}"),
        twice("{% set n.x = [n.x, n.x]|join %}"),
        twice("{% set n.x = n.x|replace('a', 'aa') %}"),
        twice("{% set n.x = n.x.replace('a', 'aa') %}"),
        twice("{% set n.x = '%s%s'|format(n.x, n.x) %}"),
        twice("{% set n.x = '{0}{0}'.format(n.x) %}"),
        twice("{% set n.x %}{{ n.x }}{{ n.x }}{% endset %}"),
        twice("{% set n.x %}{% filter upper %}{{ n.x }}{{ n.x }}{% endfilter %}{% endset %}"),
        twice("{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{% set n.x = m(n.x) %}"),
        twice(
            "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}\
             {% set n.x %}{% call m() %}{{ n.x }}{% endcall %}{% endset %}",
        ),
        twice("{% set n.l = n.l + n.l %}{% set n.x = n.l|list %}"),
        twice("{% set n.l = n.l * 2 %}{% set n.x = n.l|list %}"),
        twice("{% set n.l = [n.l, n.l] %}{% set n.x = n.l|string %}"),
        twice("{% set n.l = [n.l, n.l] %}{% set n.x = n.l|tojson %}"),
        twice("{% set n.l = {'a': n.l, 'b': n.l} %}{% if n.l == n.l %}{% endif %}"),
        twice("{% set n.l = n.l|batch(1)|list %}{% set n.l = n.l + n.l %}"),
        twice("{% set n.l = n.l|chain(n.l) %}{% for x in n.l %}{% endfor %}"),
        big("{{ big|replace('a', big)|length }}"),
        big("{{ big.replace('a', big)|length }}"),
        big("{{ range(100000)|join(big)|length }}"),
        big("{{ big.join(range(100000))|length }}"),
        big("{{ big|indent(1000000)|length }}"),
        big("{{ big|indent(width=1000000)|length }}"),
        big("{{ big|indent(big)|length }}"),
        big("{{ big|center(1000000000)|length }}"),
        big("{{ big|replace('a', big, 99999)|length }}"),
        big("{{ ([1] * 10000000)|tojson(indent=big)|length }}"),
        big("{{ ([big] * 100000)|map('upper')|list|length }}"),
        big("{{ ([big] * 100000)|map('replace', 'a', 'bb')|list|length }}"),
        big("{{ ([big] * 100000)|sum|length }}"),
        big("{{ ([big] * 100000)|string|length }}"),
        big("{{ ((big * 300)|list)|length }}"),
        big("{{ ((big * 300).split('a'))|length }}"),
        big("{{ ((big * 300)|split('a')|list)|length }}"),
        big("{{ ((big * 300).splitlines())|length }}"),
        big("{% set x %}{% filter replace('a', big) %}{{ big }}{% endfilter %}{% endset %}"),
        big("{% set x | replace('a', big) %}{{ big }}{% endset %}"),
        "{{ '%1000000000s'|format('x')|length }}".to_owned(),
        "{{ '%.*f'|format(1000000000, 1.5)|length }}".to_owned(),
        "{{ '{:>1000000000}'.format('x')|length }}".to_owned(),
        "{{ '{:>{}}'.format('x', 1000000000)|length }}".to_owned(),
        "{{ range(1)|batch(1000000000, 'x')|list|length }}".to_owned(),
        "{{ range(1)|slice(1000000000)|list|length }}".to_owned(),
        "{{ range(100000)|map('string')|map('indent', 100000)|list|length }}".to_owned(),
        "{% set n = namespace(x=[]) %}{% for i in range(99999) %}\
         {% set n.x = n.x + ['a' * 99999] %}{% endfor %}"
            .to_owned(),
        "{% set n = namespace(x=1) %}{% for i in range(99999) %}\
         {% set n.x = [n.x] %}{% endfor %}"
            .to_owned(),
        "{% set n = namespace(x=1) %}{% for i in range(99999) %}\
         {% set n.x = namespace(y=n.x) %}{% endfor %}"
            .to_owned(),
        "{% set n = namespace(x=1) %}{% for i in range(99999) %}\
         {% set n.x = [n.x]|list|batch(1)|list %}{% endfor %}"
            .to_owned(),
        "{% set n = namespace() %}{% set n.n = n %}{{ n }}".to_owned(),
        format!("{{% set x %}}{{% for i in range(99999) %}}{raw}{{% endfor %}}{{% endset %}}"),
        format!("{{{{ ({folded})|length }}}}"),
    ];
    let mut metadata = metadata();
    let said = [Message::new("user", "hi")];
    for bomb in &bombs {
        let start = Instant::now();
        let (result, most) = measured(|| {
            template(&mut metadata, bomb).and_then(|template| template.render(&said, true))
        });
        let bomb: String = bomb.chars().take(160).collect();
        let what = format!("{bomb}: {} MB, {:.1?}", most >> 20, start.elapsed());
        println!("{what}");
        assert!(
            matches!(
                result,
                Err(TextError::TemplateEndless | TextError::TemplateFailed { .. })
            ),
            "{what}: {:?}",
            result.map(|prompt| prompt.text().len())
        );
        assert!(most < MOST, "{what}");
    }
    let debug = template(&mut metadata, "{{ debug() }}");
    assert!(matches!(debug, Err(TextError::TemplateSyntax { .. })));
}

/// Half a megabyte of conversation through templates that iterate over it many times.
#[test]
fn long_conversations_are_rendered() {
    let templates: serde_json::Value =
        serde_json::from_str(include_str!("../../../tests/fixtures/text/templates.json")).unwrap();
    let mut metadata = metadata();
    let text = "Nobody <|im_end|> knows. </think>\n".repeat(40);
    let said: Vec<Message> = (0..400)
        .map(|turn| Message::new(["user", "assistant"][turn % 2], format!("{turn} {text}")))
        .chain([Message::new("user", "Well?")])
        .collect();
    for (name, reference) in templates.as_object().unwrap() {
        let source = reference["template"].as_str().unwrap();
        let template = template(&mut metadata, source).unwrap();
        let start = Instant::now();
        let (result, most) = measured(|| template.render(&said, true));
        println!("{name}: {} MB, {:.1?}", most >> 20, start.elapsed());
        match result {
            Ok(prompt) => assert!(prompt.text().contains("398 Nobody"), "{name}"),
            Err(TextError::TemplateRefused { .. }) => {}
            Err(error) => panic!("{name}: {error}"),
        }
    }
}
