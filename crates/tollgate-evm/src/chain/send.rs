//! Hands signed bytes to one endpoint or several, and makes one answer of theirs.
//!
//! Owns no state. Never signs, never changes the bytes. The one unforgivable mistake is to call a
//! transaction dead that may be mined, so a dead answer needs every endpoint there is: one that was
//! not heard keeps it alive (I3, I8).

use std::sync::Arc;

use alloy_primitives::keccak256;
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::port::chain::SendAnswer;
use tollgate_model::{Bytes, TxHash};

use super::member::Member;
use super::router::Router;
use crate::classify::{Overrides, classify_with};
use crate::endpoint::{RpcError, RpcErrorKind};

/// How much of the endpoints' words is kept, in bytes.
const SAID_BYTES_MAX: usize = 2_000;

/// How much an answer tells, the most telling first. The classes that may lead to a rejection come
/// last, so that they win only if nobody says anything else; among them the one that leaves most
/// open.
///
/// A price or a lack of funds tells more than a missing predecessor, which is often missing only
/// where the earlier transactions did not go; and all of them tell more than silence. None of the
/// living ones gives up a slot, so this order is about what is tried next, not about safety.
const fn rank(class: AnswerClass) -> u8 {
    match class {
        AnswerClass::Accepted => 0,
        AnswerClass::AlreadyKnown => 1,
        AnswerClass::NonceTooLow => 2,
        AnswerClass::ReplacementUnderpriced => 3,
        AnswerClass::FeeTooLow => 4,
        AnswerClass::Underpriced => 5,
        AnswerClass::InsufficientFunds => 6,
        AnswerClass::NonceTooHigh => 7,
        AnswerClass::FeeTooHigh => 8,
        AnswerClass::PoolFull => 9,
        AnswerClass::Unknown => 10,
        AnswerClass::Transient => 11,
        AnswerClass::RateLimited => 12,
        AnswerClass::Reverted => 13,
        AnswerClass::GasLimit => 14,
        AnswerClass::Invalid => 15,
    }
}

/// One answer from those of all endpoints that a transaction was, or should have been, handed to.
///
/// Any acceptance wins. A class that may lead to a rejection comes out only if all say one. No
/// answer at all is [`AnswerClass::Unknown`].
pub fn combine(answers: &[SendAnswer]) -> SendAnswer {
    let Some(best) = answers.iter().min_by_key(|answer| rank(answer.class)) else {
        let said = "no endpoint could be asked".to_owned();
        return SendAnswer { class: AnswerClass::Unknown, said };
    };
    let mut said = best.said.clone();
    for other in answers.iter().filter(|answer| !std::ptr::eq(*answer, best)) {
        said.push_str("; ");
        said.push_str(&other.said);
    }
    let mut end = said.len().min(SAID_BYTES_MAX);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    said.truncate(end);
    SendAnswer { class: best.class, said }
}

const fn is_with_a_node(class: AnswerClass) -> bool {
    matches!(class, AnswerClass::Accepted | AnswerClass::AlreadyKnown)
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
                // Nothing was sent.
                RpcErrorKind::Unreachable | RpcErrorKind::Busy => AnswerClass::Transient,
                RpcErrorKind::NoAnswer | RpcErrorKind::Unreadable => AnswerClass::Unknown,
            };
            (class, error.message)
        }
    };
    SendAnswer { class, said: format!("{name}: {said}") }
}

/// The endpoints that will be asked, and the answers of those that won't.
fn plan(router: &Router, now: Instant) -> (Vec<Arc<Member>>, Vec<SendAnswer>) {
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
    // An endpoint that has not been heard yet may have the transaction from an earlier try.
    let unheard = router.members.iter().filter(|member| {
        member.sends() && matches!(member.standing(), super::member::Standing::Unchecked)
    });
    skipped.extend(unheard.cloned().map(|member| {
        (member, AnswerClass::Transient, "it has not said yet which chain it is on")
    }));
    let word = |(member, class, why): (Arc<Member>, _, _)| {
        let said = format!("{}: not asked, {why}", member.endpoint.name());
        SendAnswer { class, said }
    };
    (asked, skipped.into_iter().map(word).collect())
}

/// Sends to the healthiest `fan_out` endpoints, and to all others if none of those takes it or
/// answers soon.
pub(super) async fn send(router: &Arc<Router>, raw: &Bytes) -> SendAnswer {
    let begun = Instant::now();
    let deadline = begun + router.config.send_deadline;
    let hash = keccak256(raw);
    let params = json!([raw.to_string()]);
    let (mut waiting, mut answers) = plan(router, begun);
    let launch = |member: Arc<Member>| -> JoinHandle<SendAnswer> {
        // In a task of its own: once begun, a send is finished even if another one wins.
        let (router, params) = (router.clone(), params.clone());
        tokio::spawn(async move {
            let call = member.endpoint.call_until("eth_sendRawTransaction", params, deadline);
            read(member.endpoint.name(), call.await, hash, &router.config.overrides)
        })
    };
    let first = router.config.fan_out.clamp(1, waiting.len().max(1)).min(waiting.len());
    let mut flying: FuturesUnordered<_> = waiting.drain(..first).map(&launch).collect();
    let mut patience = begun + router.config.send_patience;
    while !flying.is_empty() {
        let woken = tokio::select! {
            biased;
            answer = flying.next() => answer,
            () = sleep_until(patience.min(deadline)) => None,
        };
        match woken {
            Some(Ok(answer)) if is_with_a_node(answer.class) => return answer,
            Some(Ok(answer)) => answers.push(answer),
            Some(Err(error)) => answers.push(SendAnswer {
                class: AnswerClass::Unknown,
                said: format!("the sending task ended early: {error}"),
            }),
            None if Instant::now() >= deadline => {
                let said = "no answer in time".to_owned();
                answers.push(SendAnswer { class: AnswerClass::Unknown, said });
                break;
            }
            None => patience = deadline,
        }
        // Nobody took it, or nobody answers: now all the others.
        flying.extend(waiting.drain(..).map(&launch));
    }
    combine(&answers)
}

/// Hands several over in their order, in one call where the endpoints take that. What a batch does
/// not show to be with a node goes the careful way, one by one. Stops at the first one without a
/// clear answer: what is behind it was not sent, or must be sent again after it.
pub(super) async fn send_in_order(router: &Arc<Router>, raws: &[Bytes]) -> Vec<SendAnswer> {
    let mut taken = if raws.len() > 1 { batch(router, raws).await } else { Vec::new() };
    taken.resize(raws.len(), None);
    let mut answers = Vec::with_capacity(raws.len());
    for (raw, taken) in raws.iter().zip(taken) {
        let answer = match taken {
            Some(answer) => answer,
            None => send(router, raw).await,
        };
        let unclear = action_for(answer.class) == AnswerAction::ResendSame;
        answers.push(answer);
        if unclear {
            break;
        }
    }
    answers
}

/// Hands all of them to the healthiest `fan_out` endpoints in one call each; the answer of each one
/// that a node has. None at all if one of these endpoints takes no batches.
async fn batch(router: &Arc<Router>, raws: &[Bytes]) -> Vec<Option<SendAnswer>> {
    let begun = Instant::now();
    let (mut members, _) = plan(router, begun);
    members.truncate(router.config.fan_out.max(1));
    let mut taken = vec![None; raws.len()];
    if !members.iter().all(|member| member.endpoint.may_batch(begun)) {
        return taken;
    }
    let deadline = begun + router.config.send_deadline;
    let hashes: Vec<TxHash> = raws.iter().map(keccak256).collect();
    let params: Arc<[Value]> = raws.iter().map(|raw| json!([raw.to_string()])).collect();
    let calls = members.into_iter().map(|member| {
        let params = params.clone();
        // In a task of its own: once begun, a send is finished even if nobody waits for it.
        tokio::spawn(async move {
            let call = member.endpoint.batch_until("eth_sendRawTransaction", &params, deadline);
            (call.await, member)
        })
    });
    for done in join_all(calls).await {
        let Ok((answers, member)) = done else { continue };
        let Ok(answers) = answers else { continue };
        for ((place, answer), hash) in taken.iter_mut().zip(answers).zip(&hashes) {
            let Some(answer) = answer else { continue };
            let answer = read(member.endpoint.name(), answer, *hash, &router.config.overrides);
            if is_with_a_node(answer.class) {
                *place = Some(answer);
            }
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;
    use AnswerClass::*;

    fn combined(classes: &[AnswerClass]) -> AnswerClass {
        let answers: Vec<_> =
            classes.iter().map(|&class| SendAnswer { class, said: class.to_string() }).collect();
        combine(&answers).class
    }

    #[test]
    fn the_table() {
        let table: &[(&[AnswerClass], AnswerClass)] = &[
            (&[], Unknown),
            (&[Accepted], Accepted),
            (&[Invalid], Invalid),
            (&[Invalid, Invalid], Invalid),
            (&[Invalid, Accepted], Accepted),
            (&[Reverted, AlreadyKnown, GasLimit], AlreadyKnown),
            (&[NonceTooLow, Accepted], Accepted),
            // Dead only if all say so; then the one that leaves most open.
            (&[Invalid, GasLimit], GasLimit),
            (&[GasLimit, Reverted, Invalid], Reverted),
            (&[Invalid, RateLimited], RateLimited),
            (&[Invalid, Transient], Transient),
            (&[Reverted, Unknown], Unknown),
            (&[Invalid, FeeTooHigh], FeeTooHigh),
            (&[GasLimit, PoolFull], PoolFull),
            // Among the living, what tells most.
            (&[Unknown, InsufficientFunds], InsufficientFunds),
            (&[NonceTooHigh, Underpriced], Underpriced),
            (&[ReplacementUnderpriced, Underpriced], ReplacementUnderpriced),
            (&[Underpriced, NonceTooLow], NonceTooLow),
            (&[FeeTooHigh, NonceTooHigh], NonceTooHigh),
            (&[Transient, Unknown, RateLimited], Unknown),
        ];
        for (classes, expected) in table {
            assert_eq!(combined(classes), *expected, "{classes:?}");
            let turned: Vec<_> = classes.iter().rev().copied().collect();
            assert_eq!(combined(&turned), *expected, "{turned:?}");
        }
    }

    #[test]
    fn a_dead_answer_needs_every_endpoint_and_an_acceptance_only_one() {
        for one in AnswerClass::ALL {
            for other in AnswerClass::ALL {
                let both = combined(&[one, other]);
                let all_dead = one.may_lead_to_rejection() && other.may_lead_to_rejection();
                assert_eq!(both.may_lead_to_rejection(), all_dead, "{one} {other}");
                let taken = is_with_a_node(one) || is_with_a_node(other);
                assert_eq!(is_with_a_node(both), taken, "{one} {other}");
            }
        }
    }

    #[test]
    fn everything_that_was_said_is_told_within_bounds() {
        let answer = |said: &str| SendAnswer { class: Invalid, said: said.to_owned() };
        assert_eq!(combine(&[answer("a: x"), answer("b: y")]).said, "a: x; b: y");
        assert!(combine(&[answer(&"é".repeat(5_000))]).said.len() <= SAID_BYTES_MAX);
    }
}
