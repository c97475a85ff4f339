//! One chain over several endpoints: healthy ones are used, and one endpoint alone moves nothing back.

use std::time::Duration;

use tollgate_evm::chain::{ConnectError, EvmChain};
use tollgate_evm::endpoint::{EndpointConfig, Role};
use tollgate_model::port::chain::{AccountCounts, BlockTag, Chain, CountSupport};
use tollgate_model::{ChainId, Nonce};

use crate::fake::{
    Behaviour, Node, SOMEBODY, State, block, config, connect, heads_at, one_node, two_nodes, until,
};

fn counts(mined: u64, pending: u64) -> AccountCounts {
    AccountCounts::confirmed(Nonce::new(mined).unwrap(), Nonce::new(pending).unwrap())
}

#[tokio::test]
async fn endpoints_that_all_differ_from_the_chain_are_refused_by_name() {
    let (ours, other) = (Node::start().await, Node::start().await);
    other.set().chain_id = 1;
    let refused = EvmChain::connect(config(vec![ours.http(), other.http()])).await.unwrap_err();
    let ConnectError::WrongChain { endpoint, expected, found } = &refused else {
        panic!("{refused}")
    };
    assert_eq!((expected.get(), *found), (31_337, 1), "nothing tells which one is meant");
    assert!(other.http().url.starts_with(endpoint), "{refused}");

    let mut config = config(vec![ours.http()]);
    config.chain_id = Some(ChainId::new(5).unwrap());
    let refused = EvmChain::connect(config.clone()).await.unwrap_err();
    assert!(matches!(refused, ConnectError::WrongChain { found: 31_337, .. }), "{refused}");
    (config.chain_id, config.genesis) = (None, Some(block(9, 77).hash));
    let refused = EvmChain::connect(config).await.unwrap_err();
    assert!(matches!(refused, ConnectError::WrongGenesis { .. }), "{refused}");
}

#[tokio::test]
async fn endpoint_is_left_out_while_it_is_on_another_chain() {
    type Change = fn(&mut State);
    let wrong: [(Change, &str); 2] = [
        (|state| state.chain_id = 1, "is on chain 1"),
        (|state| state.branch[0].0.hash = block(9, 77).hash, "genesis"),
    ];
    for (go_astray, why) in wrong {
        let (other, ours) = (Node::start().await, Node::start().await);
        go_astray(&mut other.set());
        let mut config = config(vec![other.http(), ours.http()]);
        config.chain_id = Some(ChainId::new(31_337).unwrap());
        config.genesis = Some(block(1, 0).hash);
        let chain = EvmChain::connect(config).await.unwrap();
        assert_eq!(chain.genesis(), block(1, 0).hash);
        assert!(chain.endpoints()[0].chain_check.contains(why), "{:?}", chain.endpoints());
        for _ in 0..5 {
            chain.balance(SOMEBODY).await.unwrap();
        }
        assert_eq!(other.calls_of("eth_getBalance"), 0);
        other.set().chain_id = 31_337;
        other.set().branch[0].0 = block(1, 0);
        until("it is used", || async { chain.endpoints()[0].chain_check == "good" }).await;
        go_astray(&mut other.set());
        let is_left_out = || async { chain.endpoints()[0].chain_check.contains(why) };
        until("it is left out again", is_left_out).await;
    }
}

#[tokio::test]
async fn most_endpoints_tell_which_chain_is_meant_where_none_is_configured() {
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    nodes[0].set().chain_id = 1;
    let chain = connect(nodes.iter().map(Node::http).collect()).await;
    assert_eq!(chain.chain_id().get(), 31_337);
    nodes[0].set().chain_id = 31_337;
    nodes[0].set().branch[0].0.hash = block(9, 77).hash;
    let chain = connect(nodes.iter().map(Node::http).collect()).await;
    assert_eq!(chain.genesis(), block(1, 0).hash);
}

#[tokio::test]
async fn a_chain_needs_an_endpoint_that_answers_and_can_be_read_from() {
    let node = Node::start().await;
    let only_sends = node.http_as(Role::SendOnly);
    let refused = EvmChain::connect(config(vec![only_sends])).await.unwrap_err();
    assert_eq!(refused, ConnectError::NoReader);
    node.set().behaviour = Behaviour::Down;
    let refused = EvmChain::connect(config(vec![node.http()])).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Unavailable(_)), "{refused}");
    let bad = EndpointConfig::new("nonsense");
    let refused = EvmChain::connect(config(vec![node.http(), bad])).await.unwrap_err();
    assert!(refused.to_string().contains("endpoint number 2"), "{refused}");
}

#[tokio::test]
async fn reads_go_on_while_one_endpoint_is_down_slow_or_limited() {
    for behaviour in
        [Behaviour::Down, Behaviour::Hangs, Behaviour::BadGateway, Behaviour::Limited(60)]
    {
        let (ill, well) = (Node::start().await, Node::start().await);
        let chain = connect(vec![ill.impatient(), well.http()]).await;
        heads_at(&chain, 10).await;
        ill.set().behaviour = behaviour;
        for _ in 0..20 {
            chain.balance(SOMEBODY).await.unwrap();
            let read = chain.counts(SOMEBODY).await.unwrap();
            assert_eq!((read.mined, read.pending), (Nonce::MIN, Nonce::MIN));
            assert!(chain.block(BlockTag::Number(7)).await.unwrap().is_some(), "{behaviour:?}");
        }
        let head = well.mine(1, 11, Vec::new());
        assert_eq!(chain.head_after(Some(block(1, 10))).await.unwrap(), head, "{behaviour:?}");
        // The ill one is left alone.
        let before = ill.calls_of("eth_getBalance");
        for _ in 0..20 {
            chain.balance(SOMEBODY).await.unwrap();
        }
        assert_eq!(ill.calls_of("eth_getBalance"), before, "{behaviour:?}");
    }
}

#[tokio::test]
async fn endpoint_that_was_unavailable_is_used_after_it_recovers() {
    let (late, first) = (Node::start().await, Node::start().await);
    late.set().behaviour = Behaviour::Down;
    let chain = connect(vec![late.http(), first.http()]).await;
    assert_eq!(chain.endpoints()[0].chain_check, "unchecked");
    chain.balance(SOMEBODY).await.unwrap();
    late.set().behaviour = Behaviour::Normal;
    until("it is checked", || async { chain.endpoints()[0].chain_check == "good" }).await;
    first.set().behaviour = Behaviour::Down;
    until("it is used", || async { chain.balance(SOMEBODY).await.is_ok() }).await;

    // One that turns out to be of another chain is never used, however healthy.
    let (stranger, ours) = (Node::start().await, Node::start().await);
    stranger.set().behaviour = Behaviour::Down;
    stranger.set().chain_id = 1;
    let chain = connect(vec![stranger.http(), ours.http()]).await;
    stranger.set().behaviour = Behaviour::Normal;
    until("it is refused", || async { chain.endpoints()[0].chain_check.contains("is on chain 1") })
        .await;
    ours.set().behaviour = Behaviour::Down;
    chain.balance(SOMEBODY).await.unwrap_err();
    assert_eq!(stranger.calls_of("eth_getBalance"), 0);
}

#[tokio::test]
async fn the_head_is_the_highest_and_a_lagging_endpoint_is_not_asked_for_newer_blocks() {
    let (lagging, ahead, chain) = two_nodes().await;
    let head = ahead.mine(1, 11, Vec::new());
    assert_eq!(chain.head_after(Some(block(1, 10))).await.unwrap(), head);
    for _ in 0..10 {
        assert_eq!(chain.block(BlockTag::Number(11)).await.unwrap().unwrap().at, head);
        assert_eq!(chain.block(BlockTag::Latest).await.unwrap().unwrap().at, head);
    }
    assert_eq!(chain.block(BlockTag::Number(12)).await.unwrap(), None, "not yet");

    // The one ahead goes away: the head stays, and what only it has is not there for now.
    ahead.set().behaviour = Behaviour::Down;
    until("it is known to be away", || async { chain.endpoints()[1].resting }).await;
    assert_eq!(chain.head_after(None).await.unwrap(), head, "the head does not go back");
    chain.block(BlockTag::Number(11)).await.unwrap_err();
    chain.block(BlockTag::Latest).await.unwrap_err();
    assert_eq!(lagging.calls_of("eth_getBlockByHash"), 0, "it can't have it");
    lagging.mine(1, 11, Vec::new());
    let next = lagging.mine(1, 12, Vec::new());
    assert_eq!(chain.head_after(Some(head)).await.unwrap(), next);
}

#[tokio::test]
async fn reorg_is_reported_as_another_head() {
    let (node, chain) = one_node().await;
    let head = chain.head_after(None).await.unwrap();
    assert_eq!(head, block(1, 10));
    let same_height = node.mine(2, 10, Vec::new());
    assert_eq!(chain.head_after(Some(head)).await.unwrap(), same_height);
    let lower = node.mine(3, 9, Vec::new());
    assert_eq!(chain.head_after(Some(same_height)).await.unwrap(), lower);
}

#[tokio::test]
async fn heads_are_announced_where_there_is_a_socket_and_polled_where_not() {
    let node = Node::start().await;
    let mut announced = config(vec![node.ws()]);
    announced.poll_interval = Duration::from_secs(60);
    let chain = EvmChain::connect(announced).await.unwrap();
    let mut head = chain.head_after(None).await.unwrap();
    for number in 11..=15 {
        let mined = node.mine(1, number, Vec::new());
        head = chain.head_after(Some(head)).await.unwrap();
        assert_eq!(head, mined);
    }
    assert_eq!(chain.block(BlockTag::Latest).await.unwrap().unwrap().at, head);
    // A node without subscriptions is polled over its socket.
    let node = Node::start().await;
    node.set().missing.insert("eth_subscribe");
    let chain = connect(vec![node.ws()]).await;
    let head = chain.head_after(None).await.unwrap();
    let mined = node.mine(1, 11, Vec::new());
    assert_eq!(chain.head_after(Some(head)).await.unwrap(), mined);
}

#[tokio::test]
async fn count_that_one_endpoint_alone_reports_is_outvoted() {
    let (liar, honest, chain) = two_nodes().await;
    for node in [&liar, &honest] {
        (node.set().mined, node.set().pending) = (5, 6);
    }
    assert_eq!(chain.counts(SOMEBODY).await.unwrap(), counts(5, 6));
    (liar.set().mined, liar.set().pending) = (1_000, 1_001);
    for _ in 0..5 {
        let (highest, told) = (Nonce::new(1_000).unwrap(), Nonce::new(1_001).unwrap());
        let support = CountSupport::Open;
        let outvoted = AccountCounts { highest, told, support, ..counts(5, 6) };
        assert_eq!(chain.counts(SOMEBODY).await.unwrap(), outvoted, "upward");
    }
    (liar.set().mined, liar.set().pending) = (0, 0);
    for _ in 0..5 {
        let outvoted = AccountCounts { support: CountSupport::Open, ..counts(5, 6) };
        assert_eq!(chain.counts(SOMEBODY).await.unwrap(), outvoted, "downward");
    }
    // The honest one goes on; the liar holds it up for as long as it is heard, and no longer.
    (honest.set().mined, honest.set().pending) = (7, 8);
    liar.set().behaviour = Behaviour::Down;
    until("it is known to be away", || async { chain.endpoints()[0].resting }).await;
    let sure = Nonce::new(6).unwrap();
    let by_one = AccountCounts { sure, support: CountSupport::Open, ..counts(7, 8) };
    assert_eq!(chain.counts(SOMEBODY).await.unwrap(), by_one, "I16: and says that it is one word");
}

#[tokio::test]
async fn a_lost_answer_about_the_pool_is_not_an_empty_pool() {
    let (node, chain) = one_node().await;
    (node.set().mined, node.set().pending) = (5, 9);
    let one_word = AccountCounts { sure: Nonce::new(5).unwrap(), ..counts(5, 9) };
    assert_eq!(chain.counts(SOMEBODY).await.unwrap(), one_word);
    node.set().mutes_pool = true;
    chain.counts(SOMEBODY).await.unwrap_err();
}

#[tokio::test]
async fn counts_go_back_only_when_a_reorg_took_them_back_everywhere() {
    let (one, two, chain) = two_nodes().await;
    let both = |mined, pending| {
        for node in [&one, &two] {
            (node.set().mined, node.set().pending) = (mined, pending);
        }
    };
    both(5, 5);
    assert_eq!(chain.counts(SOMEBODY).await.unwrap(), counts(5, 5));
    for node in [&one, &two] {
        node.mine(2, 10, Vec::new());
        node.mine(2, 11, Vec::new());
    }
    both(4, 5);
    heads_at(&chain, 11).await;
    assert_eq!(chain.counts(SOMEBODY).await.unwrap(), counts(4, 5));
}

#[tokio::test]
async fn a_pending_count_below_the_mined_one_is_the_mined_one() {
    let (node, chain) = one_node().await;
    (node.set().mined, node.set().pending) = (5, 0);
    assert_eq!(chain.counts(SOMEBODY).await.unwrap(), counts(5, 5));
    node.set().behaviour = Behaviour::Down;
    chain.counts(SOMEBODY).await.unwrap_err();
}

#[tokio::test]
async fn finality_tag_is_the_lower_of_two_and_never_goes_back() {
    let (one, two, chain) = two_nodes().await;
    let settled = async || {
        let block = chain.block(BlockTag::Finalized).await.unwrap();
        block.map(|block| block.at.number)
    };
    assert_eq!(settled().await, None, "a chain without the tag");
    (one.set().finalized, two.set().finalized) = (Some(8), Some(5));
    assert_eq!(settled().await, Some(5));
    (one.set().finalized, two.set().finalized) = (Some(3), Some(3));
    assert_eq!(settled().await, Some(5));
    (one.set().finalized, two.set().finalized) = (Some(9), Some(9));
    assert_eq!(settled().await, Some(9));
}
