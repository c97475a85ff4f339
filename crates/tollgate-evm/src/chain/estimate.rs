//! Estimates the gas of a call on the head.

use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::chain::{Call, CallEstimate, ChainUnavailable, SendAnswer};
use tollgate_model::refusal::refusal_of_estimate;

use super::pool_member::PoolMember;
use super::revert_reason::{reason_in, revert_data};
use super::router::{Needs, Router, unavailable};
use crate::classify::classify_with;
use crate::endpoint::json::Quantity;
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

/// Estimates the gas of a call. A revert decides once two endpoints report it, or no other healthy one
/// reports something else; a refusal decides once all endpoints were asked, because another one that
/// lags less may estimate the call.
pub(super) async fn estimate_call(
    router: &Router,
    call: &Call,
) -> Result<CallEstimate, ChainUnavailable> {
    let readers = router.readers(Needs::Head, Instant::now());
    let object = call_object(call);
    let (mut refused, mut unclear, mut said) = (None, None, Vec::new());
    let (mut reverts, mut reverted) = (0, None);
    for (member, until) in router.in_turn(&readers) {
        // A resting endpoint is not waited for just to confirm a revert.
        if reverted.is_some() && member.endpoint.health().is_resting(Instant::now()) {
            break;
        }
        let error = match estimate(member, &object, until).await {
            Ok(gas) => return Ok(CallEstimate::Gas(gas)),
            Err(error) => error,
        };
        let class = class_of(router, &error);
        if class == AnswerClass::Reverted {
            reverts += 1;
            reverted.get_or_insert_with(|| CallEstimate::Reverts(reason_in(&error)));
            if reverts >= REVERTS_ENOUGH {
                break;
            }
            continue;
        }
        said.push(format!("{}: {error}", member.endpoint.name()));
        if error.kind == RpcErrorKind::Node {
            let answer = SendAnswer { class, said: error.message };
            match refusal_of_estimate(class) {
                Some(_) => drop(refused.get_or_insert(answer)),
                None if class == AnswerClass::Unknown => drop(unclear.get_or_insert(answer)),
                // The answer is about the endpoint itself: another one may know.
                None => {}
            }
        }
    }
    let refused = refused.or(unclear).map(CallEstimate::Refused);
    reverted.or(refused).ok_or_else(|| unavailable(ESTIMATE, &said))
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
