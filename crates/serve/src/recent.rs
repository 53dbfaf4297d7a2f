//! Recent responses, to which later requests refer by ids. They are in memory only, and gone with
//! the server.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use conclave_member::Message;
use serde_json::Value;

/// Maximum bytes of text of all responses; the oldest are dropped first.
const MOST_BYTES: usize = 16 << 20;

/// A response with the conversation before it.
#[derive(Debug, Clone)]
pub(crate) struct Response {
    pub id: String,
    /// Conversation without the instructions, which are its own request's.
    pub input: Vec<Message>,
    /// Output items.
    pub output: Vec<Value>,
}

impl Response {
    /// Returns its approximate size in memory.
    fn bytes(&self) -> usize {
        let input = self.input.iter().map(|one| {
            let calls = one.tool_calls.iter();
            let calls: usize = calls.map(|call| call.arguments.to_string().len()).sum();
            one.content.len() + calls
        });
        let output = self.output.iter().map(|item| item.to_string().len());
        input.chain(output).map(|bytes| bytes + 256).sum()
    }
}

/// The responses, with their sizes, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Recent(Mutex<VecDeque<(usize, Response)>>);

impl Recent {
    /// Keeps a response.
    pub fn keep(&self, response: Response) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.push_back((response.bytes(), response));
        let mut bytes: usize = all.iter().map(|(bytes, _)| bytes).sum();
        while bytes > MOST_BYTES
            && let Some((oldest, _)) = all.pop_front()
        {
            bytes -= oldest;
        }
    }

    /// Returns the response of this id.
    pub fn response(&self, id: &str) -> Option<Response> {
        self.find(|one| (one.id == id).then(|| one.clone()))
    }

    /// Returns the output item of this id.
    pub fn item(&self, id: &str) -> Option<Value> {
        self.find(|one| one.output.iter().find(|item| item["id"] == id).cloned())
    }

    /// Returns the newest result of `find`.
    fn find<T>(&self, find: impl Fn(&Response) -> Option<T>) -> Option<T> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().rev().find_map(|(_, one)| find(one))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_oldest_responses_make_room() {
        let recent = Recent::default();
        for number in 0..5 {
            recent.keep(Response {
                id: format!("resp_{number}"),
                input: vec![Message::new("user", "x".repeat(MOST_BYTES / 4))],
                output: vec![json!({ "id": format!("msg_{number}") })],
            });
        }
        let there = |number: usize| {
            let response = recent.response(&format!("resp_{number}"));
            let item = recent.item(&format!("msg_{number}"));
            assert_eq!(response.is_some(), item.is_some());
            response.is_some()
        };
        let there: Vec<_> = (0..5).map(there).collect();
        assert_eq!(there, [false, false, true, true, true]);
        recent.keep(Response {
            id: "resp_5".to_owned(),
            input: vec![Message::new("user", "x".repeat(MOST_BYTES + 1))],
            output: Vec::new(),
        });
        assert!(recent.response("resp_5").is_none() && recent.response("resp_4").is_none());
    }
}
