//! One wrong endpoint of several decides nothing (I8, I12, I16), and one that is gone for ever blocks
//! nothing for ever (I15).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_model::Route::Public;
use tollgate_model::port::chain::{
    AccountCounts, BlockTag, Call, CallEstimate, Chain, CountSupport, Speed,
};
use tollgate_model::reconcile::ReceiptLookup;
use tollgate_model::{Address, B256, Bytes, U256, Wei};

use crate::fake::{Behaviour, Node, SOMEBODY, block, config, heads_at, nonce, until};

const HONEST_MAX_FEE: u128 = 2 * 0x44c + 0x14;

/// A chain with a short hold of heads.
fn short_hold(nodes: &[&Node]) -> ChainConfig {
    let endpoints = nodes.iter().map(|node| node.http()).collect();
    ChainConfig { head_hold: Duration::from_millis(50), ..config(endpoints) }
}

async fn finalized(chain: &EvmChain) -> Result<Option<u64>, String> {
    let block = chain.block(BlockTag::Finalized).await;
    block.map(|block| block.map(|block| block.at.number)).map_err(|error| error.to_string())
}

#[tokio::test]
async fn endpoint_that_reports_a_head_it_does_not_deliver_decides_nothing() {
    for honest_count in [1, 2] {
        let liar = Node::start().await;
        let honest = [Node::start().await, Node::start().await];
        let honest = &honest[..honest_count];
        liar.set().head_ahead = 500;
        (liar.set().mined, liar.set().pending, liar.set().finalized) = (20, 30, Some(10));
        let dear = json!({
            "oldestBlock": "0x1", "gasUsedRatio": [0.5],
            "baseFeePerGas": ["0x746a528800", "0x746a528800"],
            "reward": [["0x746a528800", "0x746a528800", "0x746a528800"]],
        });
        liar.set().fixed.insert("eth_feeHistory", Ok(dear));
        for node in honest {
            (node.set().mined, node.set().pending, node.set().finalized) = (5, 6, Some(5));
        }
        let nodes: Vec<&Node> = std::iter::once(&liar).chain(honest).collect();
        let chain = EvmChain::connect(short_hold(&nodes)).await.unwrap();
        until("its head is given up", || async {
            chain.head_after(None).await == Ok(block(1, 10))
        })
        .await;
        let counts = chain.counts(SOMEBODY).await.unwrap();
        assert_eq!((counts.mined, counts.pending), (nonce(5), nonce(6)));
        let quote = chain.fee_quote(Speed::Fast).await.unwrap();
        assert!(quote.max_fee.wei() < 2 * HONEST_MAX_FEE, "{quote:?}");
        assert_eq!(
            finalized(&chain).await,
            Ok(Some(5)),
            "the tag of an honest one, not the false one"
        );
        // It comes back to what it has, and counts again.
        liar.set().head_ahead = 0;
        (liar.set().mined, liar.set().pending, liar.set().finalized) = (5, 6, Some(5));
        until("it has a vote", || async { finalized(&chain).await == Ok(Some(5)) }).await;
    }
}

#[tokio::test]
async fn false_head_at_the_start_gives_way_as_soon_as_another_endpoint_is_heard() {
    for honest_count in [1, 2] {
        let liar = Node::start().await;
        liar.set().head_ahead = 500;
        let honest = [Node::start().await, Node::start().await];
        let honest = &honest[..honest_count];
        let nodes = std::iter::once(&liar).chain(honest);
        let config = config(nodes.map(|node| node.http()).collect());
        assert!(config.head_hold >= Duration::from_secs(30), "longer than the test waits");
        honest.iter().for_each(|node| node.set().behaviour = Behaviour::Down);
        let chain = EvmChain::connect(config).await.unwrap();
        assert_eq!(chain.head_after(None).await, Ok(block(9, 510)), "nobody else is heard");
        honest.iter().for_each(|node| node.set().behaviour = Behaviour::Normal);
        until("the honest head counts", || async {
            chain.head_after(None).await == Ok(block(1, 10))
        })
        .await;
        assert_eq!(chain.block(BlockTag::Latest).await.unwrap().unwrap().at, block(1, 10));
    }
}

#[tokio::test]
async fn finality_tag_beside_false_heads_and_tags_is_the_honest_one_without_delay() {
    let (liar, honest) = (Node::start().await, Node::start().await);
    honest.set().finalized = Some(5);
    let false_tag = |number: u64| {
        json!({
            "number": format!("{number:#x}"), "hash": B256::repeat_byte(0xfe).to_string(),
            "parentHash": B256::repeat_byte(0xfd).to_string(), "transactions": [],
        })
    };
    liar.set().finalized_as = Some(false_tag(400));
    let chain = EvmChain::connect(short_hold(&[&liar, &honest])).await.unwrap();
    let settled = async || chain.block(BlockTag::Finalized).await.unwrap().unwrap().at;
    until("both are heard", || async { finalized(&chain).await.is_ok() }).await;
    assert_eq!(
        settled().await,
        block(1, 5),
        "a tag above the head claims as much as the other one"
    );
    liar.set().head_ahead = 500;
    until("its head is given up", || async { chain.head_after(None).await == Ok(block(1, 10)) })
        .await;
    honest.set().finalized = Some(6);
    assert_eq!(settled().await, block(1, 6), "also while its head is ignored");
    liar.set().finalized_as = Some(false_tag(7));
    honest.set().finalized = Some(7);
    assert_eq!(settled().await, block(1, 7), "the block is read by number, not taken from the tag");
}

#[tokio::test]
async fn endpoint_behind_another_that_delivers_its_blocks_has_no_vote() {
    let (lagging, ahead) = (Node::start().await, Node::start().await);
    let chain = EvmChain::connect(short_hold(&[&lagging, &ahead])).await.unwrap();
    for node in [&lagging, &ahead] {
        (node.set().mined, node.set().pending) = (5, 5);
    }
    chain.counts(SOMEBODY).await.unwrap();
    (ahead.set().mined, ahead.set().pending) = (7, 7);
    for number in 11..=14 {
        ahead.mine(1, number, Vec::new());
    }
    until("the count of the one ahead counts", || async {
        chain.counts(SOMEBODY).await.unwrap().mined == nonce(7)
    })
    .await;
    assert_eq!(chain.counts(SOMEBODY).await.unwrap().sure, nonce(5), "I16: by one word");
}

#[tokio::test]
async fn finality_tag_of_one_endpoint_counts_only_after_a_long_time_without_a_second() {
    for is_gone in [true, false] {
        let (one, other) = (Node::start().await, Node::start().await);
        one.set().finalized = Some(8);
        let config = short_hold(&[&one, &other]);
        let patient = EvmChain::connect(config.clone()).await.unwrap();
        let after = Duration::from_millis(200);
        let hasty = ChainConfig { single_source_after: after, ..config };
        let hasty = EvmChain::connect(hasty).await.unwrap();
        if is_gone {
            other.set().behaviour = Behaviour::Down;
        }
        let said = finalized(&patient).await.unwrap_err();
        assert!(said.contains("no second endpoint confirms it"), "{said}");
        until("I15: it ends", || async { finalized(&hasty).await == Ok(Some(8)) }).await;
        assert!(finalized(&patient).await.is_err());
        (one.set().finalized, other.set().finalized) = (Some(9), Some(9));
        other.set().behaviour = Behaviour::Normal;
        until("two say so", || async { finalized(&patient).await == Ok(Some(9)) }).await;
        other.set().behaviour = Behaviour::Down;
        one.set().finalized = Some(10);
        assert_eq!(finalized(&patient).await, Ok(Some(9)), "what two said stands");
    }
}

#[tokio::test]
async fn past_count_of_one_endpoint_counts_only_after_a_long_time_without_a_second() {
    let (one, other) = (Node::start().await, Node::start().await);
    let config = short_hold(&[&one, &other]);
    let patient = EvmChain::connect(config.clone()).await.unwrap();
    let hasty = ChainConfig { single_source_after: Duration::from_millis(200), ..config };
    let hasty = EvmChain::connect(hasty).await.unwrap();
    other.set().oldest_state = 10;
    patient.count_at(SOMEBODY, 9).await.unwrap_err();
    until("I15: it ends", || async { hasty.count_at(SOMEBODY, 9).await.is_ok() }).await;
    patient.count_at(SOMEBODY, 9).await.unwrap_err();
    patient.count_at(SOMEBODY, 10).await.unwrap();
}

#[tokio::test]
async fn mined_count_is_confirmed_by_two_equal_readings_or_overdue_after_a_long_time() {
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    let config = short_hold(&[&nodes[0], &nodes[1]]);
    let patient = EvmChain::connect(config.clone()).await.unwrap();
    let hasty = ChainConfig { single_source_after: Duration::from_millis(200), ..config };
    let hasty = EvmChain::connect(hasty).await.unwrap();
    let three = EvmChain::connect(short_hold(&[&nodes[0], &nodes[1], &nodes[2]])).await.unwrap();
    let support = async |chain: &EvmChain| {
        chain.prove_count(SOMEBODY, 100);
        chain.counts(SOMEBODY).await.unwrap().support
    };
    for chain in [&patient, &hasty, &three] {
        heads_at(chain, 10).await;
        assert_eq!(support(chain).await, CountSupport::Confirmed);
    }
    for node in &nodes[1..] {
        (node.set().mined, node.set().pending) = (5, 5);
    }
    assert_eq!(support(&patient).await, CountSupport::Open, "0 or 5");
    assert_eq!(support(&three).await, CountSupport::Confirmed, "two report 5");
    until("I15", || async { support(&hasty).await == CountSupport::Overdue }).await;
    assert_eq!(support(&patient).await, CountSupport::Open);
    nodes[0].set().mined = 5;
    for chain in [&patient, &hasty] {
        assert_eq!(support(chain).await, CountSupport::Confirmed);
    }
    nodes[0].set().behaviour = Behaviour::Down;
    assert_eq!(support(&patient).await, CountSupport::Open, "one alone");
    until("I15", || async { support(&hasty).await == CountSupport::Overdue }).await;
}

/// Nodes with these transactions of an account in block 1; the last one counts by its head alone.
async fn nodes_with(mined: u64, offsets: [i64; 2]) -> [Node; 2] {
    let nodes = [Node::start().await, Node::start().await];
    let hashes: Vec<B256> = (0..mined).map(|n| B256::repeat_byte(n as u8 + 1)).collect();
    for (node, offset) in nodes.iter().zip(offsets) {
        for (hash, slot) in hashes.iter().zip(0..) {
            node.set().slots.insert(*hash, (SOMEBODY, slot));
        }
        node.mine(1, 11, hashes.clone());
        let told = mined.saturating_add_signed(offset);
        (node.set().mined, node.set().pending) = (told, told);
    }
    nodes
}

/// The counts once the proof has decided.
async fn proven(chain: &EvmChain) -> AccountCounts {
    let read = async || {
        let counts = chain.counts(SOMEBODY).await.unwrap();
        chain.prove_count(SOMEBODY, 100);
        counts
    };
    until("blocks decide", || async { read().await.support != CountSupport::Open }).await;
    read().await
}

#[tokio::test]
async fn count_that_blocks_show_is_used_though_the_other_endpoint_counts_less() {
    let nodes = nodes_with(5, [0, -5]).await;
    let chain = EvmChain::connect(short_hold(&[&nodes[0], &nodes[1]])).await.unwrap();
    heads_at(&chain, 11).await;
    let counts = proven(&chain).await;
    assert_eq!((counts.mined, counts.sure), (nonce(5), nonce(5)));
    assert_eq!(counts.support, CountSupport::Confirmed);
    nodes[0].set().mined = 6;
    let counts = chain.counts(SOMEBODY).await.unwrap();
    assert_eq!((counts.mined, counts.highest), (nonce(5), nonce(6)), "the mark stays");
}

#[tokio::test]
async fn count_that_its_own_blocks_contradict_is_ignored_alone_and_beside_another() {
    for mined in [0, 2] {
        let nodes = nodes_with(mined, [3, 0]).await;
        let chain = EvmChain::connect(short_hold(&[&nodes[0], &nodes[1]])).await.unwrap();
        heads_at(&chain, 11).await;
        let counts = proven(&chain).await;
        assert_eq!(counts.support, CountSupport::Overdue, "nothing more to wait for");
        assert_eq!((counts.mined, counts.highest), (nonce(mined), nonce(mined)));
        assert_eq!(counts.told, nonce(mined + 3), "for people");
        nodes[1].set().behaviour = Behaviour::Down;
        let counts = chain.counts(SOMEBODY).await.unwrap();
        assert_eq!((counts.mined, counts.pending), (nonce(mined), nonce(mined)), "I16");
    }
}

/// A transaction that a real node showed: the signer's first.
fn signed_transaction() -> Value {
    let text = include_str!("../../src/chain/block_proof/anvil_block.json");
    let recorded: Value = serde_json::from_str(text).unwrap();
    recorded["block"]["transactions"][1].clone()
}

#[tokio::test]
async fn lone_count_is_open_until_the_endpoint_shows_a_transaction_with_the_accounts_signature() {
    let transaction = signed_transaction();
    let signer: Address = transaction["from"].as_str().unwrap().parse().unwrap();
    let hash: B256 = transaction["hash"].as_str().unwrap().parse().unwrap();
    for (of, is_signed) in [(signer, true), (SOMEBODY, false)] {
        let nodes = [Node::start().await, Node::start().await];
        for node in &nodes {
            node.set().slots.insert(hash, (of, 0));
            node.mine(1, 11, vec![hash]);
            (node.set().mined, node.set().pending) = (1, 1);
        }
        nodes[0].set().fixed.insert("eth_getTransactionByHash", Ok(transaction.clone()));
        let chain = EvmChain::connect(short_hold(&[&nodes[0], &nodes[1]])).await.unwrap();
        heads_at(&chain, 11).await;
        nodes[1].set().behaviour = Behaviour::Down;
        assert_eq!(chain.counts(of).await.unwrap().support, CountSupport::Open);
        until("its transaction was looked at", || async {
            chain.counts(of).await.unwrap();
            chain.prove_count(of, 100);
            nodes[0].calls_of("eth_getTransactionByHash") > 0
        })
        .await;
        match is_signed {
            true => {
                let is_shown =
                    async || chain.counts(of).await.unwrap().support == CountSupport::Confirmed;
                until("it is shown", is_shown).await;
                assert_eq!(chain.counts(of).await.unwrap().mined, nonce(1));
            }
            false => {
                let support = chain.counts(of).await.unwrap().support;
                assert_eq!(
                    support,
                    CountSupport::Open,
                    "I16: anybody can write a sender into JSON"
                );
            }
        }
    }
}

#[tokio::test]
async fn occupant_that_one_endpoint_shows_counts_after_a_long_silence_of_the_others() {
    const FOREIGN: B256 = B256::repeat_byte(9);
    let (one, other) = (Node::start().await, Node::start().await);
    for node in [&one, &other] {
        node.set().slots.insert(FOREIGN, (SOMEBODY, 0));
        node.mine(1, 11, vec![FOREIGN]);
    }
    let config = short_hold(&[&one, &other]);
    let hasty = ChainConfig { single_source_after: Duration::from_millis(200), ..config.clone() };
    let (patient, hasty) =
        (EvmChain::connect(config).await.unwrap(), EvmChain::connect(hasty).await.unwrap());
    let seen = async |chain: &EvmChain| {
        let search = chain.occupants(SOMEBODY, &[nonce(0)], 100).await;
        search.seen.iter().any(|seen| seen.tx_hash == FOREIGN)
    };
    until("two show it", || async { seen(&patient).await && seen(&hasty).await }).await;
    other.set().behaviour = Behaviour::Down;
    for node in [&one, &other] {
        node.set().mined = 1;
    }
    let looked =
        async |chain: &EvmChain| chain.search(SOMEBODY, nonce(0), &[B256::ZERO]).await.looked;
    assert!(!seen(&patient).await, "I8");
    assert_eq!(looked(&patient).await[0].len(), 2);
    until("I15: it ends", || async { seen(&hasty).await }).await;
    until("I15", || async { looked(&hasty).await == [[ReceiptLookup::NotThere]] }).await;
    assert_eq!(looked(&patient).await[0].len(), 2, "I8: one is silent, and that is no answer");
    // It is back, and its block of the same hash does not hold the transaction.
    other.mine(1, 11, Vec::new());
    other.set().behaviour = Behaviour::Normal;
    until("it is contradicted", || async { !seen(&hasty).await }).await;
    let contradicted = Instant::now();
    while contradicted.elapsed() < Duration::from_millis(400) {
        assert!(!seen(&hasty).await, "I8: a contradiction is no silence");
    }
    assert!(!seen(&patient).await);
}

fn reverts() -> Result<Value, Value> {
    Err(json!({"code": 3, "message": "execution reverted: no"}))
}

#[tokio::test]
async fn revert_of_an_estimate_needs_a_second_endpoint_that_does_not_estimate_it() {
    let nodes = [Node::start().await, Node::start().await];
    let config = short_hold(&[&nodes[0], &nodes[1]]);
    let unpolled = ChainConfig { poll_interval: Duration::from_secs(600), ..config };
    let chain = EvmChain::connect(unpolled).await.unwrap();
    heads_at(&chain, 10).await;
    let (to, value, data) = (Some(SOMEBODY), Wei(U256::ZERO), Bytes::new());
    let call = Call { from: SOMEBODY, to, value, data };
    let tried = async || chain.estimate_call(&call, Public).await.unwrap();
    for (wrong, right) in [(0, 1), (1, 0)] {
        nodes[wrong].set().fixed.insert("eth_estimateGas", reverts());
        nodes[right].set().fixed.clear();
        // A call that failed makes it the second to be asked.
        nodes[right].set().behaviour = Behaviour::Down;
        chain.sighting(B256::ZERO, Public).await.unwrap();
        nodes[right].set().behaviour = Behaviour::Normal;
        let asked = nodes[wrong].calls_of("eth_estimateGas");
        assert_eq!(tried().await, CallEstimate::Gas(21_000));
        assert_eq!(nodes[wrong].calls_of("eth_estimateGas"), asked + 1);
    }
    nodes[0].set().fixed.insert("eth_estimateGas", reverts());
    nodes[1].set().fixed.insert("eth_estimateGas", reverts());
    assert!(matches!(tried().await, CallEstimate::Reverts(_)), "two say so");
    nodes[1].set().behaviour = Behaviour::Down;
    assert!(matches!(tried().await, CallEstimate::Reverts(_)), "nobody says otherwise");
}
