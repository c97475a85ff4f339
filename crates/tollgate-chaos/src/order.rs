//! Creates of callers, which are unique in a run, and the words about refusals.

use std::time::Duration;

use tokio::time::timeout;
use tollgate_api::{Create, Payload, Problem};
use tollgate_devchain::dev_accounts;
use tollgate_testkit::http::{NoResponse, Response, ask};

use crate::cluster::{CHAIN_IDS, PAID, chain_of, key_of};
use crate::event_log::EventLog;

/// The longest wait of a caller before it asks another node.
const PATIENCE: Duration = Duration::from_secs(6);

/// The number of the first value that a caller pays by itself, with a reserved nonce.
const FIRST_OWN: u64 = 500_000;

/// One create: always the same words under the same id.
#[derive(Clone)]
pub(crate) struct Order {
    pub(crate) account: usize,
    pub(crate) value: u64,
}

impl Order {
    /// Values are unique on a chain, so that it says which create it carried out. The same request ids are
    /// used on both chains.
    pub(crate) fn new(account: usize, number: u64) -> Self {
        Self { account, value: (key_of(account) as u64 + 1) * 1_000_000 + number }
    }

    /// One that a caller carries out itself.
    pub(crate) fn own(account: usize, number: u64) -> Self {
        Self::new(account, FIRST_OWN + number)
    }

    pub(crate) fn request_id(&self) -> String {
        format!("order-{}", self.value)
    }

    pub(crate) fn chain_id(&self) -> u64 {
        CHAIN_IDS[chain_of(self.account)]
    }

    /// The request among those of all chains.
    pub(crate) fn request(&self) -> String {
        format!("{} on {}", self.request_id(), self.chain_id())
    }

    /// Every second one leaves it to the node to find out how much gas it needs.
    pub(crate) fn create(&self) -> Create {
        let payload = Payload {
            to: Some(address(PAID)),
            value: Some(self.value.into()),
            gas: self.value.is_multiple_of(2).then(|| 30_000.into()),
            ..Payload::default()
        };
        Create {
            chain_id: Some(self.chain_id().into()),
            submitter: Some(address(self.account)),
            request_id: Some(self.request_id()),
            payload: Some(payload),
            ..Create::default()
        }
    }
}

/// The address of an account.
pub(crate) fn address(account: usize) -> String {
    dev_accounts()[key_of(account)].address.to_string()
}

/// Calls a node once, by method and path; none if there is no answer.
pub(crate) async fn call(
    log: &EventLog,
    port: u16,
    (method, path): (&str, &str),
    body: &str,
) -> Option<Response> {
    let silence = match timeout(PATIENCE, ask(port, method, path, body)).await {
        Ok(Ok(said)) => return Some(said),
        Ok(Err(NoResponse::Refused)) => "nobody there",
        Ok(Err(NoResponse::Broken(_))) => "broken off",
        Err(_) => "no answer in time",
    };
    log.answer(silence.to_owned());
    None
}

/// Records that something was refused; it must be for now only. A node without the account's key may
/// say that no live node has it.
pub(crate) fn note_refusal(
    log: &EventLog,
    what: &str,
    status: u16,
    problem: Option<Problem>,
    (has_hint, has_key): (bool, bool),
) {
    let code = problem.as_ref().map_or("no code", |problem| &problem.code);
    log.answer(format!("{status} {code}"));
    if status == 422 && code == UNSERVED && !has_key {
        return;
    }
    if ![409, 429, 503].contains(&status) {
        log.violation(format!("{what} was answered {status}: {problem:?}"));
    } else if !has_hint || !problem.as_ref().is_some_and(|problem| problem.retryable) {
        log.violation(format!(
            "{what} was refused for now, without saying when to come back: {status} {problem:?}"
        ));
    }
}

/// The code of a request for an account that no live node serves.
const UNSERVED: &str = "unknown_submitter";

pub(crate) fn has_retry_after(answer: &Response) -> bool {
    answer.head.contains("\r\nretry-after:")
}
