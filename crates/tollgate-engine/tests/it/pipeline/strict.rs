//! Strict mode: one open slot at a time, in the exact order of the intents (I12).

use tollgate_engine::EngineOptions;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, NonceRules, SubmitterStatus};

use super::support::{Pipeline, account, options};

everywhere! {
    endpoint_that_counts_too_little_does_not_stop_a_strict_account,
    thirty_strict_intents_are_mined_in_order_each_after_the_last_was_final,
}

/// Small, because every intent waits for it.
const CONFIRMATIONS: u64 = 2;

async fn thirty_strict_intents_are_mined_in_order_each_after_the_last_was_final(
    pipeline: Pipeline,
) {
    let nonces = NonceRules { mode: Mode::Strict, ..options().nonces };
    let finality = FinalityRule::Confirmations(CONFIRMATIONS);
    let engine = pipeline.node("a", EngineOptions { nonces, finality, ..options() }).await;
    let mut sent = Vec::new();
    for value in 0..30 {
        // One by one: what is accepted first is first.
        sent.extend(pipeline.send(&engine, account(0), [value]).await);
    }
    pipeline.mine_until_final(&sent).await;
    let mined = pipeline.verify(account(0), &sent).await;
    assert!(mined.iter().map(|tx| tx.value).eq(0..30), "in the order of the intents");
    for pair in mined.windows(2) {
        // A slot that opens when the last is final can't be mined before that.
        assert!(pair[1].block >= pair[0].block + CONFIRMATIONS, "one open slot: {pair:?}");
    }
}

/// I15: two endpoints, one of which lacks three of the account's transactions. The node that finds them
/// so has nothing but their word to start from.
async fn endpoint_that_counts_too_little_does_not_stop_a_strict_account(pipeline: Pipeline) {
    let odd = pipeline.chain.breakable().await;
    let urls = [odd.url(), pipeline.chain.url()];
    let nonces = NonceRules { mode: Mode::Strict, ..options().nonces };
    let finality = FinalityRule::Confirmations(CONFIRMATIONS);
    let mut sent = Vec::new();
    for (name, values) in [("a", 0..4), ("b", 4..8)] {
        let options = EngineOptions { nonces, finality, ..options() };
        let engine = pipeline.node_over(name, options, &urls).await;
        for value in values {
            sent.extend(pipeline.send(&engine, account(0), [value]).await);
        }
        pipeline.mine_until_final(&sent).await;
        engine.stop().await;
        odd.change(|faults| faults.nonce_offset = -3);
    }
    let mined = pipeline.verify(account(0), &sent).await;
    assert!(mined.iter().map(|tx| tx.value).eq(0..8), "in the order of the intents");
    let record = pipeline.store.submitter(account(0)).await.unwrap().unwrap();
    assert_eq!(record.status, SubmitterStatus::Active, "no PROTECT on one endpoint's word");
}
