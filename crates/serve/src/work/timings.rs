//! Measured times of a request, with the names of llama.cpp's server.

use std::time::Duration;

use conclave_rounds::Answer;
use serde_json::{Map, Value, json};

/// Times of all answers to a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Timings {
    read: usize,
    reading: Duration,
    written: usize,
    writing: Duration,
}

impl Timings {
    /// Adds an answer.
    pub fn add(&mut self, answer: &Answer) {
        self.read += answer.timings.read;
        self.reading += answer.timings.reading;
        self.written += answer.answer_tokens;
        self.writing += answer.timings.writing;
    }

    /// Returns the reply's field `timings`: milliseconds, and tokens with their rates where tokens
    /// were counted.
    pub fn json(&self) -> Value {
        let mut fields = Map::new();
        for (name, tokens, time) in [
            ("prompt", self.read, self.reading),
            ("predicted", self.written, self.writing),
        ] {
            let seconds = time.as_secs_f64();
            if tokens > 0 {
                fields.insert(format!("{name}_n"), json!(tokens));
            }
            fields.insert(format!("{name}_ms"), json!(rounded(seconds * 1000.0)));
            if tokens > 0 && seconds > 0.0 {
                let rate = rounded(tokens as f64 / seconds);
                fields.insert(format!("{name}_per_second"), json!(rate));
            }
        }
        Value::Object(fields)
    }
}

/// Rounds to thousandths.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_what_was_counted() {
        let timings = Timings {
            read: 30,
            reading: Duration::from_millis(20),
            written: 0,
            writing: Duration::from_micros(1500),
        };
        let wanted = json!({
            "prompt_n": 30, "prompt_ms": 20.0, "prompt_per_second": 1500.0, "predicted_ms": 1.5,
        });
        assert_eq!(timings.json(), wanted);
    }
}
