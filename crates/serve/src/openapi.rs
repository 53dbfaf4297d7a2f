//! The OpenAPI document of the interface. It describes what the server honours; the many options
//! that it accepts from other dialects are left open.

use conclave_model::SAMPLING_OPTIONS;
use serde_json::{Map, Value, json};

use crate::embeddings::MOST_TEXTS;
use crate::endpoints::{ENDPOINTS, Endpoint};
use crate::options::MOST_CHOICES;

/// Returns the document of a server with these models, the ensemble's first; `key` says whether it
/// has one.
pub(crate) fn document(models: &[String], key: bool) -> Value {
    let mut paths = Map::new();
    for endpoint in ENDPOINTS {
        let operations = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        let mut operation = operation(endpoint);
        if !key || endpoint.path == "/health" {
            operation["security"] = json!([]);
        }
        operations[endpoint.method.to_lowercase()] = operation;
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "conclave serve",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "An ensemble of small language models with OpenAI's interface.",
        },
        "security": [{ "key": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "key": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas(models),
        },
    })
}

fn operation(endpoint: Endpoint) -> Value {
    let schema = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let body = |schema: &Value| json!({ "application/json": { "schema": schema } });
    let (request, reply) = match endpoint.path {
        "/v1/chat/completions" => (Some("ChatRequest"), "ChatReply"),
        "/v1/completions" => (Some("TextRequest"), "TextReply"),
        "/v1/responses" => (Some("ResponseRequest"), "ResponseReply"),
        "/v1/embeddings" => (Some("EmbeddingRequest"), "EmbeddingReply"),
        "/apply-template" => (Some("RenderRequest"), "RenderReply"),
        "/v1/models" => (None, "Models"),
        "/v1/models/{name}" => (None, "Model"),
        "/openapi.json" => (None, "Document"),
        "/health" => (None, "Health"),
        _ => (None, ""),
    };
    let mut content = match reply {
        "" => json!({ "application/openmetrics-text": { "schema": { "type": "string" } } }),
        reply => body(&schema(reply)),
    };
    let streams = matches!(reply, "ChatReply" | "TextReply" | "ResponseReply");
    if streams {
        // Until OpenAPI 3.2 the schema of a stream is that of each event.
        let text = json!({ "type": "string" });
        let event = object(&["data"], json!({ "event": text, "data": text }));
        content["text/event-stream"] = json!({ "schema": event });
    }
    let error = json!({ "description": "The reason, in words", "content": body(&schema("Error")) });
    let mut operation = json!({
        "summary": endpoint.summary,
        "responses": {
            "200": { "description": endpoint.summary, "content": content },
            "default": error,
        },
    });
    if let Some(request) = request {
        operation["requestBody"] = json!({ "required": true, "content": body(&schema(request)) });
    }
    if endpoint.path.contains("{name}") {
        operation["parameters"] = json!([
            { "name": "name", "in": "path", "required": true,
              "schema": { "type": "string", "minLength": 1 } },
        ]);
    }
    operation
}

/// Schema of an object with these fields.
fn object(required: &[&str], properties: Value) -> Value {
    json!({ "type": "object", "required": required, "properties": properties })
}

/// Schema of a request with these fields: those that it may leave out may be `null`.
fn request(required: &[&str], mut properties: Value) -> Value {
    for (name, schema) in properties.as_object_mut().into_iter().flatten() {
        if required.contains(&name.as_str()) {
            continue;
        }
        for (kind, null) in [("enum", Value::Null), ("anyOf", json!({ "type": "null" }))] {
            if let Some(Value::Array(either)) = schema.get_mut(kind) {
                either.push(null);
            }
        }
        if let Some(kind) = schema.get_mut("type") {
            *kind = json!([kind, "null"]);
        }
    }
    object(required, properties)
}

/// Schema of a message: only what answers and results have may be left out.
fn message() -> Value {
    let text = json!({ "type": "string" });
    let words = json!({ "type": ["string", "null"] });
    let part = object(
        &["text"],
        json!({ "type": { "enum": ["text", "input_text", "output_text"] }, "text": words }),
    );
    let content = json!({ "anyOf": [
        words, part, { "type": "array", "items": { "anyOf": [text, part] } },
    ] });
    json!({ "anyOf": [
        object(&["role", "content"], json!({
            "role": { "enum": ["system", "developer", "user"] }, "content": content,
        })),
        object(&["role"], json!({
            "role": { "const": "assistant" }, "content": content,
            "tool_calls": { "type": ["array", "null"], "items": { "type": "object" } },
        })),
        object(&["role"], json!({ "role": { "enum": ["tool", "function"] } })),
    ] })
}

/// Schema of a limit of tokens; −1 and −2 are none.
fn tokens(least: u32) -> Value {
    json!({ "anyOf": [{ "type": "integer", "minimum": least }, { "enum": [-1, -2] }] })
}

/// Adds the options of every endpoint that answers.
fn answering(models: &[String], required: &[&str], own: Value) -> Value {
    let mut properties = json!({
        "model": {
            "enum": models, "description": "`conclave` for all members, or a member's name",
        },
        "seed": { "type": "integer", "description": "-1 for any" },
        "stream": { "type": "boolean" },
        "user": { "type": "string", "maxLength": 64 },
    });
    if let (Some(all), Value::Object(own)) = (properties.as_object_mut(), own) {
        all.extend(SAMPLING_OPTIONS.iter().map(|option| {
            let schema = if option.is_whole() {
                json!({ "type": "integer", "minimum": -1, "description": option.help })
            } else {
                json!({
                    "type": "number", "minimum": 0, "maximum": option.usual,
                    "description": option.help,
                })
            };
            (option.name.to_owned(), schema)
        }));
        all.extend(own);
    }
    request(required, properties)
}

fn schemas(models: &[String]) -> Value {
    let answering = |required: &[&str], own: Value| answering(models, required, own);
    let flag = json!({ "type": "boolean" });
    let text = json!({ "type": "string" });
    let count = json!({ "type": "integer", "minimum": 0 });
    let any = json!({ "type": "object" });
    let limit = json!({ "type": "integer", "minimum": 1 });
    let name = json!({ "type": "string", "pattern": "^[A-Za-z0-9_.:/-]{1,128}$" });
    let answers = json!({ "type": "integer", "minimum": 1, "maximum": MOST_CHOICES });
    let stop = json!({ "anyOf": [
        { "type": "string", "maxLength": 256 },
        { "type": "array", "maxItems": 16, "items": { "type": "string", "maxLength": 256 } },
    ] });
    let choice =
        json!({ "anyOf": [{ "enum": ["none", "auto", "required"] }, { "type": "object" }] });
    let messages = json!({
        "type": "array", "minItems": 1, "items": { "$ref": "#/components/schemas/Message" },
    });
    let tools = json!({
        "type": "array", "maxItems": 128,
        "items": object(&["type", "function"], json!({
            "type": { "const": "function" },
            "function": object(&["name"], json!({
                "name": name, "description": text, "parameters": any, "strict": flag,
            })),
        })),
    });
    let response_tools = json!({
        "type": "array", "maxItems": 128,
        "items": object(&["type", "name"], json!({
            "type": { "const": "function" }, "name": name, "description": text,
            "parameters": any, "strict": flag,
        })),
    });
    let passage = json!({ "type": "string", "minLength": 1 });
    let ids = json!({
        "type": "array", "minItems": 1,
        "items": { "type": "integer", "minimum": 0, "maximum": u32::MAX },
    });
    let usage = |names: &[&str]| {
        let fields = names.iter().map(|name| ((*name).to_owned(), count.clone()));
        object(names, Value::Object(fields.collect()))
    };
    let used = usage(&["prompt_tokens", "completion_tokens", "total_tokens"]);
    let reply = |object_name: &str, choice: Value| {
        object(
            &["id", "object", "created", "model", "choices", "usage"],
            json!({
                "id": text, "object": { "const": object_name }, "created": count, "model": text,
                "choices": { "type": "array", "items": choice }, "usage": used, "timings": any,
                "conclave": any,
            }),
        )
    };
    let finish = json!({ "enum": ["stop", "length", "tool_calls", "function_call"] });
    json!({
        "Message": message(),
        "ChatRequest": answering(&["messages"], json!({
            "messages": messages, "max_tokens": tokens(1), "max_completion_tokens": tokens(1),
            "n_predict": tokens(1), "n": answers,
            "stop": stop, "tools": tools, "tool_choice": choice, "parallel_tool_calls": flag,
            "logprobs": flag, "top_logprobs": { "type": "integer", "minimum": 0, "maximum": 20 },
            "response_format": any,
        })),
        "ChatReply": reply("chat.completion", object(&["index", "message", "finish_reason"], json!({
            "index": count, "finish_reason": finish,
            "message": object(&["role", "content"], json!({
                "role": { "const": "assistant" },
                "content": { "type": ["string", "null"] },
                "tool_calls": {
                    "type": "array",
                    "items": object(&["id", "type", "function"], json!({
                        "id": text, "type": { "const": "function" },
                        "function": object(&["name", "arguments"], json!({
                            "name": text, "arguments": text,
                        })),
                    })),
                },
            })),
            "logprobs": { "type": ["object", "null"] },
        }))),
        "TextRequest": answering(&["prompt"], json!({
            "prompt": { "anyOf": [
                passage,
                { "type": "array", "minItems": 1, "maxItems": MOST_CHOICES, "items": passage },
            ] },
            "max_tokens": tokens(0), "n_predict": tokens(0), "n": answers, "stop": stop,
            "echo": flag,
            "logprobs": { "type": "integer", "minimum": 0, "maximum": 1 },
        })),
        "TextReply": reply("text_completion", object(&["index", "text", "finish_reason"], json!({
            "index": count, "text": text, "finish_reason": finish,
            "logprobs": { "type": ["object", "null"] },
        }))),
        "ResponseRequest": answering(&["input"], json!({
            "input": { "anyOf": [text, { "type": "array", "minItems": 1, "items": any }] },
            "instructions": text, "max_output_tokens": tokens(1), "tools": response_tools,
            "tool_choice": choice, "parallel_tool_calls": flag, "text": any, "metadata": any,
            "previous_response_id": text, "store": flag,
        })),
        "ResponseReply": object(
            &["id", "object", "created_at", "status", "model", "output", "usage"],
            json!({
                "id": text, "object": { "const": "response" }, "created_at": count, "model": text,
                "status": { "enum": ["completed", "incomplete"] },
                "output": { "type": "array", "items": object(&["id", "type", "status"], json!({
                    "id": text, "type": { "enum": ["message", "function_call"] }, "status": text,
                })) },
                "usage": usage(&["input_tokens", "output_tokens", "total_tokens"]), "conclave": any,
            }),
        ),
        "EmbeddingRequest": request(&["input", "model"], json!({
            "model": {
                "enum": models.get(1..).unwrap_or_default(), "description": "A member's name",
            },
            "input": { "anyOf": [
                passage,
                { "type": "array", "minItems": 1, "maxItems": MOST_TEXTS, "items": passage },
                ids,
                { "type": "array", "minItems": 1, "maxItems": MOST_TEXTS, "items": ids },
            ] },
            "encoding_format": { "enum": ["float", "base64"] }, "dimensions": limit,
            "user": { "type": "string", "maxLength": 64 },
        })),
        "EmbeddingReply": object(&["object", "data", "model", "usage"], json!({
            "object": { "const": "list" }, "model": text,
            "data": {
                "type": "array", "minItems": 1,
                "items": object(&["object", "index", "embedding"], json!({
                    "object": { "const": "embedding" }, "index": count,
                    "embedding": { "anyOf": [
                        { "type": "array", "items": { "type": "number" } }, text,
                    ] },
                })),
            },
            "usage": usage(&["prompt_tokens", "total_tokens"]),
        })),
        "RenderRequest": request(&["messages"], json!({
            "messages": messages, "model": { "enum": models }, "tools": tools,
        })),
        "RenderReply": object(&["prompt"], json!({ "prompt": text })),
        "Model": object(&["id", "object", "created", "owned_by"], json!({
            "id": text, "object": { "const": "model" }, "created": count, "owned_by": text,
        })),
        "Models": object(&["object", "data"], json!({
            "object": { "const": "list" },
            "data": { "type": "array", "items": { "$ref": "#/components/schemas/Model" } },
        })),
        "Document": object(&["openapi", "paths"], json!({ "openapi": text, "paths": any })),
        "Health": object(&["status", "busy", "waiting"], json!({
            "status": { "const": "ok" }, "busy": flag, "waiting": count,
        })),
        "Error": object(&["error"], json!({ "error": object(&["message", "type"], json!({
            "message": text, "type": text,
            "param": { "type": ["string", "null"] }, "code": { "type": ["string", "null"] },
        })) })),
    })
}

#[cfg(test)]
mod tests;
