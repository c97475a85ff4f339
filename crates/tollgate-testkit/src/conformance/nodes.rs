//! Live nodes, chains and registered submitters.

use std::time::Duration;

use tollgate_model::B256;
use tollgate_model::nonce::Mode;
use tollgate_model::port::{
    Acquisition, ChainRegistration, LiveNode, PeerKey, ServedSet, StoreError, SubmitterSetup,
};

use crate::builders::{
    CHAIN, chain, chain_id, long_terms, node_id, nonce, on_other_chain, one_slot, other_chain,
    setup, submitter, text,
};
use crate::store_fixture::StoreFixture;

fn set_up(mode: Mode, start: u64) -> SubmitterSetup {
    SubmitterSetup { submitter: submitter(1), mode, start_from: nonce(start) }
}

const LATELY: Duration = Duration::from_secs(3_600);

fn live(name: &str, url: &str) -> LiveNode {
    LiveNode {
        node: node_id(name),
        chain_id: chain_id(CHAIN),
        advertise_url: text(url),
        draining: false,
        serves: None,
    }
}

pub async fn nodes_live_from_heartbeat_to_leave(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let mut nodes = [live("c", "http://c"), live("a", "http://a"), live("b", "http://b")];
    for node in &nodes {
        a.heartbeat(node).await.unwrap();
    }
    nodes.sort_by(|left, right| left.node.cmp(&right.node));
    assert_eq!(a.live_nodes(chain_id(CHAIN), LATELY).await.unwrap(), nodes);
    nodes[1].draining = true;
    nodes[1].advertise_url = text("http://elsewhere");
    a.heartbeat(&nodes[1]).await.unwrap();
    assert_eq!(a.live_nodes(chain_id(CHAIN), LATELY).await.unwrap(), nodes, "the last word counts");
    a.leave(&nodes[0].node).await.unwrap();
    a.leave(&nodes[0].node).await.unwrap();
    assert_eq!(a.live_nodes(chain_id(CHAIN), LATELY).await.unwrap(), nodes[1..]);
}

pub async fn a_silent_node_is_not_alive(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (silent, other) = (live("silent", "http://s"), live("talking", "http://t"));
    a.heartbeat(&silent).await.unwrap();
    a.heartbeat(&other).await.unwrap();
    let aged = fixture.earlier("heartbeat_at", Duration::from_secs(7_200));
    let sql = format!("update node set heartbeat_at = {aged} where node_id like 'silent/%'");
    assert_eq!(fixture.execute(&sql).await, Ok(1));
    assert_eq!(a.live_nodes(chain_id(CHAIN), LATELY).await.unwrap(), [other]);
    assert_eq!(a.live_nodes(chain_id(CHAIN), LATELY * 3).await.unwrap().len(), 2);
    a.heartbeat(&silent).await.unwrap();
    assert_eq!(a.live_nodes(chain_id(CHAIN), LATELY).await.unwrap().len(), 2);
}

/// Nodes of the version before do not say which chain they work on.
pub async fn nodes_of_another_chain_or_of_an_unknown_one_are_not_listed(
    fixture: &dyn StoreFixture,
) {
    let a = fixture.node("a").await;
    let (here, unsaid) = (live("here", "http://h"), live("unsaid", "http://u"));
    let there = LiveNode { chain_id: other_chain().chain_id, ..live("there", "http://t") };
    for node in [&here, &there, &unsaid] {
        a.heartbeat(node).await.unwrap();
    }
    let sql = "update node set chain_id = null where node_id like 'unsaid/%'";
    assert_eq!(fixture.execute(sql).await, Ok(1));
    assert_eq!(a.live_nodes(chain_id(CHAIN), LATELY).await.unwrap(), [here]);
    assert_eq!(a.live_nodes(other_chain().chain_id, LATELY).await.unwrap(), [there]);
}

pub async fn accounts_that_a_node_serves_are_read_under_the_digest_of_its_row(
    fixture: &dyn StoreFixture,
) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let many = ServedSet::new((0..20_000).map(|n| submitter(n).address));
    let none = ServedSet::new([]);
    assert_eq!(b.served_set(many.digest()).await.unwrap(), None, "not published yet");
    for set in [&many, &none, &many] {
        a.publish_served(set).await.unwrap();
    }
    b.publish_served(&many).await.unwrap();
    let mut node = LiveNode { serves: Some(many.digest()), ..live("a", "http://a") };
    a.heartbeat(&node).await.unwrap();
    assert_eq!(b.live_nodes(chain_id(CHAIN), LATELY).await.unwrap(), [node.clone()]);
    assert_eq!(b.served_set(many.digest()).await.unwrap(), Some(many));
    assert_eq!(b.served_set(none.digest()).await.unwrap(), Some(none.clone()));
    node.serves = Some(none.digest());
    a.heartbeat(&node).await.unwrap();
    assert_eq!(b.live_nodes(chain_id(CHAIN), LATELY).await.unwrap(), [node], "the last one counts");
}

/// A restarted node names its set again, so that sets are not deleted at once.
pub async fn accounts_that_no_node_names_are_forgotten_after_a_day(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let sets = [1, 2, 3].map(|n| ServedSet::new([submitter(n).address]));
    for set in &sets {
        a.publish_served(set).await.unwrap();
    }
    let [named, unnamed, new] = &sets;
    a.heartbeat(&LiveNode { serves: Some(named.digest()), ..live("n", "http://n") }).await.unwrap();
    a.leave(&a.id).await.unwrap();
    for set in &sets {
        assert!(a.served_set(set.digest()).await.unwrap().is_some(), "published a moment ago");
    }
    let aged = fixture.earlier("published_at", Duration::from_secs(90_000));
    assert_eq!(
        fixture.execute(&format!("update served_set set published_at = {aged}")).await,
        Ok(3)
    );
    a.leave(&a.id).await.unwrap();
    assert!(a.served_set(named.digest()).await.unwrap().is_some(), "a node names it");
    assert_eq!(a.served_set(unnamed.digest()).await.unwrap(), None);
    // Published anew by the next heartbeat of a node that was silent for long.
    a.publish_served(new).await.unwrap();
    assert!(a.served_set(new.digest()).await.unwrap().is_some());
}

/// Requests between nodes are signed with it. Nodes of the version before have none.
pub async fn peer_key_is_read_while_its_node_lives_and_of_any_chain(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    let (first, second) = (PeerKey::new([1; 32]), PeerKey::new([2; 32]));
    let node = LiveNode { chain_id: other_chain().chain_id, ..live("n", "http://n") };
    let read = async || b.peer_key(&node.node, LATELY).await.unwrap();
    a.publish_peer_key(&node.node, &first).await.unwrap();
    assert_eq!(read().await, None, "a node that is not listed has no key");
    a.heartbeat(&node).await.unwrap();
    assert_eq!(read().await, None, "a node of the version before has no key");
    for key in [&first, &first, &second] {
        a.publish_peer_key(&node.node, key).await.unwrap();
        assert_eq!(read().await.as_ref(), Some(key));
    }
    a.heartbeat(&node).await.unwrap();
    assert_eq!(read().await, Some(second), "a heartbeat keeps the key");
    assert_eq!(b.peer_key(&node_id("other"), LATELY).await.unwrap(), None);
    let aged = fixture.earlier("heartbeat_at", Duration::from_secs(7_200));
    assert_eq!(fixture.execute(&format!("update node set heartbeat_at = {aged}")).await, Ok(1));
    assert_eq!(read().await, None, "the node is silent");
}

pub async fn an_owners_address_comes_from_the_list_of_nodes(fixture: &dyn StoreFixture) {
    let (a, b) = (fixture.node("a").await, fixture.node("b").await);
    a.own(submitter(1)).await;
    let url_told = async || {
        let answer = b.acquire(submitter(1), &b.id, &long_terms()).await.unwrap();
        let Acquisition::Held(owner) = answer else { panic!("a has it: {answer:?}") };
        let asked = b.owners(&[submitter(1)]).await.unwrap().remove(0).unwrap();
        assert_eq!(owner.advertise_url, asked.advertise_url);
        asked.advertise_url
    };
    assert_eq!(url_told().await, None);
    let node = LiveNode { node: a.id.clone(), ..live("a", "http://a:8550") };
    a.heartbeat(&node).await.unwrap();
    assert_eq!(url_told().await, Some("http://a:8550".to_owned()));
    a.leave(&a.id).await.unwrap();
    assert_eq!(url_told().await, None);
}

/// A chain that was reset under the same id is another chain.
pub async fn a_chain_with_another_genesis_is_refused(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    a.register_chain(&chain()).await.unwrap();
    a.register_chain(&chain()).await.unwrap();
    let other = ChainRegistration { genesis: B256::repeat_byte(8), ..chain() };
    let error = a.register_chain(&other).await.unwrap_err();
    assert_eq!(
        error,
        StoreError::OtherChain { chain_id: chain().chain_id, known: chain().genesis }
    );
    a.register_chain(&chain()).await.unwrap();
    let elsewhere = ChainRegistration { chain_id: chain_id(1), ..other };
    a.register_chain(&elsewhere).await.unwrap();
}

pub async fn a_submitter_on_an_unknown_chain_is_refused_by_name(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    a.register_chain(&chain()).await.unwrap();
    let setups = [setup(submitter(1)), setup(on_other_chain(1))];
    let error = a.register_submitters(&setups).await.unwrap_err();
    assert_eq!(error, StoreError::UnknownChain(other_chain().chain_id));
    assert_eq!(a.submitter(submitter(1)).await.unwrap(), None, "all of them or none");
    a.register_submitters(&[]).await.unwrap();
}

/// I4: nodes that start with other defaults leave cursor and mode alone.
pub async fn registering_again_never_moves_the_cursor(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    a.register_chain(&chain()).await.unwrap();
    a.register_submitters(&[set_up(Mode::Pipelined, 5)]).await.unwrap();
    assert_eq!(a.cursor(submitter(1)).await, 5);
    let lease = a.lease(submitter(1)).await;
    a.write_whole(one_slot(lease, 5)).await;
    for (mode, start) in [(Mode::Strict, 0), (Mode::Strict, 100), (Mode::Pipelined, 5)] {
        a.register_submitters(&[set_up(mode, start)]).await.unwrap();
        let record = a.known(submitter(1)).await;
        let as_registered = (Mode::Pipelined, nonce(6));
        assert_eq!((record.mode, record.next_nonce), as_registered, "I4");
    }
}

pub async fn first_of_two_registrations_in_one_call_counts(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    a.register_chain(&chain()).await.unwrap();
    let twice = [set_up(Mode::Strict, 5), setup(submitter(2)), set_up(Mode::Pipelined, 9)];
    a.register_submitters(&twice).await.unwrap();
    let record = a.known(submitter(1)).await;
    assert_eq!((record.mode, record.next_nonce), (Mode::Strict, nonce(5)));
    let asked = [submitter(2), submitter(9), submitter(1)];
    let modes = a.modes(&asked).await.unwrap();
    assert_eq!(modes, [Some(Mode::Pipelined), None, Some(Mode::Strict)], "in the order asked");
    assert_eq!(a.modes(&[]).await.unwrap(), []);
}

pub async fn one_address_on_two_chains_is_two_submitters(fixture: &dyn StoreFixture) {
    let a = fixture.node("a").await;
    let (far, here) = (on_other_chain(1), a.own(submitter(1)).await);
    a.register_on(&other_chain(), &[far]).await;
    a.write_whole(one_slot(here, 0)).await;
    let there = a.lease(far).await;
    assert_eq!(a.cursor(far).await, 0);
    a.write_whole(one_slot(there, 0)).await;
    fixture.expire(submitter(1)).await;
    a.write_whole(one_slot(there, 1)).await;
}
