//! One endpoint's word about gas, balances, limits, logs and reasons (I16) refuses nothing, costs nothing and is marked
//! where it is shown.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_model::Route::Public;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{Call, CallEstimate, Chain, Funds};
use tollgate_model::{B256, Bytes, TxHash, U256, Wei};

use crate::fake::{Behaviour, Node, SOMEBODY, config, connect, heads_at, nonce, until};

/// The time after which an endpoint without a block lags, in the configuration of these tests.
const LAG_GRACE: Duration = Duration::from_millis(100);
const HASH: TxHash = B256::repeat_byte(1);

async fn nodes(count: usize) -> (Vec<Node>, EvmChain) {
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(Node::start().await);
    }
    let chain = connect(nodes.iter().map(Node::http).collect()).await;
    heads_at(&chain, 10).await;
    (nodes, chain)
}

fn wei(wei: u64) -> Wei {
    Wei(U256::from(wei))
}

fn has(node: &Node, balance: u64) {
    node.set().fixed.insert("eth_getBalance", Ok(json!(format!("{balance:#x}"))));
}

#[tokio::test]
async fn balance_of_one_of_two_is_the_higher_one_and_of_three_the_median() {
    let (two, chain) = nodes(2).await;
    for low in [0, 1] {
        has(&two[low], 0);
        has(&two[1 - low], 700);
        assert_eq!(chain.balance(SOMEBODY).await, Ok(wei(700)), "{low}");
    }
    let (three, chain) = nodes(3).await;
    for wrong in [0, 1_000_000] {
        for odd in 0..3 {
            three.iter().for_each(|node| has(node, 700));
            has(&three[odd], wrong);
            assert_eq!(chain.balance(SOMEBODY).await, Ok(wei(700)), "{wrong} at {odd}");
        }
    }
    three[1..].iter().for_each(|node| node.set().behaviour = Behaviour::Down);
    assert_eq!(chain.balance(SOMEBODY).await, Ok(wei(700)), "the only one that answers");
}

#[tokio::test]
async fn funds_that_one_endpoint_of_two_reports_alone_refuse_nothing_until_it_was_alone_for_long() {
    let poor = Node::start().await;
    let silent = Node::start().await;
    has(&poor, 0);
    for (single_source_after, told) in [(Duration::from_secs(300), 0), (Duration::ZERO, 1)] {
        silent.set().behaviour = Behaviour::Normal;
        let endpoints = config(vec![poor.http(), silent.http()]);
        let chain = EvmChain::connect(ChainConfig { single_source_after, ..endpoints }).await;
        let chain = chain.unwrap();
        heads_at(&chain, 10).await;
        let both = chain.funds(SOMEBODY).await.unwrap();
        assert!(both.contains(&Funds { balance: wei(0), mined: nonce(0) }) && both.len() == 2);
        silent.set().behaviour = Behaviour::Down;
        assert_eq!(chain.funds(SOMEBODY).await.unwrap().len(), told);
    }
}

#[tokio::test]
async fn funds_of_an_endpoint_that_lags_count_beside_the_only_one_that_does_not() {
    let (two, chain) = nodes(2).await;
    has(&two[0], 0);
    two[0].set().mined = 1;
    for number in 11..=14 {
        two[0].mine(1, number, Vec::new());
    }
    until("one endpoint is ahead", || async {
        chain.endpoints()[0].head.is_some_and(|head| head.number == 14)
    })
    .await;
    let begun = Instant::now();
    while begun.elapsed() < 3 * LAG_GRACE {
        let funds = chain.funds(SOMEBODY).await.unwrap();
        assert!(funds.iter().any(|funds| funds.balance > wei(0)), "{funds:?}");
    }
}

#[tokio::test]
async fn limits_of_the_only_head_of_two_are_not_confirmed_until_the_other_was_away_for_long() {
    let (present, silent) = (Node::start().await, Node::start().await);
    silent.set().behaviour = Behaviour::Down;
    for (single_source_after, confirmed) in
        [(Duration::from_secs(300), false), (Duration::ZERO, true)]
    {
        let endpoints = config(vec![present.http(), silent.http()]);
        let chain = EvmChain::connect(ChainConfig { single_source_after, ..endpoints }).await;
        let chain = chain.unwrap();
        let first = chain.head_after(None).await.unwrap();
        assert_eq!((first.number, chain.limits().is_confirmed), (10, confirmed));
    }
    let (_two, chain) = nodes(2).await;
    assert!(chain.limits().is_confirmed);
}

/// A failed transaction in block 11 of these nodes.
async fn failed_at(nodes: &[Node], chain: &EvmChain) -> TxReceipt {
    nodes.iter().for_each(|node| node.set().failed.extend([HASH]));
    let mined: Vec<_> = nodes.iter().map(|node| node.mine(1, 11, vec![HASH])).collect();
    heads_at(chain, 11).await;
    chain.receipts(&mined[0], &[HASH]).await.found.remove(0)
}

fn reverts(node: &Node, reason: &str) {
    let message = format!("execution reverted: {reason}");
    node.set().fixed.insert("eth_call", Err(json!({"code": 3, "message": message})));
}

#[tokio::test]
async fn revert_reason_is_that_of_two_endpoints_and_contradictions_are_all_told() {
    let (three, chain) = nodes(3).await;
    let receipt = failed_at(&three, &chain).await;
    three.iter().for_each(|node| reverts(node, "poor"));
    reverts(&three[0], "your fault");
    let reason = chain.revert_reason(&receipt).await.unwrap();
    assert_eq!(reason.as_str(), "execution reverted: poor");
    three[2].set().fixed.remove("eth_call");
    let reason = chain.revert_reason(&receipt).await.unwrap();
    assert!(reason.as_str().starts_with("endpoints tell different reasons: "), "{reason}");
    assert!(reason.as_str().contains("poor") && reason.as_str().contains("your fault"));
    three[1].set().fixed.remove("eth_call");
    let reason = chain.revert_reason(&receipt).await.unwrap();
    assert_eq!(reason.as_str(), "execution reverted: your fault", "nobody else tells one");
}

fn logs(node: &Node, data: &str) {
    let address = SOMEBODY.to_string();
    let log: Value = json!({"address": address, "topics": [], "data": data, "logIndex": "0x0"});
    node.set().receipt_extras = json!({ "logs": [log] });
}

#[tokio::test]
async fn logs_are_those_of_two_endpoints_and_a_contradiction_is_no_answer() {
    let (three, chain) = nodes(3).await;
    let receipt = failed_at(&three, &chain).await;
    three.iter().for_each(|node| logs(node, "0x01"));
    for (place, odd) in three.iter().enumerate() {
        logs(odd, "0x02");
        let shown = chain.logs(&receipt).await.unwrap().unwrap();
        assert_eq!((&shown.entries[0].data[..], shown.is_confirmed), (&[1][..], true), "{place}");
        logs(odd, "0x01");
    }
    logs(&three[0], "0x02");
    three[1].set().unreadable.insert(HASH);
    let error = chain.logs(&receipt).await.unwrap_err();
    assert!(error.to_string().contains("contradict each other"), "{error}");
    three[2].set().unreadable.insert(HASH);
    let shown = chain.logs(&receipt).await.unwrap().unwrap();
    assert_eq!((&shown.entries[0].data[..], shown.is_confirmed), (&[2][..], false), "one alone");
    let (one, chain) = nodes(1).await;
    let receipt = failed_at(&one, &chain).await;
    logs(&one[0], "0x01");
    assert!(chain.logs(&receipt).await.unwrap().unwrap().is_confirmed, "there is no other");
}

#[tokio::test]
async fn estimate_of_the_only_endpoint_that_is_up_to_date_is_compared_with_one_that_lags() {
    let (two, chain) = nodes(2).await;
    estimates(&two[0], 21_000, true);
    estimates(&two[1], 60_000, false);
    for number in 11..=14 {
        two[0].mine(1, number, Vec::new());
    }
    until("one endpoint is ahead", || async {
        chain.endpoints()[0].head.is_some_and(|head| head.number == 14)
    })
    .await;
    let begun = Instant::now();
    while begun.elapsed() < 3 * LAG_GRACE {
        assert_eq!(estimate_of(&chain).await, CallEstimate::Gas(60_000), "I16");
    }
}

/// A node's estimate, and whether it finds that the call succeeds with less.
fn estimates(node: &Node, gas: u64, succeeds_with_less: bool) {
    let out_of_gas = json!({"code": -32000, "message": "out of gas"});
    let called = if succeeds_with_less { Ok(json!("0x")) } else { Err(out_of_gas) };
    node.set().fixed.insert("eth_estimateGas", Ok(json!(format!("{gas:#x}"))));
    node.set().fixed.insert("eth_call", called);
}

async fn estimate_of(chain: &EvmChain) -> CallEstimate {
    let (to, value, data) = (Some(SOMEBODY), wei(0), Bytes::new());
    chain.estimate_call(&Call { from: SOMEBODY, to, value, data }, Public).await.unwrap()
}

async fn estimated(nodes: &[Node]) -> u64 {
    let chain = EvmChain::connect(config(nodes.iter().map(Node::http).collect())).await.unwrap();
    heads_at(&chain, 10).await;
    let answer = estimate_of(&chain).await;
    let CallEstimate::Gas(gas) = answer else { panic!("{answer:?}") };
    gas
}

#[tokio::test]
async fn estimate_of_one_endpoint_of_two_decides_neither_too_little_nor_too_much() {
    for (odd, honest) in [(0, 1), (1, 0)] {
        let nodes = [Node::start().await, Node::start().await];
        estimates(&nodes[odd], 50_000, true);
        estimates(&nodes[honest], 60_000, false);
        assert_eq!(estimated(&nodes).await, 60_000, "close: the higher one");
        estimates(&nodes[odd], 21_000, true);
        assert_eq!(estimated(&nodes).await, 60_000, "I16: too little costs a failure");
        estimates(&nodes[odd], 30_000_000, true);
        assert_eq!(estimated(&nodes).await, 60_000, "it finds that less is enough");
        estimates(&nodes[odd], 30_000_000, false);
        assert_eq!(estimated(&nodes).await, 30_000_000, "nothing tells: unused gas is not paid");
    }
}

#[tokio::test]
async fn estimate_of_one_endpoint_of_three_is_outvoted() {
    for odd in 0..3 {
        for gas in [21_000, 30_000_000] {
            let nodes = [Node::start().await, Node::start().await, Node::start().await];
            nodes.iter().for_each(|node| estimates(node, 60_000, false));
            estimates(&nodes[odd], gas, false);
            assert_eq!(estimated(&nodes).await, 60_000, "I16: {gas} at {odd}");
        }
    }
}

#[tokio::test]
async fn estimate_does_not_wait_long_for_a_second_endpoint_that_hangs() {
    let nodes = [Node::start().await, Node::start().await];
    let endpoints = config(nodes.iter().map(Node::http).collect());
    let unpolled = ChainConfig { poll_interval: Duration::from_secs(600), ..endpoints };
    let chain = EvmChain::connect(unpolled).await.unwrap();
    heads_at(&chain, 10).await;
    nodes[0].set().behaviour = Behaviour::Hangs;
    let begun = Instant::now();
    assert_eq!(estimate_of(&chain).await, CallEstimate::Gas(21_000));
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
}
