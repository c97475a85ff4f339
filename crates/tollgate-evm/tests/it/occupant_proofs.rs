//! The hash of a block proves what is in a slot, whoever leaves it out (I8, I15).

use std::time::Duration;

use serde_json::Value;
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_model::port::chain::{Chain, CountSupport, OccupantSupport};
use tollgate_model::{Address, B256};

use crate::fake::{Node, config, heads_at, nonce, until};

/// Two nodes on the same block of a real chain, of which the second leaves its transactions out and counts
/// nothing. The slot of the signer's first transaction is in it.
async fn nodes_of_which_one_leaves_out_transactions() -> ([Node; 2], Address, B256) {
    let text = include_str!("../../src/chain/block_proof/anvil_block.json");
    let recorded: Value = serde_json::from_str(text).unwrap();
    let (block, transaction) = (&recorded["block"], recorded["block"]["transactions"][1].clone());
    let read = |value: &Value| value.as_str().unwrap().to_owned();
    let signer: Address = read(&transaction["from"]).parse().unwrap();
    let tx_hash: B256 = read(&transaction["hash"]).parse().unwrap();
    let block_hash: B256 = read(&block["hash"]).parse().unwrap();
    let nodes = [Node::start().await, Node::start().await];
    for (node, (held, count)) in nodes.iter().zip([(vec![tx_hash], 1), (Vec::new(), 0)]) {
        node.set().slots.insert(tx_hash, (signer, 0));
        node.mine(1, 11, held);
        node.set().branch.last_mut().unwrap().0.hash = block_hash;
        (node.set().mined, node.set().pending) = (count, count);
    }
    nodes[0].set().fixed.insert("eth_getTransactionByHash", Ok(transaction));
    nodes[0].set().fixed.insert("eth_getBlockByHash", Ok(block.clone()));
    (nodes, signer, tx_hash)
}

#[tokio::test]
async fn occupant_is_corroborated_by_the_hash_of_a_block_that_another_endpoint_shows_without_it() {
    let (nodes, signer, tx_hash) = nodes_of_which_one_leaves_out_transactions().await;
    let chain = EvmChain::connect(config(nodes.iter().map(Node::http).collect())).await.unwrap();
    heads_at(&chain, 11).await;
    let seen = async || chain.occupants(signer, &[nonce(0)], 100).await.seen.first().copied();
    let proven = seen().await.unwrap();
    assert_eq!((proven.tx_hash, proven.support), (tx_hash, OccupantSupport::Corroborated));
    let read = async || {
        chain.prove_count(signer, 100);
        chain.counts(signer).await.unwrap()
    };
    let is_proven = async || read().await.support == CountSupport::Confirmed;
    until("the block proves the count", is_proven).await;
    assert_eq!(read().await.mined, nonce(1));
    // I8: without the proof it is the word of one endpoint, which the other contradicts.
    let changes: [fn(&Node); 3] = [
        |node| drop(node.set().fixed.remove("eth_getBlockByHash")),
        |node| drop(node.set().fixed.insert("eth_getTransactionByHash", Ok(Value::Null))),
        |node| node.set().branch.last_mut().unwrap().0.hash = B256::repeat_byte(7),
    ];
    for change in changes {
        let (nodes, signer, _) = nodes_of_which_one_leaves_out_transactions().await;
        let config = config(nodes.iter().map(Node::http).collect());
        let hasty = ChainConfig { single_source_after: Duration::ZERO, ..config };
        let chain = EvmChain::connect(hasty).await.unwrap();
        heads_at(&chain, 11).await;
        change(&nodes[0]);
        let search = chain.occupants(signer, &[nonce(0)], 100).await;
        assert_eq!(search.seen, [], "{:?}", search.problem);
    }
}

#[tokio::test]
async fn occupant_in_a_block_that_the_other_endpoint_lacks_is_proven_by_its_hash_after_a_long_time()
{
    for is_covered in [true, false] {
        let (nodes, signer, tx_hash) = nodes_of_which_one_leaves_out_transactions().await;
        let config = config(nodes.iter().map(Node::http).collect());
        let patient = EvmChain::connect(config.clone()).await.unwrap();
        let after = Duration::from_millis(200);
        let hasty = ChainConfig { single_source_after: after, ..config };
        let hasty = EvmChain::connect(hasty).await.unwrap();
        heads_at(&patient, 11).await;
        heads_at(&hasty, 11).await;
        // It answers, and has no block that could be compared.
        nodes[1].set().branch.pop();
        if !is_covered {
            nodes[0].set().fixed.remove("eth_getBlockByHash");
        }
        let seen = async |chain: &EvmChain| {
            let seen = chain.occupants(signer, &[nonce(0)], 100).await.seen;
            seen.first().map(|seen| (seen.tx_hash, seen.support))
        };
        assert_eq!(seen(&patient).await, None, "I8: one endpoint's word");
        until("I15: it ends", || async { seen(&hasty).await.is_some() }).await;
        let support = match is_covered {
            true => OccupantSupport::Corroborated,
            false => OccupantSupport::Single,
        };
        assert_eq!(seen(&hasty).await, Some((tx_hash, support)));
    }
}
