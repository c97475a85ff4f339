//! A question to ask, and a hook to ask it with.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tollgate_hook::{HookOptions, HookSecret, HttpHook};
use tollgate_model::answer::AnswerClass;
use tollgate_model::diagnose::Diagnosis;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::policy::{StuckAction, StuckContext, StuckDecision, StuckPolicy};
use tollgate_model::port::{Attempt, AttemptKind, Fees, RowVersion, TxRecord};
use tollgate_model::stuck::Trigger;
use tollgate_model::{
    Address, Bytes, ChainId, FencingToken, GasPrice, Intent, Nonce, RequestId, StuckReason,
    Submitter, Text, Timestamp, TxHash, TxId, TxState, U256,
};
use uuid::Uuid;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const SUBMITTER: &str = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8";
pub(crate) const TX_ID: &str = "019a8b7c-0000-7000-8000-000000000001";

/// Each look is a second later.
struct Ticking(AtomicI64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        let seconds = self.0.fetch_add(1, Ordering::Relaxed);
        Timestamp::from_unix_micros(seconds * 1_000_000)
    }
}

/// A hook that is asked at 1_800_000_000 for the first time.
pub(crate) fn hook(url: &str, timeout: Duration, retries: u32) -> HttpHook {
    let secret = HookSecret::parse(SECRET).unwrap();
    let options = HookOptions::new(url, secret).unwrap().with_patience(timeout, retries);
    HttpHook::new(options, Arc::new(Ticking(AtomicI64::new(1_800_000_000))))
}

/// One that waits long enough for any machine.
pub(crate) fn patient(url: &str) -> HttpHook {
    hook(url, Duration::from_secs(20), 2)
}

/// Asks, and takes for granted that nobody decided.
pub(crate) async fn fails(hook: &HttpHook) -> String {
    let decision = hook.decide(&context()).await;
    let reason = decision.reason.as_str().to_owned();
    let noop = StuckDecision { failed: true, ..StuckDecision::new(StuckAction::Noop, &reason) };
    assert_eq!(decision, noop);
    for secret in ["topsecret", "MfKQ9r8G", "whsec"] {
        assert!(!reason.contains(secret), "{reason}");
    }
    reason
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_unix_micros(seconds * 1_000_000)
}

fn attempt(number: u16, kind: AttemptKind, max_fee: u128, tip: Option<u128>) -> Attempt {
    Attempt {
        tx_id: tx_id(),
        number,
        tx_hash: TxHash::repeat_byte(u8::try_from(number).unwrap()),
        raw: Bytes::from_static(b"signed"),
        kind,
        fees: Fees {
            gas_limit: 21_000,
            max_fee: GasPrice::from_wei(max_fee).unwrap(),
            max_priority_fee: tip.map(|tip| GasPrice::from_wei(tip).unwrap()),
        },
        created_at: at(1_799_999_000 + i64::from(number)),
    }
}

fn tx_id() -> TxId {
    TxId::from_uuid(Uuid::parse_str(TX_ID).unwrap())
}

/// A transaction that has everything a question can show.
pub(crate) fn context() -> StuckContext {
    let mut intent = Intent::transfer(Address::repeat_byte(3), U256::MAX);
    intent.data = Bytes::from_static(&[0xab, 0xcd]);
    intent.metadata = Some("{\"order\":17,\"precise\":123456789012345678901234567890}".to_owned());
    let payload = intent.to_payload().unwrap();
    let submitter = Submitter::new(ChainId::new(1).unwrap(), SUBMITTER.parse().unwrap());
    let attempts = vec![
        attempt(1, AttemptKind::Intent, 30_000_000_000, Some(1_000_000_000)),
        attempt(2, AttemptKind::Bump, 33_750_000_000, None),
    ];
    let tx = TxRecord {
        tx_id: tx_id(),
        submitter,
        request_id: Some(RequestId::new("order-17").unwrap()),
        nonce: Some(Nonce::new(7).unwrap()),
        payload: payload.bytes().clone(),
        payload_digest: payload.digest(),
        row: RowVersion { state: TxState::Stuck(StuckReason::TimedOut), version: 9 },
        fencing_token: FencingToken::new(4).unwrap(),
        attempts: 2,
        newest_hash: Some(attempts[1].tx_hash),
        next_resubmit_at: None,
        resubmits: 20,
        diagnosis: None,
        last_error: Some(Text::lossy("transaction underpriced")),
        mined: None,
        valid_until: Some(at(1_800_003_600)),
        created_at: at(1_799_999_000),
        updated_at: at(1_799_999_900),
        finished_at: None,
    };
    StuckContext {
        question: 3,
        trigger: Trigger::HeadStuck,
        tx,
        attempts,
        last_answer: Some(AnswerClass::Underpriced),
        diagnosis: Some(Diagnosis::InPool),
        age: Duration::from_millis(1_000_500),
        depth: 12,
        trace: Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap()),
    }
}
