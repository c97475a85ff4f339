//! An account that can't pay for all: held with an alert, mined by itself after somebody has paid in, and in
//! nobody else's way (I14).

use tollgate_model::port::AlertKind;
use tollgate_model::{Text, TxState, U256};

use super::support::{Pipeline, Sent, account, options, transfer};
use crate::support::id;

everywhere! {
    unfunded_transactions_are_held_with_an_alert_and_mined_in_order_after_funding,
}

const ETHER: u64 = 1_000_000_000_000_000_000;

async fn unfunded_transactions_are_held_with_an_alert_and_mined_in_order_after_funding(
    pipeline: Pipeline,
) {
    let engine = pipeline.node("a", options()).await;
    let from = account(0);
    engine.operator().pause(from, Text::lossy("the money goes elsewhere")).await.unwrap();
    let mut sent = Vec::new();
    for n in 0..5 {
        sent.extend(pipeline.send(&engine, from, [ETHER + n]).await);
    }
    // Enough for the first two, not for what comes then.
    pipeline.chain.set_balance(from.address, U256::from(2 * ETHER + ETHER / 2)).await;
    engine.operator().resume(from, Text::lossy("it is gone")).await.unwrap();
    pipeline.mine_until_final(&sent[..2]).await;
    pipeline
        .eventually("an alert", async || {
            pipeline.mine_one().await;
            !pipeline.alerts.of(AlertKind::InsufficientFunds).is_empty()
        })
        .await;
    assert_eq!(pipeline.chain.mined(from.address).await.len(), 2);
    for held in &sent[2..] {
        let state = pipeline.record(held.id).await.row.state;
        assert!(!state.is_final(), "held, not given up: {state:?}");
    }
    pipeline.chain.set_balance(from.address, U256::from(ETHER) * U256::from(100)).await;
    pipeline.mine_until_final(&sent).await;
    let mined = pipeline.verify(from, &sent).await;
    assert!(mined.iter().map(|tx| tx.value).eq(ETHER..ETHER + 5), "in order: {mined:?}");
}

everywhere! {
    a_submitter_without_funds_delays_no_other_and_goes_on_when_it_has_some,
}

async fn a_submitter_without_funds_delays_no_other_and_goes_on_when_it_has_some(
    pipeline: Pipeline,
) {
    let engine = pipeline.node("a", options()).await;
    let (poor, rich) = (account(1), account(0));
    engine.operator().pause(poor, Text::lossy("the money goes elsewhere")).await.unwrap();
    let mut held = Vec::new();
    for value in 0..5 {
        let created = engine.create(poor, None, transfer(value)).await.unwrap();
        held.push(Sent::new(id(created), value));
    }
    pipeline.chain.set_balance(poor.address, U256::ZERO).await;
    engine.operator().resume(poor, Text::lossy("it is gone")).await.unwrap();
    let is_refused = |record: &tollgate_model::port::TxRecord| record.last_error.is_some();
    pipeline.until(held[0].id, "refused", is_refused).await;
    let sent = pipeline.send(&engine, rich, 0..50).await;
    pipeline.finish(rich, &sent).await;
    for held in &held {
        let state = pipeline.record(held.id).await.row.state;
        assert!(matches!(state, TxState::Allocated(_)), "held, not given up: {state:?}");
    }
    pipeline.chain.set_balance(poor.address, U256::from(10_u64.pow(18))).await;
    pipeline.finish(poor, &held).await;
}
