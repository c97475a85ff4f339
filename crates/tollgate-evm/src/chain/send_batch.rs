//! Sends several signed transactions in their order, in one call where the endpoints accept batches.
//!
//! Owns no state. A transaction that the batch does not show to be with a node is sent again by itself
//! ([`super::send`]); the answers of the batch count with it, a lost answer too (I3).

use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use serde_json::Value;
use tokio::time::{Instant, sleep_until};
use tollgate_model::answer::{AnswerAction, action_for};
use tollgate_model::port::chain::SendAnswer;
use tollgate_model::{Bytes, Route};

use super::pool_member::PoolMember;
use super::router::Router;
use super::send::{
    EndpointAnswer, PendingSend, combine, is_with_a_node, plan, send_carefully, unknown,
};
use crate::endpoint::{RpcError, SEND_METHOD};

/// The answers to each transaction of a batch.
type BatchAnswers = Vec<Vec<EndpointAnswer>>;

/// Sends transactions in their order. Stops after the first one without a clear answer: those behind it
/// were not sent, or must be sent again after it.
pub(super) async fn send_in_order(
    router: &Arc<Router>,
    raws: &[Bytes],
    route: Route,
) -> Vec<SendAnswer> {
    let sends: Vec<_> = raws.iter().map(|raw| PendingSend::begin(router, raw, route)).collect();
    let mut in_batch = if raws.len() > 1 { batch(router, &sends, route).await } else { Vec::new() };
    in_batch.resize(raws.len(), Vec::new());
    let mut answers = Vec::with_capacity(raws.len());
    for (send, in_batch) in sends.iter().zip(in_batch) {
        let is_accepted = in_batch.iter().any(|one| is_with_a_node(one.answer.class));
        let answer = match is_accepted {
            true => combine(&in_batch),
            false => send_carefully(router, send, in_batch).await,
        };
        let is_unclear = action_for(answer.class) == AnswerAction::ResendSame;
        answers.push(answer);
        if is_unclear {
            break;
        }
    }
    answers
}

/// Sends all transactions to a few endpoints in one call each, chosen as for a single transaction. There
/// are no answers at all if one of these endpoints takes no batches.
async fn batch(router: &Arc<Router>, sends: &[PendingSend], route: Route) -> BatchAnswers {
    let begun = Instant::now();
    let times = |place| sends.iter().map(|send| send.earlier.times(place)).sum();
    let (mut members, _) = plan(router, route, times, begun);
    let widths = sends.iter().map(|send| send.earlier.width(router.config.fan_out));
    members.truncate(widths.max().unwrap_or(1));
    let mut answers: BatchAnswers = vec![Vec::new(); sends.len()];
    if !members.iter().all(|member| member.endpoint.may_batch(begun)) {
        return answers;
    }
    let deadline = begun + router.config.send_deadline;
    let params: Arc<[Value]> = sends.iter().map(|send| send.params.clone()).collect();
    let mut calls: FuturesUnordered<_> = members
        .into_iter()
        .map(|member| {
            router.with_send_history(|history| {
                sends.iter().for_each(|send| history.note_sent(send.hash, member.place));
            });
            let (router, sends, params) = (router.clone(), sends.to_vec(), params.clone());
            // A task of its own: once begun, a send is finished even if nobody waits for it.
            tokio::spawn(async move {
                let call = member.endpoint.batch_until(SEND_METHOD, &params, deadline);
                read_batch(&router, &member, &sends, call.await)
            })
        })
        .collect();
    let patience = begun + router.config.send_patience;
    loop {
        let has_each = |is: fn(&EndpointAnswer) -> bool| answers.iter().all(|of| of.iter().any(is));
        let is_over = has_each(EndpointAnswer::is_newly_accepted)
            || (has_each(|one| is_with_a_node(one.answer.class)) && Instant::now() >= patience);
        if is_over {
            return answers;
        }
        let ended = tokio::select! {
            ended = calls.next() => ended,
            () = sleep_until(patience), if Instant::now() < patience => continue,
        };
        match ended {
            Some(Ok(of_endpoint)) => {
                answers.iter_mut().zip(of_endpoint).for_each(|(all, one)| all.extend(one));
            }
            Some(Err(error)) => {
                let lost = unknown(format!("sending task ended early: {error}"));
                answers.iter_mut().for_each(|all| all.push(lost.clone()));
            }
            None => return answers,
        }
    }
}

/// An endpoint's answer to each transaction of a batch; `None` where nothing was sent. I3: a
/// transaction that was sent and not answered may have been accepted.
fn read_batch(
    router: &Router,
    member: &PoolMember,
    sends: &[PendingSend],
    answers: Result<Vec<Option<Result<Value, RpcError>>>, RpcError>,
) -> Vec<Option<EndpointAnswer>> {
    let answers = match answers {
        Ok(answers) => answers,
        Err(error) if error.is_unsent() => return vec![None; sends.len()],
        Err(error) => sends.iter().map(|_| Some(Err(error.clone()))).collect(),
    };
    let read = |(send, answer): (&PendingSend, Option<_>)| match answer {
        Some(answer) => send.read(router, member, answer),
        None => unknown(format!("{}: left out of the batch's answer", member.endpoint.name())),
    };
    sends.iter().zip(answers).map(read).map(Some).collect()
}
