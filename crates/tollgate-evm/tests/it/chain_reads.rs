//! Receipts, fees, estimates and lookups by hash, on nodes with and without optional methods.

use std::time::{Duration, Instant};

use serde_json::json;
use tollgate_evm::chain::EvmChain;
use tollgate_evm::endpoint::EndpointConfig;
use tollgate_model::Route::Public;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{BlockTag, Call, CallEstimate, Chain, Speed, TxLocation};
use tollgate_model::{Address, B256, TxHash, U256, Wei};

use crate::fake::{Behaviour, Node, block, config, connect, heads_at, one_node, two_nodes, until};

fn hashes(count: u8) -> Vec<TxHash> {
    (1..=count).map(B256::repeat_byte).collect()
}

#[tokio::test]
async fn receipts_of_many_are_fetched_at_once_and_of_few_one_by_one() {
    let (node, chain) = one_node().await;
    let all = hashes(200);
    let at = node.mine(1, 11, all.clone());
    chain.head_after(Some(block(1, 10))).await.unwrap();
    chain.block(BlockTag::Number(11)).await.unwrap();

    let two = chain.receipts(&at, &all[..2]).await.found;
    assert_eq!(two.iter().map(|receipt| receipt.tx_hash).collect::<Vec<_>>(), all[..2]);
    assert!(two.iter().all(|r| r.succeeded && r.block_hash == at.hash && r.gas_used == 21_000));
    assert_eq!(node.calls_of("eth_getBlockReceipts"), 0);

    assert_eq!(chain.receipts(&at, &all).await.found.len(), 200);
    assert_eq!(node.calls_of("eth_getBlockReceipts"), 1);
    assert_eq!(chain.receipts(&at, &[]).await.found, []);
    assert_eq!(chain.receipts(&at, &[B256::ZERO]).await.found, [], "not in it");
}

#[tokio::test]
async fn a_node_without_block_receipts_is_asked_one_by_one_from_then_on() {
    let node = Node::start().await;
    node.set().missing.insert("eth_getBlockReceipts");
    let chain = connect(vec![node.http()]).await;
    let all = hashes(50);
    let at = node.mine(1, 11, all.clone());
    chain.head_after(Some(block(1, 10))).await.unwrap();
    for _ in 0..3 {
        assert_eq!(chain.receipts(&at, &all).await.found.len(), 50);
    }
    assert_eq!(node.calls_of("eth_getBlockReceipts"), 1, "it is remembered");
}

#[tokio::test]
async fn receipts_have_the_time_of_their_block_and_logs_are_read_on_demand() {
    let (node, chain) = one_node().await;
    let hash = hashes(1);
    let word = B256::repeat_byte(3).to_string();
    node.set().receipt_extras = json!({ "logs": [{
        "address": Address::repeat_byte(9).to_string(), "topics": [word], "data": "0x0102",
        "logIndex": "0x5",
    }]});
    let at = node.mine(1, 11, hash.clone());
    chain.head_after(Some(block(1, 10))).await.unwrap();
    let time = chain.block(BlockTag::Number(11)).await.unwrap().unwrap().time;
    assert!(time.is_some());
    let receipt = chain.receipts(&at, &hash).await.found.remove(0);
    assert_eq!(receipt.details.block_time, time);
    assert_eq!(chain.receipt(hash[0], Public).await.unwrap().unwrap().details.block_time, time);

    let logs = chain.logs(&receipt).await.unwrap().unwrap().entries;
    assert_eq!((logs.len(), logs[0].index), (1, Some(5)));
    assert_eq!((logs[0].address, &logs[0].data[..]), (Address::repeat_byte(9), &[1, 2][..]));
    assert_eq!(logs[0].topics, [B256::repeat_byte(3)]);
    let elsewhere = TxReceipt { block_hash: B256::ZERO, ..receipt };
    assert_eq!(chain.logs(&elsewhere).await.unwrap(), None, "of that block alone");
}

#[tokio::test]
async fn receipts_of_another_block_at_that_height_are_left_out() {
    let (node, chain) = one_node().await;
    let all = hashes(20);
    let old = node.mine(1, 11, all.clone());
    node.mine(2, 11, all.clone());
    until("the head has moved", || async { chain.head_after(None).await.unwrap() == block(2, 11) })
        .await;
    for of in [&all[..], &all[..1]] {
        let read = chain.receipts(&old, of).await;
        assert_eq!(read.found, []);
        let problem = read.problem.unwrap();
        assert!(problem.contains("every endpoint shows another block"), "{problem}");
    }
    // Nobody can be asked: that is no statement about the block.
    node.set().behaviour = Behaviour::Down;
    let read = chain.receipts(&old, &all).await;
    assert_eq!(read.found, []);
    let problem = read.problem.unwrap();
    assert!(!problem.contains("every endpoint shows another block"), "{problem}");
}

#[tokio::test]
async fn endpoint_that_lacks_a_receipt_of_its_own_block_is_not_trusted() {
    let (half, whole, chain) = two_nodes().await;
    let all = hashes(20);
    half.set().fixed.insert("eth_getTransactionReceipt", Ok(json!(null)));
    half.set().fixed.insert("eth_getBlockReceipts", Ok(json!(null)));
    let at = half.mine(1, 11, all.clone());
    chain.head_after(Some(block(1, 10))).await.unwrap();
    for of in [&all[..], &all[..1]] {
        let read = chain.receipts(&at, of).await;
        assert_eq!(read.found, []);
        let problem = read.problem.unwrap();
        assert!(problem.contains("not all its receipts"), "{problem}");
    }
    whole.mine(1, 11, all.clone());
    until("another one has it", || async { chain.receipts(&at, &all).await.problem.is_none() })
        .await;
    assert_eq!(chain.receipts(&at, &all).await.found.len(), 20);
}

#[tokio::test]
async fn receipts_are_collected_from_all_endpoints_and_one_that_nobody_has_keeps_no_other() {
    let (one, two, chain) = two_nodes().await;
    let all = hashes(5);
    one.set().unreadable.extend([all[0], all[1]]);
    two.set().unreadable.extend([all[1], all[2]]);
    let at = one.mine(1, 11, all.clone());
    two.mine(1, 11, all.clone());
    heads_at(&chain, 11).await;
    let read = chain.receipts(&at, &all).await;
    let mut found: Vec<_> = read.found.iter().map(|receipt| receipt.tx_hash).collect();
    found.sort();
    assert_eq!(found, [all[0], all[2], all[3], all[4]], "each from whoever has it");
    assert!(read.problem.unwrap().contains("not all its receipts"));
    two.set().unreadable.clear();
    let read = chain.receipts(&at, &[all[1]]).await;
    assert_eq!((read.found.len(), read.problem), (1, None), "as soon as one has it");
}

#[tokio::test]
async fn receipt_that_fails_alone_is_found_among_those_of_its_block() {
    let (node, chain) = one_node().await;
    let all = hashes(30);
    node.set().fixed.insert("eth_getTransactionReceipt", Ok(json!(null)));
    let at = node.mine(1, 11, all.clone());
    chain.head_after(Some(block(1, 10))).await.unwrap();
    chain.block(BlockTag::Number(11)).await.unwrap();
    let read = chain.receipts(&at, &all[..1]).await;
    assert_eq!((read.found.len(), read.problem), (1, None));
    assert_eq!(node.calls_of("eth_getBlockReceipts"), 1);
}

#[tokio::test]
async fn block_that_one_endpoint_lacks_is_not_gone_while_another_can_not_be_asked() {
    let (other, silent, chain) = two_nodes().await;
    let all = hashes(3);
    let at = silent.mine(1, 11, all.clone());
    other.mine(2, 11, all.clone());
    heads_at(&chain, 11).await;
    silent.set().behaviour = Behaviour::Down;
    let read = chain.receipts(&at, &all).await;
    assert_eq!(read.found, []);
    let problem = read.problem.unwrap();
    assert!(!problem.contains("every endpoint shows another block"), "{problem}");
}

#[tokio::test]
async fn receipt_is_read_elsewhere_though_one_endpoint_shows_the_block_without_the_transaction() {
    let (without, whole, chain) = two_nodes().await;
    let all = hashes(3);
    let at = without.mine(1, 11, all[1..].to_vec());
    whole.mine(1, 11, all.clone());
    heads_at(&chain, 11).await;
    for _ in 0..8 {
        let read = chain.receipts(&at, &all[..1]).await;
        assert_eq!((read.found.len(), read.problem), (1, None));
    }
    whole.set().behaviour = Behaviour::Down;
    let problem = chain.receipts(&at, &all[..1]).await.problem.unwrap();
    assert!(problem.contains("shows the block without 1"), "{problem}");
}

#[tokio::test]
async fn receipts_tell_what_was_paid_and_deployed() {
    let (node, chain) = one_node().await;
    let (deployed, failed) = (B256::repeat_byte(7), B256::repeat_byte(8));
    node.set().failed.insert(failed);
    let extras = json!({
        "transactionIndex": "0x1", "effectiveGasPrice": "0x3b9aca07", "l1Fee": "0x64",
        "contractAddress": Address::repeat_byte(0xc0).to_string(),
    });
    node.set().receipt_extras = extras;
    let at = node.mine(1, 11, vec![deployed, failed]);
    chain.head_after(Some(block(1, 10))).await.unwrap();
    let by_block = chain.receipts(&at, &[deployed]).await.found.remove(0);
    assert_eq!(
        by_block,
        chain.receipt(deployed, Public).await.unwrap().unwrap(),
        "however it is asked for"
    );
    assert_eq!(by_block.details.transaction_index, Some(1));
    assert_eq!(by_block.details.effective_gas_price.unwrap().wei(), 1_000_000_007);
    assert_eq!(by_block.details.contract_address, Some(Address::repeat_byte(0xc0)));
    let fee = U256::from(21_000_u64 * 1_000_000_007 + 100);
    assert_eq!(by_block.fee(), Some(Wei(fee)), "with the fee of the base chain");
    let failed = chain.receipt(failed, Public).await.unwrap().unwrap();
    assert_eq!(failed.details.contract_address, None, "nothing was deployed");
}

#[tokio::test]
async fn a_receipt_that_one_endpoint_has_is_found() {
    let (without, with, chain) = two_nodes().await;
    let hash = B256::repeat_byte(7);
    assert_eq!(chain.receipt(hash, Public).await.unwrap(), None);
    let at = with.mine(1, 11, vec![hash]);
    assert_eq!(chain.receipt(hash, Public).await.unwrap().unwrap().block_hash, at.hash);
    with.set().behaviour = Behaviour::Down;
    assert_eq!(
        chain.receipt(hash, Public).await.unwrap(),
        None,
        "none of those that answer has it"
    );
    without.set().behaviour = Behaviour::Down;
    chain.receipt(hash, Public).await.unwrap_err();
}

#[tokio::test]
async fn the_receipt_of_a_failure_says_what_the_contract_said() {
    let (node, chain) = one_node().await;
    let hash = B256::repeat_byte(7);
    node.set().failed.insert(hash);
    let data = format!("0x4e487b71{:064x}", 0x12);
    let error = json!({"code": 3, "message": "execution reverted", "data": data});
    node.set().fixed.insert("eth_call", Err(error));
    let at = node.mine(1, 11, vec![hash]);
    let receipt = chain.receipt(hash, Public).await.unwrap().unwrap();
    assert!(!receipt.succeeded);
    assert_eq!(receipt.revert_reason.unwrap().as_str(), "panic 0x12: division by zero");
    chain.head_after(Some(block(1, 10))).await.unwrap();
    // Of a block they come at once, and the reasons are asked for beside.
    let of_block = chain.receipts(&at, &[hash]).await.found;
    assert_eq!((of_block.len(), &of_block[0].revert_reason), (1, &None));
    let reason = chain.revert_reason(&of_block[0]).await.unwrap();
    assert_eq!(reason.as_str(), "panic 0x12: division by zero");
    node.set().fixed.remove("eth_call");
    assert_eq!(
        chain.receipt(hash, Public).await.unwrap().unwrap().revert_reason,
        None,
        "a courtesy only"
    );
}

#[tokio::test]
async fn a_transaction_is_seen_if_any_endpoint_sees_it() {
    let (one, two, chain) = two_nodes().await;
    let hash = B256::repeat_byte(7);
    assert_eq!(chain.sighting(hash, Public).await.unwrap(), None);
    two.set().in_pool.insert(hash);
    assert_eq!(chain.sighting(hash, Public).await.unwrap(), Some(TxLocation::Pending));
    let at = one.mine(1, 11, vec![hash]);
    let seen = TxLocation::InBlock { number: 11, hash: at.hash };
    assert_eq!(chain.sighting(hash, Public).await.unwrap(), Some(seen));
    one.set().behaviour = Behaviour::Down;
    assert_eq!(chain.sighting(hash, Public).await.unwrap(), Some(TxLocation::Pending));
    two.set().behaviour = Behaviour::Down;
    chain.sighting(hash, Public).await.unwrap_err();
}

#[tokio::test]
async fn fees_come_from_the_history_and_are_kept_for_a_while() {
    let (node, chain) = one_node().await;
    let normal = chain.fee_quote(Speed::Normal).await.unwrap();
    assert_eq!(normal.base_fee.unwrap().wei(), 0x44c);
    assert_eq!(normal.max_priority_fee.unwrap().wei(), 0x14);
    assert_eq!(normal.max_fee.wei(), 2 * 0x44c + 0x14);
    let slow = chain.fee_quote(Speed::Slow).await.unwrap();
    let fast = chain.fee_quote(Speed::Fast).await.unwrap();
    assert!(slow.max_fee < normal.max_fee && normal.max_fee < fast.max_fee);
    assert_eq!(node.calls_of("eth_feeHistory"), 1);
    node.set().behaviour = Behaviour::Down;
    assert_eq!(chain.fee_quote(Speed::Slow).await.unwrap(), slow);
}

#[tokio::test]
async fn reads_of_a_hanging_chain_end_at_the_deadline() {
    let patience = Duration::from_secs(20);
    let node = Node::start().await;
    let mut config = config(vec![EndpointConfig { timeout: patience, ..node.http() }]);
    (config.fee_cache, config.read_deadline) = (Duration::ZERO, patience);
    let chain = EvmChain::connect(config).await.unwrap();
    let quote = chain.fee_quote(Speed::Slow).await.unwrap();
    node.set().behaviour = Behaviour::Hangs;
    let begun = Instant::now();
    assert_eq!(chain.fee_quote(Speed::Slow).await.unwrap(), quote, "the old one stands in");
    assert!(begun.elapsed() < patience / 2, "{:?}", begun.elapsed());
    let asked = node.calls_of("eth_feeHistory");
    for _ in 0..10 {
        assert_eq!(chain.fee_quote(Speed::Slow).await.unwrap(), quote);
    }
    assert_eq!(node.calls_of("eth_feeHistory"), asked, "it is not asked by each of them");
}

#[tokio::test]
async fn endpoints_that_all_rest_are_not_waited_for() {
    let node = Node::start().await;
    let timeout = Duration::from_secs(20);
    let mut config = config(vec![EndpointConfig { timeout, ..node.http() }]);
    config.read_deadline = timeout;
    let chain = EvmChain::connect(config).await.unwrap();
    chain.counts(Address::ZERO).await.unwrap();
    node.set().behaviour = Behaviour::Down;
    until("it to rest", async || {
        let _ = chain.counts(Address::ZERO).await;
        chain.endpoints()[0].resting
    })
    .await;
    node.set().behaviour = Behaviour::Hangs;
    let begun = Instant::now();
    let (counted, tried) =
        tokio::join!(chain.counts(Address::ZERO), chain.sighting(B256::ZERO, Public));
    assert!(counted.is_err() && tried.is_err());
    assert!(begun.elapsed() < timeout / 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn fees_without_a_history_come_from_the_head_and_the_nodes_opinion() {
    let node = Node::start().await;
    node.set().missing.insert("eth_feeHistory");
    let chain = connect(vec![node.http()]).await;
    let slow = chain.fee_quote(Speed::Slow).await.unwrap();
    assert_eq!((slow.base_fee.unwrap().wei(), slow.max_fee.wei()), (1_000, 2_070));

    let node = Node::start().await;
    node.set().missing.extend(["eth_feeHistory", "eth_maxPriorityFeePerGas"]);
    let chain = connect(vec![node.http()]).await;
    let slow = chain.fee_quote(Speed::Slow).await.unwrap();
    assert_eq!(slow.max_priority_fee.unwrap().wei(), 4_000, "the gas price above the base fee");
}

#[tokio::test]
async fn a_chain_without_a_base_fee_has_a_gas_price() {
    let node = Node::start().await;
    node.set().base_fee = None;
    let chain = connect(vec![node.http()]).await;
    let quote = chain.fee_quote(Speed::Slow).await.unwrap();
    assert_eq!((quote.base_fee, quote.max_priority_fee), (None, None));
    assert_eq!(quote.max_fee.wei(), 5_000);
    assert_eq!(node.calls_of("eth_feeHistory"), 0);
}

fn anything() -> Call {
    let (from, value, data) = (Address::repeat_byte(1), Wei::default(), Default::default());
    Call { from, to: None, value, data }
}

#[tokio::test]
async fn call_is_estimated_and_a_revert_is_an_answer() {
    let (one, two, chain) = two_nodes().await;
    let call = anything();
    assert_eq!(chain.estimate_call(&call, Public).await.unwrap(), CallEstimate::Gas(21_000));

    let says = |error: serde_json::Value| {
        for node in [&one, &two] {
            node.set().fixed.insert("eth_estimateGas", Err(error.clone()));
        }
    };
    says(json!({"code": 3, "message": "execution reverted: no", "data": "0xdeadbeef"}));
    let CallEstimate::Reverts(reason) = chain.estimate_call(&call, Public).await.unwrap() else {
        panic!()
    };
    assert_eq!(reason.as_str(), "custom error 0xdeadbeef");

    says(json!({"code": -32000, "message": "insufficient funds for gas * price + value"}));
    let CallEstimate::Refused(answer) = chain.estimate_call(&call, Public).await.unwrap() else {
        panic!()
    };
    assert_eq!(answer.class, AnswerClass::InsufficientFunds);

    says(json!({"code": -32000, "message": "the moon is in the wrong phase"}));
    let CallEstimate::Refused(answer) = chain.estimate_call(&call, Public).await.unwrap() else {
        panic!()
    };
    assert_eq!(answer.class, AnswerClass::Unknown);

    // One that is ill is passed over.
    two.set().fixed.clear();
    one.set().behaviour = Behaviour::BadGateway;
    assert_eq!(chain.estimate_call(&call, Public).await.unwrap(), CallEstimate::Gas(21_000));
    two.set().behaviour = Behaviour::Down;
    chain.estimate_call(&call, Public).await.unwrap_err();
}

#[tokio::test]
async fn refusal_of_one_endpoint_counts_only_after_another_was_asked() {
    let (one, two) = (Node::start().await, Node::start().await);
    let poor = json!({"code": -32000, "message": "insufficient funds for transfer"});
    for (poor_one, other) in [(&one, &two), (&two, &one)] {
        // Another one each time: a used-up quota is left alone for a while.
        let chain = connect(vec![one.http(), two.http()]).await;
        poor_one.set().fixed.insert("eth_estimateGas", Err(poor.clone()));
        other.set().fixed.clear();
        assert_eq!(
            chain.estimate_call(&anything(), Public).await.unwrap(),
            CallEstimate::Gas(21_000)
        );
        // A node in trouble has no word in it.
        let busy = json!({"code": -32005, "message": "rate limit exceeded"});
        other.set().fixed.insert("eth_estimateGas", Err(busy));
        let CallEstimate::Refused(answer) = chain.estimate_call(&anything(), Public).await.unwrap()
        else {
            panic!()
        };
        assert_eq!(answer.class, AnswerClass::InsufficientFunds);
    }
}

#[tokio::test]
async fn an_estimate_is_asked_again_without_the_block_where_nodes_take_one_argument() {
    for (code, message) in [
        (-32602, "too many arguments, want at most 1"),
        (-32602, "Invalid params: invalid length 2, expected a tuple of size 1"),
        (-32000, "Too many params"),
    ] {
        let node = Node::start().await;
        node.set().estimates_take_one = Some(json!({"code": code, "message": message}));
        let chain = connect(vec![node.http()]).await;
        for calls in [2, 3, 4] {
            assert_eq!(
                chain.estimate_call(&anything(), Public).await.unwrap(),
                CallEstimate::Gas(21_000)
            );
            assert_eq!(node.calls_of("eth_estimateGas"), calls, "it is remembered");
        }
    }
}

#[tokio::test]
async fn parameters_that_a_node_refuses_in_any_form_are_not_the_callers_mistake() {
    let node = Node::start().await;
    let says = json!({"code": -32602, "message": "invalid params"});
    node.set().fixed.insert("eth_estimateGas", Err(says));
    let chain = connect(vec![node.http()]).await;
    let CallEstimate::Refused(answer) = chain.estimate_call(&anything(), Public).await.unwrap()
    else {
        panic!()
    };
    assert_eq!(answer.class, AnswerClass::Unknown);
    node.set().fixed.clear();
    let calls = node.calls_of("eth_estimateGas");
    assert_eq!(chain.estimate_call(&anything(), Public).await.unwrap(), CallEstimate::Gas(21_000));
    assert_eq!(node.calls_of("eth_estimateGas"), calls + 1, "nothing is remembered of it");
}
