//! A receipt is final only if a second endpoint has it, or the block proves it (I8, I16). The blocks of
//! these nodes have invented hashes and prove nothing; `block_proof` has tests with a real one.

use tollgate_evm::chain::EvmChain;
use tollgate_model::TxHash;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::Chain;
use tollgate_model::receipt_support::ReceiptSupport;

use crate::fake::{Behaviour, Node, connect, heads_at, one_node};

const HASH: TxHash = TxHash::repeat_byte(1);

async fn nodes(count: usize) -> (Vec<Node>, EvmChain) {
    let mut nodes = Vec::new();
    for _ in 0..count {
        nodes.push(Node::start().await);
    }
    let chain = connect(nodes.iter().map(Node::http).collect()).await;
    (nodes, chain)
}

/// Mines it everywhere and returns its receipt as the first node has it.
async fn mined_at(nodes: &[Node], chain: &EvmChain) -> TxReceipt {
    let at = nodes[0].mine(1, 11, vec![HASH]);
    for node in &nodes[1..] {
        node.mine(1, 11, vec![HASH]);
    }
    heads_at(chain, 11).await;
    let mut found = chain.receipts(&at, &[HASH]).await.found;
    let receipt = found.pop().unwrap();
    TxReceipt { succeeded: !nodes[0].set().failed.contains(&HASH), ..receipt }
}

async fn support(chain: &EvmChain, receipt: &TxReceipt) -> ReceiptSupport {
    chain.receipt_support(std::slice::from_ref(receipt)).await.pop().unwrap()
}

#[tokio::test]
async fn receipt_that_two_endpoints_have_is_confirmed_and_the_only_endpoint_needs_no_second() {
    let (two, chain) = nodes(2).await;
    assert!(chain.has_several_endpoints());
    let receipt = mined_at(&two, &chain).await;
    assert_eq!(support(&chain, &receipt).await, ReceiptSupport::Confirmed);
    let (_node, alone) = one_node().await;
    assert!(!alone.has_several_endpoints());
}

#[tokio::test]
async fn status_that_one_of_three_endpoints_flips_is_corrected_by_the_others() {
    let (three, chain) = nodes(3).await;
    three[0].set().failed.insert(HASH);
    let receipt = mined_at(&three, &chain).await;
    assert!(!receipt.succeeded, "the first endpoint says so");
    let honest = TxReceipt { succeeded: true, ..receipt.clone() };
    assert_eq!(
        support(&chain, &receipt).await,
        ReceiptSupport::Corrected(Box::new(honest.clone()))
    );
    assert_eq!(support(&chain, &honest).await, ReceiptSupport::Confirmed);
}

#[tokio::test]
async fn status_that_one_of_two_endpoints_flips_is_disputed_if_the_block_proves_nothing() {
    let (two, chain) = nodes(2).await;
    two[0].set().failed.insert(HASH);
    let receipt = mined_at(&two, &chain).await;
    let dispute = "1 of 2 endpoints show another receipt".to_owned();
    assert_eq!(support(&chain, &receipt).await, ReceiptSupport::Disputed(dispute));
    assert_eq!(two[0].calls_of("eth_getBlockByHash"), 1, "a proof was tried");
}

#[tokio::test]
async fn transaction_that_two_of_three_endpoints_do_not_show_in_the_block_is_refuted() {
    let (three, chain) = nodes(3).await;
    let receipt = mined_at(&three, &chain).await;
    for honest in &three[1..] {
        honest.mine(1, 11, Vec::new());
    }
    assert_eq!(support(&chain, &receipt).await, ReceiptSupport::Refuted);
}

#[tokio::test]
async fn receipt_in_a_block_that_the_other_endpoint_does_not_have_is_disputed_without_a_proof() {
    let (two, chain) = nodes(2).await;
    let receipt = mined_at(&two, &chain).await;
    two[1].mine(2, 11, vec![HASH]);
    let dispute = "1 of 2 endpoints show another block".to_owned();
    assert_eq!(support(&chain, &receipt).await, ReceiptSupport::Disputed(dispute));
    assert_eq!(
        two[0].calls_of("eth_getBlockByHash"),
        0,
        "a block can't prove that it is canonical"
    );
}

#[tokio::test]
async fn receipt_that_no_second_endpoint_tells_is_lone() {
    let (two, chain) = nodes(2).await;
    let receipt = mined_at(&two, &chain).await;
    two[1].set().unreadable.insert(HASH);
    assert_eq!(support(&chain, &receipt).await, ReceiptSupport::Lone, "pruned");
    two[1].set().behaviour = Behaviour::Down;
    assert_eq!(support(&chain, &receipt).await, ReceiptSupport::Lone, "gone");
}
