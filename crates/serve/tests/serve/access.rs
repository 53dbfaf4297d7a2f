//! Access checks, and other requests that are not answered.

use crate::stage::{SUM, Stage, agent, asked, config, read};
use conclave_serve::Config;
use serde_json::{Value, json};

const CHAT: &str = "/v1/chat/completions";

#[test]
fn who_has_the_key_is_answered() {
    let key = Some("the right one".replace(' ', "-"));
    let stage = Stage::with(Config { key, ..config() });
    let ask = |authorization: Option<&str>| {
        let mut request = agent().get(stage.url("/v1/models"));
        if let Some(authorization) = authorization {
            request = request.header("authorization", authorization);
        }
        request.call().unwrap()
    };
    for wrong in [
        None,
        Some("Bearer "),
        Some("Bearer the-wrong-one"),
        Some("Bearer the-right-one-and-more"),
        Some("Bearer the-right"),
        Some("the-right-one"),
        Some("Basic the-right-one"),
    ] {
        let response = ask(wrong);
        assert_eq!(response.headers()["www-authenticate"], "Bearer");
        let (status, told) = read(response);
        assert_eq!(
            (status, &told["error"]["code"]),
            (401, &json!("invalid_api_key")),
            "{wrong:?}"
        );
    }
    assert_eq!(ask(Some("Bearer the-right-one")).status(), 200);
    assert_eq!(ask(Some("bearer the-right-one")).status(), 200);
    for (key, status) in [("the-right-one", 200), ("the-wrong-one", 401)] {
        let request = agent().get(stage.url("/v1/models"));
        let request = request.header("x-api-key", key);
        assert_eq!(request.call().unwrap().status(), status);
    }
    // Without a key every other path gives 401, whether it exists or not; only health is public.
    assert_eq!(stage.post(CHAT, &asked(SUM, json!({}))).0, 401);
    assert_eq!(stage.get("/v1/nothing").0, 401);
    assert_eq!(
        stage.get("/health"),
        (200, json!({ "status": "ok", "busy": false, "waiting": 0 }))
    );
}

#[test]
fn pages_ask_from_origins_that_were_named() {
    const OWN: &str = "http://localhost:5173";
    let origins = vec![OWN.to_owned()];
    let key = Some("a-key-it-is".to_owned());
    let named = Stage::with(Config {
        origins,
        key,
        ..config()
    });
    let none = Stage::new();
    let origins = ["http://127.0.0.1:*", "vscode-webview://*", "null"];
    let patterns = Stage::with(Config {
        origins: origins.map(str::to_owned).to_vec(),
        ..config()
    });
    let ask = |stage: &Stage, origin: &str| {
        let request = agent()
            .get(stage.url("/v1/models"))
            .header("origin", origin);
        request
            .header("authorization", "Bearer a-key-it-is")
            .call()
            .unwrap()
    };
    let allowed = ask(&named, OWN);
    assert_eq!(allowed.status(), 200);
    assert_eq!(allowed.headers()["access-control-allow-origin"], OWN);
    for (stage, origin) in [
        (&named, "http://localhost:5174"),
        (&named, "null"),
        (&none, OWN),
    ] {
        let refused = ask(stage, origin);
        assert!(
            refused
                .headers()
                .get("access-control-allow-origin")
                .is_none()
        );
        assert_eq!(read(refused).1["error"]["code"], "origin_not_allowed");
    }
    for origin in ["http://127.0.0.1:5173", "vscode-webview://1a2b", "null"] {
        let allowed = ask(&patterns, origin);
        assert_eq!(allowed.status(), 200, "{origin}");
        assert_eq!(allowed.headers()["access-control-allow-origin"], origin);
    }
    assert_eq!(ask(&patterns, "http://localhost:5173").status(), 403);
    // A browser's preflight request has no key.
    let request = ureq::http::Request::options(named.url(CHAT))
        .header("origin", OWN)
        .header("access-control-request-method", "POST")
        .header(
            "access-control-request-headers",
            "authorization,content-type,x-stainless-os",
        )
        .body(())
        .unwrap();
    let preflight = agent().run(request).unwrap();
    assert_eq!(preflight.status(), 200);
    assert_eq!(preflight.headers()["access-control-allow-origin"], OWN);
    let allowed = preflight.headers()["access-control-allow-headers"]
        .to_str()
        .unwrap();
    assert!(
        allowed.contains("authorization") && allowed.contains("x-stainless-os"),
        "{allowed}"
    );
}

#[test]
fn what_is_no_request_is_told_so() {
    let stage = Stage::new();
    let send = |kind: &str, body: String| {
        let request = agent().post(stage.url(CHAT)).header("content-type", kind);
        read(request.send(body).unwrap())
    };
    let body = asked(SUM, json!({})).to_string();
    for (kind, body, status, word) in [
        // Requests that a page may send without preflight.
        ("text/plain", body.clone(), 415, "JSON"),
        ("application/x-www-form-urlencoded", body, 415, "JSON"),
        ("application/json", "{".to_owned(), 400, "no JSON"),
        (
            "application/json; charset=utf-8",
            "[]".to_owned(),
            400,
            "object",
        ),
        ("application/json", "[".repeat(100_000), 400, "no JSON"),
        ("application/json", " ".repeat((4 << 20) + 1), 413, "bytes"),
    ] {
        let (found, told) = send(kind, body);
        assert_eq!(found, status, "{told}");
        assert!(
            told["error"]["message"].as_str().unwrap().contains(word),
            "{told}"
        );
    }
    let (status, told) = stage.get("/v1/images");
    assert_eq!((status, &told["error"]["code"]), (404, &json!("not_found")));
    let (status, told) = stage.get(CHAT);
    assert_eq!(
        (status, &told["error"]["code"]),
        (405, &json!("method_not_allowed"))
    );
    let (status, told) = stage.get("/v1/models/other");
    assert_eq!(
        (status, &told["error"]["code"]),
        (404, &json!("model_not_found"))
    );
    assert_eq!(told["error"]["param"], Value::Null);
}

#[test]
fn every_error_is_an_object() {
    let stage = Stage::new();
    let ask = |method: &str, path: &str| {
        let request = ureq::http::Request::builder().method(method);
        let request = request.uri(stage.url(path)).body(()).unwrap();
        agent().run(request).unwrap()
    };
    for (method, path, wanted) in [
        ("GET", "/v1/models/%ff%00", 404),
        ("GET", "/v1/models/%00", 404),
        ("GET", "/v1/models/", 404),
        ("GET", "/%ff", 404),
        ("GET", "/health/", 404),
        ("DELETE", "/v1/models/Ada", 405),
        ("DELETE", "/health", 405),
        ("GET", CHAT, 405),
        ("GET", "/v1/embeddings", 405),
        ("OPTIONS", CHAT, 405),
        ("POST", CHAT, 415),
        ("POST", "/apply-template", 415),
        ("PUT", "/nowhere", 404),
    ] {
        let response = ask(method, path);
        let place = format!("{method} {path}");
        assert_eq!(
            response.headers()["content-type"],
            "application/json",
            "{place}"
        );
        assert_eq!(
            response.headers().contains_key("allow"),
            wanted == 405,
            "{place}"
        );
        let (status, told) = read(response);
        assert_eq!(status, wanted, "{place}: {told}");
        let error = &told["error"];
        assert_eq!(error["type"], "invalid_request_error", "{place}: {told}");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|text| text.len() > 10),
            "{place}: {told}"
        );
    }
}

#[test]
fn a_compressed_body_is_refused_as_such() {
    let stage = Stage::new();
    let body = asked(SUM, json!({ "max_tokens": 1 })).to_string();
    let send = |coding: &str, body: &[u8]| {
        let request = agent()
            .post(stage.url(CHAT))
            .header("content-type", "application/json");
        read(
            request
                .header("content-encoding", coding)
                .send(body)
                .unwrap(),
        )
    };
    for coding in ["gzip", "br", "deflate, gzip"] {
        let (status, told) = send(coding, b"\x1f\x8b\x08\0\0\0\0\0");
        assert_eq!(status, 415, "{told}");
        let message = told["error"]["message"].as_str().unwrap();
        assert!(
            message.contains(coding) && message.contains("Content-Encoding"),
            "{message}"
        );
    }
    assert_eq!(send("identity", body.as_bytes()).0, 200);
}

#[test]
fn a_request_may_have_many_headers() {
    let stage = Stage::new();
    let status = |count: usize| {
        let request = agent().get(stage.url("/v1/models"));
        let request = (0..count).fold(request, |request, number| {
            request.header(format!("x-hop-{number}"), "1")
        });
        read(request.call().unwrap()).0
    };
    assert_eq!((status(101), status(900), status(1001)), (200, 200, 431));
}
