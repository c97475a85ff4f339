//! Many creates at once: every intent once, every nonce once.

use futures_util::future::join_all;
use tollgate_engine::{CreateError, Created, EngineOptions};
use tollgate_model::nonce::NonceRules;

use super::chains::ChainKind;
use super::rig::{Pipeline, Sent, StoreKind, account, options, transfer};
use crate::rig::request;

everywhere! {
    a_thousand_concurrent_creates_have_the_nonces_0_to_999_and_each_payload_once,
    a_request_that_is_made_a_hundred_times_is_one_transaction,
}

async fn a_thousand_concurrent_creates_have_the_nonces_0_to_999_and_each_payload_once(
    store: StoreKind,
    chain: ChainKind,
) {
    let pipeline = Pipeline::on(store, chain).await;
    let nonces = NonceRules { window: 250, ..options().nonces };
    let engine = pipeline.node("a", EngineOptions { nonces, ..options() }).await;
    let sent = pipeline.send(&engine, account(0), 0..1_000).await;
    pipeline.mine_until_final(&sent).await;
    pipeline.verify(account(0), &sent).await;
}

async fn a_request_that_is_made_a_hundred_times_is_one_transaction(
    store: StoreKind,
    chain: ChainKind,
) {
    let pipeline = Pipeline::on(store, chain).await;
    let engine = pipeline.node("a", options()).await;
    let creates = (0..100).map(|_| engine.create(account(0), request("order"), transfer(5)));
    let answers: Vec<_> = join_all(creates).await.into_iter().map(Result::unwrap).collect();
    let new = answers.iter().filter(|answer| matches!(answer, Created::New(_))).count();
    assert_eq!(new, 1, "one made it, the others were told of it");
    let sent = [Sent::new(answers[0].tx_id(), 5)];
    assert!(answers.iter().all(|answer| answer.tx_id() == sent[0].id));
    let other = engine.create(account(0), request("order"), transfer(6)).await;
    let Err(CreateError::RequestIdConflict(known)) = other else { panic!("{other:?}") };
    assert_eq!(known.tx_id, sent[0].id);
    pipeline.mine_until_final(&sent).await;
    let late = engine.create(account(0), request("order"), transfer(5)).await;
    assert_eq!(late, Ok(Created::Known(sent[0].id)), "it is known after its end too");
    pipeline.verify(account(0), &sent).await;
}
