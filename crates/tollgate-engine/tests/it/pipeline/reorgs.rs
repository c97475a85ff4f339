//! Reorgs of every depth below the threshold: a transaction goes back with its block, is sent
//! again, and ends once (I9).

use tollgate_engine::Engine;
use tollgate_model::port::TxRecord;
use tollgate_model::{Tracking, TxState};

use super::chains::Gone;
use super::support::{FINALITY, Pipeline, Sent, account, is_mined, is_pending, options};

everywhere! {
    a_transaction_that_a_reorg_puts_into_another_block_ends_once,
    a_transaction_that_a_reorg_drops_goes_back_is_sent_again_and_ends_once,
    a_transaction_that_goes_with_its_blocks_is_sent_again_when_the_chain_has_grown_back,
}

async fn a_transaction_that_a_reorg_puts_into_another_block_ends_once(pipeline: Pipeline) {
    at_all_depths(pipeline, Gone::ToAnotherBlock).await;
}

async fn a_transaction_that_a_reorg_drops_goes_back_is_sent_again_and_ends_once(
    pipeline: Pipeline,
) {
    at_all_depths(pipeline, Gone::Altogether).await;
}

async fn a_transaction_that_goes_with_its_blocks_is_sent_again_when_the_chain_has_grown_back(
    pipeline: Pipeline,
) {
    at_all_depths(pipeline, Gone::WithItsBlocks).await;
}

async fn at_all_depths(pipeline: Pipeline, gone: Gone) {
    let engine = pipeline.node("a", options()).await;
    let mut sent = Vec::new();
    for depth in 1..FINALITY {
        sent.push(one_reorg(&pipeline, &engine, depth, gone).await);
    }
    pipeline.verify(account(0), &sent).await;
}

async fn one_reorg(pipeline: &Pipeline, engine: &Engine, depth: u64, gone: Gone) -> Sent {
    let sent = pipeline.send(engine, account(0), [depth]).await.remove(0);
    pipeline.until(sent.id, "with a node", is_pending).await;
    pipeline.chain.mine(depth).await;
    pipeline.until(sent.id, "mined", is_mined).await;
    let before = pipeline.record(sent.id).await.mined.unwrap();
    assert_eq!(before.block_number + depth, pipeline.chain.head().await + 1, "it is so deep");
    let raw = pipeline.store.attempts(sent.id).await.unwrap().remove(0).raw;
    pipeline.chain.reorg(depth, gone, &raw).await;
    match gone {
        Gone::ToAnotherBlock => {
            let moved =
                |record: &TxRecord| is_mined(record) && record.mined.as_ref() != Some(&before);
            pipeline.until(sent.id, "in another block", moved).await;
        }
        Gone::Altogether => {
            pipeline.until(sent.id, "back to being tracked", is_pending).await;
            pipeline.until_pooled(before.tx_hash).await;
        }
        Gone::WithItsBlocks => {
            let moved = |record: &TxRecord| record.mined.as_ref() != Some(&before);
            pipeline.mine_until(sent.id, "back to being tracked", moved).await;
        }
    }
    pipeline.mine_until_final(&[sent]).await;
    verify_fork(pipeline, sent, gone).await;
    sent
}

/// The evidence is that of the new branch, all of it.
async fn verify_fork(pipeline: &Pipeline, sent: Sent, gone: Gone) {
    let mined = pipeline.record(sent.id).await.mined.unwrap();
    let list = pipeline.store.confirmations(sent.id).await.unwrap().unwrap();
    assert!(list.new_fork, "{gone:?}");
    assert_eq!(list.first_block, mined.block_number);
    assert_eq!(list.hashes[0], mined.block_hash);
    assert!(list.hashes.len() as u64 >= FINALITY, "it is as long as the threshold");
    for (block, hash) in (list.first_block..).zip(list.hashes) {
        assert_eq!(hash, pipeline.chain.hash_at(block).await, "nothing is left of the old branch");
    }
    let history = pipeline.history(sent.id).await;
    let finals = history.iter().filter(|entry| entry.to.is_final()).count();
    assert_eq!(finals, 1, "{history:?}");
    if gone != Gone::ToAnotherBlock {
        let mined = TxState::Tracking(Tracking::Mined);
        let mut back = history.iter().filter(|entry| entry.from == Some(mined));
        assert!(back.any(|entry| way_back(entry.to)), "I9: it went back: {history:?}");
    }
}

fn way_back(to: TxState) -> bool {
    matches!(to, TxState::Tracking(Tracking::Pending | Tracking::Stale))
}
