//! Reorgs: what goes, what comes, and where the transactions are afterwards.

use std::sync::Arc;

use alloy_primitives::{B256, U256};
use tollgate_devchain::chain::{
    Beyond, BlockId, Chain, DroppedTxs, Found, Reorg, ReorgRefused, Tx,
};

use crate::support::{account, assert_linked, chain, mine_all, plain, send};

/// Blocks 1 to 4, each with one transaction of accounts 0 and 1.
fn four_blocks() -> (Chain, Vec<Arc<Tx>>) {
    let mut chain = chain(|options| {
        options.chain.finality.safe = 3;
        options.chain.finality.finalized = 3;
    });
    let mut txs = Vec::new();
    for nonce in 0..4 {
        let pair = [plain(0, nonce), plain(1, nonce)];
        mine_all(&mut chain, &pair);
        txs.extend(pair);
    }
    (chain, txs)
}

fn block_of(chain: &Chain, hash: &B256) -> Option<u64> {
    match chain.view(0, 0).tx(hash)? {
        Found::Mined(block, index) => {
            assert_eq!(block.txs[index].hash, *hash);
            Some(block.number())
        }
        Found::Pooled(_) => None,
    }
}

fn nonce_of(chain: &Chain, from: usize) -> u64 {
    chain.accounts().now(account(from).address).nonce
}

#[test]
fn kept_transactions_are_in_the_same_numbers_under_other_hashes() {
    let (mut chain, txs) = four_blocks();
    let before: Vec<B256> = chain.blocks().map(|block| block.hash).collect();
    let outcome = chain.reorg(Reorg::new(2, DroppedTxs::Kept), 0).unwrap();
    let after: Vec<B256> = chain.blocks().map(|block| block.hash).collect();
    assert_eq!(before[..3], after[..3]);
    assert_ne!(before[3], after[3]);
    assert_ne!(before[4], after[4]);
    assert_eq!((outcome.dropped.len(), outcome.added.len(), outcome.lost.len()), (2, 2, 0));
    for (at, tx) in txs.iter().enumerate() {
        assert_eq!(block_of(&chain, &tx.hash), Some(at as u64 / 2 + 1));
    }
    assert_linked(&chain);
}

#[test]
fn moved_transactions_keep_their_nonces_in_order_but_not_their_blocks() {
    let (mut chain, txs) = four_blocks();
    let before: Vec<_> = txs.iter().map(|tx| block_of(&chain, &tx.hash)).collect();
    let reorg = Reorg { replacements: 5, ..Reorg::new(3, DroppedTxs::Moved) };
    let outcome = chain.reorg(reorg, 0).unwrap();
    assert!(outcome.lost.is_empty());
    assert_eq!(chain.head().number(), 6);
    assert_eq!((nonce_of(&chain, 0), nonce_of(&chain, 1)), (4, 4));
    let after: Vec<_> = txs.iter().map(|tx| block_of(&chain, &tx.hash)).collect();
    assert!(after.iter().all(Option::is_some));
    assert_ne!(before, after);
    assert_linked(&chain);
}

#[test]
fn returned_transactions_lose_their_receipts_and_are_mined_again() {
    let (mut chain, txs) = four_blocks();
    let outcome = chain.reorg(Reorg::new(2, DroppedTxs::Returned), 0).unwrap();
    assert!(outcome.added.iter().all(|block| block.txs.is_empty()));
    assert!(outcome.lost.is_empty());
    assert_eq!((nonce_of(&chain, 0), chain.pool(0).counts()), (2, (4, 0)));
    assert!(txs[4..].iter().all(|tx| block_of(&chain, &tx.hash).is_none()));
    chain.mine(0);
    assert!(txs[4..].iter().all(|tx| block_of(&chain, &tx.hash) == Some(5)));
    assert_linked(&chain);
}

#[test]
fn dropped_transactions_are_nowhere_until_they_are_sent_again() {
    let (mut chain, txs) = four_blocks();
    let outcome = chain.reorg(Reorg::new(1, DroppedTxs::Dropped), 0).unwrap();
    assert_eq!(outcome.lost, [txs[6].hash, txs[7].hash]);
    assert!(chain.view(0, 0).tx(&txs[6].hash).is_none());
    assert_eq!(nonce_of(&chain, 0), 3);
    send(&mut chain, &txs[6]).unwrap();
    chain.mine(0);
    assert_eq!(block_of(&chain, &txs[6].hash), Some(5));
}

#[test]
fn the_head_can_be_shorter_for_a_while() {
    let (mut chain, txs) = four_blocks();
    let reorg = Reorg { replacements: 0, ..Reorg::new(3, DroppedTxs::Kept) };
    chain.reorg(reorg, 0).unwrap();
    assert_eq!(chain.head().number(), 1);
    assert_eq!(chain.view(0, 0).number(BlockId::Finalized), Some(1));
    // Nothing is lost: what had a block waits for one.
    assert_eq!(chain.pool(0).counts(), (6, 0));
    chain.mine(0);
    assert!(txs[2..].iter().all(|tx| block_of(&chain, &tx.hash) == Some(2)));
    assert_linked(&chain);
}

#[test]
fn finality_tags_are_violated_on_request_only() {
    let mut chain = chain(|options| {
        options.chain.finality.safe = 2;
        options.chain.finality.finalized = 4;
    });
    (0..6).for_each(|_| drop(chain.mine(0)));
    let view = chain.view(0, 0);
    assert_eq!(view.number(BlockId::Safe), Some(4));
    assert_eq!(view.number(BlockId::Finalized), Some(2));
    let deep = |depth, beyond| Reorg { beyond, ..Reorg::new(depth, DroppedTxs::Kept) };
    let promised = |number, tag| Err(ReorgRefused::Promised { number, tag });
    assert_eq!(chain.clone().reorg(deep(3, Beyond::Nothing), 0), promised(4, "safe"));
    assert_eq!(chain.clone().reorg(deep(5, Beyond::Safe), 0), promised(2, "finalized"));
    assert!(chain.clone().reorg(deep(2, Beyond::Nothing), 0).is_ok());
    assert!(chain.clone().reorg(deep(3, Beyond::Safe), 0).is_ok());
    let too_deep = Err(ReorgRefused::TooDeep { available: 6 });
    assert_eq!(chain.clone().reorg(deep(7, Beyond::Finalized), 0), too_deep);

    let old = chain.block(2).unwrap().hash;
    chain.reorg(deep(5, Beyond::Finalized), 0).unwrap();
    assert_ne!(chain.block(2).unwrap().hash, old);
    assert_eq!(chain.view(0, 0).number(BlockId::Finalized), Some(2));
}

#[test]
fn a_finalized_tag_does_not_go_back_with_a_shorter_head() {
    let mut chain = chain(|options| {
        options.chain.finality.safe = 3;
        options.chain.finality.finalized = 4;
    });
    (0..8).for_each(|_| drop(chain.mine(0)));
    let reorg = Reorg { replacements: 0, ..Reorg::new(3, DroppedTxs::Kept) };
    chain.reorg(reorg, 0).unwrap();
    let view = chain.view(0, 0);
    assert_eq!((view.head(), view.number(BlockId::Finalized)), (5, Some(4)));
    assert_eq!(view.number(BlockId::Safe), Some(5));
}

#[test]
fn an_orphaned_block_can_still_be_asked_for_by_its_hash_but_not_by_number() {
    let (mut chain, _) = four_blocks();
    let orphan = chain.head().clone();
    chain.reorg(Reorg::new(1, DroppedTxs::Returned), 0).unwrap();
    let view = chain.view(0, 0);
    assert_eq!(view.block(BlockId::Hash(orphan.hash)), Some(&orphan));
    assert_ne!(view.block(BlockId::Number(orphan.number())).unwrap().hash, orphan.hash);
    assert_eq!(view.number(BlockId::Hash(orphan.hash)), None);
}

#[test]
fn a_balance_set_by_hand_outlives_a_reorg() {
    let (mut chain, _) = four_blocks();
    let rich = U256::from(12_345);
    chain.set_balance(account(5).address, rich);
    chain.reorg(Reorg::new(2, DroppedTxs::Kept), 0).unwrap();
    assert_eq!(chain.accounts().now(account(5).address).balance, rich);
}

#[test]
fn pooled_transactions_wait_behind_what_a_reorg_took_away() {
    let (mut chain, _) = four_blocks();
    send(&mut chain, &plain(0, 4)).unwrap();
    assert_eq!(chain.pool(0).counts(), (1, 0));
    chain.reorg(Reorg::new(2, DroppedTxs::Dropped), 0).unwrap();
    assert_eq!(chain.pool(0).counts(), (0, 1));
    assert_eq!(chain.view(0, 0).pending_nonce(account(0).address), 2);
}
