//! Sends over several endpoints: one acceptance is enough, a rejection needs all of them.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use futures_util::future::join;
use futures_util::{StreamExt, stream};
use tollgate_evm::chain::{ChainConfig, EvmChain};
use tollgate_evm::endpoint::{EndpointConfig, Role};
use tollgate_model::Route::Public;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::chain::{BlockTag, Chain, SendAnswer};
use tollgate_model::{Address, B256, Bytes};

use crate::fake::{
    Behaviour, Node, SendBehaviour, block, config, connect, heads_at, one_node, two_nodes, until,
};

const SEND: &str = "eth_sendRawTransaction";

fn raw() -> Bytes {
    Bytes::from_static(&[0x02, 0xc0])
}

async fn class(chain: &EvmChain) -> AnswerClass {
    chain.send(&raw(), Public).await.class
}

#[tokio::test]
async fn a_transaction_that_is_taken_goes_to_one_endpoint() {
    let (one, two, chain) = two_nodes().await;
    assert_eq!(class(&chain).await, AnswerClass::Accepted);
    assert_eq!(one.calls_of(SEND) + two.calls_of(SEND), 1);

    let mut all = config(vec![one.http(), two.http()]);
    all.fan_out = usize::MAX;
    let chain = EvmChain::connect(all).await.unwrap();
    assert_eq!(class(&chain).await, AnswerClass::Accepted);
    until("both have it", || async { one.calls_of(SEND) + two.calls_of(SEND) == 3 }).await;
}

fn raws(count: u8) -> Vec<Bytes> {
    (0..count).map(|n| Bytes::from(vec![0x02, 0xc1, n])).collect()
}

#[tokio::test]
async fn many_go_out_in_one_call_and_their_answers_are_told_apart() {
    let (node, chain) = one_node().await;
    let raws = raws(50);
    let answers = chain.send_in_order(&raws, Public).await;
    assert_eq!(answers.len(), 50);
    for (raw, answer) in raws.iter().zip(&answers) {
        assert_eq!(answer.class, AnswerClass::Accepted);
        assert!(answer.said.contains(&tollgate_model::keccak256(raw).to_string()));
    }
    assert_eq!((node.calls_of("batch"), node.calls_of(SEND)), (1, 0));
}

#[tokio::test]
async fn transactions_that_a_batch_refuses_are_sent_again_one_by_one() {
    let (one, two, chain) = two_nodes().await;
    let raws = raws(5);
    for node in [&one, &two] {
        node.set().refused = vec![(raws[3].to_string(), "insufficient funds for transfer")];
    }
    let answers = chain.send_in_order(&raws, Public).await;
    let classes: Vec<AnswerClass> = answers.iter().map(|answer| answer.class).collect();
    let (ok, poor) = (AnswerClass::Accepted, AnswerClass::InsufficientFunds);
    assert_eq!(classes, [ok, ok, ok, poor, ok]);
    assert_eq!(one.calls_of(SEND) + two.calls_of(SEND), 2, "every endpoint was asked about it");
}

#[tokio::test]
async fn a_node_without_batches_gets_them_one_by_one_and_is_not_asked_again() {
    let node = Node::start().await;
    node.set().no_batches = true;
    let chain = connect(vec![node.http()]).await;
    for _ in 0..2 {
        let answers = chain.send_in_order(&raws(5), Public).await;
        assert!(answers.iter().all(|answer| answer.class == AnswerClass::Accepted));
        assert_eq!(answers.len(), 5);
    }
    assert_eq!((node.calls_of("batch"), node.calls_of(SEND)), (1, 10));
}

#[tokio::test]
async fn nothing_is_sent_behind_one_without_a_clear_answer() {
    let node = Node::start().await;
    node.set().send_behaviour = SendBehaviour::LosesAnswer;
    let chain = connect(vec![node.http()]).await;
    let answers = chain.send_in_order(&raws(5), Public).await;
    let classes: Vec<AnswerClass> = answers.iter().map(|answer| answer.class).collect();
    assert_eq!(classes, [AnswerClass::Unknown]);
}

fn classes(answers: &[SendAnswer]) -> Vec<AnswerClass> {
    answers.iter().map(|answer| answer.class).collect()
}

#[tokio::test]
async fn rejection_after_a_batch_whose_answer_was_lost_is_no_rejection() {
    let (node, chain) = one_node().await;
    node.set().loses_batches = true;
    node.set().send_behaviour = SendBehaviour::Fails("invalid sender");
    let answers = chain.send_in_order(&raws(3), Public).await;
    assert_eq!(classes(&answers), [AnswerClass::Unknown], "I3: the batch may have been taken");
    assert!(answers[0].said.contains("invalid sender"), "{}", answers[0].said);

    // Nothing is in doubt where the node took no batch at all, or answers both times.
    node.set().loses_batches = false;
    let answers = chain.send_in_order(&raws(3), Public).await;
    assert_eq!(classes(&answers), [AnswerClass::Invalid; 3]);
}

#[tokio::test]
async fn rejection_after_an_answer_that_a_batch_left_out_is_no_rejection() {
    let (node, chain) = one_node().await;
    node.set().leaves_out = Some(1);
    node.set().send_behaviour = SendBehaviour::Fails("invalid sender");
    let answers = chain.send_in_order(&raws(3), Public).await;
    assert_eq!(classes(&answers), [AnswerClass::Invalid, AnswerClass::Unknown]);
    // What a node has is with a node, whatever was lost.
    node.set().send_behaviour = SendBehaviour::Accepts;
    let answers = chain.send_in_order(&raws(3), Public).await;
    assert_eq!(classes(&answers), [AnswerClass::Accepted; 3]);
}

#[tokio::test]
async fn transaction_that_is_sent_again_reaches_the_endpoint_that_did_not_have_it() {
    let (one, two, chain) = two_nodes().await;
    assert_eq!(class(&chain).await, AnswerClass::Accepted);
    let (had, other) = if one.calls_of(SEND) == 1 { (&one, &two) } else { (&two, &one) };
    assert_eq!(other.calls_of(SEND), 0);
    // It keeps it to itself, and is by far the faster one.
    had.set().send_behaviour = SendBehaviour::Fails("already known");
    assert_eq!(class(&chain).await, AnswerClass::Accepted, "that it has it is no news");
    assert_eq!(other.calls_of(SEND), 1);
    // A third time to all of them.
    other.set().send_behaviour = SendBehaviour::Fails("already known");
    let before = (had.calls_of(SEND), other.calls_of(SEND));
    assert_eq!(class(&chain).await, AnswerClass::AlreadyKnown);
    until("both were asked", || async {
        (had.calls_of(SEND), other.calls_of(SEND)) == (before.0 + 1, before.1 + 1)
    })
    .await;
}

#[tokio::test]
async fn second_send_goes_to_two_that_did_not_have_it_and_the_third_to_all() {
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    let chain = connect(nodes.iter().map(Node::http).collect()).await;
    heads_at(&chain, 10).await;
    let counts = || nodes.each_ref().map(|node| node.calls_of(SEND));
    class(&chain).await;
    assert_eq!(counts().iter().sum::<usize>(), 1);
    let first = counts();
    class(&chain).await;
    until("two more", || async { counts().iter().sum::<usize>() == 3 }).await;
    assert_eq!(counts(), [1; 3], "not to the one of before: {first:?}");
    class(&chain).await;
    until("all", || async { counts() == [2; 3] }).await;
}

#[tokio::test]
async fn batch_that_is_sent_again_reaches_the_endpoint_that_did_not_have_it() {
    let (one, two, chain) = two_nodes().await;
    let taken = [AnswerClass::Accepted; 5];
    assert_eq!(classes(&chain.send_in_order(&raws(5), Public).await), taken);
    let (had, other) = if one.calls_of("batch") == 1 { (&one, &two) } else { (&two, &one) };
    assert_eq!(other.calls_of("batch"), 0);
    had.set().send_behaviour = SendBehaviour::Fails("already known");
    assert_eq!(classes(&chain.send_in_order(&raws(5), Public).await), taken);
    assert_eq!(other.calls_of("batch"), 1);
    assert_eq!(one.calls_of(SEND) + two.calls_of(SEND), 0, "in one call");
}

#[tokio::test]
async fn gap_at_one_endpoint_is_told_though_another_one_had_the_transaction_before() {
    let (one, two, chain) = two_nodes().await;
    for count in [1, 5] {
        let raws: Vec<_> = (0..count).map(|n| Bytes::from(vec![0x02, 0xc1, count, n])).collect();
        chain.send_in_order(&raws, Public).await;
        let sent = |node: &Node| node.calls_of(SEND) + node.calls_of("batch");
        let (had, other) = if sent(&one) > sent(&two) { (&one, &two) } else { (&two, &one) };
        had.set().send_behaviour = SendBehaviour::Fails("already known");
        other.set().send_behaviour = SendBehaviour::Fails("nonce too high");
        let answers = chain.send_in_order(&raws, Public).await;
        assert!(answers.iter().all(|answer| answer.class == AnswerClass::NonceTooHigh), "{count}");
        // Whatever else it says does not make less of what the first one has.
        other.set().send_behaviour = SendBehaviour::Fails("invalid sender");
        let answers = chain.send_in_order(&raws, Public).await;
        assert!(answers.iter().all(|answer| answer.class == AnswerClass::AlreadyKnown), "{count}");
        for node in [&one, &two] {
            node.set().send_behaviour = SendBehaviour::Accepts;
            node.set().calls.clear();
        }
    }
}

#[tokio::test]
async fn silent_endpoint_holds_up_no_transaction_that_another_one_has() {
    let (one, two, _) = two_nodes().await;
    let chain = connect(vec![one.http(), two.http()]).await;
    assert_eq!(class(&chain).await, AnswerClass::Accepted);
    let (had, other) = if one.calls_of(SEND) == 1 { (&one, &two) } else { (&two, &one) };
    had.set().send_behaviour = SendBehaviour::Fails("already known");
    other.set().behaviour = Behaviour::Hangs;
    let begun = Instant::now();
    assert_eq!(class(&chain).await, AnswerClass::AlreadyKnown);
    // It has five seconds for each, of which it gets 300 ms.
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(other.calls_of(SEND), 1);
}

#[tokio::test]
async fn transaction_that_one_endpoint_refuses_is_sent_to_another() {
    let (one, two, chain) = two_nodes().await;
    let refusals = [
        "invalid sender",
        "nonce too low",
        "execution reverted",
        "tx fee (2.00 ether) exceeds the configured cap (1.00 ether)",
        "nonce gap too large",
        "no such words",
    ];
    for (n, said) in (0..).zip(refusals) {
        // Others each time: what an endpoint had before is no news.
        let class = async |n: u8| chain.send(&Bytes::from(vec![0x02, 0xc1, n]), Public).await.class;
        one.set().send_behaviour = SendBehaviour::Fails(said);
        two.set().send_behaviour = SendBehaviour::Accepts;
        assert_eq!(class(2 * n).await, AnswerClass::Accepted, "{said}");
        two.set().send_behaviour = SendBehaviour::Fails("already known");
        assert_eq!(class(2 * n + 1).await, AnswerClass::AlreadyKnown, "{said}");
    }
}

#[tokio::test]
async fn transaction_is_rejected_only_if_every_endpoint_rejects_it() {
    let (one, two) = (Node::start().await, Node::start().await);
    let chain = connect(vec![one.impatient(), two.http()]).await;
    heads_at(&chain, 10).await;
    for node in [&one, &two] {
        node.set().send_behaviour = SendBehaviour::Fails("invalid sender");
    }
    assert_eq!(class(&chain).await, AnswerClass::Invalid);

    // One that can't be heard may have it: from an earlier try, or from this one.
    for behaviour in
        [Behaviour::Down, Behaviour::Hangs, Behaviour::BadGateway, Behaviour::Limited(60)]
    {
        one.set().behaviour = behaviour;
        for _ in 0..4 {
            let answer = class(&chain).await;
            assert!(!answer.may_lead_to_rejection(), "{behaviour:?}: {answer}");
        }
        one.set().behaviour = Behaviour::Normal;
    }
}

#[tokio::test]
async fn endpoint_without_an_answer_keeps_a_transaction_alive() {
    let (silent, well) = (Node::start().await, Node::start().await);
    silent.set().behaviour = Behaviour::Down;
    well.set().send_behaviour = SendBehaviour::Fails("invalid sender");
    let chain = connect(vec![silent.http(), well.http()]).await;
    assert_eq!(class(&chain).await, AnswerClass::Transient);
}

#[tokio::test]
async fn a_lost_answer_and_another_hash_mean_possibly_sent() {
    let (node, chain) = one_node().await;
    for send_behaviour in [SendBehaviour::LosesAnswer, SendBehaviour::AnotherHash] {
        node.set().send_behaviour = send_behaviour.clone();
        assert_eq!(class(&chain).await, AnswerClass::Unknown, "{send_behaviour:?}");
    }
    node.set().send_behaviour = SendBehaviour::Accepts;
    let chain = connect(vec![node.impatient()]).await;
    node.set().behaviour = Behaviour::Hangs;
    let answer = chain.send(&raw(), Public).await;
    assert_eq!(answer.class, AnswerClass::Unknown);
    assert!(answer.said.contains("127.0.0.1") && !answer.said.contains("key-"), "{}", answer.said);
}

#[tokio::test]
async fn send_without_any_endpoint_is_not_a_rejection() {
    let node = Node::start().await;
    let chain = connect(vec![node.http_as(Role::ReadOnly)]).await;
    let answer = chain.send(&raw(), Public).await;
    assert_eq!((answer.class, &*answer.said), (AnswerClass::Unknown, "no endpoint could be asked"));
    assert_eq!(node.calls_of(SEND), 0);
}

#[tokio::test]
async fn a_slow_endpoint_does_not_hold_up_a_send() {
    let (slow, quick) = (Node::start().await, Node::start().await);
    let mut config = config(vec![slow.http(), quick.http()]);
    config.send_patience = Duration::from_millis(50);
    let chain = EvmChain::connect(config).await.unwrap();
    slow.set().behaviour = Behaviour::Hangs;
    let begun = Instant::now();
    for _ in 0..5 {
        assert_eq!(class(&chain).await, AnswerClass::Accepted);
    }
    // It has five seconds for each.
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(quick.calls_of(SEND), 5);
}

#[tokio::test]
async fn a_send_only_endpoint_is_sent_to_and_never_read_from() {
    let (relay, reader) = (Node::start().await, Node::start().await);
    // A relay knows nothing but sends.
    relay.set().missing.extend(["eth_chainId", "eth_getBlockByNumber"]);
    let chain = connect(vec![reader.http_as(Role::ReadOnly), relay.http_as(Role::SendOnly)]).await;
    chain.head_after(None).await.unwrap();
    assert_eq!(class(&chain).await, AnswerClass::Accepted);
    assert_eq!((relay.calls_of(SEND), reader.calls_of(SEND)), (1, 0));
    let others: Vec<_> = relay.set().calls.iter().filter(|call| *call != SEND).cloned().collect();
    assert_eq!(others, ["eth_chainId"]);
}

#[tokio::test]
async fn sends_succeed_while_one_of_two_endpoints_is_rate_limited() {
    for fan_out in [1, usize::MAX] {
        let (limited, well) = (Node::start().await, Node::start().await);
        let endpoints = config(vec![limited.http(), well.http()]);
        let chain = EvmChain::connect(ChainConfig { fan_out, ..endpoints }).await.unwrap();
        heads_at(&chain, 10).await;
        // It says that it may be asked again at once, and so it is.
        limited.set().behaviour = Behaviour::Limited(0);
        for n in 0..100 {
            let raw = Bytes::from(vec![0x02, 0xc1, n]);
            assert_eq!(chain.send(&raw, Public).await.class, AnswerClass::Accepted, "{n}");
            chain.block(BlockTag::Number(5)).await.unwrap();
        }
        assert_eq!(well.calls_of(SEND), 100);
        assert!(fan_out == 1 || limited.calls_of(SEND) > 0, "both were asked");
    }
}

#[tokio::test]
async fn rate_limit_of_three_transactions_of_a_batch_is_one_of_the_endpoint() {
    let (node, chain) = one_node().await;
    let raws = raws(4);
    let refused = raws[1..].iter().map(|raw| (raw.to_string(), "rate limit exceeded"));
    node.set().refused = refused.collect();
    let answers = chain.send_in_order(&raws, Public).await;
    assert_eq!(classes(&answers), [AnswerClass::Accepted, AnswerClass::RateLimited]);
    assert!(chain.endpoints()[0].resting);
    assert_eq!((node.calls_of("batch"), node.calls_of(SEND)), (1, 0), "it is left alone at once");
}

/// Reads these blocks as a node does that catches up: eight at once, each until it is there.
async fn read_blocks(chain: &EvmChain, numbers: RangeInclusive<u64>) {
    let read = |number| async move {
        while !matches!(chain.block(BlockTag::Number(number)).await, Ok(Some(_))) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    stream::iter(numbers).map(read).buffer_unordered(8).collect::<()>().await;
}

#[tokio::test]
async fn quota_after_an_outage_is_enough_for_blocks_and_sends() {
    let (node, chain) = one_node().await;
    for number in 11..=100 {
        node.mine(1, number, Vec::new());
    }
    until("the head is known", || async {
        chain.head_after(Some(block(1, 10))).await.is_ok_and(|head| head.number == 100)
    })
    .await;
    // The watcher alone asks more often than this.
    node.set().quota = Some(30);
    let blocks = read_blocks(&chain, 1..=100);
    let sends = async {
        for n in 0..20 {
            let raw = Bytes::from(vec![0x02, 0xc1, n]);
            let begun = Instant::now();
            while chain.send(&raw, Public).await.class != AnswerClass::Accepted {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            assert!(begun.elapsed() < Duration::from_secs(5), "{n}: {:?}", begun.elapsed());
        }
    };
    let both = join(blocks, sends);
    node.set().calls.clear();
    tokio::time::timeout(Duration::from_secs(30), both).await.expect("both end within the quota");
    let state = node.set();
    let (above, all) = (state.above_quota, state.calls.len());
    assert!(above * 3 < all, "{above} of {all} calls were above the quota");
}

#[tokio::test]
async fn receipt_is_read_by_one_question_though_the_only_endpoint_is_rate_limited_for_a_second() {
    let node = Node::start().await;
    let hash = B256::repeat_byte(0x33);
    let at = node.mine(1, 11, vec![hash]);
    let unpolled =
        ChainConfig { poll_interval: Duration::from_secs(600), ..config(vec![node.http()]) };
    let chain = EvmChain::connect(unpolled).await.unwrap();
    assert_eq!(chain.head_after(None).await, Ok(at));
    node.set().behaviour = Behaviour::Limited(1);
    chain.balance(Address::ZERO).await.unwrap_err();
    node.set().behaviour = Behaviour::Normal;
    let read = chain.receipts(&at, &[hash]).await;
    assert_eq!((read.found.len(), read.problem), (1, None));
}

#[tokio::test]
async fn rate_limited_endpoint_is_not_sent_to() {
    let (limited, well, chain) = two_nodes().await;
    limited.set().behaviour = Behaviour::Limited(60);
    until("it is known", || async { chain.endpoints()[0].resting }).await;
    well.set().send_behaviour = SendBehaviour::Fails("invalid sender");
    for _ in 0..100 {
        assert_eq!(class(&chain).await, AnswerClass::RateLimited);
    }
    assert_eq!(limited.calls_of(SEND), 0);
    well.set().send_behaviour = SendBehaviour::Accepts;
    assert_eq!(class(&chain).await, AnswerClass::Accepted);
}

#[tokio::test]
async fn endpoint_that_never_answers_sends_is_not_sent_the_next_ones_first() {
    let (mute, well) = (Node::start().await, Node::start().await);
    mute.set().send_behaviour = SendBehaviour::Swallows;
    let mute_socket = EndpointConfig { timeout: Duration::from_millis(400), ..mute.ws() };
    let config = config(vec![mute_socket, well.http()]);
    let unpolled = ChainConfig { poll_interval: Duration::from_secs(600), ..config };
    let chain = EvmChain::connect(unpolled).await.unwrap();
    heads_at(&chain, 10).await;
    let prefer_mute = async || {
        // Both have answered a read, and the other one has failed since.
        chain.sighting(B256::ZERO, Public).await.unwrap();
        well.set().behaviour = Behaviour::Down;
        chain.sighting(B256::ZERO, Public).await.unwrap();
        well.set().behaviour = Behaviour::Normal;
    };
    let raws = raws(2);
    prefer_mute().await;
    assert_eq!(chain.send(&raws[0], Public).await.class, AnswerClass::Accepted);
    assert_eq!((mute.calls_of(SEND), well.calls_of(SEND)), (1, 1));
    until("the send has timed out", || async { chain.endpoints()[0].health.unanswered_sends == 1 })
        .await;
    prefer_mute().await;
    assert_eq!(chain.send(&raws[1], Public).await.class, AnswerClass::Accepted);
    assert_eq!((mute.calls_of(SEND), well.calls_of(SEND)), (1, 2));
}
