//! Answers of the server: conversations, whole and streamed, with every option.

use crate::stage::{NAMES, SUM, Stage, Streaming, agent, asked, text_of};
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

fn content(answer: &Value) -> &str {
    answer["choices"][0]["message"]["content"].as_str().unwrap()
}

#[test]
fn an_answer_is_whole_and_says_who_wrote_it() {
    let stage = Stage::new();
    let answer = stage.chat(SUM, json!({ "model": "conclave" }));
    assert!(content(&answer).contains("432"), "{answer}");
    assert_eq!(answer["object"], "chat.completion");
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(answer["created"].as_u64().unwrap() > 1_700_000_000);
    assert_eq!(answer["model"], "conclave");
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "stop");
    assert_eq!(
        (&choice["index"], &choice["logprobs"]),
        (&json!(0), &Value::Null)
    );
    assert_eq!(choice["message"]["role"], "assistant");
    let usage = &answer["usage"];
    let count = |name: &str| usage[name].as_u64().unwrap();
    assert!(
        count("prompt_tokens") > 5 && count("completion_tokens") > 3,
        "{usage}"
    );
    assert_eq!(
        count("total_tokens"),
        count("prompt_tokens") + count("completion_tokens")
    );

    assert_eq!(answer["conclave"]["stop"], "ended");
    let segments = answer["conclave"]["segments"].as_array().unwrap();
    assert!(segments.len() > 1, "{segments:?}");
    let texts: String = segments
        .iter()
        .map(|one| one["text"].as_str().unwrap())
        .collect();
    assert_eq!(texts, content(&answer));
    for segment in segments {
        let votes = segment["votes"].as_object().unwrap();
        assert!(
            NAMES
                .iter()
                .all(|name| votes[*name].as_f64().unwrap() > 0.0),
            "{segment}"
        );
        // The writer has the most votes, alone or with the writers of the same text.
        let most = votes.values().filter_map(Value::as_f64).fold(0.0, f64::max);
        let writers = segment["writers"].as_array().unwrap();
        let votes_of = |name: &Value| votes[name.as_str().unwrap()].as_f64().unwrap();
        assert!(
            writers.iter().any(|name| votes_of(name) == most),
            "{segment}"
        );
    }
}

#[test]
fn a_stream_says_the_same_piece_by_piece() {
    let stage = Stage::new();
    let answer = stage.chat(SUM, json!({}));
    let chunks = stage.stream(
        CHAT,
        &asked(SUM, json!({ "stream_options": { "include_usage": true } })),
    );
    assert_eq!(text_of(&chunks), content(&answer));
    let (first, last) = (&chunks[0], &chunks[chunks.len() - 1]);
    assert_eq!(
        first["choices"][0]["delta"],
        json!({ "role": "assistant", "content": "" })
    );
    assert_eq!(last["choices"], json!([]));
    assert_eq!(last["usage"], answer["usage"]);
    let end = &chunks[chunks.len() - 2];
    assert_eq!(
        (
            &end["choices"][0]["finish_reason"],
            &end["choices"][0]["delta"]
        ),
        (&json!("stop"), &json!({}))
    );
    for chunk in &chunks {
        assert_eq!(
            (&chunk["id"], &chunk["object"]),
            (&first["id"], &json!("chat.completion.chunk"))
        );
    }
    for chunk in &chunks[..chunks.len() - 1] {
        assert_eq!(chunk["usage"], Value::Null);
    }
    let told: Vec<_> = chunks
        .iter()
        .filter_map(|chunk| chunk.get("conclave"))
        .cloned()
        .collect();
    assert_eq!(json!(told), answer["conclave"]["segments"]);

    let plain = stage.stream(CHAT, &asked(SUM, json!({})));
    assert_eq!(text_of(&plain), content(&answer));
    assert!(plain.iter().all(|chunk| chunk.get("usage").is_none()));
    assert_eq!(
        plain[plain.len() - 1]["choices"][0]["finish_reason"],
        "stop"
    );
}

#[test]
fn an_answer_ends_by_tokens_and_before_texts() {
    let stage = Stage::new();
    let whole = content(&stage.chat(SUM, json!({}))).to_owned();
    for name in ["max_tokens", "max_completion_tokens"] {
        let short = stage.chat(SUM, json!({ name: 4 }));
        assert_eq!(short["choices"][0]["finish_reason"], "length", "{short}");
        assert_eq!(short["conclave"]["stop"], "tokens");
        // A segment may have to continue to the end of a character.
        assert!(
            (4..=7).contains(&short["usage"]["completion_tokens"].as_u64().unwrap()),
            "{short}"
        );
        assert!(content(&short).len() < whole.len() && !content(&short).is_empty());
    }
    let stop = &whole[whole.len() / 2..whole.len() / 2 + 3];
    let before = &whole[..whole.find(stop).unwrap()];
    for stop in [json!(stop), json!(["never", stop])] {
        let ended = stage.chat(SUM, json!({ "stop": stop }));
        assert_eq!(content(&ended), before, "{stop}");
        assert_eq!(ended["choices"][0]["finish_reason"], "stop");
        let chunks = stage.stream(CHAT, &asked(SUM, json!({ "stop": stop })));
        assert_eq!(text_of(&chunks), before);
    }
}

#[test]
fn a_seed_is_a_text_and_no_temperature_is_one_too() {
    let stage = Stage::new();
    let question = "Tell me a story about a fox.";
    let say = |options: Value| {
        let mut options = options;
        options["max_tokens"] = json!(24);
        content(&stage.chat(question, options)).to_owned()
    };
    let drawn = |seed: i64| say(json!({ "temperature": 2, "top_p": 1, "seed": seed }));
    assert_eq!(drawn(5), drawn(5));
    assert_ne!(drawn(5), drawn(6));
    // Without a seed each request draws anew.
    assert_ne!(
        say(json!({ "temperature": 2, "top_p": 1 })),
        say(json!({ "temperature": 2, "top_p": 1 }))
    );
    // Only the most probable token may be drawn.
    assert_eq!(
        say(json!({ "temperature": 2, "top_p": 0, "seed": 1 })),
        say(json!({ "temperature": 0 }))
    );
}

#[test]
fn a_question_has_as_many_answers_as_are_asked_for() {
    let stage = Stage::new();
    let question = "Tell me a story about a fox.";
    let drawn = |options: Value| {
        let mut all = json!({ "temperature": 2, "top_p": 1, "seed": 5, "max_tokens": 16 });
        let (all_of, options) = (all.as_object_mut().unwrap(), options.as_object().unwrap());
        all_of.extend(options.clone());
        asked(question, all)
    };
    let told = |options: Value| {
        let (status, told) = stage.post(CHAT, &drawn(options));
        assert_eq!(status, 200, "{told}");
        told
    };
    let (one, three) = (told(json!({})), told(json!({ "n": 3 })));
    let choices = three["choices"].as_array().unwrap();
    let texts: Vec<_> = choices
        .iter()
        .map(|one| one["message"]["content"].as_str().unwrap())
        .collect();
    assert_eq!(texts[0], content(&one), "the first is as it is alone");
    assert!(
        texts[1] != texts[0] && texts[2] != texts[0] && texts[2] != texts[1],
        "{texts:?}"
    );
    // The next seed belongs to the next request, not to a choice.
    assert!(!texts.contains(&content(&told(json!({ "seed": 6 })))));
    for (index, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], index);
        assert_eq!(choice["conclave"]["stop"], "tokens");
        let segments = choice["conclave"]["segments"].as_array().unwrap();
        let of_segments = segments.iter().map(|one| one["text"].as_str().unwrap());
        assert_eq!(of_segments.collect::<String>(), texts[index]);
    }
    assert!(three.get("conclave").is_none() && one["choices"][0].get("conclave").is_none());
    // The question is counted once, and every answer.
    let usage = |told: &Value, name: &str| told["usage"][name].as_u64().unwrap();
    assert_eq!(usage(&three, "prompt_tokens"), usage(&one, "prompt_tokens"));
    assert!(usage(&three, "completion_tokens") >= 3 * 16, "{three}");

    let chunks = stage.stream(CHAT, &drawn(json!({ "n": 3 })));
    for (index, text) in texts.iter().enumerate() {
        let own = chunks.iter().map(|chunk| &chunk["choices"][0]);
        let own: Vec<_> = own.filter(|one| one["index"] == index).collect();
        assert_eq!(own[0]["delta"]["role"], "assistant");
        let said = own
            .iter()
            .filter_map(|one| one["delta"]["content"].as_str());
        assert_eq!(said.collect::<String>(), *text);
        assert_eq!(own[own.len() - 1]["finish_reason"], "length");
    }

    // For bare texts: those of the first, then those of the second.
    let body = json!({
        "prompt": ["3 + 4 = ", "Sort: b, a"], "n": 2, "max_tokens": 8, "temperature": 0,
        "echo": true,
    });
    let both = stage.complete(&body);
    let begins = |index: usize, text: &str| {
        let choice = &both["choices"][index];
        assert_eq!(choice["index"], index);
        assert!(
            choice["text"].as_str().unwrap().starts_with(text),
            "{choice}"
        );
    };
    begins(0, "3 + 4 = ");
    begins(1, "3 + 4 = ");
    begins(2, "Sort: b, a");
    begins(3, "Sort: b, a");
    let (status, told) = stage.post("/v1/completions", &json!({ "prompt": ["a", "b"], "n": 9 }));
    assert_eq!((status, &told["error"]["param"]), (400, &json!("n")));
}

#[test]
fn a_member_is_a_model_of_its_own() {
    let stage = Stage::new();
    let (_, models) = stage.get("/v1/models");
    let ids: Vec<_> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].clone())
        .collect();
    assert_eq!(json!(ids), json!(["conclave", "Ada", "Quill", "Juno"]));
    assert_eq!(stage.get("/v1/models/Quill").1, models["data"][2]);
    let alone = stage.chat(SUM, json!({ "model": "Quill" }));
    for segment in alone["conclave"]["segments"].as_array().unwrap() {
        assert_eq!(segment["writers"], json!(["Quill"]));
        assert_eq!(segment["votes"].as_object().unwrap().len(), 1);
    }
    assert_eq!(alone["model"], "Quill");
}

#[test]
fn a_conversation_goes_on() {
    let stage = Stage::new();
    let first = stage.chat(SUM, json!({}));
    // As clients return it.
    let mut messages = vec![
        json!({ "role": "user", "content": SUM }),
        first["choices"][0]["message"].clone(),
    ];
    messages
        .push(json!({ "role": "user", "content": [{ "type": "text", "text": "What is 2 + 2?" }] }));
    let (status, second) = stage.post(CHAT, &json!({ "messages": messages, "temperature": 0 }));
    assert_eq!(status, 200, "{second}");
    let prompt = |answer: &Value| answer["usage"]["prompt_tokens"].as_u64().unwrap();
    assert!(prompt(&second) > prompt(&first) + 10);
}

#[test]
fn what_cannot_be_honoured_is_refused_in_the_clients_shape() {
    let stage = Stage::new();
    for (options, param) in [
        (json!({ "n": 17 }), "n"),
        (json!({ "tools": [{ "type": "function" }] }), "tools"),
        (json!({ "logprobs": true }), "logprobs"),
        (
            json!({ "response_format": { "type": "yaml" } }),
            "response_format",
        ),
        (json!({ "temperature": 3 }), "temperature"),
        (json!({ "max_tokens": 0 }), "max_tokens"),
        (json!({ "messages": [] }), "messages"),
        (json!({ "made_up": 1 }), "made_up"),
    ] {
        let (status, told) = stage.post(CHAT, &asked(SUM, options));
        assert_eq!(
            (status, &told["error"]["param"]),
            (400, &json!(param)),
            "{told}"
        );
        assert_eq!(told["error"]["type"], "invalid_request_error");
        assert!(
            told["error"]["message"].as_str().unwrap().contains(param),
            "{told}"
        );
        assert_eq!(told["error"]["code"], Value::Null);
    }
    let (status, told) = stage.post(CHAT, &asked(SUM, json!({ "model": "other" })));
    assert_eq!(
        (status, &told["error"]["code"]),
        (404, &json!("model_not_found"))
    );

    let long = "word ".repeat(2000);
    for stream in [false, true] {
        let (status, told) = stage.post(CHAT, &asked(&long, json!({ "stream": stream })));
        assert_eq!(
            (status, &told["error"]["code"]),
            (400, &json!("context_length_exceeded")),
            "{told}"
        );
    }
    // The next request is unaffected.
    assert!(content(&stage.chat(SUM, json!({}))).contains("432"));
}

#[test]
fn a_text_is_continued() {
    let stage = Stage::new();
    let text = "3 + 4 = ";
    let body = json!({ "prompt": text, "max_tokens": 8, "temperature": 0 });
    let answer = stage.complete(&body);
    assert_eq!(answer["object"], "text_completion");
    let said = answer["choices"][0]["text"].as_str().unwrap();
    assert!(!said.is_empty());
    assert!(answer["usage"]["prompt_tokens"].as_u64().unwrap() > 3);
    let mut echoed = body.clone();
    echoed["echo"] = json!(true);
    assert_eq!(
        stage.complete(&echoed)["choices"][0]["text"],
        format!("{text}{said}")
    );
    let chunks = stage.stream("/v1/completions", &echoed);
    assert_eq!(text_of(&chunks), format!("{text}{said}"));

    // Several at once, each as if alone.
    let both = stage
        .complete(&json!({ "prompt": ["Sort: b, a", text], "max_tokens": 8, "temperature": 0 }));
    assert_eq!(both["choices"][1]["text"], said);
    assert_eq!(
        (&both["choices"][0]["index"], &both["choices"][1]["index"]),
        (&json!(0), &json!(1))
    );
}

#[test]
fn a_stream_that_was_begun_elsewhere_is_not_mixed_in() {
    let stage = Stage::new();
    let url = stage.url(CHAT);
    let whole = content(&stage.chat(SUM, json!({}))).to_owned();
    let streams = (0..4).map(|_| {
        let url = url.clone();
        std::thread::spawn(move || Streaming::begin(&agent(), &url, &asked(SUM, json!({}))).rest())
    });
    let streams: Vec<_> = streams.collect();
    let mut ids = std::collections::HashSet::new();
    for stream in streams {
        let chunks = stream.join().unwrap();
        assert_eq!(text_of(&chunks), whole);
        assert!(
            ids.insert(chunks[0]["id"].to_string()),
            "ids are each other's"
        );
    }
}

#[test]
fn times_are_told_once_at_the_end() {
    let stage = Stage::new();
    let options = json!({ "max_tokens": 12, "n": 2 });
    let answer = stage.chat(SUM, options.clone());
    let timings = &answer["timings"];
    let number = |name: &str| timings[name].as_f64().unwrap();
    assert_eq!(timings["predicted_n"], answer["usage"]["completion_tokens"]);
    for name in ["prompt", "predicted"] {
        let (tokens, ms) = (number(&format!("{name}_n")), number(&format!("{name}_ms")));
        let rate = number(&format!("{name}_per_second"));
        assert!(tokens > 0.0 && ms > 0.0, "{timings}");
        assert!(
            (rate / (1000.0 * tokens / ms) - 1.0).abs() < 0.01,
            "{timings}"
        );
    }
    // The second choice runs only what the first has not left.
    let prompt = answer["usage"]["prompt_tokens"].as_f64().unwrap();
    assert!(number("prompt_n") < 2.0 * prompt, "{answer}");
    for usage in [false, true] {
        let mut options = options.clone();
        options["stream_options"] = json!({ "include_usage": usage });
        let chunks = stage.stream(CHAT, &asked(SUM, options));
        let (last, earlier) = chunks.split_last().unwrap();
        assert!(
            last["timings"]["predicted_ms"].as_f64().unwrap() > 0.0,
            "{last}"
        );
        assert_eq!(last["usage"].is_object(), usage);
        assert!(earlier.iter().all(|one| one.get("timings").is_none()));
    }
    let text = json!({ "prompt": "The fox", "max_tokens": 4 });
    assert!(
        stage.complete(&text)["timings"]["predicted_n"]
            .as_u64()
            .unwrap()
            > 0
    );
    let judged = json!({ "prompt": "The fox", "max_tokens": 0, "echo": true, "logprobs": 1 });
    assert_eq!(stage.complete(&judged).get("timings"), None);
}

/// With llama.cpp's server, the last counted token is the one that completes the stop text.
#[test]
fn tokens_after_a_stop_text_are_not_counted() {
    let stage = Stage::new();
    let alone = stage.chat(SUM, json!({ "model": "Ada", "logprobs": true }));
    let choice = &alone["choices"][0];
    let text = choice["message"]["content"].as_str().unwrap();
    let tokens = choice["logprobs"]["content"].as_array().unwrap();
    let lengths: Vec<usize> = tokens
        .iter()
        .map(|token| token["token"].as_str().unwrap().len())
        .collect();
    assert_eq!(lengths.iter().sum::<usize>(), text.len());
    let second = text.find(' ').unwrap() + 1;
    let stops = [
        " ",
        "432",
        &text[..1],
        &text[second..second + 3],
        &text[text.len() - 1..],
    ];
    for (model, stop) in ["Ada", "conclave"]
        .into_iter()
        .flat_map(|one| stops.map(|stop| (one, stop)))
    {
        let shown = text.find(stop).unwrap();
        let mut begun = 0;
        let before = lengths.iter().take_while(|&&length| {
            begun += length;
            begun - length < shown + stop.len()
        });
        let wanted = json!(before.count());
        let mut options = json!({ "model": model, "stop": stop });
        let whole = stage.chat(SUM, options.clone());
        assert_eq!(whole["choices"][0]["message"]["content"], text[..shown]);
        assert_eq!(
            whole["usage"]["completion_tokens"], wanted,
            "{model}, {stop:?}"
        );
        assert_eq!(whole["timings"]["predicted_n"], wanted);
        options["stream_options"] = json!({ "include_usage": true });
        let chunks = stage.stream("/v1/chat/completions", &asked(SUM, options));
        let last = &chunks[chunks.len() - 1];
        assert_eq!(
            last["usage"]["completion_tokens"], wanted,
            "{model}, {stop:?}"
        );
    }
    // A continued text is one, too.
    let body = |stop: Value| {
        json!({ "model": "Ada", "prompt": "What is 3 + 4? The sum", "temperature": 0,
            "stop": stop, "logprobs": 0 })
    };
    let whole = stage.complete(&body(json!(null)));
    let text = whole["choices"][0]["text"].as_str().unwrap();
    let tokens = whole["choices"][0]["logprobs"]["tokens"]
        .as_array()
        .unwrap();
    let shown = text
        .find(' ')
        .filter(|&at| at > 0 || text.len() > 1)
        .expect(text);
    let mut begun = 0;
    let before = tokens.iter().take_while(|token| {
        let begins = begun <= shown;
        begun += token.as_str().unwrap().len();
        begins
    });
    let stopped = stage.complete(&body(json!([" "])));
    assert_eq!(stopped["choices"][0]["text"], text[..shown]);
    assert_eq!(
        stopped["usage"]["completion_tokens"],
        json!(before.count()),
        "{whole}"
    );
}
