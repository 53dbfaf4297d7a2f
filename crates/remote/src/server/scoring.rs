//! Log-probabilities of given texts' tokens, by the means that each kind of server offers.

use serde_json::{Value, json};

use super::{Kind, Prefix, Scored, Scores, Server};
use crate::client::Deadline;
use crate::error::RemoteError;
use crate::wire::{
    Choice, logprob_beside, logprobs_of_echo, logprobs_of_forced, logprobs_of_prompt,
};

/// Bias that forces a token: logits differ by some tens.
const FORCE: f64 = 10_000.0;

/// More than the size of any vocabulary.
const ALL_TOKENS: usize = 1_000_000;

impl Server {
    /// Finds the first way to score that works.
    pub(super) fn way_to_score(&self, prefix: &Prefix, deadline: Deadline) -> Scores {
        let ways = match self.kind {
            Kind::Vllm => &[Scores::OfPrompt][..],
            Kind::LlamaCpp => &[Scores::Forced],
            Kind::Conclave => &[Scores::Echo { lists: true }],
            Kind::Plain => &[Scores::Echo { lists: true }, Scores::Echo { lists: false }],
        };
        let texts = ["Yes, it is.", "No."];
        let works = |way: &&Scores| {
            self.score_by(**way, prefix, &texts, &[false; 2], deadline)
                .is_ok()
        };
        ways.iter().find(works).copied().unwrap_or(Scores::None)
    }

    /// Scores each of `texts` after `prefix`; where `ends` is set or the text is empty, including
    /// the end of the turn.
    pub(crate) fn score(
        &self,
        prefix: &Prefix,
        texts: &[&str],
        ends: &[bool],
        deadline: Deadline,
    ) -> Result<Vec<Scored>, RemoteError> {
        self.score_by(self.scores, prefix, texts, ends, deadline)
    }

    fn score_by(
        &self,
        way: Scores,
        prefix: &Prefix,
        texts: &[&str],
        ends: &[bool],
        deadline: Deadline,
    ) -> Result<Vec<Scored>, RemoteError> {
        match (way, prefix) {
            (Scores::OfPrompt | Scores::Forced, Prefix::Ids(prefix)) => {
                let mut own = Vec::with_capacity(texts.len());
                let (mut whole, mut names) = (Vec::with_capacity(texts.len()), Vec::new());
                for (text, &ends) in texts.iter().zip(ends) {
                    let (ids, nameable) = match text.is_empty() {
                        true => (Vec::new(), true),
                        false => self.nameable(text, deadline)?,
                    };
                    names.push(nameable);
                    let end: &[u32] = if ends || ids.is_empty() {
                        &self.end
                    } else {
                        &[]
                    };
                    if ids.is_empty() && end.is_empty() {
                        return Err(self.nonsense("the end of a turn in its template is unknown"));
                    }
                    whole.push([prefix, &ids[..], end].concat());
                    own.push(ids);
                }
                let logprobs = match way {
                    Scores::OfPrompt => self.score_prompts(prefix.len(), &whole, deadline)?,
                    _ => whole
                        .iter()
                        .zip(names)
                        .map(|(ids, nameable)| match nameable {
                            true => self.forced(prefix.len(), ids, deadline),
                            false => self.forced_by_one(prefix.len(), ids, deadline),
                        })
                        .collect::<Result<_, _>>()?,
                };
                let told = logprobs.into_iter().zip(own);
                Ok(told
                    .map(|(logprobs, ids)| Scored {
                        logprobs,
                        ids: Some(ids),
                    })
                    .collect())
            }
            (Scores::Echo { lists }, Prefix::Text(prefix)) => {
                let mark = self.mark.as_str();
                let mut whole = Vec::with_capacity(texts.len());
                for (text, &ends) in texts.iter().zip(ends) {
                    let end = if ends || text.is_empty() { mark } else { "" };
                    if text.is_empty() && end.is_empty() {
                        return Err(self.nonsense("the end of a turn in its template is unknown"));
                    }
                    whole.push(format!("{prefix}{text}{end}"));
                }
                self.echoed(prefix, &whole, lists, deadline)
            }
            _ => Err(self.nonsense("it reports no log-probabilities")),
        }
    }

    /// Scores all in one request with vLLM's `prompt_logprobs`; 0: of the prompt's own tokens only.
    fn score_prompts(
        &self,
        from: usize,
        prompts: &[Vec<u32>],
        deadline: Deadline,
    ) -> Result<Vec<Vec<f64>>, RemoteError> {
        let body = json!({"model": self.model, "prompt": prompts, "max_tokens": 1, "temperature": 0,
            "prompt_logprobs": 0});
        let choices = self.complete(&body, deadline)?.in_order(prompts.len());
        let choices = choices.ok_or_else(|| self.nonsense("not one choice for each prompt"))?;
        let told = choices.iter().zip(prompts);
        told.map(|(choice, ids)| logprobs_of_prompt(&choice.prompt_logprobs, ids, from))
            .collect::<Option<_>>()
            .ok_or_else(|| self.nonsense("it does not report every token's prompt_logprobs"))
    }

    /// Samples under a grammar of these tokens, by id, that leaves no choice. The reported
    /// log-probabilities are the model's, before the grammar. The server caches the prefix between
    /// requests.
    fn forced(
        &self,
        from: usize,
        ids: &[u32],
        deadline: Deadline,
    ) -> Result<Vec<f64>, RemoteError> {
        let (prefix, forced) = ids.split_at(from);
        // After the last token the answer ends. Grammars can't name the end token, so a bias
        // selects the one that closes a turn. Before that the grammar prevents an end.
        let ends = self
            .end
            .first()
            .is_some_and(|end| forced.last() == Some(end));
        let bias: &[(u32, f64)] = match forced.last() {
            Some(&end) if ends => &[(end, FORCE)],
            _ => &[],
        };
        let written = &forced[..forced.len() - usize::from(ends)];
        let root: Vec<String> = written.iter().map(|id| format!("<[{id}]>")).collect();
        let root = if root.is_empty() {
            "\"\"".to_owned()
        } else {
            root.join(" ")
        };
        let body = json!({"model": self.model, "prompt": prefix, "max_tokens": forced.len(),
            "temperature": 0, "logprobs": 1, "grammar": format!("root ::= {root}"),
            "logit_bias": bias, "cache_prompt": true});
        let [choice] = self.choices(self.complete(&body, deadline)?)?;
        let told = logprobs_of_forced(&choice.logprobs, forced);
        told.ok_or_else(|| self.nonsense("it returned other tokens than the forced ones"))
    }

    /// Like `forced`, one token per request by a bias, for tokens that a grammar can't name. For a
    /// token that begins a character nothing is reported until the character is complete; it is
    /// looked up among the alternatives to another token.
    fn forced_by_one(
        &self,
        from: usize,
        ids: &[u32],
        deadline: Deadline,
    ) -> Result<Vec<f64>, RemoteError> {
        let mut logprobs = Vec::with_capacity(ids.len() - from);
        for at in from..ids.len() {
            let ask = |forced: u32, beside: usize| {
                let body = json!({"model": self.model, "prompt": ids[..at], "max_tokens": 1,
                    "temperature": 0, "logprobs": beside, "logit_bias": [[forced, FORCE]],
                    "cache_prompt": true});
                let [choice] = self.choices(self.complete(&body, deadline)?)?;
                Ok::<_, RemoteError>(choice.logprobs)
            };
            let told = logprobs_of_forced(&ask(ids[at], 1)?, &ids[at..=at]).map(|told| told[0]);
            let told = match (told, self.ids_of("a", deadline)?.first()) {
                (None, Some(&whole)) => logprob_beside(&ask(whole, ALL_TOKENS)?, ids[at]),
                (told, _) => told,
            };
            logprobs.push(
                told.ok_or_else(|| self.nonsense("it reports nothing about the forced token"))?,
            );
        }
        Ok(logprobs)
    }

    fn echoed(
        &self,
        prefix: &str,
        prompts: &[String],
        lists: bool,
        deadline: Deadline,
    ) -> Result<Vec<Scored>, RemoteError> {
        // One token is sampled: for 0 some servers return an error, others ignore the limit.
        // Conclave accepts 0; its ensemble would draft and vote for a token.
        let drawn = u8::from(self.kind != Kind::Conclave);
        let body = |prompt: Value| {
            json!({"model": self.model, "prompt": prompt, "max_tokens": drawn,
            "temperature": 0, "echo": true, "logprobs": 1})
        };
        let choices: Vec<Choice> = match lists {
            true => {
                let completion = self.complete(&body(json!(prompts)), deadline)?;
                let each = completion.in_order(prompts.len());
                each.ok_or_else(|| self.nonsense("not one choice for each prompt"))?
            }
            false => {
                let mut choices = Vec::with_capacity(prompts.len());
                for prompt in prompts {
                    let completion = self.complete(&body(json!(prompt)), deadline)?;
                    let [choice] = self.choices(completion)?;
                    choices.push(choice);
                }
                choices
            }
        };
        let from = prefix.chars().count();
        let told = choices.iter().zip(prompts).map(|(choice, prompt)| {
            choice.text.starts_with(prompt.as_str()).then_some(())?;
            let logprobs = logprobs_of_echo(&choice.logprobs, from, prompt.chars().count())?;
            Some(Scored {
                logprobs,
                ids: None,
            })
        });
        told.collect::<Option<_>>()
            .ok_or_else(|| self.nonsense("it does not echo log-probabilities"))
    }
}
