//! Tries a call on the head without sending it.

use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::chain::{Call, ChainUnavailable, SendAnswer, Trial};
use tollgate_model::refusal::refusal_of_estimate;

use super::member::Member;
use super::reason::{reason_in, revert_data};
use super::router::{Needs, Router, unavailable};
use crate::classify::classify_with;
use crate::endpoint::wire::Quantity;
use crate::endpoint::{Ability, RpcError, RpcErrorKind};

const ESTIMATE: &str = "eth_estimateGas";
/// The JSON-RPC code for parameters of another form than the method takes.
const INVALID_PARAMS: i64 = -32_602;

/// A call as nodes read it.
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

/// Reverts that are enough for an answer.
const REVERTS_ENOUGH: usize = 2;

/// Estimates the gas of a call. A revert is an answer once two endpoints say so, or nobody else who is
/// well says otherwise; a refusal is one once everybody was asked and nobody says otherwise: what one
/// endpoint does not take, another that is less behind may.
pub(super) async fn try_call(router: &Router, call: &Call) -> Result<Trial, ChainUnavailable> {
    let readers = router.readers(Needs::Head, Instant::now());
    let object = call_object(call);
    let (mut refused, mut unclear, mut said) = (None, None, Vec::new());
    let (mut reverts, mut reverted) = (0, None);
    for (member, until) in router.in_turn(&readers) {
        // A second opinion is not waited for where only endpoints in trouble are left to give it.
        if reverted.is_some() && member.endpoint.health().is_resting(Instant::now()) {
            break;
        }
        let error = match estimate(member, &object, until).await {
            Ok(gas) => return Ok(Trial::Gas(gas)),
            Err(error) => error,
        };
        let class = class_of(router, &error);
        if class == AnswerClass::Reverted {
            reverts += 1;
            reverted.get_or_insert_with(|| Trial::Reverts(reason_in(&error)));
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
                // The endpoint speaks of itself: another one may know.
                None => {}
            }
        }
    }
    let refused = refused.or(unclear).map(Trial::Refused);
    reverted.or(refused).ok_or_else(|| unavailable(ESTIMATE, &said))
}

/// One endpoint's estimate, on the head where it can be told so, else on the block of its choice.
async fn estimate(member: &Member, object: &Value, until: Instant) -> Result<u64, RpcError> {
    let abilities = member.endpoint.abilities();
    let ask = async |params: Value| {
        let answer = member.endpoint.call_until(ESTIMATE, params, until).await;
        answer.map(|gas: Quantity<u64>| gas.0)
    };
    let without = json!([object]);
    if !abilities.may_have(Ability::EstimateAtBlock, Instant::now()) {
        return ask(without).await;
    }
    let error = match ask(json!([object, "latest"])).await {
        Err(error) if is_about_params(&error) => error,
        answer => return answer,
    };
    let again = ask(without).await;
    // What is refused either way is not about the block.
    let same = |other: &RpcError| is_about_params(other) && other.code == error.code;
    if !again.as_ref().is_err_and(same) {
        abilities.lacks(Ability::EstimateAtBlock, Instant::now());
    }
    again
}

/// Whether a node complains about the form of a call, which is ours, not about what it does.
fn is_about_params(error: &RpcError) -> bool {
    let is_invalid = error.kind == RpcErrorKind::Node && error.code == Some(INVALID_PARAMS);
    is_invalid || error.is_argument_too_many()
}

/// What an answer to a try means. Here nothing was sent, so that data beside the code of a revert
/// is a contract's own error.
pub(super) fn class_of(router: &Router, error: &RpcError) -> AnswerClass {
    let class = classify_with(&error.as_answer(), &router.config.overrides);
    let has_data = || error.data.as_deref().and_then(revert_data).is_some_and(|d| d.len() >= 4);
    match class {
        AnswerClass::Unknown if error.code == Some(3) && has_data() => AnswerClass::Reverted,
        // A send has one parameter, the transaction. A try has more, and their form is not the
        // caller's.
        AnswerClass::Invalid if is_about_params(error) => AnswerClass::Unknown,
        class => class,
    }
}
