//! The page's requests: `fetch`, or a line to the browser's own language model.

use std::time::Duration;

use conclave_remote::{Failure, Key, MAX_BYTES, Request, Response, Transport};
use wasm_bindgen::prelude::*;

#[wasm_bindgen(typescript_custom_section)]
const TYPE: &str = r#"
/** Sends requests, of one move; a rejection stops the move. */
export interface Wire {
  send(
    url: string,
    body: string | undefined,
    authorization: string | undefined,
    ms: number,
    mostBytes: number,
  ): Promise<
    | { status: number; retryAfter?: number | undefined; body: Uint8Array }
    | { failed: "late" | "stopped" | "large" | "passing"; why?: string }
  >;
  pause(ms: number): Promise<void>;
}
"#;

#[wasm_bindgen]
extern "C" {
    /// The page's object that sends requests, for one move.
    #[wasm_bindgen(typescript_type = "Wire")]
    pub type Wire;

    #[wasm_bindgen(method, catch)]
    async fn send(
        this: &Wire,
        url: &str,
        body: Option<&str>,
        authorization: Option<String>,
        ms: f64,
        most_bytes: f64,
    ) -> Result<JsValue, JsValue>;

    #[wasm_bindgen(method, catch)]
    async fn pause(this: &Wire, ms: f64) -> Result<JsValue, JsValue>;

    /// Result of `send`.
    type Answer;

    #[wasm_bindgen(method, getter)]
    fn status(this: &Answer) -> Option<f64>;

    /// In ms.
    #[wasm_bindgen(method, getter, js_name = retryAfter)]
    fn retry_after(this: &Answer) -> Option<f64>;

    #[wasm_bindgen(method, getter)]
    fn body(this: &Answer) -> Option<Vec<u8>>;

    #[wasm_bindgen(method, getter)]
    fn failed(this: &Answer) -> Option<String>;

    #[wasm_bindgen(method, getter)]
    fn why(this: &Answer) -> Option<String>;
}

/// Transport of one move.
pub struct PageTransport(pub Wire);

impl Transport for PageTransport {
    async fn send(&self, request: Request<'_>) -> Result<Response, Failure> {
        let authorization = request.key.map(Key::header);
        let ms = request.time.as_secs_f64() * 1e3;
        let most = MAX_BYTES as f64;
        let sent = self
            .0
            .send(request.url, request.body, authorization, ms, most);
        let Ok(answer) = sent.await else {
            return Err(Failure::Stopped);
        };
        let answer: Answer = answer.unchecked_into();
        match answer.failed().as_deref() {
            Some("late") => Err(Failure::Late),
            Some("stopped") => Err(Failure::Stopped),
            Some("large") => Err(Failure::TooLarge),
            Some(_) => Err(Failure::Passing(answer.why().unwrap_or_default())),
            None => Ok(Response {
                status: answer.status().unwrap_or_default() as u16,
                retry_after: answer.retry_after().map(wait),
                body: answer.body().unwrap_or_default(),
            }),
        }
    }

    async fn pause(&self, time: Duration) -> Result<(), Failure> {
        let paused = self.0.pause(time.as_secs_f64() * 1e3).await;
        paused.map(|_| ()).map_err(|_| Failure::Stopped)
    }
}

/// A wait in ms, which a server may have made up.
fn wait(ms: f64) -> Duration {
    Duration::from_secs_f64(ms.clamp(0.0, 1e9) / 1e3)
}
