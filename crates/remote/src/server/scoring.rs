//! What a server thinks of given texts: log-probabilities of their tokens, in the way that it tells
//! them.

use serde_json::{Value, json};

use super::{Kind, Prefix, Scores, Server, Told};
use crate::client::Deadline;
use crate::error::RemoteError;
use crate::wire::{Choice, of_beside, of_forced, of_ids, of_text};

/// Forces a token whatever the model thinks of it: logits are some tens apart.
const FORCE: f64 = 10_000.0;

/// More than any vocabulary has.
const ALL: usize = 1_000_000;

impl Server {
    /// Tries the ways to score in turn.
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

    /// What it thinks of each of `texts` behind `prefix`; where `ends`, of what closes a turn as
    /// well, as a text that is empty is judged by that alone.
    ///
    /// # Errors
    /// [`RemoteError`].
    pub(crate) fn score(
        &self,
        prefix: &Prefix,
        texts: &[&str],
        ends: &[bool],
        deadline: Deadline,
    ) -> Result<Vec<Told>, RemoteError> {
        self.score_by(self.scores, prefix, texts, ends, deadline)
    }

    fn score_by(
        &self,
        way: Scores,
        prefix: &Prefix,
        texts: &[&str],
        ends: &[bool],
        deadline: Deadline,
    ) -> Result<Vec<Told>, RemoteError> {
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
                        return Err(
                            self.nonsense("nobody knows what closes a turn of its template")
                        );
                    }
                    whole.push([prefix, &ids[..], end].concat());
                    own.push(ids);
                }
                let logprobs = match way {
                    Scores::OfPrompt => self.of_prompts(prefix.len(), &whole, deadline)?,
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
                    .map(|(logprobs, ids)| Told {
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
                        return Err(
                            self.nonsense("nobody knows what closes a turn of its template")
                        );
                    }
                    whole.push(format!("{prefix}{text}{end}"));
                }
                self.echoed(prefix, &whole, lists, deadline)
            }
            _ => Err(self.nonsense("it tells no log-probabilities")),
        }
    }

    /// All in one request: `prompt_logprobs` of vLLM. 0: of the prompt's own tokens and no others.
    fn of_prompts(
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
        told.map(|(choice, ids)| of_ids(&choice.prompt_logprobs, ids, from))
            .collect::<Option<_>>()
            .ok_or_else(|| self.nonsense("it does not tell every token's prompt_logprobs"))
    }

    /// Drawn, but with no choice: a grammar of these tokens, by their ids. What the server tells of
    /// each is the model's own, from before the grammar. It keeps the prefix between the requests.
    fn forced(
        &self,
        from: usize,
        ids: &[u32],
        deadline: Deadline,
    ) -> Result<Vec<f64>, RemoteError> {
        let (prefix, forced) = ids.split_at(from);
        // Behind the last it ends. Grammars can't name how: of all tokens that end an answer a bias
        // leaves the one that closes a turn. Before that the grammar lets it end by none.
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
        let body = json!({"model": self.model, "prompt": prefix, "max_tokens": forced.len(), "temperature": 0,
            "logprobs": 1, "grammar": format!("root ::= {root}"), "logit_bias": bias, "cache_prompt": true});
        let [choice] = self.choices(self.complete(&body, deadline)?)?;
        let told = of_forced(&choice.logprobs, forced);
        told.ok_or_else(|| self.nonsense("other tokens than those it was held to"))
    }

    /// The same a token at a time, by a bias that leaves no other: for tokens that no grammar can
    /// name. Of one that begins a character nothing is told before the character is whole; it is
    /// looked up among all that could have stood beside another.
    fn forced_by_one(
        &self,
        from: usize,
        ids: &[u32],
        deadline: Deadline,
    ) -> Result<Vec<f64>, RemoteError> {
        let mut logprobs = Vec::with_capacity(ids.len() - from);
        for at in from..ids.len() {
            let ask = |forced: u32, beside: usize| {
                let body = json!({"model": self.model, "prompt": ids[..at], "max_tokens": 1, "temperature": 0,
                    "logprobs": beside, "logit_bias": [[forced, FORCE]], "cache_prompt": true});
                let [choice] = self.choices(self.complete(&body, deadline)?)?;
                Ok::<_, RemoteError>(choice.logprobs)
            };
            let told = of_forced(&ask(ids[at], 1)?, &ids[at..=at]).map(|told| told[0]);
            let told = match (told, self.ids_of("a", deadline)?.first()) {
                (None, Some(&whole)) => of_beside(&ask(whole, ALL)?, ids[at]),
                (told, _) => told,
            };
            logprobs
                .push(told.ok_or_else(|| self.nonsense("nothing of the token it was held to"))?);
        }
        Ok(logprobs)
    }

    fn echoed(
        &self,
        prefix: &str,
        prompts: &[String],
        lists: bool,
        deadline: Deadline,
    ) -> Result<Vec<Told>, RemoteError> {
        // One token is drawn: of none at all some make an error, others no limit. An ensemble would
        // draft and vote for it, and Conclave takes none at its word.
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
            let logprobs = of_text(&choice.logprobs, from, prompt.chars().count())?;
            Some(Told {
                logprobs,
                ids: None,
            })
        });
        told.collect::<Option<_>>()
            .ok_or_else(|| self.nonsense("it does not echo log-probabilities"))
    }
}
