//! Searches for the transactions, receipts and pool entries of one slot.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_evm::chain::EvmChain;
use tollgate_evm::endpoint::{EndpointConfig, Role};
use tollgate_model::port::chain::{Chain, OccupantSupport, SlotSearch};
use tollgate_model::reconcile::{ReceiptLookup, Search};
use tollgate_model::{Address, B256, TxHash};

use crate::fake::{
    Behaviour, Node, SOMEBODY, block, config, connect, heads_at, nonce, one_node, two_nodes, until,
};

const OURS: TxHash = B256::repeat_byte(1);
const OLDER: TxHash = B256::repeat_byte(2);
const FOREIGN: TxHash = B256::repeat_byte(9);

fn judge_search(looked: &[Vec<ReceiptLookup>]) -> Search {
    tollgate_model::reconcile::judge_search(&[OLDER, OURS], looked, None)
}

async fn search(chain: &EvmChain, slot: u64) -> SlotSearch {
    chain.search(SOMEBODY, nonce(slot), &[OLDER, OURS]).await
}

/// Each endpoint's answer about both attempts, if it says the same of both, in any order of endpoints.
async fn said(chain: &EvmChain, slot: u64) -> Vec<ReceiptLookup> {
    let SlotSearch { looked, .. } = search(chain, slot).await;
    assert_eq!(looked[0], looked[1]);
    let mut said = looked[0].clone();
    said.sort_by_key(|lookup| *lookup as u8);
    said
}

#[tokio::test]
async fn every_endpoint_is_asked_and_says_what_it_can() {
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    let chain = connect(nodes.iter().map(Node::http).collect()).await;
    assert_eq!(said(&chain, 5).await, [ReceiptLookup::Behind; 3]);
    for node in &nodes {
        node.set().mined = 6;
    }
    assert_eq!(said(&chain, 5).await, [ReceiptLookup::NotThere; 3]);
    nodes[0].set().mined = 5;
    nodes[1].set().behaviour = Behaviour::BadGateway;
    assert_eq!(
        said(&chain, 5).await,
        [ReceiptLookup::NotThere, ReceiptLookup::Behind, ReceiptLookup::NoAnswer]
    );
    let search = search(&chain, 5).await;
    assert_eq!(judge_search(&search.looked), Search::InVain, "nothing was seen");
    assert!(nodes.iter().all(|node| node.calls_of("eth_getTransactionCount") >= 3));
}

#[tokio::test]
async fn a_receipt_that_one_endpoint_has_is_found_with_its_reason() {
    let (with, without) = (Node::start().await, Node::start().await);
    let chain = connect(vec![without.http(), with.http()]).await;
    without.set().mined = 6;
    with.set().failed.insert(OURS);
    let error = json!({"code": 3, "message": "execution reverted: no", "data": "0xdeadbeef"});
    with.set().fixed.insert("eth_call", Err(error));
    let at = with.mine(1, 11, vec![OURS]);
    let SlotSearch { looked, found } = search(&chain, 5).await;
    assert_eq!(judge_search(&looked), Search::Ours { attempt: 1 });
    assert!(looked[0].iter().all(|lookup| *lookup != ReceiptLookup::Found));
    let found = found.unwrap();
    assert_eq!((found.tx_hash, found.block_hash, found.succeeded), (OURS, at.hash, false));
    assert_eq!(found.revert_reason.unwrap().as_str(), "custom error 0xdeadbeef");
    assert_eq!(with.calls_of("batch"), 1, "both attempts in one call");

    // Without batches it is the same, and is remembered.
    with.set().no_batches = true;
    for _ in 0..3 {
        assert_eq!(search(&chain, 5).await.found.unwrap().tx_hash, OURS);
    }
    assert_eq!(with.calls_of("batch"), 2);
}

#[tokio::test]
async fn the_receipt_is_of_the_attempt_that_is_judged_to_be_there() {
    let nodes = [Node::start().await, Node::start().await];
    let chain = connect(nodes.iter().map(Node::http).collect()).await;
    // A fork: each has another one of them.
    nodes[0].mine(1, 11, vec![OURS]);
    nodes[1].mine(2, 11, vec![OLDER]);
    let SlotSearch { looked, found } = search(&chain, 5).await;
    assert_eq!(judge_search(&looked), Search::Ours { attempt: 0 });
    assert_eq!(found.unwrap().tx_hash, OLDER);
}

#[tokio::test]
async fn endpoint_that_executes_the_slot_after_the_receipt_search_does_not_deny_receipts() {
    let (node, chain) = one_node().await;
    node.set().mined = 5;
    node.set().after.insert("eth_getTransactionReceipt", |state| state.mined = 6);
    assert_eq!(said(&chain, 5).await, [ReceiptLookup::Behind]);
    assert_eq!(
        said(&chain, 5).await,
        [ReceiptLookup::NotThere],
        "asked again, it has executed it before"
    );
}

#[tokio::test]
async fn errors_and_unreadable_answers_are_never_evidence() {
    let (node, chain) = one_node().await;
    node.set().mined = 6;
    let receipt = |hash: TxHash, block: Option<u64>| {
        let block = block.map(|number| format!("{number:#x}"));
        json!({"transactionHash": hash.to_string(), "gasUsed": "0x1", "blockNumber": block,
               "blockHash": block.as_ref().map(|_| B256::ZERO.to_string())})
    };
    let indexing = json!({"code": -32000, "message": "transaction indexing is in progress"});
    let answers: [Result<Value, Value>; 5] = [
        Err(indexing),
        Ok(json!("nonsense")),
        Ok(json!({})),
        Ok(receipt(FOREIGN, Some(3))),
        Ok(receipt(OURS, None)),
    ];
    for answer in answers {
        node.set().fixed.insert("eth_getTransactionReceipt", answer.clone());
        let SlotSearch { looked, found } = search(&chain, 5).await;
        assert_eq!((looked, found), (vec![vec![ReceiptLookup::NoAnswer]; 2], None), "{answer:?}");
    }
    node.set().fixed.clear();
    let lost = json!({"code": -32000, "message": "state is gone"});
    for count in [Err(lost), Ok(json!("many"))] {
        node.set().fixed.insert("eth_getTransactionCount", count);
        assert_eq!(said(&chain, 5).await, [ReceiptLookup::NoAnswer], "none, but how far is it?");
    }
    node.mine(1, 11, vec![OURS]);
    assert_eq!(search(&chain, 5).await.found.unwrap().tx_hash, OURS, "a receipt is a receipt");
}

#[tokio::test]
async fn send_only_and_wrong_chain_endpoints_do_not_vote_and_unchecked_ones_give_no_answer() {
    let (ours, relay, stranger) = (Node::start().await, Node::start().await, Node::start().await);
    stranger.set().behaviour = Behaviour::Down;
    stranger.set().chain_id = 1;
    ours.set().mined = 6;
    (relay.set().mined, stranger.set().mined) = (6, 6);
    let relayed = relay.http_as(Role::SendOnly);
    let chain = connect(vec![stranger.http(), ours.http(), relayed]).await;
    assert_eq!(said(&chain, 5).await, [ReceiptLookup::NotThere, ReceiptLookup::NoAnswer]);
    assert_eq!(chain.pools(SOMEBODY, &[OURS]).await.len(), 2);
    stranger.set().behaviour = Behaviour::Normal;
    until("it is refused", || async { chain.endpoints()[0].chain_check.contains("is on chain 1") })
        .await;
    assert_eq!(said(&chain, 5).await, [ReceiptLookup::NotThere]);
    assert_eq!(stranger.calls_of("eth_getTransactionCount"), 0);
    assert_eq!(relay.calls_of("eth_getTransactionCount"), 0);
}

#[tokio::test]
async fn hanging_endpoint_delays_a_search_for_a_bounded_time() {
    let (hangs, well) = (Node::start().await, Node::start().await);
    well.set().mined = 6;
    let patient = |node: &Node| EndpointConfig { timeout: Duration::from_secs(60), ..node.http() };
    let mut config = config(vec![patient(&hangs), well.http()]);
    config.read_deadline = Duration::from_secs(1);
    let chain = EvmChain::connect(config).await.unwrap();
    hangs.set().behaviour = Behaviour::Hangs;
    let begun = Instant::now();
    assert_eq!(said(&chain, 5).await, [ReceiptLookup::NotThere, ReceiptLookup::NoAnswer]);
    let reports = chain.pools(SOMEBODY, &[OURS]).await;
    assert_eq!(reports.iter().filter(|report| report.knows_it.is_some()).count(), 1);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
}

#[tokio::test]
async fn resting_endpoint_gets_less_time_than_the_others() {
    let (limited, well) = (Node::start().await, Node::start().await);
    well.set().mined = 6;
    let patient = |node: &Node| EndpointConfig { timeout: Duration::from_secs(60), ..node.http() };
    let mut config = config(vec![patient(&limited), well.http()]);
    config.read_deadline = Duration::from_secs(8);
    let chain = EvmChain::connect(config).await.unwrap();
    limited.set().behaviour = Behaviour::Limited(60);
    until("it is known to be in trouble", || async { chain.endpoints()[0].resting }).await;
    limited.set().behaviour = Behaviour::Hangs;
    let begun = Instant::now();
    assert_eq!(said(&chain, 5).await, [ReceiptLookup::NotThere, ReceiptLookup::NoAnswer]);
    assert!(begun.elapsed() < Duration::from_secs(7), "{:?}", begun.elapsed());
}

fn pooled(slot: u64, hash: TxHash) -> Value {
    let entry = json!({"hash": hash.to_string(), "from": SOMEBODY.to_string()});
    json!({"pending": {slot.to_string(): entry}, "queued": {}})
}

#[tokio::test]
async fn each_endpoint_tells_its_pool_and_what_it_knows_by_hash() {
    let (with, without, chain) = two_nodes().await;
    with.set().fixed.insert("txpool_contentFrom", Ok(pooled(7, FOREIGN)));
    without.set().in_pool.insert(OLDER);
    for _ in 0..3 {
        let mut reports = chain.pools(SOMEBODY, &[OURS, OLDER]).await;
        reports.sort_by_key(|report| report.pool.is_none());
        let pool = reports[0].pool.as_ref().unwrap();
        assert_eq!(pool.pending.get(&nonce(7)), Some(&FOREIGN));
        assert_eq!((reports[0].knows_it, reports[1].knows_it), (Some(false), Some(true)));
        assert_eq!(reports[1].pool, None);
    }
    assert_eq!(without.calls_of("txpool_contentFrom"), 1, "that it lacks it is remembered");
    assert_eq!(with.calls_of("txpool_contentFrom"), 3);
}

#[tokio::test]
async fn pool_that_an_endpoint_can_not_show_is_not_reported() {
    let (node, chain) = one_node().await;
    let report = async || chain.pools(SOMEBODY, &[OURS, OLDER]).await.remove(0);
    for nonsense in [json!(null), json!([]), json!({}), json!({"pending": {"x": {}}})] {
        node.set().fixed.insert("txpool_contentFrom", Ok(nonsense.clone()));
        assert_eq!(report().await.pool, None, "{nonsense}");
    }
    assert_eq!(report().await.knows_it, Some(false));
    // One of the two is refused: that it has neither can't be said, that it has the other can.
    node.set().refused = vec![(OURS.to_string(), "busy")];
    assert_eq!(report().await.knows_it, None);
    node.set().in_pool.insert(OLDER);
    assert_eq!(report().await.knows_it, Some(true));
    let other = json!({"hash": FOREIGN.to_string()});
    node.set().fixed.insert("eth_getTransactionByHash", Ok(other));
    assert_eq!(report().await.knows_it, None, "the answer to another question");
    assert_eq!(chain.pools(SOMEBODY, &[]).await[0].knows_it, None, "nothing was asked");
    node.set().behaviour = Behaviour::Down;
    assert_eq!(report().await, Default::default());
}

/// Mines blocks up to 60; the account has a transaction in every fifth: the slots from 0 on.
fn past(node: &Node) {
    for number in 11..=60_u64 {
        let hash = B256::left_padding_from(&number.to_be_bytes());
        let is_its = number.is_multiple_of(5);
        if is_its {
            node.set().slots.insert(hash, (SOMEBODY, number / 5 - 3));
        }
        node.mine(1, number, vec![hash, B256::repeat_byte(number as u8)]);
    }
}

fn in_slot(slot: u64) -> TxHash {
    B256::left_padding_from(&((slot + 3) * 5).to_be_bytes())
}

#[tokio::test]
async fn past_count_is_the_count_at_that_block() {
    let node = Node::start().await;
    past(&node);
    let chain = connect(vec![node.http()]).await;
    heads_at(&chain, 60).await;
    for (number, count) in [(10, 0), (14, 0), (15, 1), (19, 1), (20, 2), (60, 10)] {
        assert_eq!(chain.count_at(SOMEBODY, number).await.unwrap().count, nonce(count), "{number}");
    }
    chain.count_at(SOMEBODY, 61).await.unwrap_err();
    node.set().oldest_state = 30;
    let error = chain.count_at(SOMEBODY, 29).await.unwrap_err().to_string();
    assert!(error.contains("missing trie node"), "{error}");
    assert_eq!(chain.count_at(SOMEBODY, 30).await.unwrap().count, nonce(4));
    node.set().behaviour = Behaviour::Down;
    chain.count_at(SOMEBODY, 30).await.unwrap_err();
}

#[tokio::test]
async fn past_count_needs_two_endpoints_on_the_same_branch() {
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    nodes.iter().for_each(past);
    let two = connect(nodes[..2].iter().map(Node::http).collect()).await;
    let three = connect(nodes.iter().map(Node::http).collect()).await;
    heads_at(&two, 60).await;
    heads_at(&three, 60).await;
    nodes[0].set().fixed.insert("eth_getTransactionCount", Ok(json!("0x3e8")));
    let past = two.count_at(SOMEBODY, 20).await.unwrap();
    assert_eq!(past.count, nonce(2), "too high by one word");
    assert_eq!(past.highest, nonce(1_000), "which is told beside it");
    nodes[0].set().fixed.clear();
    // One that has another block there is outvoted by two, and makes it doubtful for one.
    nodes[0].set().branch[20].0.hash = B256::repeat_byte(7);
    two.count_at(SOMEBODY, 20).await.unwrap_err();
    assert_eq!(three.count_at(SOMEBODY, 20).await.unwrap().count, nonce(2));
    // One whose block is replaced while it counts has counted nobody knows where.
    nodes[1].set().after.insert("eth_getTransactionCount", |state| {
        state.branch[30].0.hash = B256::repeat_byte(8);
    });
    let alone = connect(vec![nodes[1].http()]).await;
    heads_at(&alone, 60).await;
    let error = alone.count_at(SOMEBODY, 30).await.unwrap_err().to_string();
    assert!(error.contains("replaced"), "{error}");
    // One without old states leaves it to the others, if there are two.
    nodes[0].set().branch[20].0.hash = block(1, 20).hash;
    nodes[1].set().after.clear();
    nodes[0].set().oldest_state = 50;
    assert_eq!(three.count_at(SOMEBODY, 20).await.unwrap().count, nonce(2));
    let error = two.count_at(SOMEBODY, 20).await.unwrap_err().to_string();
    assert!(error.contains("no second endpoint confirms it"), "{error}");
}

/// Looks for one slot, and says what was seen in it, or why nothing was.
async fn occupant(
    chain: &EvmChain,
    of: Address,
    slot: u64,
    lookback: u64,
) -> Result<TxHash, String> {
    let search = chain.occupants(of, &[nonce(slot)], lookback).await;
    match (&search.seen[..], search.problem) {
        ([seen], None) => {
            assert_eq!(seen.nonce, nonce(slot));
            let held = block(1, seen.block_number).hash;
            assert_eq!(seen.block_hash, held, "the block that holds it");
            Ok(seen.tx_hash)
        }
        ([], Some(problem)) => Err(problem),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn occupant_of_a_slot_is_found_by_counts_however_old_it_is() {
    let node = Node::start().await;
    past(&node);
    let chain = connect(vec![node.http()]).await;
    heads_at(&chain, 60).await;
    let blocks = || node.calls_of("eth_getBlockByNumber");
    for slot in 0..10 {
        let before = blocks();
        // Far beyond the lookback.
        assert_eq!(occupant(&chain, SOMEBODY, slot, 1).await, Ok(in_slot(slot)), "{slot}");
        assert!(blocks() < before + 10, "it does not read every block");
    }
    let slots: Vec<_> = (0..10).map(nonce).collect();
    let mut all = chain.occupants(SOMEBODY, &slots, 1).await;
    all.seen.sort_by_key(|seen| seen.nonce);
    let all: Vec<_> = all.seen.iter().map(|seen| seen.tx_hash).collect();
    assert_eq!(all, (0..10).map(in_slot).collect::<Vec<_>>(), "several at once");
    // I8: who does not count a slot can't say what is in it.
    let unused = occupant(&chain, SOMEBODY, 10, 1_000).await.unwrap_err();
    assert!(unused.contains("counts 10, so slot 10 is unused"), "{unused}");
    occupant(&chain, FOREIGN_ACCOUNT, 0, 1_000).await.unwrap_err();
}

const FOREIGN_ACCOUNT: Address = Address::repeat_byte(0x77);

#[tokio::test]
async fn node_without_old_states_shows_its_blocks_a_part_at_a_time() {
    for counts in [None, Some(0)] {
        let node = Node::start().await;
        past(&node);
        let chain = connect(vec![node.http()]).await;
        heads_at(&chain, 60).await;
        node.set().oldest_state = 58;
        // Besu does not say that a state is gone: it counts zero.
        node.set().counts_without_state = counts;
        for slot in [2, 7, 9] {
            assert_eq!(occupant(&chain, SOMEBODY, slot, 1_000).await, Ok(in_slot(slot)), "{slot}");
        }
        // Blocks that it lacks may hold it.
        node.set().branch.retain(|(at, _)| at.number >= 40 || at.number == 0);
        occupant(&chain, SOMEBODY, 2, 1_000).await.unwrap_err();
        node.set().behaviour = Behaviour::Down;
        occupant(&chain, SOMEBODY, 9, 1_000).await.unwrap_err();
    }
}

#[tokio::test]
async fn later_look_at_a_node_without_old_states_goes_on_below_the_earlier_one() {
    let node = Node::start().await;
    past(&node);
    for number in 61..=600 {
        node.mine(1, number, Vec::new());
    }
    let chain = connect(vec![node.http()]).await;
    heads_at(&chain, 600).await;
    node.set().oldest_state = 599;
    let first = occupant(&chain, SOMEBODY, 9, 150).await.unwrap_err();
    assert!(first.contains("in no block down to 450"), "{first}");
    let mut looks = 1;
    while occupant(&chain, SOMEBODY, 9, 150).await != Ok(in_slot(9)) {
        looks += 1;
        assert!(looks < 20, "each look begins anew");
    }
    let before = node.calls_of("eth_getBlockByNumber");
    assert_eq!(occupant(&chain, SOMEBODY, 9, 150).await, Ok(in_slot(9)), "it is remembered");
    assert!(node.calls_of("eth_getBlockByNumber") < before + 5);
    assert_eq!(occupant(&chain, SOMEBODY, 8, 150).await, Ok(in_slot(8)), "and so is the place");
    let before = node.calls_of("eth_getBlockByNumber") - before;
    assert!(before < 60, "{before}");
}

#[tokio::test]
async fn occupant_is_asked_of_the_next_endpoint_where_one_can_not_tell() {
    let (lagging, ill) = (Node::start().await, Node::start().await);
    let (well, other) = (Node::start().await, Node::start().await);
    [&ill, &well, &other].into_iter().for_each(past);
    let all = [&lagging, &ill, &well, &other];
    let chain = connect(all.iter().map(|node| node.http()).collect()).await;
    ill.set().fixed.insert("eth_getTransactionCount", Ok(json!("nonsense")));
    assert_eq!(occupant(&chain, SOMEBODY, 4, 1_000).await, Ok(in_slot(4)));
    well.set().behaviour = Behaviour::Down;
    other.set().behaviour = Behaviour::Down;
    let problem = occupant(&chain, SOMEBODY, 4, 1_000).await.unwrap_err();
    assert!(problem.contains("slot 4 is unused"), "what each of them says: {problem}");
}

#[tokio::test]
async fn occupant_that_one_of_several_endpoints_shows_alone_is_not_seen() {
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    nodes.iter().for_each(past);
    // Another body in the block of slot 4, under the same hash.
    nodes[0].set().branch[35].1 = vec![FOREIGN];
    nodes[0].set().slots.insert(FOREIGN, (SOMEBODY, 4));
    let two = connect(nodes[..2].iter().map(Node::http).collect()).await;
    let three = connect(nodes.iter().map(Node::http).collect()).await;
    heads_at(&two, 60).await;
    heads_at(&three, 60).await;
    let problem = occupant(&two, SOMEBODY, 4, 1_000).await.unwrap_err();
    assert!(problem.contains(&format!("alone in showing {FOREIGN} in slot 4")), "{problem}");
    assert_eq!(occupant(&three, SOMEBODY, 4, 1_000).await, Ok(in_slot(4)), "two show it");
    // One that tells a head that it does not have shows what it has.
    nodes[0].set().branch[35].1 = nodes[1].set().branch[35].1.clone();
    nodes[0].set().head_ahead = 1;
    assert_eq!(occupant(&two, SOMEBODY, 4, 1_000).await, Ok(in_slot(4)));
    nodes[0].set().head_ahead = 0;
    // One that counts too little finds nothing by itself, and has the block all the same.
    nodes[0].set().fixed.insert("eth_getTransactionCount", Ok(json!("0x1")));
    assert_eq!(occupant(&two, SOMEBODY, 4, 1_000).await, Ok(in_slot(4)));
    // I15: both show it, so nothing else is needed for a slot that is foreign.
    let seen = two.occupants(SOMEBODY, &[nonce(4)], 1_000).await.seen[0];
    assert_eq!(seen.support, OccupantSupport::Corroborated);
    let looked = two.search(SOMEBODY, nonce(4), &[OLDER, OURS]).await.looked;
    let judged = tollgate_model::reconcile::judge_search(&[OLDER, OURS], &looked, Some(seen));
    assert_eq!(judged, Search::Foreign { seen }, "{looked:?}");
    let alone = connect(vec![nodes[1].http()]).await;
    heads_at(&alone, 60).await;
    let seen = alone.occupants(SOMEBODY, &[nonce(4)], 1_000).await.seen[0];
    assert_eq!(seen.support, OccupantSupport::Single, "the only endpoint");
    // One that can't be asked leaves it open: a single one's word is no evidence (I8).
    nodes[0].set().behaviour = Behaviour::Down;
    occupant(&two, SOMEBODY, 4, 1_000).await.unwrap_err();
}
