//! Chat templates use Python's literals and signs, and `wordwrap` by Python's rules.

use conclave_text::TextError;

use crate::python_jinja::rendered;

/// Computed by Jinja 3.1.6 with transformers' `tojson`.
#[test]
fn literals_and_signs_give_what_python_gives() {
    for (expression, wanted) in [
        (r#"{1: 2, true: 4}|tojson"#, "{\"1\": 4}"),
        (r#"{true: 1, 1: 2, true: 3}|tojson"#, "{\"true\": 3}"),
        (
            r#"{1.0: 'a', 1: 'b', true: 'c', 0: 1, false: 2}|tojson"#,
            "{\"1.0\": \"c\", \"0\": 2}",
        ),
        (
            r#"{1: 2, true: 3, 1.0: 4, 5: 6}|tojson"#,
            "{\"1\": 4, \"5\": 6}",
        ),
        (
            r#"{1: 2, '1': 3, none: 4}|tojson"#,
            "{\"1\": 2, \"1\": 3, \"null\": 4}",
        ),
        (
            r#"'\a\v\U0001F600\x41\101\777'|tojson"#,
            "\"\\u0007\\u000b😀AAǿ\"",
        ),
        (r#"'a\\U0001F600\U00000027\U0000005c|'"#, "a\\U0001F600'\\|"),
        (r#"'it\'s \\a "\U0001F600"' ~ 1"#, "it's \\a \"😀\"1"),
        (r#"+5"#, "5"),
        (r#"1 + +5"#, "6"),
        (
            r#"[+1, -+2, +-3, 4+5, (6)+7, [8][0]+9]"#,
            "[1, -2, -3, 9, 13, 17]",
        ),
        (r#"not +0"#, "True"),
        (r#"2*+3"#, "6"),
        (r#"1e+2"#, "100.0"),
        (r#"{+1: +2}|tojson"#, "{\"1\": 2}"),
        (r#"1 if +1 else +2"#, "1"),
        (r#"+5.5"#, "5.5"),
        (r#"x|default(+3)"#, "3"),
        (r#"+1 if false else 'a'+'b'"#, "ab"),
        (r#"'+'~'{{'~+1"#, "+{{1"),
        (r#"{'a': {'b': +1}}.a.b+1"#, "2"),
        (r#"{'a': 1}.a + 2"#, "3"),
    ] {
        let source = format!("{{{{ {expression} }}}}");
        assert_eq!(rendered(&source).as_deref(), Ok(wanted), "{source}");
    }
    for (source, wanted) in [
        (
            r#"{% raw %}{{ +1 }}\a'\a'{% endraw %}{{ +1 }}"#,
            "{{ +1 }}\\a'\\a'1",
        ),
        (
            r#"{# '+ #}{{ +1 }}{% if +1 %}y{% endif %}{%+ set a = +4 %}{{+a}}"#,
            "1y4",
        ),
        (
            r#"{ {{ '{' }} }{% for i in [+1, 2] %}{{ i + +1 }}{% endfor %}"#,
            "{ { }23",
        ),
        // White space is kept and cut as before.
        (
            "{%- if false -%} {% else +%}\na {{- 'b' -}} {% endif %}",
            "\nab",
        ),
    ] {
        assert_eq!(rendered(source).as_deref(), Ok(wanted), "{source}");
    }
    for source in [
        "{{ +'a' }}",
        "{{ '\\U0011",
        "{{ 'a\\",
        "{%",
        "{{ +",
        "{#",
        "{% raw %}{{",
    ] {
        let failed = rendered(source);
        let is_fine = failed.is_err() || source == "{% raw %}{{";
        assert!(is_fine, "{source}: {failed:?}");
    }
    // Lines of errors are the source's.
    let failed = rendered("{{ '\\a' }}\n{{ +1 }}\n{{ 1 +* 2 }}").unwrap_err();
    assert!(
        matches!(failed, TextError::TemplateSyntax { line: 3, .. }),
        "{failed:?}"
    );
}

const FOX: &str = "The quick brown fox, twenty-one and half-baked -- jumps---over a \
    well-known-and-long word: supercalifragilistic-expialidocious.";

/// Computed by Jinja 3.1.6 in Python 3.11.
#[test]
fn texts_are_wrapped_as_python_wraps_them() {
    for (args, wanted) in [
        (
            "",
            "The quick brown fox, twenty-one and half-baked -- jumps---over a well-known-\n\
             and-long word: supercalifragilistic-expialidocious.",
        ),
        (
            "20",
            "The quick brown fox,\ntwenty-one and half-\nbaked -- jumps---\n\
             over a well-known-\nand-long word: super\ncalifragilistic-\nexpialidocious.",
        ),
        (
            "7",
            "The\nquick\nbrown\nfox,\ntwenty-\none and\nhalf-\nbaked\n--\njumps\n---over\n\
             a well-\nknown-\nand-\nlong\nword: s\nupercal\nifragil\nistic-e\nxpialid\nocious.",
        ),
        (
            "12, false",
            "The quick\nbrown fox,\ntwenty-one\nand half-\nbaked --\njumps---over\na well-\n\
             known-and-\nlong word:\nsupercalifragilistic-\nexpialidocious.",
        ),
        (
            "12, true, '|'",
            "The quick|brown fox,|twenty-one|and half-|baked --|jumps---over|a well-|known-and-|\
             long word: s|upercalifrag|ilistic-expi|alidocious.",
        ),
        (
            "12, break_on_hyphens=false",
            "The quick\nbrown fox,\ntwenty-one\nand\nhalf-baked\n--\njumps---over\n\
             a well-known\n-and-long\nword: superc\nalifragilist\nic-expialido\ncious.",
        ),
        (
            "12, false, '<>', false",
            "The quick<>brown fox,<>twenty-one<>and<>half-baked<>--<>jumps---over<>a<>\
             well-known-and-long<>word:<>supercalifragilistic-expialidocious.",
        ),
    ] {
        let source = format!("{{{{ '{FOX}'|wordwrap({args}) }}}}");
        assert_eq!(rendered(&source).as_deref(), Ok(wanted), "{args}");
    }
    for (expression, wanted) in [
        (
            r#"'  lead and trail   \n\nnext  line\r\nx\u2028y\n'|wordwrap(6)"#,
            "  lead\nand\ntrail\n\nnext\nline\nx\ny",
        ),
        (r#"'ab xxxxxxxx'|wordwrap(3)"#, "ab \nxxx\nxxx\nxx"),
        (r#"''|wordwrap"#, ""),
        (r#"'   '|wordwrap(2)"#, ""),
        (
            r#"'a-b a-bc ab-c ab-cd e-mail x--y-- z'|wordwrap(2)"#,
            "a-\nb \na-\nbc\nab\n-c\nab\n-\ncd\ne-\nma\nil\nx\n--\ny-\n-\nz",
        ),
        (r#"'--------abcdef'|wordwrap(4)"#, "----\n----\nabcd\nef"),
        (
            r#"'é-à-ü ñandú-ñandú'|wordwrap(5)"#,
            "é-à-ü\nñandú\n-\nñandú",
        ),
    ] {
        let source = format!("{{{{ {expression} }}}}");
        assert_eq!(rendered(&source).as_deref(), Ok(wanted), "{source}");
    }
    assert!(rendered("{{ 'a'|wordwrap(0) }}").is_err());
    let long = "{% set end = 'x' * 100000 %}{{ ('a' * 100)|wordwrap(1, true, end)|length }}";
    assert_eq!(rendered(long), Ok("9900100".to_owned()));
    let endless = "{% set end = 'x' * 100000 %}{{ ('a' * 10000)|wordwrap(1, true, end)|length }}";
    assert_eq!(rendered(endless), Err(TextError::TemplateEndless));
}

#[test]
fn earlier_thoughts_are_kept_as_is_asked() {
    let source = "{{ preserve_thinking is defined }} {{ preserve_thinking }}";
    let mut template = crate::python_jinja::template(source).unwrap();
    for (preserved, wanted) in [
        (None, "False "),
        (Some(true), "True True"),
        (Some(false), "True False"),
    ] {
        template.preserve_thinking(preserved);
        let said = [conclave_text::Message::new("user", "Hi")];
        assert_eq!(template.render(&said, true).unwrap().text(), wanted);
    }
}
