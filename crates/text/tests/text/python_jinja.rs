//! Chat templates use Python's Jinja: values of its expressions, and the places where models keep
//! templates.

use conclave_text::{ChatTemplate, Message, TextError, Tokenizer};
use conclave_weights::{Description, Gguf, HuggingFace, Metadata, Value};
use serde_json::json;

fn metadata() -> Metadata {
    let gguf = include_bytes!("../../../../tests/fixtures/text/smollm.gguf");
    Gguf::parse_whole(gguf).unwrap().metadata().clone()
}

pub(crate) fn template(source: &str) -> Result<ChatTemplate, TextError> {
    let mut metadata = metadata();
    metadata.set("tokenizer.chat_template", Value::String(source.to_owned()));
    ChatTemplate::from_gguf(&metadata, &Tokenizer::from_gguf(&metadata).unwrap())
}

pub(crate) fn rendered(source: &str) -> Result<String, TextError> {
    let user = Message::new("user", "Hi");
    let prompt = template(source)?.render(&[user], true)?;
    Ok(prompt.text().to_owned())
}

/// Computed by Jinja 3.1.6 with transformers' `tojson`.
#[test]
fn expressions_give_what_python_gives() {
    let rows = [
        (
            r#"{'b': 1, 'a': [1, 'é']}|tojson"#,
            "{\"b\": 1, \"a\": [1, \"é\"]}",
        ),
        (
            r#"{'b': 1, 'a': [1, 'é']}|tojson(separators=(',', ':'))"#,
            "{\"b\":1,\"a\":[1,\"é\"]}",
        ),
        (
            r#"{'b': 1, 'a': {'d': 1, 'c': 2}}|tojson(sort_keys=true)"#,
            "{\"a\": {\"c\": 2, \"d\": 1}, \"b\": 1}",
        ),
        (
            r#"'é🙂\u007f'|tojson(ensure_ascii=true)"#,
            "\"\\u00e9\\ud83d\\ude42\\u007f\"",
        ),
        (
            r#"{'a': [1, {}], 'b': []}|tojson(indent=2)"#,
            "{\n  \"a\": [\n    1,\n    {}\n  ],\n  \"b\": []\n}",
        ),
        (
            r#"{'a': [1, 2]}|tojson(indent=1, separators=(', ', '='))"#,
            "{\n \"a\"=[\n  1, \n  2\n ]\n}",
        ),
        (r#"1e20|tojson"#, "1e+20"),
        (
            r#"[1.0, 0.1, 1e16, 123456789012345.6, 0.0001, 0.00001, 1.5e-7, 1e100]|tojson"#,
            "[1.0, 0.1, 1e+16, 123456789012345.6, 0.0001, 1e-05, 1.5e-07, 1e+100]",
        ),
        (
            r#"{True: 1, None: 2, 3: 4}|tojson"#,
            "{\"true\": 1, \"null\": 2, \"3\": 4}",
        ),
        (r#"[true, false, none, 5]|tojson"#, "[true, false, null, 5]"),
        (r#"'%s-%d' % ('a', 7)"#, "a-7"),
        (r#"'%s!' % 'a'"#, "a!"),
        (r#"'%05.1f|%x' % (3.14159, 255)"#, "003.1|ff"),
        (r#"'%s' % [1, 'a']"#, "[1, 'a']"),
        (r#"'%s' % ('a',)"#, "a"),
        (r#"'%s' % messages"#, "[{'role': 'user', 'content': 'Hi'}]"),
        (
            r#"[1e16, 1e20, 0.00001, 1e15, 0.0001, 2.0, 1e22 ~ '|' ~ 1e-7]|map('string')|join(' ')"#,
            "1e+16 1e+20 1e-05 1000000000000000.0 0.0001 2.0 1e+22|1e-07",
        ),
        (r#"1e16"#, "1e+16"),
        (r#"-1.5e-7"#, "-1.5e-07"),
        (r#"x ~ none ~ 1 ~ 1.0"#, "None11.0"),
        (
            r#"{10: 1, 9: {'b': 2, 'a': 3}}|tojson(sort_keys=true)"#,
            "{\"9\": {\"a\": 3, \"b\": 2}, \"10\": 1}",
        ),
        (r#"7 % 3"#, "1"),
        (r#"-7 % 3"#, "2"),
        (r#"7.5 % 2"#, "1.5"),
        (r#"7 % -3"#, "-2"),
        (r#"''|default('d', boolean=true)"#, "d"),
        (r#"''|default('d')"#, ""),
        (r#"none|default('d', true)"#, "d"),
        (r#"x|default('d')"#, "d"),
        (r#"x|default"#, ""),
        (r#"x|length"#, "0"),
        (r#"'a.b.c'.rsplit('.', 1)|join('|')"#, "a.b|c"),
        (r#"'a b  c '.rsplit()|join('|')"#, "a|b|c"),
        (r#"'a b  c'.rsplit(none, 1)|join('|')"#, "a b|c"),
        (r#"'a.b.c'.rsplit('.')|join('|')"#, "a|b|c"),
        (r#"'prefix-x'.removeprefix('prefix-')"#, "x"),
        (r#"'x'.removeprefix('prefix-')"#, "x"),
        (r#"'x.txt'.removesuffix('.txt')"#, "x"),
        (r#"'a=b=c'.partition('=')|join('|')"#, "a|=|b=c"),
        (r#"'abc'.partition('=')|join('|')"#, "abc||"),
        (r#"'a=b=c'.rpartition('=')|join('|')"#, "a=b|=|c"),
        (r#"'abc'.rpartition('=')|join('|')"#, "||abc"),
        (r#"'ab'.ljust(5) ~ '|'"#, "ab   |"),
        (r#"'ab'.ljust(5, '*')"#, "ab***"),
        (r#"'ab'.rjust(5, '*')"#, "***ab"),
        (r#"'ab'.center(5, '*')"#, "**ab*"),
        (r#"'abc'.center(6, '*')"#, "*abc**"),
        (r#"'ab'|center(5) ~ '|'"#, "  ab |"),
        (r#"('a'|center)|length"#, "80"),
        (r#"'foo bar baz qux'|truncate(9)"#, "foo..."),
        (r#"'foo bar baz qux'|truncate(9, true)"#, "foo ba..."),
        (r#"'foo bar baz qux'|truncate(11)"#, "foo bar baz qux"),
        (
            r#"'foo bar baz qux'|truncate(11, leeway=0, end='…')"#,
            "foo bar…",
        ),
        (r#"'7'.zfill(3)"#, "007"),
        (r#"'-7'.zfill(4)"#, "-007"),
        (r#"'aBc'.swapcase()"#, "AbC"),
        (r#"'ABC'.casefold()"#, "abc"),
        (r#"'one two, three_4'|wordcount"#, "3"),
        (
            r#"['é', {'b': 1, 'a': 2}]|tojson(true, '\t', none, true)"#,
            "[\n\t\"\\u00e9\",\n\t{\n\t\t\"a\": 2,\n\t\t\"b\": 1\n\t}\n]",
        ),
        (r#"[1]|tojson(indent='\t')"#, "[\n\t1\n]"),
        (r#"[1]|tojson(false, 2)"#, "[\n  1\n]"),
        (
            r#"messages[0].content.split(' ', maxsplit=1)|join('|')"#,
            "Hi",
        ),
        (r#"'a,b,c'.split(sep=',', maxsplit=1)|join('|')"#, "a|b,c"),
        (r#"'a b'.split(maxsplit=1)|join('|')"#, "a|b"),
        (r#"'a,b,c'.rsplit(',', maxsplit=1)|join('|')"#, "a,b|c"),
        (r#"'a\nb'.splitlines(keepends=true)|length"#, "2"),
        (r#"'ébcébc'.index('c')"#, "2"),
        (r#"'ébcébc'.rindex('c')"#, "5"),
        (r#"'ébcébc'.find('c', 3)"#, "5"),
        (r#"'ébcébc'.find('c', 3, 5)"#, "-1"),
        (r#"'ébcébc'.find('c', -1)"#, "5"),
        (r#"'abc'.find('c', -9223372036854775807 - 1)"#, "2"),
        (r#"'ébcébc'.rfind('c', 0, -1)"#, "2"),
        (r#"'abc'.startswith('b', 1)"#, "True"),
        (r#"'abc'.startswith('b', -1)"#, "False"),
        (r#"'abc'.endswith(('x', 'b'), 0, 2)"#, "True"),
        (r#"'abab'.count('b', 2)"#, "1"),
        (r#"'12'.isdecimal()"#, "True"),
        (r#"'Ab Cd'.istitle()"#, "True"),
        (r#"'Ab cD'.istitle()"#, "False"),
        (r#"'aaa'|replace('a', 'b', 2)"#, "bba"),
        (r#"'aaa'|replace('a', 'b')"#, "bbb"),
        (r#"'x'|int"#, "0"),
        (r#"'x'|float"#, "0.0"),
        (r#"'x'|int(5)"#, "5"),
        (r#"' 42 '|int"#, "42"),
        (r#"' 1.5 '|float"#, "1.5"),
        (r#"'3.7'|int"#, "3"),
        (r#"'0x1f'|int(base=16)"#, "31"),
        (r#"'a\nb'|indent('> ')"#, "a\n> b"),
        (r#"'a\n\nb'|indent(width='> ', first=true)"#, "> a\n\n> b"),
        (r#"'a\n\nb'|indent(2, true, true)"#, "  a\n  \n  b"),
        (r#"'a\n\nb\n'|indent"#, "a\n\n    b\n"),
        (r#"''|indent(2, true)"#, "  "),
        ("'a\\r\\n\\r\\nb'|indent(2)", "a\n\n  b"),
        (
            r#"{'b': 1, 'a': 2}|dictsort(false, 'value')"#,
            "[('b', 1), ('a', 2)]",
        ),
        (
            r#"{'b': 1, 'a': 2}|dictsort(reverse=true)"#,
            "[('b', 1), ('a', 2)]",
        ),
        (r#"[1, 2].copy()"#, "[1, 2]"),
        (r#"{'a': 1}.copy()"#, "{'a': 1}"),
        (r#"[3, 2, 2].index(2)"#, "1"),
        (
            r#"dict([('a', 1), ['b', 2]], c=3)"#,
            "{'a': 1, 'b': 2, 'c': 3}",
        ),
        (r#"dict({'a': 1}, a=2)"#, "{'a': 2}"),
        (r#"dict(a=1)"#, "{'a': 1}"),
        (
            r#"{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}"#,
            "12",
        ),
        (
            r#"{% set ns = namespace(a=1) %}{% set ns.a = 2 %}{{ ns.a }}"#,
            "2",
        ),
        (
            r#"{% set j = joiner(', ') %}{% for i in [1, 2, 3] %}{{ j() }}{{ i }}{% endfor %}"#,
            "1, 2, 3",
        ),
        (
            r#"{% set c = cycler('a', 'b') %}{{ c.next() }}{{ c.next() }}{{ c.next() }}"#,
            "aba",
        ),
    ];
    for (source, wanted) in rows {
        let whole = match source.contains("{%") {
            true => source.to_owned(),
            false => format!("{{{{ {source} }}}}"),
        };
        assert_eq!(rendered(&whole).as_deref(), Ok(wanted), "{source}");
    }
    for absent in ["'abc'.index('z')", "'abc'.index()", "[1].index(2)"] {
        assert!(
            rendered(&format!("{{{{ {absent} }}}}")).is_err(),
            "{absent}"
        );
    }
    assert!(rendered("{{ 'a' % 1 }}{{ 5 % 0 }}").is_err());
    // A width cannot be used to exhaust memory.
    for source in [
        "'a'.ljust(10000000000)",
        "('%s%s' % ('a' * 90000000, 'a' * 90000000))",
    ] {
        let refused = rendered(&format!("{{{{ {source}|length }}}}"));
        assert!(refused.is_err(), "{source}");
    }
}

/// Computed by Jinja 3.1.6 with transformers' `tojson`.
#[test]
fn filters_of_texts_give_what_python_gives() {
    let rows = [
        (r#"'<b>&"\'/'|e"#, "&lt;b&gt;&amp;&#34;&#39;/"),
        ("'<b>'|e|e", "&lt;b&gt;"),
        ("'<b>'|e|forceescape", "&amp;lt;b&amp;gt;"),
        ("'<b>'|safe|e", "<b>"),
        ("'<b>'|safe|forceescape", "&lt;b&gt;"),
        ("['<']|tojson|e", "[&#34;&lt;&#34;]"),
        ("3|e", "3"),
        ("x|e", ""),
        ("'<' ~ ('<'|e)", "<&lt;"),
        ("'a=b'.partition('=')", "('a', '=', 'b')"),
        ("'a'.partition('=')", "('a', '', '')"),
        ("'a=b=c'.rpartition('=')", "('a=b', '=', 'c')"),
        ("'%s-%s-%s' % 'a=b'.partition('=')", "a-=-b"),
        ("'a=b'.partition('=') == ('a', '=', 'b')", "True"),
        ("'1_000'|int", "1000"),
        ("'_1'|int", "0"),
        ("'1_'|int", "0"),
        ("'1__0'|int", "0"),
        ("'1_0.5'|float", "10.5"),
        ("'%r' % 'a'", "'a'"),
        (r#"'%r %s' % ("it's", 1)"#, "\"it's\" 1"),
        ("'%r'|format([1, 'b'])", "[1, 'b']"),
        ("'%d' % 3.7", "3"),
        ("'%d|%.1f' % (3.7, 2.55)", "3|2.5"),
        ("'%5d|' % -3.7", "   -3|"),
        ("'%d%%|%i' % (1.9, 2)", "1%|2"),
        ("'%-6r|' % 'a'", "'a'   |"),
        ("'%r' % none", "None"),
        ("'%r' % 1.5", "1.5"),
        ("x|first", ""),
        ("x|last", ""),
        ("x|items|list", "[]"),
        ("x|list", "[]"),
        ("x|join", ""),
        ("x|sum", "0"),
        ("x|sort", "[]"),
        ("x|unique|list", "[]"),
        ("x|reverse|list", "[]"),
        ("x|map('upper')|list", "[]"),
        ("x|select|list", "[]"),
        ("x|min", ""),
        ("x|max", ""),
        ("x|batch(2)|list", "[]"),
        ("x|upper", ""),
        ("x|trim", ""),
        ("x|length", "0"),
        ("'a b/ü~?&=é'|urlencode", "a%20b/%C3%BC~%3F%26%3D%C3%A9"),
        ("3|urlencode", "3"),
        (
            r"'<p>a <b> &lt;c&gt;</b>\n\n &amp;amp; d<!-- x > y -->!</p>'|striptags",
            "a <c> &amp; d!",
        ),
        ("'a < b'|striptags", "a < b"),
        ("range is callable", "True"),
        ("'a' is callable", "False"),
        ("x is callable", "True"),
        ("3 is callable", "False"),
        ("{'a': 1} is callable", "False"),
        ("messages is callable", "False"),
        ("raise_exception is callable", "True"),
        ("{% macro m() %}{% endmacro %}{{ m is callable }}", "True"),
        ("'<'|tojson ~ '<'", "\"<\"<"),
        ("('<'|tojson) + '<'", "\"<\"<"),
        ("'%c' % 65", "A"),
        ("'%s %s' % (x, none)", " None"),
        ("'%s' % 1e16", "1e+16"),
        ("'%d' % true", "1"),
        ("'%05d' % 3.2", "00003"),
        ("'%s' % 10000000000", "10000000000"),
    ];
    for (source, wanted) in rows {
        let whole = match source.contains("{%") {
            true => source.to_owned(),
            false => format!("{{{{ {source} }}}}"),
        };
        assert_eq!(rendered(&whole).as_deref(), Ok(wanted), "{source}");
    }
    assert!(rendered("{{ {'a': 1}|urlencode }}").is_err());
    assert!(rendered("{{ '%*d' % (10000000000, 1) }}").is_err());
}

#[test]
fn a_speakers_name_is_told_to_the_template() {
    let named = Message {
        name: Some("Ann".to_owned()),
        ..Message::new("user", "Hi")
    };
    let source = "{% for m in messages %}{{ m.name|default('?') }}: {{ m.content }}\n{% endfor %}";
    let prompt = template(source)
        .unwrap()
        .render(&[named, Message::new("user", "Ho")], true);
    assert_eq!(prompt.unwrap().text(), "Ann: Hi\n?: Ho\n");
}

#[test]
fn a_template_of_another_language_is_called_so() {
    let go = "{{- if .System }}{{ .System }}{{ end }}{{ range .Messages }}{{ .Content }}{{ end }}";
    let error = template(go).err().unwrap().to_string();
    assert!(
        error.contains("Go template") && error.contains("--template"),
        "{error}"
    );
    let broken = template("{% if %}").err().unwrap().to_string();
    assert!(!broken.contains("Go template"), "{broken}");
}

/// A template that writes `word`, and whether it is found.
fn writes(word: &str, template: &ChatTemplate) -> bool {
    let prompt = template.render(&[Message::new("user", "Hi")], true);
    template.is_own() && prompt.unwrap().text() == word
}

#[test]
fn templates_are_found_wherever_models_keep_them() {
    let mut metadata = metadata();
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    metadata.set(
        "tokenizer.chat_template.tool_use",
        Value::String("tools".to_owned()),
    );
    let named = |metadata: &Metadata| ChatTemplate::from_gguf(metadata, &tokenizer).unwrap();
    // The fixture has one of its own.
    let mut without = Metadata::default();
    for (key, value) in metadata.iter() {
        if key != "tokenizer.chat_template" {
            without.set(key, value.clone());
        }
    }
    assert!(writes("tools", &named(&without)));
    without.set(
        "tokenizer.chat_template.chat",
        Value::String("chat".to_owned()),
    );
    assert!(writes("chat", &named(&without)));
    without.set(
        "tokenizer.chat_template.default",
        Value::String("first".to_owned()),
    );
    assert!(writes("first", &named(&without)));

    let of_folder = |config: serde_json::Value, others: serde_json::Value| {
        let files = HuggingFace {
            tokenizer_config: Some(json!({ "chat_template": config })),
            other_templates: others.as_array().cloned().unwrap_or_default(),
            ..HuggingFace::default()
        };
        ChatTemplate::from_hugging_face(&files, &tokenizer).unwrap()
    };
    let list = json!([
        { "name": "tool_use", "template": "tools" },
        { "name": "chat", "template": "chat" },
    ]);
    assert!(writes("chat", &of_folder(list, json!([]))));
    assert!(writes(
        "json",
        &of_folder(json!(null), json!(["json", { "rag": "x" }]))
    ));
    assert!(writes(
        "more",
        &of_folder(json!(null), json!([{ "rag": "x", "more": "more" }]))
    ));
    assert!(writes("own", &of_folder(json!("own"), json!(["json"]))));
    assert!(!of_folder(json!(null), json!([{}])).is_own());
}

/// A question that a template of spaces would drop is asked by the next template, or by the
/// fallback.
#[test]
fn blank_templates_count_as_absent() {
    let mut metadata = metadata();
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    let asks = |template: &ChatTemplate| {
        let prompt = template.render(&[Message::new("user", "Why?")], true);
        !template.is_own() && prompt.unwrap().text().contains("Why?")
    };
    for blank in ["", " \n", "\u{feff}", "\u{feff}\r\n\t"] {
        assert!(asks(&template(blank).unwrap()), "{blank:?}");
        metadata.set("tokenizer.chat_template", Value::String(blank.to_owned()));
        for (name, text) in [("default", blank), ("chat", "chat")] {
            metadata.set(
                &format!("tokenizer.chat_template.{name}"),
                Value::String(text.to_owned()),
            );
        }
        let named = ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap();
        assert!(writes("chat", &named), "{blank:?}");

        let folder = |jinja: &str, config: serde_json::Value, other: serde_json::Value| {
            let files = HuggingFace {
                chat_template: Some(jinja.to_owned()),
                tokenizer_config: Some(json!({ "chat_template": config })),
                other_templates: vec![other],
                ..HuggingFace::default()
            };
            ChatTemplate::from_hugging_face(&files, &tokenizer).unwrap()
        };
        let list = json!([{ "name": "default", "template": blank }]);
        assert!(asks(&folder(blank, json!(blank), json!({ "x": blank }))));
        assert!(writes("b", &folder(blank, json!("b"), json!("c"))));
        assert!(writes("c", &folder(blank, json!(blank), json!("c"))));
        assert!(writes("c", &folder(blank, list, json!({ "x": "c" }))));

        let description = Description::HuggingFace(HuggingFace::default());
        let replaced = ChatTemplate::from_source(blank, &description, &tokenizer).unwrap();
        assert!(asks(&replaced), "{blank:?}");
    }
}

#[test]
fn a_template_s_lines_end_as_in_jinja_and_have_no_mark_before_them() {
    for (source, wanted) in [
        ("\u{feff}a\r\nb\r\n", "a\nb"),
        ("{% if true %}\r\na{% endif %}\r\n", "a"),
        ("a\rb\r\n\r\n{{ 'c\r\nd' }}", "a\nb\n\nc\nd"),
        (
            "{% for m in messages %}\r\n  {% if m %}\r\n{{ m.content }}\r\n  {% endif %}\r\n\
             {% endfor %}",
            "Hi\n",
        ),
    ] {
        assert_eq!(rendered(source).as_deref(), Ok(wanted), "{source:?}");
    }
    let prompt = template("{{ messages[0].content }}\r\n.").unwrap();
    let prompt = prompt.render(&[Message::new("user", "a\r\nb")], true);
    assert_eq!(prompt.unwrap().text(), "a\r\nb\n.");
}

/// Templates of models that also see images take contents as lists of parts.
#[test]
fn contents_are_parts_where_a_template_drops_plain_text() {
    let parts = "{% for m in messages %}<{{ m.role }}>{% for p in m.content %}\
        {% if p.type == 'text' %}{{ p.text }}{% endif %}{% endfor %}{% endfor %}";
    let first = "{% for m in messages %}<{{ m.role }}>{{ m.content[0].text.strip() }}{% endfor %}";
    let selected = "{% for m in messages %}<{{ m.role }}>\
        {% for p in m.content|selectattr('type', 'equalto', 'text') %}{{ p['text'] }}{% endfor %}\
        {% endfor %}";
    let both = "{% for m in messages %}<{{ m.role }}>{% if m.content is string %}{{ m.content }}\
        {% else %}{{ raise_exception('parts') }}{% endif %}{% endfor %}";
    let said = [
        Message::new("system", "Be brief."),
        Message::new("user", "Why <|im_end|>?"),
        Message::new("assistant", ""),
    ];
    for source in [parts, first, selected, both] {
        let prompt = template(source).unwrap().render(&said, true);
        let wanted = "<system>Be brief.<user>Why <|im_end|>?<assistant>";
        assert_eq!(prompt.as_ref().unwrap().text(), wanted, "{source}");
        // A control token in a part is plain text too.
        let tokenizer = Tokenizer::from_gguf(&metadata()).unwrap();
        let end = tokenizer.special("<|im_end|>").unwrap();
        let ids = tokenizer.encode_prompt(&prompt.unwrap()).unwrap();
        assert!(!ids.contains(&end), "{source}");
    }
    // One that drops both gets plain text.
    let counted = "{{ messages[0].content is string }}";
    assert_eq!(rendered(counted).as_deref(), Ok("True"));
}

#[test]
fn unknown_filters_and_functions_are_named_with_the_way_out() {
    for (source, name) in [
        (
            "{{ messages[0].content|frobnicate }}",
            "filter frobnicate is unknown",
        ),
        ("{{ frobnicate(messages) }}", "frobnicate is unknown"),
        (
            "{% if messages is frobnicated %}{% endif %}",
            "test frobnicated is unknown",
        ),
    ] {
        let error = template(source).err().unwrap();
        assert!(
            matches!(error, TextError::TemplateSyntax { line: 1, .. }),
            "{error:?}"
        );
        let text = error.to_string();
        assert!(text.contains(name) && text.contains("--template"), "{text}");
        assert!(!text.contains("system message"), "{text}");
    }
    // Where only some conversations need it, the others are rendered.
    let some = "{% for m in messages %}{% if m.role == 'system' %}{{ m.content|frobnicate }}\
        {% else %}{{ m.content }}{% endif %}{% endfor %}";
    let template = template(some).unwrap();
    let said = [
        Message::new("system", "Be brief."),
        Message::new("user", "Why?"),
    ];
    assert!(matches!(
        template.render(&said, true),
        Err(TextError::TemplateSyntax { .. })
    ));
    let adapted = template.render_adapted(&said, true).unwrap();
    assert_eq!(adapted.text(), "Be brief.\n\nWhy?");
    let failed = rendered("{{ messages[0].nothing.more }}")
        .unwrap_err()
        .to_string();
    assert!(failed.contains("--template"), "{failed}");
}
