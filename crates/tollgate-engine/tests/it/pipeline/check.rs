//! The independent checker: what happened, read from the chain's own blocks and the feed.

use std::collections::{HashMap, HashSet};

use serde_json::json;
use tollgate_model::port::{HistoryEntry, Page};
use tollgate_model::{Address, B256, Submitter, Tracking, TxHash, TxId, TxState};
use tollgate_testkit::rpc::number;

use super::chains::TestChain;
use super::rig::{Pipeline, Sent};

/// A transaction as a block holds it.
#[derive(Clone, Debug)]
pub(crate) struct OnChain {
    pub(crate) nonce: u64,
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
        let mined = self.chain.mined(from.address).await;
        let nonces = mined.iter().map(|tx| tx.nonce);
        assert!(nonces.eq(0..sent.len() as u64), "no gap, no doubles: {mined:?}");
        let mut paid: Vec<_> = mined.iter().map(|tx| tx.value).collect();
        let mut asked: Vec<_> = sent.iter().map(|sent| sent.value).collect();
        paid.sort_unstable();
        asked.sort_unstable();
        assert_eq!(paid, asked, "each payload once");
        assert_eq!(self.cursor(from).await, sent.len() as u64, "the cursor is where the chain is");
        self.verify_feed(from, sent, &mined).await;
        mined
    }

    async fn verify_feed(&self, from: Submitter, sent: &[Sent], mined: &[OnChain]) {
        let feed = self.feed().await;
        let seqs = feed.iter().map(|entry| entry.seq.get());
        assert!(seqs.eq(1..=feed.len() as u64), "I10: places ascend without a gap");
        let on_chain: HashMap<_, _> = mined.iter().map(|tx| (tx.hash, tx)).collect();
        let wanted: HashMap<_, _> = sent.iter().map(|sent| (sent.id, sent)).collect();
        let mut ended = HashSet::new();
        for entry in feed.iter().filter(|entry| entry.submitter == from) {
            let sent = wanted[&entry.tx_id];
            assert!(ended.insert(entry.tx_id), "{} ended twice", entry.tx_id);
            assert_eq!(entry.state, sent.ends, "{sent:?}");
            let tx = on_chain[&entry.tx_hash.unwrap()];
            assert_eq!(tx.value, sent.value, "its hash is that of its payload");
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

/// How far a state is on the way to the end.
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
