//! Estimates the gas of a call on the head, by two endpoints where there are several.
//!
//! Owns no state. [`tollgate_model::gas_agreement`] decides which estimate counts.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::Route;
use tollgate_model::answer::AnswerClass;
use tollgate_model::gas_agreement::{GasAgreement, agree_on_gas};
use tollgate_model::port::chain::{Call, CallEstimate, ChainUnavailable, SendAnswer};
use tollgate_model::refusal::refusal_of_estimate;

use super::disagreements::{Basis, Claim, Subject};
use super::funds::limits;
use super::pool_member::PoolMember;
use super::revert_reason::{reason_in, revert_data};
use super::router::{Needs, Router, unavailable};
use super::votes::{further_patience, gather};
use crate::classify::classify_with;
use crate::endpoint::json::{Quantity, quantity};
use crate::endpoint::{Capability, RpcError, RpcErrorKind};

const ESTIMATE: &str = "eth_estimateGas";
/// The JSON-RPC code for parameters of another form than the method takes.
const INVALID_PARAMS: i64 = -32_602;

/// A call in the JSON that nodes read.
pub(super) fn call_object(call: &Call) -> Value {
    let mut object = json!({
        "from": call.from.to_string(),
        "value": format!("{:#x}", call.value.0),
        "data": call.data.to_string(),
    });
    if let Some(to) = call.to {
        object["to"] = json!(to.to_string());
    }
    object
}

/// Reverts of different endpoints that decide.
const REVERTS_ENOUGH: usize = 2;
/// Endpoints that are asked together.
const ASKED_FIRST: usize = 2;
/// The least time of a further endpoint after the first estimate: a create waits for it.
const FURTHER_ESTIMATES_PATIENCE: Duration = Duration::from_millis(300);

/// The answers of the endpoints so far.
#[derive(Default)]
struct Answers {
    estimates: Vec<(Arc<PoolMember>, u64)>,
    reverts: usize,
    reverted: Option<CallEstimate>,
    refused: Option<SendAnswer>,
    unclear: Option<SendAnswer>,
    said: Vec<String>,
}

impl Answers {
    fn note(&mut self, router: &Router, member: &Arc<PoolMember>, answer: Result<u64, RpcError>) {
        let error = match answer {
            Ok(gas) => return self.estimates.push((member.clone(), gas)),
            Err(error) => error,
        };
        let class = class_of(router, &error);
        if class == AnswerClass::Reverted {
            self.reverts += 1;
            self.reverted.get_or_insert_with(|| CallEstimate::Reverts(reason_in(&error)));
            return;
        }
        self.said.push(format!("{}: {error}", member.endpoint.name()));
        if error.kind == RpcErrorKind::Node {
            let answer = SendAnswer { class, said: error.message };
            match refusal_of_estimate(class) {
                Some(_) => drop(self.refused.get_or_insert(answer)),
                None if class == AnswerClass::Unknown => drop(self.unclear.get_or_insert(answer)),
                // The answer is about the endpoint itself: another one may know.
                None => {}
            }
        }
    }

    fn agreed(&self, router: &Router) -> Option<GasAgreement> {
        let gas: Vec<u64> = self.estimates.iter().map(|(_, gas)| *gas).collect();
        agree_on_gas(&gas, limits(router).block_gas.unwrap_or(u64::MAX))
    }

    /// Returns whether a further endpoint is worth asking.
    fn needs(&self, member: &PoolMember, router: &Router) -> bool {
        // A resting endpoint is not waited for just to confirm something.
        let rests = member.endpoint.health().is_resting(Instant::now());
        match self.agreed(router) {
            Some(GasAgreement::Use(_)) => false,
            Some(GasAgreement::Disputed { .. }) => !rests,
            None => self.reverts < REVERTS_ENOUGH && !(rests && self.reverted.is_some()),
        }
    }
}

/// Estimates the gas of a call by two endpoints ([`agree_on_gas`]), and by a third if they are far apart;
/// by one if no second one answers soon. A revert decides once two endpoints report it, or no other
/// healthy one reports something else; a refusal decides once all endpoints were asked, because another
/// one that lags less may estimate the call.
pub(super) async fn estimate_call(
    router: &Router,
    call: &Call,
    route: Route,
) -> Result<CallEstimate, ChainUnavailable> {
    let now = Instant::now();
    let readers = router.readers_on(route, now);
    let first = match route {
        Route::Public => router.witnesses(Needs::Head, ASKED_FIRST, now).len(),
        Route::Private => ASKED_FIRST,
    };
    let (object, mut answers) = (call_object(call), Answers::default());
    let (together, others) = readers.split_at(first.min(readers.len()));
    let patience = further_patience(&readers, FURTHER_ESTIMATES_PATIENCE);
    if let Some((_, until)) = router.in_turn(&readers).next() {
        let object = &object;
        let asked = together.iter().map(async |member| {
            let answer = estimate(member, object, until).await;
            answer.map(|gas| (member, gas)).map_err(|error| (member, error))
        });
        let (estimates, errors) = gather(asked, until, patience).await;
        estimates.into_iter().for_each(|(it, gas)| answers.note(router, it, Ok(gas)));
        errors.into_iter().for_each(|(it, error)| answers.note(router, it, Err(error)));
    }
    for (member, until) in router.in_turn(others) {
        if !answers.needs(member, router) {
            break;
        }
        let soon = Instant::now() + patience;
        let until = if answers.estimates.is_empty() { until } else { until.min(soon) };
        let answer = estimate(member, &object, until).await;
        answers.note(router, member, answer);
    }
    if let Some(gas) = decide(router, &object, &answers).await {
        return Ok(CallEstimate::Gas(gas));
    }
    let Answers { reverted, refused, unclear, said, .. } = answers;
    let refused = refused.or(unclear).map(CallEstimate::Refused);
    reverted.or(refused).ok_or_else(|| unavailable(ESTIMATE, &said))
}

/// The estimate that counts; `None` if there is none.
async fn decide(router: &Router, object: &Value, answers: &Answers) -> Option<u64> {
    let gas = match answers.agreed(router)? {
        GasAgreement::Use(gas) => gas,
        GasAgreement::Disputed { lower, higher, try_with } => {
            let of_higher = answers.estimates.iter().find(|(_, gas)| *gas == higher);
            match of_higher {
                Some((member, _)) if succeeds(member, object, try_with).await => lower,
                _ => higher,
            }
        }
    };
    let is_far = |other: u64| other.max(gas) / 2 > other.min(gas);
    let claims: Vec<_> = match answers.estimates.iter().any(|(_, other)| is_far(*other)) {
        true => {
            answers.estimates.iter().map(|(of, gas)| Claim::new(of.endpoint.name(), gas)).collect()
        }
        false => Vec::new(),
    };
    let subject = Subject { what: "gas estimate", of: "" };
    match answers.agreed(router)? {
        GasAgreement::Use(_) => {
            router.disagreements.note(subject, gas, &claims, (Basis::Evidence, Duration::ZERO))
        }
        GasAgreement::Disputed { .. } => router.disagreements.note_undecided(subject, gas, &claims),
    }
    Some(gas)
}

/// Returns whether an endpoint finds that the call succeeds with this gas limit.
async fn succeeds(member: &Arc<PoolMember>, object: &Value, gas: u64) -> bool {
    let mut object = object.clone();
    object["gas"] = json!(quantity(gas));
    let patience = further_patience(std::slice::from_ref(member), FURTHER_ESTIMATES_PATIENCE);
    let until = Instant::now() + patience;
    let answer = member.endpoint.call_until::<Value>("eth_call", json!([object, "latest"]), until);
    answer.await.is_ok()
}

/// One endpoint's estimate, on the head if it takes a block argument, else on the block of its choice.
async fn estimate(member: &PoolMember, object: &Value, until: Instant) -> Result<u64, RpcError> {
    let capabilities = member.endpoint.capabilities();
    let ask = async |params: Value| {
        let answer = member.endpoint.call_until(ESTIMATE, params, until).await;
        answer.map(|gas: Quantity<u64>| gas.0)
    };
    let without = json!([object]);
    if !capabilities.may_have(Capability::EstimateAtBlock, Instant::now()) {
        return ask(without).await;
    }
    let error = match ask(json!([object, "latest"])).await {
        Err(error) if is_about_params(&error) => error,
        answer => return answer,
    };
    let again = ask(without).await;
    // The same refusal without a block is not about the block.
    let same = |other: &RpcError| is_about_params(other) && other.code == error.code;
    if !again.as_ref().is_err_and(same) {
        capabilities.lacks(Capability::EstimateAtBlock, Instant::now());
    }
    again
}

/// Returns whether a node complains about the form of the request, not about the call.
fn is_about_params(error: &RpcError) -> bool {
    let is_invalid = error.kind == RpcErrorKind::Node && error.code == Some(INVALID_PARAMS);
    is_invalid || error.is_argument_too_many()
}

/// Classifies an answer to an estimate. Nothing was sent, so that data beside the code of a revert is a
/// contract's own error.
pub(super) fn class_of(router: &Router, error: &RpcError) -> AnswerClass {
    let class = classify_with(&error.as_answer(), &router.config.overrides);
    let has_data = || error.data.as_deref().and_then(revert_data).is_some_and(|d| d.len() >= 4);
    match class {
        AnswerClass::Unknown if error.code == Some(3) && has_data() => AnswerClass::Reverted,
        // A send has one parameter, the transaction. An estimate has more, and their form is not the
        // caller's.
        AnswerClass::Invalid if is_about_params(error) => AnswerClass::Unknown,
        class => class,
    }
}
