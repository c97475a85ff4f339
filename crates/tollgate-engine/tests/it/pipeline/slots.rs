//! Answers of two endpoints of a real chain about one slot: its occupant, former ones, and those that wait.

use tollgate_evm::chain::EvmChain;
use tollgate_model::Route::Public;
use tollgate_model::port::Fees;
use tollgate_model::port::chain::{Chain, SlotSearch, Speed};
use tollgate_model::port::signer::{SignedTx, Signer};
use tollgate_model::reconcile::{ReceiptLookup, Search, judge_search};
use tollgate_model::{Nonce, TxHash};
use tollgate_testkit::builders::draft;
use tollgate_testkit::cluster::{chain_config, dev_signer};
use tollgate_testkit::rpc_proxy::RpcProxy;
use tollgate_testkit::wait::until;

use super::chains::{ChainKind, Era, TestChain};
use super::support::account;

const NEVER_SENT: TxHash = TxHash::repeat_byte(9);

fn nonce(nonce: u64) -> Nonce {
    Nonce::new(nonce).unwrap()
}

async fn connect(chain: &TestChain, other: &RpcProxy) -> EvmChain {
    EvmChain::connect(chain_config([chain.url(), other.url()])).await.unwrap()
}

async fn signed(evm: &EvmChain, slot: u64) -> SignedTx {
    let quote = evm.fee_quote(Speed::Normal).await.unwrap();
    let (max_fee, max_priority_fee) = (quote.max_fee, quote.max_priority_fee);
    let fees = Fees { gas_limit: 21_000, max_fee, max_priority_fee };
    let draft = draft(account(0), nonce(slot), slot, fees);
    dev_signer([0]).sign(vec![draft]).await.remove(0).unwrap()
}

/// The endpoints' answers about one attempt, in any order.
async fn said(evm: &EvmChain, slot: u64, attempt: TxHash) -> Vec<ReceiptLookup> {
    let SlotSearch { looked, found } =
        evm.search(account(0).address, nonce(slot), &[attempt]).await;
    assert_eq!(found.is_some(), looked[0].contains(&ReceiptLookup::Found));
    let mut said = looked[0].clone();
    said.sort_by_key(|lookup| *lookup as u8);
    said
}

/// The transaction that is shown in a slot.
async fn occupant(evm: &EvmChain, slot: u64, lookback: u64) -> Option<TxHash> {
    let search = evm.occupants(account(0).address, &[nonce(slot)], lookback).await;
    assert_eq!(search.seen.is_empty(), search.problem.is_some());
    search.seen.first().map(|seen| seen.tx_hash)
}

async fn slot_search_reports_each_endpoint(kind: ChainKind) {
    let chain = TestChain::start(kind, Era::London).await;
    let other = chain.breakable().await;
    let evm = connect(&chain, &other).await;
    let of = account(0).address;
    let mined = signed(&evm, 0).await;
    assert_eq!(said(&evm, 0, mined.tx_hash).await, [ReceiptLookup::Behind; 2]);
    evm.send(&mined.raw, Public).await;
    chain.mine(5).await;
    let head = chain.head().await;
    until("the new head is seen", || async {
        let heads = evm.endpoints();
        let seen = heads.iter().all(|status| status.head.is_some_and(|at| at.number == head));
        seen.then_some(())
    })
    .await;

    assert_eq!(said(&evm, 0, mined.tx_hash).await, [ReceiptLookup::Found; 2]);
    assert_eq!(said(&evm, 0, NEVER_SENT).await, [ReceiptLookup::NotThere; 2]);
    assert_eq!(said(&evm, 1, NEVER_SENT).await, [ReceiptLookup::Behind; 2]);
    let search = evm.search(of, nonce(0), &[NEVER_SENT, mined.tx_hash]).await;
    let hashes = [NEVER_SENT, mined.tx_hash];
    assert_eq!(judge_search(&hashes, &search.looked, None), Search::Ours { attempt: 1 });
    let receipt = search.found.unwrap();
    let at = receipt.block_number;
    assert_eq!(receipt.tx_hash, mined.tx_hash);

    assert_eq!(evm.count_at(of, at - 1).await.unwrap().count, nonce(0));
    assert_eq!(evm.count_at(of, at).await.unwrap().count, nonce(1));
    // By counts, so that it does not matter how many blocks may be read.
    assert_eq!(occupant(&evm, 0, 1).await, Some(mined.tx_hash));
    assert_eq!(occupant(&evm, 1, head).await, None);

    let (due, waits) = (signed(&evm, 1).await, signed(&evm, 3).await);
    for tx in [&due, &waits] {
        evm.send(&tx.raw, Public).await;
    }
    for report in evm.pools(of, &[NEVER_SENT, waits.tx_hash]).await {
        assert_eq!(report.knows_it, Some(true));
        match kind {
            ChainKind::Devchain => {
                let pool = report.pool.unwrap();
                assert_eq!(pool.pending, [(nonce(1), due.tx_hash)].into());
                assert_eq!(pool.queued, [(nonce(3), waits.tx_hash)].into());
            }
            // It has no such method.
            ChainKind::Anvil => assert_eq!(report.pool, None),
        }
    }
    for report in evm.pools(of, &[NEVER_SENT]).await {
        assert_eq!(report.knows_it, Some(false));
    }

    other.change(|faults| faults.lag_blocks = head);
    assert_eq!(said(&evm, 0, NEVER_SENT).await, [ReceiptLookup::NotThere, ReceiptLookup::Behind]);
    other.change(|faults| faults.lag_blocks = 0);
    other.change(|faults| faults.is_down = true);
    assert_eq!(said(&evm, 0, NEVER_SENT).await, [ReceiptLookup::NotThere, ReceiptLookup::NoAnswer]);
    assert_eq!(occupant(&evm, 0, head).await, None, "I8: one endpoint's word");
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_search_reports_each_endpoint_devchain() {
    slot_search_reports_each_endpoint(ChainKind::Devchain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn slot_search_reports_each_endpoint_anvil() {
    slot_search_reports_each_endpoint(ChainKind::Anvil).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn occupant_is_found_without_an_archive_node() {
    let chain = TestChain::start(ChainKind::Devchain, Era::London).await;
    let other = chain.breakable().await;
    let evm = connect(&chain, &other).await;
    let of = account(0).address;
    let mined = signed(&evm, 0).await;
    evm.send(&mined.raw, Public).await;
    chain.mine(40).await;
    let states = serde_json::json!([4]);
    chain.call("devchain_setStates", states).await;
    for dialect in ["besu", "erigon", "nethermind", "reth", "geth"] {
        let dialect = serde_json::json!([dialect]);
        chain.call("devchain_setDialect", dialect.clone()).await;
        assert_eq!(occupant(&evm, 0, 100).await, Some(mined.tx_hash), "{dialect}");
    }
    until("the new head is seen", || async {
        let past = evm.count_at(of, 2).await.unwrap_err().to_string();
        past.contains("missing trie node").then_some(())
    })
    .await;
    assert_eq!(evm.count_at(of, 38).await.unwrap().count, nonce(1));
}
