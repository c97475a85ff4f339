//! Sends one signed transaction to one or more endpoints and combines their answers into one.
//!
//! Owns no state; [`super::send_history`] remembers which endpoint was sent what. Never signs and never
//! changes the bytes. A transaction that may still be mined must not be reported as rejected, so a
//! rejection needs the answer of every endpoint (I3, I8).

use std::sync::Arc;
use std::time::Duration;

use alloy_primitives::keccak256;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};
use tollgate_model::answer::{AnswerClass, combined};
use tollgate_model::port::chain::SendAnswer;
use tollgate_model::{Bytes, Route, TxHash};

use super::disagreements::{Basis, Claim, Subject};
use super::pool_member::{ChainCheck, PoolMember};
use super::router::Router;
use super::send_history::EarlierSends;
use crate::classify::{Overrides, classify_with};
use crate::endpoint::{RpcError, RpcErrorKind, SEND_METHOD};

/// The longest text of the combined answer, in bytes.
const SAID_BYTES_MAX: usize = 2_000;

/// One endpoint's answer to a send.
#[derive(Clone, Debug)]
pub(super) struct EndpointAnswer {
    pub(super) answer: SendAnswer,
    /// The answer is "already known" and the endpoint accepted the transaction in an earlier send, so
    /// it tells nothing new.
    is_stale: bool,
}

impl From<SendAnswer> for EndpointAnswer {
    fn from(answer: SendAnswer) -> Self {
        Self { answer, is_stale: false }
    }
}

impl EndpointAnswer {
    /// Returns whether a node has the transaction, and that was not known before.
    pub(super) fn is_newly_accepted(&self) -> bool {
        is_with_a_node(self.answer.class) && !self.is_stale
    }

    fn is_about_a_nonce(&self) -> bool {
        matches!(self.answer.class, AnswerClass::NonceTooLow | AnswerClass::NonceTooHigh)
    }
}

/// Combines the answers of all endpoints and all tries ([`combined`]); the text holds each of them once.
///
/// A stale "already known" is ignored where another endpoint complains about the nonce: then the slots
/// below it have to be checked, or the transaction never reaches that endpoint.
pub(super) fn combine(answers: &[EndpointAnswer]) -> SendAnswer {
    let has_nonce = answers.iter().any(EndpointAnswer::is_about_a_nonce);
    let telling = answers.iter().filter(|answer| !(has_nonce && answer.is_stale));
    let class = combined(telling.map(|answer| answer.answer.class));
    let mut said: Vec<&str> = Vec::new();
    let (best, others): (Vec<_>, Vec<_>) =
        answers.iter().map(|answer| &answer.answer).partition(|answer| answer.class == class);
    for answer in best.into_iter().chain(others) {
        if !said.contains(&&*answer.said) {
            said.push(&answer.said);
        }
    }
    let mut said = said.join("; ");
    if answers.is_empty() {
        said.push_str("no endpoint could be asked");
    }
    let mut end = said.len().min(SAID_BYTES_MAX);
    while !said.is_char_boundary(end) {
        end -= 1;
    }
    said.truncate(end);
    SendAnswer { class, said }
}

pub(super) const fn is_with_a_node(class: AnswerClass) -> bool {
    matches!(class, AnswerClass::Accepted | AnswerClass::AlreadyKnown)
}

/// A transaction that is being sent.
#[derive(Clone)]
pub(super) struct PendingSend {
    pub(super) hash: TxHash,
    pub(super) route: Route,
    pub(super) params: Value,
    pub(super) earlier: EarlierSends,
}

impl PendingSend {
    pub(super) fn begin(router: &Router, raw: &Bytes, route: Route) -> Self {
        let hash = keccak256(raw);
        let earlier = router.with_send_history(|history| history.begin(hash));
        Self { hash, route, params: json!([raw.to_string()]), earlier }
    }

    /// Classifies an endpoint's answer, and remembers for the next send whether it has the transaction.
    pub(super) fn read(
        &self,
        router: &Router,
        member: &PoolMember,
        answer: Result<Value, RpcError>,
    ) -> EndpointAnswer {
        let answer = read(member.endpoint.name(), answer, self.hash, &router.config.overrides);
        let is_known = answer.class == AnswerClass::AlreadyKnown;
        if is_with_a_node(answer.class) {
            let swallowed = router.with_send_history(|history| {
                history.note_accepted(self.hash, member.place);
                history.note_known(&self.earlier, member.place, is_known)
            });
            warn_swallowing(router, member, &swallowed);
        }
        EndpointAnswer { is_stale: is_known && self.earlier.is_accepted_by(member.place), answer }
    }
}

/// Names endpoints that accept transactions and don't pass them on, by what another one did not know later.
fn warn_swallowing(router: &Router, unknown_to: &PoolMember, swallowed: &[(usize, u32)]) {
    for (place, count) in swallowed {
        // A private endpoint is there not to pass them on.
        let is_public = |member: &&Arc<PoolMember>| member.sends(Route::Public);
        let Some(member) = router.members.get(*place).filter(is_public) else { continue };
        let claim = Claim::new(member.endpoint.name(), format!("{count} accepted"));
        let used = format!("unknown to {} later", unknown_to.endpoint.name());
        let subject = Subject { what: "transactions that it does not pass on", of: "" };
        router.disagreements.note(subject, used, &[claim], (Basis::Evidence, Duration::ZERO));
    }
}

/// Classifies one endpoint's answer to a send.
fn read(
    name: &str,
    answer: Result<Value, RpcError>,
    hash: TxHash,
    overrides: &Overrides,
) -> SendAnswer {
    let (class, said) = match answer {
        Ok(Value::String(said)) if said.parse() == Ok(hash) => (AnswerClass::Accepted, said),
        // It accepted something else than what was sent.
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

/// The endpoints of a route to send to, those first that were sent it least often, and an answer for each
/// endpoint of the route that is left out.
pub(super) fn plan(
    router: &Router,
    route: Route,
    times: impl Fn(usize) -> u32,
    now: Instant,
) -> (Vec<Arc<PoolMember>>, Vec<EndpointAnswer>) {
    let (mut asked, mut skipped) = (Vec::new(), Vec::new());
    for member in router.senders(route, now) {
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
        // An endpoint that failed lately is better than none; one without quota is not.
        let failed = |(_, class, _): &(_, AnswerClass, _)| *class == AnswerClass::Transient;
        asked.extend(skipped.extract_if(.., |skip| failed(skip)).map(|(member, ..)| member));
    }
    // Stable: among those that were sent it equally often, the healthiest first.
    asked.sort_by_key(|member| times(member.place));
    // An endpoint that is not checked yet may have the transaction from an earlier try.
    let unchecked = router
        .members
        .iter()
        .filter(|member| member.sends(route))
        .filter(|member| matches!(member.chain_check(), ChainCheck::Pending));
    skipped.extend(unchecked.cloned().map(|member| {
        (member, AnswerClass::Transient, "it has not said yet which chain it is on")
    }));
    let to_answer = |(member, class, why): (Arc<PoolMember>, _, _)| {
        let said = format!("{}: not asked, {why}", member.endpoint.name());
        EndpointAnswer::from(SendAnswer { class, said })
    };
    (asked, skipped.into_iter().map(to_answer).collect())
}

/// Sends one transaction.
pub(super) async fn send(router: &Arc<Router>, raw: &Bytes, route: Route) -> SendAnswer {
    send_carefully(router, &PendingSend::begin(router, raw, route), Vec::new()).await
}

/// Sends to a few endpoints, and to all others if none of those accepts it or answers within
/// `send_patience`. The first ones are those that were sent it least often, the healthiest first; their
/// number doubles with each resend, so that an endpoint which accepts transactions without propagating
/// them delays a transaction once (I15). `earlier` holds answers that were given to the same send.
pub(super) async fn send_carefully(
    router: &Arc<Router>,
    pending: &PendingSend,
    earlier: Vec<EndpointAnswer>,
) -> SendAnswer {
    let begun = Instant::now();
    let deadline = begun + router.config.send_deadline;
    let times = |place| pending.earlier.times(place);
    let (mut waiting, mut answers) = plan(router, pending.route, times, begun);
    answers.extend(earlier);
    let launch = |member: Arc<PoolMember>| -> JoinHandle<EndpointAnswer> {
        // A task of its own: once begun, a send is finished even if another endpoint answers first.
        let (router, pending) = (router.clone(), pending.clone());
        router.with_send_history(|history| history.note_sent(pending.hash, member.place));
        tokio::spawn(async move {
            let params = pending.params.clone();
            let call = member.endpoint.call_until(SEND_METHOD, params, deadline);
            pending.read(&router, &member, call.await)
        })
    };
    let first = pending.earlier.width(router.config.fan_out).min(waiting.len());
    let mut in_flight: FuturesUnordered<_> = waiting.drain(..first).map(&launch).collect();
    let patience = begun + router.config.send_patience;
    let mut is_patient = true;
    while !in_flight.is_empty() {
        let is_held = answers.iter().any(|answer| is_with_a_node(answer.answer.class));
        let until = if is_patient { patience.min(deadline) } else { deadline };
        let woken = tokio::select! {
            biased;
            answer = in_flight.next() => answer,
            () = sleep_until(until) => None,
        };
        match woken {
            Some(Ok(answer)) if answer.is_newly_accepted() => return answer.answer,
            Some(Ok(answer)) => answers.push(answer),
            Some(Err(error)) => answers.push(unknown(format!("sending task ended early: {error}"))),
            // The sends that are still in flight go on without anybody waiting for them.
            None if is_held => break,
            None if Instant::now() >= deadline => {
                answers.push(unknown("no answer in time".to_owned()));
                break;
            }
            None => is_patient = false,
        }
        // No endpoint accepted it, or none answered in time: send to all others.
        in_flight.extend(waiting.drain(..).map(&launch));
    }
    if answers.is_empty() && pending.route == Route::Private {
        answers.push(unknown("no private endpoint could be asked".to_owned()));
    }
    combine(&answers)
}

pub(super) fn unknown(said: String) -> EndpointAnswer {
    EndpointAnswer::from(SendAnswer { class: AnswerClass::Unknown, said })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(class: AnswerClass, said: &str) -> EndpointAnswer {
        EndpointAnswer::from(SendAnswer { class, said: said.to_owned() })
    }

    #[test]
    fn combined_text_holds_each_answer_once_within_its_limit() {
        let invalid = |said: &str| answered(AnswerClass::Invalid, said);
        assert_eq!(
            combine(&[invalid("a: x"), invalid("b: y"), invalid("a: x")]).said,
            "a: x; b: y"
        );
        let best_first = combine(&[invalid("a: x"), answered(AnswerClass::Unknown, "b: lost")]);
        assert_eq!(best_first.said, "b: lost; a: x");
        assert!(combine(&[invalid(&"é".repeat(5_000))]).said.len() <= SAID_BYTES_MAX);
        let without_endpoints = combine(&[]);
        assert_eq!(
            (without_endpoints.class, &*without_endpoints.said),
            (AnswerClass::Unknown, "no endpoint could be asked")
        );
    }

    #[test]
    fn stale_already_known_gives_way_to_nonce_answers_and_beats_rejections() {
        let stale = EndpointAnswer {
            is_stale: true,
            ..answered(AnswerClass::AlreadyKnown, "a: already known")
        };
        for class in AnswerClass::ALL {
            let both = combine(&[stale.clone(), answered(class, "b")]).class;
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
