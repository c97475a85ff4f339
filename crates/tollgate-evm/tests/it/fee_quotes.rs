//! Fee quotes of several endpoints that differ (I16).

use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_evm::chain::EvmChain;
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_model::port::chain::{Chain, Speed};

use crate::fake::{Behaviour, Node, config, connect, heads_at, until};

/// A fee history that asks for 500 gwei, or for next to nothing.
fn false_history(base: &str, tip: &str) -> serde_json::Value {
    json!({
        "oldestBlock": "0x1", "gasUsedRatio": [0.5], "baseFeePerGas": [base, base],
        "reward": [[tip, tip, tip]],
    })
}

const HONEST_MAX_FEE: u128 = 2 * 0x44c + 0x14;

#[tokio::test]
async fn fee_quote_of_one_endpoint_of_three_is_outvoted() {
    for (base, tip) in [("0x746a528800", "0x746a528800"), ("0x1", "0x1")] {
        let nodes = [Node::start().await, Node::start().await, Node::start().await];
        nodes[0].set().fixed.insert("eth_feeHistory", Ok(false_history(base, tip)));
        let chain = connect(nodes.iter().map(Node::http).collect()).await;
        let quote = chain.fee_quote(Speed::Normal).await.unwrap();
        assert_eq!(quote.max_fee.wei(), HONEST_MAX_FEE, "{base}");
    }
}

#[tokio::test]
async fn an_endpoint_with_an_honest_normal_price_does_not_decide_the_fast_one() {
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    let honest = connect(vec![nodes[0].http()]).await;
    let quotes = [honest.fee_quote(Speed::Normal).await, honest.fee_quote(Speed::Fast).await];
    let [normal, fast] = quotes.map(|quote| quote.unwrap().max_fee.wei());
    let sly = json!({
        "oldestBlock": "0x1", "gasUsedRatio": [0.5], "baseFeePerGas": ["0x44c", "0x44c"],
        "reward": [["0x1", "0x14", "0x746a528800"]],
    });
    for liar in 0..3 {
        for (place, node) in nodes.iter().enumerate() {
            node.set().fixed.remove("eth_feeHistory");
            if place == liar {
                node.set().fixed.insert("eth_feeHistory", Ok(sly.clone()));
            }
        }
        let chain = connect(nodes.iter().map(Node::http).collect()).await;
        assert_eq!(chain.fee_quote(Speed::Fast).await.unwrap().max_fee.wei(), fast, "I16");
        assert_eq!(chain.fee_quote(Speed::Normal).await.unwrap().max_fee.wei(), normal);
    }
}

#[tokio::test]
async fn the_lower_of_two_fee_quotes_counts() {
    let nodes = [Node::start().await, Node::start().await];
    let dear = false_history("0x746a528800", "0x746a528800");
    nodes[0].set().fixed.insert("eth_feeHistory", Ok(dear));
    let chain = connect(nodes.iter().map(Node::http).collect()).await;
    let quote = chain.fee_quote(Speed::Normal).await.unwrap();
    assert_eq!(quote.max_fee.wei(), HONEST_MAX_FEE);
}

/// Two endpoints, of which only the second can be heard from the start, and asks for 500 gwei.
async fn lone_dear_endpoint(patience: Duration) -> ([Node; 2], EvmChain) {
    let nodes = [Node::start().await, Node::start().await];
    let dear = false_history("0x746a528800", "0x746a528800");
    nodes[1].set().fixed.insert("eth_feeHistory", Ok(dear));
    nodes[0].set().behaviour = Behaviour::Down;
    let mut config = config(nodes.iter().map(Node::http).collect());
    (config.fee_cache, config.single_source_after) = (Duration::ZERO, patience);
    let chain = EvmChain::connect(config).await.unwrap();
    (nodes, chain)
}

#[tokio::test]
async fn lone_price_without_an_earlier_agreement_waits_for_a_second_one() {
    let (nodes, chain) = lone_dear_endpoint(Duration::from_secs(300)).await;
    for _ in 0..3 {
        let waits = chain.fee_quote(Speed::Normal).await.unwrap_err();
        assert!(waits.0.contains("a second one is waited for"), "I16: {waits}");
    }
    nodes[0].set().behaviour = Behaviour::Normal;
    until("the other one is heard", || async { chain.fee_quote(Speed::Normal).await.is_ok() })
        .await;
    let quote = chain.fee_quote(Speed::Normal).await.unwrap();
    assert_eq!(quote.max_fee.wei(), HONEST_MAX_FEE, "I16: the lower of two");
}

#[tokio::test]
async fn lone_price_without_an_earlier_agreement_is_used_after_a_while() {
    let (nodes, chain) = lone_dear_endpoint(Duration::from_millis(300)).await;
    chain.fee_quote(Speed::Normal).await.unwrap_err();
    let price = async || chain.fee_quote(Speed::Normal).await.map(|quote| quote.max_fee.wei());
    until("I15: it is used", || async { price().await.is_ok() }).await;
    let dear = price().await.unwrap();
    let dearer = false_history("0x746a52880000", "0x746a52880000");
    nodes[1].set().fixed.insert("eth_feeHistory", Ok(dearer));
    assert_eq!(price().await.unwrap(), 4 * dear, "rises are bounded from then on");
    nodes[0].set().behaviour = Behaviour::Normal;
    until("I16: the lower of two counts", || async { price().await == Ok(HONEST_MAX_FEE) }).await;
}

#[tokio::test]
async fn fee_of_nothing_at_one_of_two_endpoints_is_not_signed() {
    let nodes = [Node::start().await, Node::start().await];
    nodes[0].set().base_fee = Some(0);
    nodes[0].set().fixed.insert("eth_feeHistory", Ok(false_history("0x0", "0x0")));
    let mut config = config(nodes.iter().map(Node::http).collect());
    config.single_source_after = Duration::from_millis(300);
    let chain = EvmChain::connect(config).await.unwrap();
    chain.fee_quote(Speed::Normal).await.unwrap_err();
    until("I15: the other price is used", || async {
        let quote = chain.fee_quote(Speed::Normal).await;
        quote.is_ok_and(|quote| quote.max_fee.wei() == HONEST_MAX_FEE)
    })
    .await;
}

#[tokio::test]
async fn base_fee_that_two_different_heads_reach_is_the_least_that_is_offered() {
    let nodes = [Node::start().await, Node::start().await];
    nodes[0].set().fixed.insert("eth_feeHistory", Ok(false_history("0x2", "0x2")));
    nodes[1].mine(1, 11, Vec::new());
    let chain = connect(nodes.iter().map(Node::http).collect()).await;
    until("both heads are known", || async {
        chain.endpoints().iter().all(|endpoint| endpoint.head.is_some())
    })
    .await;
    assert!(chain.fee_quote(Speed::Normal).await.unwrap().max_fee.wei() >= 2 * 1_000);
}

#[tokio::test]
async fn an_endpoint_whose_peer_is_silent_raises_the_fee_by_a_bounded_step() {
    let (silent, node) = (Node::start().await, Node::start().await);
    let mut config = config(vec![silent.http(), node.http()]);
    config.fee_cache = Duration::ZERO;
    let chain = EvmChain::connect(config).await.unwrap();
    let honest = chain.fee_quote(Speed::Fast).await.unwrap().max_fee.wei();
    silent.set().behaviour = Behaviour::Down;
    let dear = false_history("0x746a528800", "0x746a528800");
    node.set().fixed.insert("eth_feeHistory", Ok(dear));
    for _ in 0..3 {
        let quote = chain.fee_quote(Speed::Fast).await.unwrap();
        assert_eq!(quote.max_fee.wei(), 4 * honest);
        assert!(quote.max_priority_fee.unwrap() <= quote.max_fee);
    }
}

#[tokio::test]
async fn the_only_endpoint_of_a_chain_is_followed_at_once() {
    let node = Node::start().await;
    let mut config = config(vec![node.http()]);
    config.fee_cache = Duration::ZERO;
    let chain = EvmChain::connect(config).await.unwrap();
    assert_eq!(chain.fee_quote(Speed::Normal).await.unwrap().max_fee.wei(), HONEST_MAX_FEE);
    let dear = false_history("0x746a528800", "0x1");
    node.set().fixed.insert("eth_feeHistory", Ok(dear));
    let quote = chain.fee_quote(Speed::Normal).await.unwrap();
    assert_eq!(quote.max_fee.wei(), 2 * 0x74_6a52_8800 + 1);
}

#[tokio::test]
async fn a_fee_quote_does_not_wait_for_an_endpoint_that_hangs() {
    let nodes = [Node::start().await, Node::start().await];
    let timeout = Duration::from_secs(20);
    let slow = |node: &Node| EndpointConfig { timeout, ..node.http() };
    let mut config = config(nodes.iter().map(slow).collect());
    (config.read_deadline, config.fee_cache) = (timeout, Duration::ZERO);
    let chain = EvmChain::connect(config).await.unwrap();
    chain.fee_quote(Speed::Normal).await.unwrap();
    nodes[0].set().behaviour = Behaviour::Hangs;
    let begun = Instant::now();
    let quote = chain.fee_quote(Speed::Normal).await.unwrap();
    assert_eq!(quote.max_fee.wei(), HONEST_MAX_FEE);
    assert!(begun.elapsed() < timeout / 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn low_fee_of_one_endpoint_is_neither_offered_nor_remembered() {
    for is_lie_first in [true, false] {
        let nodes = [Node::start().await, Node::start().await];
        let mut config = config(nodes.iter().map(Node::http).collect());
        config.fee_cache = Duration::ZERO;
        let chain = EvmChain::connect(config).await.unwrap();
        heads_at(&chain, 10).await;
        let price = async || chain.fee_quote(Speed::Normal).await.unwrap().max_fee.wei();
        if !is_lie_first {
            assert_eq!(price().await, HONEST_MAX_FEE);
        }
        nodes[0].set().fixed.insert("eth_feeHistory", Ok(false_history("0x1", "0x1")));
        let least = 2 * 1_000;
        assert!(price().await >= least, "both blocks tell a base fee of 1,000");
        nodes[1].set().behaviour = Behaviour::Down;
        assert!(price().await >= least);
        nodes[1].set().behaviour = Behaviour::Normal;
        nodes[0].set().fixed.clear();
        until("both are heard", || async { price().await == HONEST_MAX_FEE }).await;
    }
}
