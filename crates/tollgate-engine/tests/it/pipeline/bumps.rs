//! More for what the market left behind; and the cheaper one that is mined all the same.

use std::sync::Arc;
use std::time::Duration;

use tollgate_engine::{Action, Policies};
use tollgate_model::TxState;
use tollgate_model::bump::BumpRules;
use tollgate_model::port::AttemptKind;

use super::support::{DEAR_BASE_FEE, Pipeline, Setup, account, patient};

everywhere! {
    underpriced_transaction_is_bumped_by_itself_and_mined,
    an_older_attempt_that_is_mined_after_a_bump_is_recognised_once,
}

fn bumping() -> Setup {
    let min_interval = Duration::from_millis(200);
    let bump = BumpRules { enabled: true, min_interval, ..BumpRules::default() };
    let policies = Policies { bump: Arc::new(bump), ..Policies::default() };
    Setup { policies, fee_cache: Some(Duration::ZERO), ..patient().into() }
}

async fn underpriced_transaction_is_bumped_by_itself_and_mined(pipeline: Pipeline) {
    let engine = pipeline.node("a", bumping()).await;
    let sent = pipeline.pending(&engine, account(0), [10, 11]).await;
    pipeline.chain.set_base_fee(DEAR_BASE_FEE).await;
    pipeline.until(sent[0].id, "more is offered", |tx| tx.attempts > 1).await;
    pipeline.mine_dear_until_final(&sent).await;
    pipeline.verify(account(0), &sent).await;
    for sent in &sent {
        let mined = pipeline.record(sent.id).await.mined.unwrap().tx_hash;
        let attempts = pipeline.attempts(sent.id).await;
        let first = &attempts[0].fees;
        assert!(first.max_fee.wei() < u128::from(DEAR_BASE_FEE), "the first could not be mined");
        let of_mined = attempts.iter().find(|attempt| attempt.tx_hash == mined).unwrap();
        assert_eq!(of_mined.kind, AttemptKind::Bump);
    }
}

async fn an_older_attempt_that_is_mined_after_a_bump_is_recognised_once(pipeline: Pipeline) {
    let engine = pipeline.node("a", patient()).await;
    let sent = pipeline.pending(&engine, account(0), [10]).await;
    let newer = pipeline.sign(&engine, sent[0].id, Action::SpeedUp).await;
    let attempts = pipeline.attempts(sent[0].id).await;
    assert_eq!(attempts[1].tx_hash, newer);
    // The pool loses the newer one, and somebody still had the older.
    pipeline.chain.forget(newer).await;
    pipeline.chain.send(&attempts[0].raw).await;
    pipeline.finish(account(0), &sent).await;
    let record = pipeline.record(sent[0].id).await;
    assert_eq!(record.row.state, TxState::Confirmed);
    assert_eq!(record.mined.unwrap().tx_hash, attempts[0].tx_hash, "the hash that was mined");
}
