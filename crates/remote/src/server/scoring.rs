//! Log-probabilities of given texts' tokens, by the means that each kind of server offers.

use futures_util::future::try_join_all;
use serde_json::{Value, json};

use super::{Kind, Prefix, Scored, Scores, Server};
use crate::asking::Asking;
use crate::error::RemoteError;
use crate::transport::Transport;
use crate::wire::{
    Choice, logprob_beside, logprob_of_end, logprobs_of_echo, logprobs_of_forced,
    logprobs_of_prompt,
};

/// Bias that forces a token: logits differ by some tens.
const FORCE: f64 = 10_000.0;

/// More than the size of any vocabulary.
const ALL_TOKENS: usize = 1_000_000;

/// End of an answer as text where the server's is unknown.
const LINE: &str = "\n";

impl Server {
    /// Finds the first way to score that works.
    pub(super) async fn way_to_score(
        &self,
        prefix: &Prefix,
        asking: Asking<'_, impl Transport>,
    ) -> Result<Scores, RemoteError> {
        let ways = match self.kind {
            Kind::Vllm => &[Scores::OfPrompt][..],
            Kind::LlamaCpp => &[Scores::Forced],
            Kind::Conclave => &[Scores::Echo { lists: true }],
            Kind::Browser => &[],
            Kind::Plain => &[Scores::Echo { lists: true }, Scores::Echo { lists: false }],
        };
        let texts = ["Yes, it is.", "No."];
        for &way in ways {
            match self
                .score_by(way, prefix, &texts, &[false; 2], asking)
                .await
            {
                Ok(_) => return Ok(way),
                // Another way would be late, too.
                Err(error) if error.passes() || error == RemoteError::Stopped => return Err(error),
                Err(_) => {}
            }
        }
        Ok(Scores::None)
    }

    /// Scores each of `texts` after `prefix`; where `ends` is set or the text is empty, including
    /// the end of the turn.
    pub(crate) async fn score(
        &self,
        prefix: &Prefix,
        texts: &[&str],
        ends: &[bool],
        asking: Asking<'_, impl Transport>,
    ) -> Result<Vec<Scored>, RemoteError> {
        self.score_by(self.scores, prefix, texts, ends, asking)
            .await
    }

    async fn score_by(
        &self,
        way: Scores,
        prefix: &Prefix,
        texts: &[&str],
        ends: &[bool],
        asking: Asking<'_, impl Transport>,
    ) -> Result<Vec<Scored>, RemoteError> {
        match (way, prefix) {
            (Scores::OfPrompt | Scores::Forced, Prefix::Ids(prefix)) => {
                let tokens = texts.iter().map(async |text| match text.is_empty() {
                    true => Ok((Vec::new(), true)),
                    false => self.nameable(text, asking).await,
                });
                let tokens = try_join_all(tokens).await?;
                let whole = tokens.iter().zip(ends).map(|((ids, _), &ends)| {
                    let end: &[u32] = if ends || ids.is_empty() {
                        &self.end
                    } else {
                        &[]
                    };
                    [prefix, &ids[..], end].concat()
                });
                let whole: Vec<Vec<u32>> = whole.collect();
                let from = prefix.len();
                let logprobs = match way {
                    Scores::OfPrompt => self.score_prompts(from, &whole, asking).await?,
                    _ => {
                        let forced = whole.iter().zip(&tokens).map(async |(ids, (_, nameable))| {
                            match nameable {
                                _ if ids.len() == from => self.ended(ids, asking).await,
                                true => self.forced(from, ids, asking).await,
                                false => self.forced_by_one(from, ids, asking).await,
                            }
                        });
                        try_join_all(forced).await?
                    }
                };
                let told = logprobs.into_iter().zip(tokens);
                Ok(told
                    .map(|(logprobs, (ids, _))| Scored {
                        logprobs,
                        tokens: ids.len(),
                        ids: Some(ids),
                    })
                    .collect())
            }
            (Scores::Echo { lists }, Prefix::Text(prefix)) => {
                let mark = match self.mark.as_str() {
                    "" => LINE,
                    mark => mark,
                };
                let whole = texts.iter().zip(ends).map(|(text, &ends)| {
                    let end = if ends || text.is_empty() { mark } else { "" };
                    (format!("{prefix}{text}{end}"), prefix.len() + text.len())
                });
                let whole: Vec<_> = whole.collect();
                self.echoed(prefix.len(), &whole, lists, asking).await
            }
            _ => Err(self.nonsense("it reports no log-probabilities")),
        }
    }

    /// Scores all in one request with vLLM's `prompt_logprobs`; 0: of the prompt's own tokens only.
    async fn score_prompts(
        &self,
        from: usize,
        prompts: &[Vec<u32>],
        asking: Asking<'_, impl Transport>,
    ) -> Result<Vec<Vec<f64>>, RemoteError> {
        if prompts.iter().any(|ids| ids.len() == from) {
            return Err(self.nonsense("the end of a turn in its template is unknown"));
        }
        let body = json!({"model": self.model, "prompt": prompts, "max_tokens": 1, "temperature": 0,
            "prompt_logprobs": 0});
        let choices = self.complete(&body, asking).await?.in_order(prompts.len());
        let choices = choices.ok_or_else(|| self.nonsense("not one choice for each prompt"))?;
        let told = choices.iter().zip(prompts);
        told.map(|(choice, ids)| logprobs_of_prompt(&choice.prompt_logprobs, ids, from))
            .collect::<Option<_>>()
            .ok_or_else(|| self.nonsense("it does not report every token's prompt_logprobs"))
    }

    /// Samples under a grammar of these tokens, by id, that leaves no choice. The reported
    /// log-probabilities are the model's, before the grammar. The server caches the prefix between
    /// requests.
    async fn forced(
        &self,
        from: usize,
        ids: &[u32],
        asking: Asking<'_, impl Transport>,
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
        let [choice] = self.choices(self.complete(&body, asking).await?)?;
        let told = logprobs_of_forced(&choice.logprobs, forced);
        told.ok_or_else(|| self.nonsense("it returned other tokens than the forced ones"))
    }

    /// Log-probability that the answer ends after `prefix`, where the token that closes a turn is
    /// unknown: of whichever the server ends with.
    async fn ended(
        &self,
        prefix: &[u32],
        asking: Asking<'_, impl Transport>,
    ) -> Result<Vec<f64>, RemoteError> {
        let body = json!({"model": self.model, "prompt": prefix, "max_tokens": 1, "temperature": 0,
            "logprobs": 1, "grammar": "root ::= \"\"", "cache_prompt": true});
        let [choice] = self.choices(self.complete(&body, asking).await?)?;
        let told = logprob_of_end(&choice.logprobs).map(|logprob| vec![logprob]);
        told.ok_or_else(|| self.nonsense("it reports nothing about the end of an answer"))
    }

    /// Like `forced`, one token per request by a bias, for tokens that a grammar can't name. For a
    /// token that begins a character nothing is reported until the character is complete; it is
    /// looked up among the alternatives to another token.
    async fn forced_by_one(
        &self,
        from: usize,
        ids: &[u32],
        asking: Asking<'_, impl Transport>,
    ) -> Result<Vec<f64>, RemoteError> {
        let mut logprobs = Vec::with_capacity(ids.len() - from);
        for at in from..ids.len() {
            let ask = async |forced: u32, beside: usize| {
                let body = json!({"model": self.model, "prompt": ids[..at], "max_tokens": 1,
                    "temperature": 0, "logprobs": beside, "logit_bias": [[forced, FORCE]],
                    "cache_prompt": true});
                let [choice] = self.choices(self.complete(&body, asking).await?)?;
                Ok::<_, RemoteError>(choice.logprobs)
            };
            let told = ask(ids[at], 1).await?;
            let told = logprobs_of_forced(&told, &ids[at..=at]).map(|told| told[0]);
            let told = match (told, self.ids_of("a", asking).await?.first()) {
                (None, Some(&whole)) => logprob_beside(&ask(whole, ALL_TOKENS).await?, ids[at]),
                (told, _) => told,
            };
            logprobs.push(
                told.ok_or_else(|| self.nonsense("it reports nothing about the forced token"))?,
            );
        }
        Ok(logprobs)
    }

    /// Scores prompts, each with the byte at which its candidate ends, from byte `from` on.
    async fn echoed(
        &self,
        from: usize,
        prompts: &[(String, usize)],
        lists: bool,
        asking: Asking<'_, impl Transport>,
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
                let texts: Vec<&str> = prompts.iter().map(|(text, _)| text.as_str()).collect();
                let completion = self.complete(&body(json!(texts)), asking).await?;
                let each = completion.in_order(prompts.len());
                each.ok_or_else(|| self.nonsense("not one choice for each prompt"))?
            }
            false => {
                let mut choices = Vec::with_capacity(prompts.len());
                for (prompt, _) in prompts {
                    let completion = self.complete(&body(json!(prompt)), asking).await?;
                    let [choice] = self.choices(completion)?;
                    choices.push(choice);
                }
                choices
            }
        };
        let told = choices.iter().zip(prompts).map(|(choice, (prompt, to))| {
            let (own, end) = logprobs_of_echo(&choice.logprobs, prompt, from, *to)?;
            let tokens = own.len();
            let logprobs: Vec<f64> = own.into_iter().chain(end).collect();
            (!logprobs.is_empty()).then_some(Scored {
                logprobs,
                tokens,
                ids: None,
            })
        });
        told.collect::<Option<_>>()
            .ok_or_else(|| self.nonsense("it does not echo log-probabilities"))
    }
}
