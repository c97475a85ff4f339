//! The independent checker: what happened, read from the chain's own blocks and the feed.

use std::collections::{HashMap, HashSet};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::json;
use tollgate_model::port::{HistoryEntry, Page};
use tollgate_model::{Address, B256, Failed, Submitter, Tracking, TxHash, TxId, TxState};
use tollgate_testkit::rpc::number;

use super::chains::{ChainKind, TestChain};
use super::support::{Pipeline, Sent, StoreKind, account, options};

pub(crate) const CANCELLED: TxState = TxState::Failed(Failed::Cancelled);
pub(crate) const NONCE_TAKEN: TxState = TxState::Failed(Failed::NonceTaken);

/// A transaction as a block holds it.
#[derive(Clone, Debug)]
pub(crate) struct OnChain {
    pub(crate) nonce: u64,
    pub(crate) to: Option<Address>,
    pub(crate) value: u64,
    pub(crate) hash: TxHash,
    pub(crate) block: u64,
}

impl TestChain {
    /// The hash of a block.
    pub(crate) async fn hash_at(&self, block: u64) -> B256 {
        let params = json!([format!("{block:#x}"), false]);
        let block = self.call("eth_getBlockByNumber", params).await;
        block["hash"].as_str().unwrap().parse().unwrap()
    }

    /// Everything that an account has on the chain, in the order of blocks.
    pub(crate) async fn mined(&self, from: Address) -> Vec<OnChain> {
        let mut mined = Vec::new();
        let mut parent = None;
        for block in 0..=self.head().await {
            let params = json!([format!("{block:#x}"), true]);
            let block = self.call("eth_getBlockByNumber", params).await;
            assert!(parent.is_none_or(|hash| block["parentHash"] == hash), "the chain is linked");
            parent = Some(block["hash"].clone());
            for tx in block["transactions"].as_array().unwrap() {
                let sender: Address = tx["from"].as_str().unwrap().parse().unwrap();
                if sender == from {
                    mined.push(OnChain {
                        nonce: number(&tx["nonce"]),
                        to: tx["to"].as_str().map(|to| to.parse().unwrap()),
                        value: number(&tx["value"]),
                        hash: tx["hash"].as_str().unwrap().parse().unwrap(),
                        block: number(&block["number"]),
                    });
                }
            }
        }
        mined
    }
}

impl Pipeline {
    /// Holds what was asked for against the chain and the feed: every nonce from 0 on once, every
    /// payload once, one outcome each, and nothing else. What it returns is in the order of nonces.
    pub(crate) async fn verify(&self, from: Submitter, sent: &[Sent]) -> Vec<OnChain> {
        self.verify_beside(from, sent, &[]).await
    }

    /// The same where outsiders used the key as well: theirs have nonces and no outcome.
    pub(crate) async fn verify_beside(
        &self,
        from: Submitter,
        sent: &[Sent],
        outsiders: &[TxHash],
    ) -> Vec<OnChain> {
        let mined = self.chain.mined(from.address).await;
        let ours = || sent.iter().filter(|sent| sent.ends != NONCE_TAKEN);
        let count = (ours().count() + outsiders.len()) as u64;
        let nonces = mined.iter().map(|tx| tx.nonce);
        assert!(nonces.eq(0..count), "no gap, no doubles: {mined:?}");
        let is_ours = |tx: &&OnChain| !outsiders.contains(&tx.hash);
        let mut paid: Vec<_> = mined.iter().filter(is_ours).map(|tx| tx.value).collect();
        let mut asked: Vec<_> = ours().map(|sent| sent.value).collect();
        paid.sort_unstable();
        asked.sort_unstable();
        assert_eq!(paid, asked, "each payload once");
        assert_eq!(self.cursor(from).await, count, "the cursor is where the chain is");
        self.verify_feed(from, sent, &mined).await;
        mined
    }

    async fn verify_feed(&self, from: Submitter, sent: &[Sent], mined: &[OnChain]) {
        let all = self.feed_of_all_kinds().await;
        let seqs = all.iter().map(|entry| entry.seq.get());
        assert!(seqs.eq(1..=all.len() as u64), "I10: places ascend without a gap");
        let feed = self.feed().await;
        let on_chain: HashMap<_, _> = mined.iter().map(|tx| (tx.hash, tx)).collect();
        let wanted: HashMap<_, _> = sent.iter().map(|sent| (sent.id, sent)).collect();
        let mut ended = HashSet::new();
        for entry in feed.iter().filter(|entry| entry.submitter == from) {
            let sent = wanted[&entry.tx_id];
            assert!(ended.insert(entry.tx_id), "{} ended twice", entry.tx_id);
            assert_eq!(entry.state, sent.ends, "{sent:?}");
            if entry.state == NONCE_TAKEN {
                assert_eq!(entry.tx_hash, None, "none of its own was mined");
                continue;
            }
            let tx = on_chain[&entry.tx_hash.unwrap()];
            assert_eq!(tx.value, sent.value, "its hash is that of its payload");
            let closed = entry.state == CANCELLED;
            assert_eq!(tx.to == Some(from.address), closed, "to self only what closes: {tx:?}");
        }
        assert_eq!(ended.len(), sent.len(), "each has an outcome");
    }

    /// A transaction's audit trail.
    pub(crate) async fn history(&self, id: TxId) -> Vec<HistoryEntry> {
        self.store.history(id, 0, Page::new(Page::MAX).unwrap()).await.unwrap()
    }

    /// None of them was ever STUCK or signed twice.
    pub(crate) async fn verify_never_stuck(&self, sent: &[Sent]) {
        for sent in sent {
            let history = self.history(sent.id).await;
            let stuck = history.iter().any(|entry| matches!(entry.to, TxState::Stuck(_)));
            assert!(!stuck, "{history:?}");
            assert_eq!(self.record(sent.id).await.attempts, 1, "one signed form");
        }
    }

    /// None of them ever went back: not from mined to pending, nor from sent to unsent.
    pub(crate) async fn verify_never_back(&self, sent: &[Sent]) {
        for sent in sent {
            let history = self.history(sent.id).await;
            assert!(history.iter().map(|entry| way(entry.to)).is_sorted(), "{history:?}");
        }
    }
}

/// The progress of a state towards the end.
fn way(state: TxState) -> u8 {
    match state {
        TxState::Queued(_) => 0,
        TxState::Allocated(_) => 1,
        TxState::Tracking(Tracking::Pending | Tracking::Stale) => 2,
        TxState::Tracking(Tracking::Mined) => 3,
        TxState::Confirmed | TxState::Failed(_) => 4,
        // Not a step back, but a step off the way: shown as one.
        TxState::Stuck(_) => 0,
    }
}

/// A checker that can't fail proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn checker_notices_missing_doubled_swapped_and_wrongly_ended_transactions() {
    let pipeline = Arc::new(Pipeline::on(StoreKind::Sqlite, ChainKind::Devchain).await);
    let engine = pipeline.node("a", options()).await;
    let sent = pipeline.send(&engine, account(0), 0..3).await;
    pipeline.finish(account(0), &sent).await;
    let mut swapped = sent.clone();
    (swapped[0].value, swapped[1].value) = (sent[1].value, sent[0].value);
    let mut otherwise = sent.clone();
    otherwise[2].ends = TxState::Failed(Failed::Reverted);
    let mut closed = sent.clone();
    closed[0] = closed[0].cancelled();
    let mut taken = sent.clone();
    taken[2].ends = NONCE_TAKEN;
    let doubled = [sent.as_slice(), &sent[..1]].concat();
    for wrong in [sent[..2].to_vec(), doubled, swapped, otherwise, closed, taken] {
        let verified = AssertUnwindSafe(pipeline.verify(account(0), &wrong)).catch_unwind();
        assert!(verified.await.is_err(), "a wrong outcome passes");
    }
}
