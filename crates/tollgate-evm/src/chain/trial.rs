//! Tries a call on the head without sending it.

use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::chain::{Call, ChainUnavailable, SendAnswer, Trial};

use super::reason::{reason_in, revert_data};
use super::router::{Needs, Router};
use crate::classify::classify_with;
use crate::endpoint::wire::Quantity;
use crate::endpoint::{RpcError, RpcErrorKind};

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

/// Estimates the gas of a call. A revert is an answer; so is a refusal, once nobody says otherwise.
pub(super) async fn try_call(router: &Router, call: &Call) -> Result<Trial, ChainUnavailable> {
    let readers = router.readers(Needs::Head, Instant::now());
    let params = json!([call_object(call), "latest"]);
    let mut unclear = None;
    let answer = router
        .read(&readers, "eth_estimateGas", params, |_, answer: Result<Quantity<u64>, _>| {
            let error = match answer {
                Ok(gas) => return Ok(Trial::Gas(gas.0)),
                Err(error) => error,
            };
            let class = class_of(router, &error);
            let refused = || {
                let said = error.message.clone();
                Trial::Refused(SendAnswer { class, said })
            };
            match class {
                AnswerClass::Reverted => Ok(Trial::Reverts(reason_in(&error))),
                // The endpoint speaks of itself: another one may know.
                AnswerClass::RateLimited | AnswerClass::Transient => Err(error.to_string()),
                AnswerClass::Unknown => {
                    if error.kind == RpcErrorKind::Node {
                        unclear = Some(refused());
                    }
                    Err(error.to_string())
                }
                _ if error.kind == RpcErrorKind::Node => Ok(refused()),
                _ => Err(error.to_string()),
            }
        })
        .await;
    match (answer, unclear) {
        (Err(_), Some(unclear)) => Ok(unclear),
        (answer, _) => answer,
    }
}

/// What an answer to a try means. Here nothing was sent, so that data beside the code of a revert
/// is a contract's own error.
pub(super) fn class_of(router: &Router, error: &RpcError) -> AnswerClass {
    let class = classify_with(&error.as_answer(), &router.config.overrides);
    let has_data = || error.data.as_deref().and_then(revert_data).is_some_and(|d| d.len() >= 4);
    match class {
        AnswerClass::Unknown if error.code == Some(3) && has_data() => AnswerClass::Reverted,
        class => class,
    }
}
