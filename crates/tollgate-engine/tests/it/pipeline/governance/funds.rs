//! An account that can't pay for all: held, told, and by itself mined after somebody has paid in.

use tollgate_model::port::AlertKind;
use tollgate_model::{Text, U256};

use super::super::support::{Pipeline, account, options};

everywhere! {
    unfunded_transactions_are_held_with_an_alert_and_mined_in_order_after_funding,
}

const ETHER: u64 = 1_000_000_000_000_000_000;

async fn unfunded_transactions_are_held_with_an_alert_and_mined_in_order_after_funding(
    pipeline: Pipeline,
) {
    let engine = pipeline.node("a", options()).await;
    let from = account(0);
    engine.pause(from, Text::lossy("the money goes elsewhere")).await.unwrap();
    let mut sent = Vec::new();
    for n in 0..5 {
        sent.extend(pipeline.send(&engine, from, [ETHER + n]).await);
    }
    // Enough for the first two, not for what comes then.
    pipeline.chain.set_balance(from.address, U256::from(2 * ETHER + ETHER / 2)).await;
    engine.resume(from, Text::lossy("it is gone")).await.unwrap();
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
