//! A submitter in trouble delays nobody but itself (I14).

use tollgate_model::{Text, TxState, U256};

use super::support::{Pipeline, Sent, account, options, transfer};
use crate::support::id;

everywhere! {
    a_submitter_without_funds_delays_no_other_and_goes_on_when_it_has_some,
}

async fn a_submitter_without_funds_delays_no_other_and_goes_on_when_it_has_some(
    pipeline: Pipeline,
) {
    let engine = pipeline.node("a", options()).await;
    let (poor, rich) = (account(1), account(0));
    engine.pause(poor, Text::lossy("the money goes elsewhere")).await.unwrap();
    let mut held = Vec::new();
    for value in 0..5 {
        let created = engine.create(poor, None, transfer(value)).await.unwrap();
        held.push(Sent::new(id(created), value));
    }
    pipeline.chain.set_balance(poor.address, U256::ZERO).await;
    engine.resume(poor, Text::lossy("it is gone")).await.unwrap();
    let is_refused = |record: &tollgate_model::port::TxRecord| record.last_error.is_some();
    pipeline.until(held[0].id, "refused", is_refused).await;
    let sent = pipeline.send(&engine, rich, 0..50).await;
    pipeline.mine_until_final(&sent).await;
    pipeline.verify(rich, &sent).await;
    for held in &held {
        let state = pipeline.record(held.id).await.row.state;
        assert!(matches!(state, TxState::Allocated(_)), "held, not given up: {state:?}");
    }
    pipeline.chain.set_balance(poor.address, U256::from(10_u64.pow(18))).await;
    pipeline.mine_until_final(&held).await;
    pipeline.verify(poor, &held).await;
}
