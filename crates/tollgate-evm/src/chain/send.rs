//! Hands signed bytes to one endpoint or several, and makes one answer of theirs.
//!
//! Owns no state; who was handed what is in [`super::handed`]. Never signs, never changes the bytes. The one unforgivable mistake is to call a
//! transaction dead that may be mined, so a dead answer needs every endpoint there is: one that was
//! not heard keeps it alive (I3, I8).

use std::sync::Arc;

use alloy_primitives::keccak256;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for, combined};
use tollgate_model::port::chain::SendAnswer;
use tollgate_model::{Bytes, TxHash};

use super::handed::Past;
use super::member::Member;
use super::router::Router;
use crate::classify::{Overrides, classify_with};
use crate::endpoint::{RpcError, RpcErrorKind, SEND_METHOD};

/// How much of the endpoints' words is kept, in bytes.
const SAID_BYTES_MAX: usize = 2_000;

/// One answer to a transaction that was handed over.
#[derive(Clone, Debug)]
struct Word {
    answer: SendAnswer,
    /// It was "already known" by an endpoint that took it in an earlier send: no news.
    is_stale: bool,
}

impl From<SendAnswer> for Word {
    fn from(answer: SendAnswer) -> Self {
        Self { answer, is_stale: false }
    }
}

impl Word {
    /// A node has it, and that was not known before.
    fn is_news_of_a_node(&self) -> bool {
        is_with_a_node(self.answer.class) && !self.is_stale
    }

    fn is_about_a_nonce(&self) -> bool {
        matches!(self.answer.class, AnswerClass::NonceTooLow | AnswerClass::NonceTooHigh)
    }
}

/// One answer from those of all endpoints and all tries ([`combined`]), with everything that was
/// said.
///
/// An endpoint that had it before tells nothing by saying so again, where another one speaks of its
/// nonce: the line below it has to be looked at, or it never reaches the other one.
fn combine(words: &[Word]) -> SendAnswer {
    let has_nonce = words.iter().any(Word::is_about_a_nonce);
    let telling = words.iter().filter(|word| !(has_nonce && word.is_stale));
    let class = combined(telling.map(|word| word.answer.class));
    let mut said: Vec<&str> = Vec::new();
    let (best, others): (Vec<_>, Vec<_>) =
        words.iter().map(|word| &word.answer).partition(|answer| answer.class == class);
    for answer in best.into_iter().chain(others) {
        if !said.contains(&&*answer.said) {
            said.push(&answer.said);
        }
    }
    let mut said = said.join("; ");
    if words.is_empty() {
        said.push_str("no endpoint could be asked");
    }
    let mut end = said.len().min(SAID_BYTES_MAX);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    said.truncate(end);
    SendAnswer { class, said }
}

const fn is_with_a_node(class: AnswerClass) -> bool {
    matches!(class, AnswerClass::Accepted | AnswerClass::AlreadyKnown)
}

/// A transaction that is being handed over.
#[derive(Clone)]
struct Handing {
    hash: TxHash,
    params: Value,
    /// What was done with it before.
    past: Past,
}

impl Handing {
    fn begin(router: &Router, raw: &Bytes) -> Self {
        let hash = keccak256(raw);
        let past = router.with_handed(|handed| handed.begin(hash));
        Self { hash, params: json!([raw.to_string()]), past }
    }

    /// What an endpoint's answer means; kept for the next send.
    fn read(&self, router: &Router, member: &Member, answer: Result<Value, RpcError>) -> Word {
        let answer = read(member.endpoint.name(), answer, self.hash, &router.config.overrides);
        if is_with_a_node(answer.class) {
            router.with_handed(|handed| handed.note_taken(self.hash, member.place));
        }
        let is_known = answer.class == AnswerClass::AlreadyKnown;
        Word { is_stale: is_known && self.past.is_taken(member.place), answer }
    }
}

/// What one endpoint's answer to a send means.
fn read(
    name: &str,
    answer: Result<Value, RpcError>,
    hash: TxHash,
    overrides: &Overrides,
) -> SendAnswer {
    let (class, said) = match answer {
        Ok(Value::String(said)) if said.parse() == Ok(hash) => (AnswerClass::Accepted, said),
        // It took something, but not what we know the hash of.
        Ok(other) => (AnswerClass::Unknown, format!("returned {other} instead of the hash")),
        Err(error) => {
            let class = match error.kind {
                RpcErrorKind::Node | RpcErrorKind::NotRpc => {
                    classify_with(&error.as_answer(), overrides)
                }
                RpcErrorKind::Unreachable | RpcErrorKind::Busy => AnswerClass::Transient,
                RpcErrorKind::NoAnswer | RpcErrorKind::Unreadable => AnswerClass::Unknown,
            };
            (class, error.message)
        }
    };
    SendAnswer { class, said: format!("{name}: {said}") }
}

const fn nothing_was_sent(error: &RpcError) -> bool {
    matches!(error.kind, RpcErrorKind::Unreachable | RpcErrorKind::Busy)
}

/// The endpoints that will be asked, those first that were handed it least often, and the answers of
/// those that won't.
fn plan(
    router: &Router,
    times: impl Fn(usize) -> u32,
    now: Instant,
) -> (Vec<Arc<Member>>, Vec<Word>) {
    let (mut asked, mut skipped) = (Vec::new(), Vec::new());
    for member in router.senders(now) {
        let health = member.endpoint.health();
        if health.is_limited(now) {
            skipped.push((member, AnswerClass::RateLimited, "its quota is used up"));
        } else if health.is_resting(now) {
            skipped.push((member, AnswerClass::Transient, "it rests after failures"));
        } else {
            asked.push(member);
        }
    }
    if asked.is_empty() {
        // Better one that failed lately than nobody; a used-up quota stays used up.
        let failed = |(_, class, _): &(_, AnswerClass, _)| *class == AnswerClass::Transient;
        asked.extend(skipped.extract_if(.., |skip| failed(skip)).map(|(member, ..)| member));
    }
    // Stable: among those that were handed it equally often, the healthiest first.
    asked.sort_by_key(|member| times(member.place));
    // An endpoint that has not been heard yet may have the transaction from an earlier try.
    let unheard = router.members.iter().filter(|member| {
        member.sends() && matches!(member.standing(), super::member::Standing::Unchecked)
    });
    skipped.extend(unheard.cloned().map(|member| {
        (member, AnswerClass::Transient, "it has not said yet which chain it is on")
    }));
    let word = |(member, class, why): (Arc<Member>, _, _)| {
        let said = format!("{}: not asked, {why}", member.endpoint.name());
        Word::from(SendAnswer { class, said })
    };
    (asked, skipped.into_iter().map(word).collect())
}

/// Hands one over.
pub(super) async fn send(router: &Arc<Router>, raw: &Bytes) -> SendAnswer {
    send_carefully(router, &Handing::begin(router, raw), Vec::new()).await
}

/// Sends to a few endpoints, and to all others if none of those takes it or answers soon. The first
/// few are those that were handed it least often, the healthiest of them first; there are twice as
/// many each time that it is sent again (I15: one endpoint that takes everything and passes nothing
/// on holds nothing up for long). `earlier` is what was answered to the same send already.
async fn send_carefully(router: &Arc<Router>, handing: &Handing, earlier: Vec<Word>) -> SendAnswer {
    let begun = Instant::now();
    let deadline = begun + router.config.send_deadline;
    let (mut waiting, mut words) = plan(router, |place| handing.past.times(place), begun);
    words.extend(earlier);
    let launch = |member: Arc<Member>| -> JoinHandle<Word> {
        // In a task of its own: once begun, a send is finished even if another one wins.
        let (router, handing) = (router.clone(), handing.clone());
        router.with_handed(|handed| handed.note_given(handing.hash, member.place));
        tokio::spawn(async move {
            let params = handing.params.clone();
            let call = member.endpoint.call_until(SEND_METHOD, params, deadline);
            handing.read(&router, &member, call.await)
        })
    };
    let first = handing.past.width(router.config.fan_out).min(waiting.len());
    let mut flying: FuturesUnordered<_> = waiting.drain(..first).map(&launch).collect();
    let patience = begun + router.config.send_patience;
    let mut is_patient = true;
    while !flying.is_empty() {
        let is_held = words.iter().any(|word| is_with_a_node(word.answer.class));
        let until = if is_patient { patience.min(deadline) } else { deadline };
        let woken = tokio::select! {
            biased;
            answer = flying.next() => answer,
            () = sleep_until(until) => None,
        };
        match woken {
            Some(Ok(word)) if word.is_news_of_a_node() => return word.answer,
            Some(Ok(word)) => words.push(word),
            Some(Err(error)) => words.push(unknown(format!("sending task ended early: {error}"))),
            // Those that are still asked get it, but nobody waits for their answers.
            None if is_held => break,
            None if Instant::now() >= deadline => {
                words.push(unknown("no answer in time".to_owned()));
                break;
            }
            None => is_patient = false,
        }
        // Nobody took it, or nobody answers: now all the others.
        flying.extend(waiting.drain(..).map(&launch));
    }
    combine(&words)
}

fn unknown(said: String) -> Word {
    Word::from(SendAnswer { class: AnswerClass::Unknown, said })
}

/// Hands several over in their order, in one call where the endpoints take that. What a batch does
/// not show to be with a node goes the careful way, one by one; what was answered in the batch counts
/// with it, a lost answer too (I3). Stops at the first one without a clear answer: what is behind it
/// was not sent, or must be sent again after it.
pub(super) async fn send_in_order(router: &Arc<Router>, raws: &[Bytes]) -> Vec<SendAnswer> {
    let handings: Vec<_> = raws.iter().map(|raw| Handing::begin(router, raw)).collect();
    let mut words = if raws.len() > 1 { batch(router, &handings).await } else { Vec::new() };
    words.resize(raws.len(), Vec::new());
    let mut answers = Vec::with_capacity(raws.len());
    for (handing, words) in handings.iter().zip(words) {
        let is_taken = words.iter().any(|word| is_with_a_node(word.answer.class));
        let answer = match is_taken {
            true => combine(&words),
            false => send_carefully(router, handing, words).await,
        };
        let unclear = action_for(answer.class) == AnswerAction::ResendSame;
        answers.push(answer);
        if unclear {
            break;
        }
    }
    answers
}

/// Hands all of them to a few endpoints in one call each, chosen as for one alone; what was answered
/// to each. Nothing at all if one of these endpoints takes no batches.
async fn batch(router: &Arc<Router>, handings: &[Handing]) -> Vec<Vec<Word>> {
    let begun = Instant::now();
    let times = |place| handings.iter().map(|handing| handing.past.times(place)).sum();
    let (mut members, _) = plan(router, times, begun);
    let widths = handings.iter().map(|handing| handing.past.width(router.config.fan_out));
    members.truncate(widths.max().unwrap_or(1));
    let mut words = vec![Vec::new(); handings.len()];
    if !members.iter().all(|member| member.endpoint.may_batch(begun)) {
        return words;
    }
    let deadline = begun + router.config.send_deadline;
    let params: Arc<[Value]> = handings.iter().map(|handing| handing.params.clone()).collect();
    let mut calls: FuturesUnordered<_> = members
        .into_iter()
        .map(|member| {
            router.with_handed(|handed| {
                handings.iter().for_each(|one| handed.note_given(one.hash, member.place));
            });
            let (router, handings) = (router.clone(), handings.to_vec());
            let params = params.clone();
            // In a task of its own: once begun, a send is finished even if nobody waits for it.
            tokio::spawn(async move {
                let call = member.endpoint.batch_until(SEND_METHOD, &params, deadline);
                read_batch(&router, &member, &handings, call.await)
            })
        })
        .collect();
    let patience = begun + router.config.send_patience;
    loop {
        let is_each = |is: fn(&Word) -> bool| words.iter().all(|words| words.iter().any(is));
        let is_over = is_each(Word::is_news_of_a_node)
            || (is_each(|word| is_with_a_node(word.answer.class)) && Instant::now() >= patience);
        if is_over {
            return words;
        }
        let woken = tokio::select! {
            answers = calls.next() => answers,
            () = sleep_until(patience), if Instant::now() < patience => continue,
        };
        match woken {
            Some(Ok(answers)) => {
                words.iter_mut().zip(answers).for_each(|(words, answer)| words.extend(answer));
            }
            Some(Err(error)) => {
                let lost = unknown(format!("sending task ended early: {error}"));
                words.iter_mut().for_each(|words| words.push(lost.clone()));
            }
            None => return words,
        }
    }
}

/// What an endpoint said to each transaction of a batch; nothing where nothing was sent. I3: what was
/// sent and is not answered may have been taken.
fn read_batch(
    router: &Router,
    member: &Member,
    handings: &[Handing],
    answers: Result<Vec<Option<Result<Value, RpcError>>>, RpcError>,
) -> Vec<Option<Word>> {
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) if nothing_was_sent(&error) => return vec![None; handings.len()],
        Err(error) => handings.iter().map(|_| Some(Err(error.clone()))).collect(),
    };
    let word = |(handing, answer): (&Handing, Option<_>)| match answer {
        Some(answer) => handing.read(router, member, answer),
        None => unknown(format!("{}: left out of the batch's answer", member.endpoint.name())),
    };
    handings.iter().zip(answers).map(word).map(Some).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(class: AnswerClass, said: &str) -> Word {
        Word::from(SendAnswer { class, said: said.to_owned() })
    }

    #[test]
    fn everything_that_was_said_is_told_once_and_within_bounds() {
        let invalid = |said: &str| word(AnswerClass::Invalid, said);
        assert_eq!(
            combine(&[invalid("a: x"), invalid("b: y"), invalid("a: x")]).said,
            "a: x; b: y"
        );
        let best_first = combine(&[invalid("a: x"), word(AnswerClass::Unknown, "b: lost")]);
        assert_eq!(best_first.said, "b: lost; a: x");
        assert!(combine(&[invalid(&"é".repeat(5_000))]).said.len() <= SAID_BYTES_MAX);
        let nobody = combine(&[]);
        assert_eq!(
            (nobody.class, &*nobody.said),
            (AnswerClass::Unknown, "no endpoint could be asked")
        );
    }

    #[test]
    fn endpoint_that_had_it_before_tells_less_than_a_nonce_and_more_than_a_rejection() {
        let stale = Word { is_stale: true, ..word(AnswerClass::AlreadyKnown, "a: already known") };
        for class in AnswerClass::ALL {
            let both = combine(&[stale.clone(), word(class, "b")]).class;
            let expected = match class {
                AnswerClass::Accepted | AnswerClass::NonceTooLow | AnswerClass::NonceTooHigh => {
                    class
                }
                _ => AnswerClass::AlreadyKnown,
            };
            assert_eq!(both, expected, "{class}");
        }
    }
}
