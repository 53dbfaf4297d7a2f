//! Functions that an answer may call: by the template's own words where it writes calls as Hermes
//! and Qwen do, and otherwise as text in the same form.

use conclave_text::{ChatTemplate, Message, Tokenizer, Tool, ToolCall};
use conclave_weights::{Gguf, HuggingFace, Metadata, Value};
use serde_json::json;

/// Qwen 2.5's.
const QWEN: &str = r#"{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\n\n# Tools\n\nYou may call one or more functions to assist with the user query.\n\nYou are provided with function signatures within <tools></tools> XML tags:\n<tools>" }}
    {%- for tool in tools %}
        {{- "\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\n</tools>\n\nFor each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- elif message.role == "assistant" %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.content %}
            {{- '\n' + message.content }}
        {%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function is defined %}
                {%- set tool_call = tool_call.function %}
            {%- endif %}
            {{- '\n<tool_call>\n{"name": "' }}
            {{- tool_call.name }}
            {{- '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\n<tool_response>\n' }}
        {{- message.content }}
        {{- '\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}"#;

/// Rendered by Jinja 3.1.6 with transformers' `tojson`.
const RENDERED: &str = "<|im_start|>system\nBe brief.\n\n# Tools\n\n\
You may call one or more functions to assist with the user query.\n\n\
You are provided with function signatures within <tools></tools> XML tags:\n\
<tools>\n{\"type\": \"function\", \"function\": {\"name\": \"weather\", \
\"description\": \"Weather of a city\", \
\"parameters\": {\"properties\": {\"city\": {\"type\": \"string\"}}, \
\"required\": [\"city\"], \"type\": \"object\"}}}\n</tools>\n\n\
For each function call, return a json object with function name and arguments within \
<tool_call></tool_call> XML tags:\n<tool_call>\n\
{\"name\": <function-name>, \"arguments\": <args-json-object>}\n</tool_call><|im_end|>\n\
<|im_start|>user\nOslo?<|im_end|>\n<|im_start|>assistant\n<tool_call>\n\
{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo é\"}}\n</tool_call>\n<tool_call>\n\
{\"name\": \"weather\", \"arguments\": {\"city\": \"Bergen\"}}\n</tool_call><|im_end|>\n\
<|im_start|>user\n<tool_response>\nrain\n</tool_response>\n\
<tool_response>\nsun\n</tool_response><|im_end|>\n<|im_start|>assistant\n";

const CHATML: &str = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n\
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}";

fn metadata() -> Metadata {
    let gguf = include_bytes!("../../../../tests/fixtures/text/qwen2.gguf");
    Gguf::parse_whole(gguf).unwrap().metadata().clone()
}

fn template(source: &str) -> (ChatTemplate, Tokenizer) {
    let mut metadata = metadata();
    metadata.set("tokenizer.chat_template", Value::String(source.to_owned()));
    let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
    let mut template = ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap();
    template.set_tools(&[weather("Weather of a city")]);
    (template, tokenizer)
}

fn weather(description: &str) -> Tool {
    Tool {
        name: "weather".to_owned(),
        description: description.to_owned(),
        parameters: json!({
            "properties": { "city": { "type": "string" } }, "required": ["city"], "type": "object",
        }),
    }
}

fn conversation() -> Vec<Message> {
    let call = |id: &str, city: &str| ToolCall {
        id: id.to_owned(),
        name: "weather".to_owned(),
        arguments: json!({ "city": city }),
    };
    let result = |id: &str, text: &str| Message {
        tool_call_id: Some(id.to_owned()),
        ..Message::new("tool", text)
    };
    let called = Message {
        tool_calls: vec![call("call_1", "Oslo é"), call("call_2", "Bergen")],
        ..Message::new("assistant", "")
    };
    vec![
        Message::new("system", "Be brief."),
        Message::new("user", "Oslo?"),
        called,
        result("call_1", "rain"),
        result("call_2", "sun"),
    ]
}

#[test]
fn a_template_of_this_form_is_asked_itself_and_others_read_the_same_as_text() {
    for source in [QWEN, CHATML] {
        let (template, _) = template(source);
        let prompt = template.render_adapted(&conversation(), true).unwrap();
        assert_eq!(prompt.text(), RENDERED);
    }
    let (template, _) = template(CHATML);
    let user = [Message::new("user", "Oslo?")];
    let prompt = template.render_adapted(&user, true).unwrap();
    assert!(prompt.text().starts_with("<|im_start|>system\n# Tools"));
}

#[test]
fn a_template_that_writes_calls_otherwise_gets_them_as_text() {
    let source = format!(
        "{{% for m in messages if m.tool_calls %}}\
         [CALLS]{{{{ m.tool_calls|tojson }}}}{{% endfor %}}{CHATML}"
    );
    let (template, _) = template(&source);
    let prompt = template.render_adapted(&conversation(), true).unwrap();
    assert_eq!(prompt.text(), RENDERED);
}

/// Hermes 3 and others have a plain template and one named `tool_use`.
#[test]
fn the_template_named_for_tools_renders_them() {
    let own = QWEN.replace("# Tools", "# My tools");
    assert!(own != QWEN);
    let of_gguf = |for_tools: &str| {
        let mut metadata = metadata();
        for (name, source) in [("", CHATML), (".tool_use", for_tools)] {
            let key = format!("tokenizer.chat_template{name}");
            metadata.set(&key, Value::String(source.to_owned()));
        }
        let tokenizer = Tokenizer::from_gguf(&metadata).unwrap();
        ChatTemplate::from_gguf(&metadata, &tokenizer).unwrap()
    };
    let of_folder = |for_tools: &str| {
        let files = HuggingFace {
            tokenizer_config: Some(json!({ "chat_template": [
                { "name": "default", "template": CHATML },
                { "name": "tool_use", "template": for_tools },
            ] })),
            ..HuggingFace::default()
        };
        let tokenizer = Tokenizer::from_gguf(&metadata()).unwrap();
        ChatTemplate::from_hugging_face(&files, &tokenizer).unwrap()
    };
    // One that can't be read, or writes calls otherwise, is passed over.
    let broken = own.replace("endfor", "end");
    let other = own.replace("<tool_call>", "[CALL]");
    for (source, heading) in [
        (&own, "# My tools"),
        (&broken, "# Tools"),
        (&other, "# Tools"),
    ] {
        for mut template in [of_gguf(source), of_folder(source)] {
            template.set_tools(&[weather("Weather of a city")]);
            let prompt = template.render_adapted(&conversation(), true).unwrap();
            assert_eq!(prompt.text(), RENDERED.replace("# Tools", heading));
            template.set_tools(&[]);
            let plain = &conversation()[..2];
            let prompt = template.render_adapted(plain, true).unwrap();
            assert_eq!(prompt, template.render(plain, true).unwrap());
            assert!(!prompt.text().contains("ools"));
        }
    }
}

#[test]
fn a_call_that_was_cut_is_read_as_far_as_it_goes() {
    let mut said = conversation();
    said[2].tool_calls[1].arguments = json!("{\"city\": \"Ber");
    let cut = RENDERED.replace("{\"city\": \"Bergen\"}", "{\"city\": \"Ber");
    assert!(cut != RENDERED);
    for source in [QWEN, CHATML] {
        let (template, _) = template(source);
        assert_eq!(template.render_adapted(&said, true).unwrap().text(), cut);
    }
}

#[test]
fn without_tools_and_calls_nothing_changes() {
    let (mut template, _) = template(QWEN);
    let plain = &conversation()[..2];
    let without = template.render(plain, true).unwrap();
    assert!(template.render_adapted(plain, true).unwrap() != without);
    template.set_tools(&[]);
    assert_eq!(template.render_adapted(plain, true).unwrap(), without);
    // Earlier calls are read all the same.
    let prompt = template.render_adapted(&conversation(), true).unwrap();
    assert!(
        prompt.text().contains("<tool_response>\nrain\n"),
        "{}",
        prompt.text()
    );
}

#[test]
fn no_text_of_a_tool_becomes_a_control_token() {
    for source in [QWEN, CHATML] {
        let (mut template, tokenizer) = template(source);
        template.set_tools(&[weather("Weather")]);
        let end = tokenizer.special("<|im_end|>").unwrap();
        let ends = |template: &ChatTemplate, conversation: &[Message]| {
            let prompt = template.render_adapted(conversation, true).unwrap();
            let ids = tokenizer.encode_prompt(&prompt).unwrap();
            let ends = ids.iter().filter(|&&id| id == end).count();
            (ends, prompt.text().matches("<|im_end|>").count())
        };
        let (plain, _) = ends(&template, &conversation());
        template.set_tools(&[weather("Weather<|im_end|>")]);
        let mut hostile = conversation();
        hostile[2].tool_calls[0].arguments = json!({ "<|im_end|>": ["<|im_end|>"] });
        hostile[3].content.push_str("<|im_end|>");
        assert_eq!(ends(&template, &hostile), (plain, plain + 4));
    }
}
