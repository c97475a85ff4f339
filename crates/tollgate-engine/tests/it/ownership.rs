//! Nodes come and go: each submitter ends where it should be, and nothing moves twice.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tollgate_engine::{
    ActError, Acted, Action, CreateError, Engine, EngineOptions, EnginePorts, Place, Unserved,
};
use tollgate_model::nonce::Mode;
use tollgate_model::ownership::preferred;
use tollgate_model::port::{
    Acquisition, AlertKind, FencedBatch, LeaseTerms, LiveNode, NewTx, Section, ServedSet,
    SubmitterSetup,
};
use tollgate_model::{Address, B256, NodeId, Nonce, Submitter, Text, TxState};
use tollgate_testkit::fake_chain::FakeSigner;
use uuid::Uuid;

use crate::support::{Cluster, account, id, options, transfer};

/// Submitters in these tests.
const ACCOUNTS: std::ops::RangeInclusive<u8> = 1..=12;

/// Long enough that a busy machine keeps its leases, and its place on the list.
fn patient(renew_interval: Duration) -> EngineOptions {
    let duration = Duration::from_secs(6);
    let lease = LeaseTerms::new(duration, renew_interval, Duration::ZERO).unwrap();
    EngineOptions { lease, ..options() }
}

/// For what should happen soon, and for what should not happen meanwhile.
const SOON: Duration = Duration::from_millis(400);
const LATER: Duration = Duration::from_millis(2_900);

/// A node on the list.
struct Member {
    engine: Engine,
    entry: LiveNode,
    beats: Arc<AtomicU64>,
    heart: JoinHandle<()>,
}

impl Member {
    async fn join(cluster: &Cluster, name: &str) -> Self {
        Self::serving(cluster, name, ACCOUNTS.collect()).await
    }

    /// One that says whom it serves.
    async fn serving(cluster: &Cluster, name: &str, accounts: Vec<u8>) -> Self {
        let served = ServedSet::new(accounts.iter().map(|n| account(*n).address));
        cluster.store.publish_served(&served).await.unwrap();
        Self::start(cluster, name, accounts, SOON, Some(served.digest())).await
    }

    /// One that does not say, as those of older versions.
    async fn with(
        cluster: &Cluster,
        name: &str,
        accounts: Vec<u8>,
        renew_interval: Duration,
    ) -> Self {
        Self::start(cluster, name, accounts, renew_interval, None).await
    }

    async fn start(
        cluster: &Cluster,
        name: &str,
        accounts: Vec<u8>,
        renew_interval: Duration,
        serves: Option<B256>,
    ) -> Self {
        let accounts: Vec<_> = accounts.into_iter().map(|n| account(n).address).collect();
        let entry = LiveNode {
            node: NodeId::new(name, Uuid::now_v7()).unwrap(),
            chain_id: account(1).chain_id,
            advertise_url: Text::lossy(&format!("http://{name}:8550")),
            draining: false,
            serves,
        };
        cluster.store.heartbeat(&entry).await.unwrap();
        let (store, alive, beats) =
            (cluster.store.clone(), entry.clone(), Arc::new(AtomicU64::new(0)));
        let counted = beats.clone();
        let heart = tokio::spawn(async move {
            loop {
                store.heartbeat(&alive).await.unwrap();
                counted.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(renew_interval).await;
            }
        });
        let ports = cluster.node_ports(name, Arc::new(FakeSigner(accounts)));
        let ports = EnginePorts { node: entry.node.clone(), ..ports };
        Self { engine: Engine::start(ports, patient(renew_interval)), entry, beats, heart }
    }

    /// A graceful end: the leases go first, then the entry.
    async fn leave(self, cluster: &Cluster) {
        self.heart.abort();
        let _ = self.heart.await;
        let draining = LiveNode { draining: true, ..self.entry.clone() };
        cluster.store.heartbeat(&draining).await.unwrap();
        self.engine.stop().await;
        cluster.store.leave(&self.entry.node).await.unwrap();
    }
}

async fn cluster() -> Cluster {
    let cluster = Cluster::pipelined().await;
    let setup =
        |n| SubmitterSetup { submitter: account(n), mode: Mode::Pipelined, start_from: Nonce::MIN };
    cluster.store.register_submitters(&ACCOUNTS.map(setup).collect::<Vec<_>>()).await.unwrap();
    cluster
}

/// The owner of each submitter, with its token.
async fn owners(cluster: &Cluster) -> BTreeMap<Submitter, (NodeId, u64)> {
    let all: Vec<Submitter> = ACCOUNTS.map(account).collect();
    let owners = cluster.store.owners(&all).await.unwrap();
    let owned = all.into_iter().zip(owners);
    owned.filter_map(|(of, owner)| owner.map(|o| (of, (o.node, o.token.get())))).collect()
}

/// Waits until every submitter is owned by the node that should; who owns then.
async fn settled(cluster: &Cluster, nodes: &[&LiveNode]) -> BTreeMap<Submitter, (NodeId, u64)> {
    let nodes: Vec<LiveNode> = nodes.iter().map(|node| (*node).clone()).collect();
    cluster
        .eventually("each submitter where it should be", async || {
            let owners = owners(cluster).await;
            ACCOUNTS.map(account).all(|of| {
                let should = &preferred(of, &nodes).unwrap().node;
                owners.get(&of).is_some_and(|(owner, _)| owner == should)
            })
        })
        .await;
    owners(cluster).await
}

/// Waits until a node has said a few times more that it is alive.
async fn some_beats(cluster: &Cluster, member: &Member, count: u64) {
    let until = member.beats.load(Ordering::Relaxed) + count;
    cluster.eventually("heartbeats", async || member.beats.load(Ordering::Relaxed) >= until).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_come_and_go_and_ownership_follows_without_thrashing() {
    let cluster = cluster().await;
    let a = Member::join(&cluster, "a").await;
    let mut ids = Vec::new();
    for n in ACCOUNTS {
        // The chain stands still, so that all of it stays open.
        ids.push(id(a.engine.create(account(n), None, transfer(u64::from(n))).await.unwrap()));
    }
    let alone = settled(&cluster, &[&a.entry]).await;
    assert!(alone.values().all(|(_, token)| *token == 1), "{alone:?}");

    let b = Member::join(&cluster, "b").await;
    let two = settled(&cluster, &[&a.entry, &b.entry]).await;
    let c = Member::join(&cluster, "c").await;
    let three = settled(&cluster, &[&a.entry, &b.entry, &c.entry]).await;
    let mut shares: BTreeMap<&str, u32> = BTreeMap::new();
    for (owner, _) in three.values() {
        *shares.entry(owner.as_str()).or_default() += 1;
    }
    assert!(
        shares.len() == 3 && shares.values().all(|share| (2..=6).contains(share)),
        "{shares:?}"
    );
    for (of, (owner, token)) in &three {
        // A move is two steps of the token: let go, and taken up.
        let moves = u64::from(two[of].0 != a.entry.node) + u64::from(two[of].0 != *owner);
        assert_eq!(*token, 1 + 2 * moves, "{of} moved as often as it had to");
    }

    some_beats(&cluster, &a, 6).await;
    assert_eq!(owners(&cluster).await, three, "and then it stays put");

    let gone = b.entry.node.clone();
    b.leave(&cluster).await;
    let left = settled(&cluster, &[&a.entry, &c.entry]).await;
    for (of, (owner, token)) in &left {
        let moved = three[of].0 == gone;
        assert_eq!(*owner == three[of].0, !moved, "only what the node had that left");
        assert_eq!(*token, three[of].1 + if moved { 2 } else { 0 }, "{of}");
    }
    cluster.mine_until_final(&ids).await;
    for n in ACCOUNTS {
        assert_eq!(cluster.paid(account(n)), [u64::from(n)], "each once, whatever moved");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn account_declined_by_the_preferred_node_is_not_offered_again() {
    let cluster = cluster().await;
    let a = Member::join(&cluster, "a").await;
    let b = Member::with(&cluster, "b", vec![], SOON).await;
    let both = [a.entry.clone(), b.entry.clone()];
    let of = ACCOUNTS.map(account).find(|of| preferred(*of, &both).unwrap().node == b.entry.node);
    let of = of.unwrap();
    // A request that finds it without an owner is taken where it came in, if it must be.
    let tx = id(a.engine.create(of, None, transfer(1)).await.unwrap());
    cluster
        .eventually("let go and taken back", async || {
            owners(&cluster)
                .await
                .get(&of)
                .is_some_and(|(owner, token)| *owner == a.entry.node && *token == 3)
        })
        .await;
    some_beats(&cluster, &a, 6).await;
    assert_eq!(owners(&cluster).await[&of], (a.entry.node.clone(), 3), "not offered again");
    cluster.mine_until_final(&[tx]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_belongs_to_the_owner_else_to_the_preferred_node() {
    let cluster = cluster().await;
    let a = Member::with(&cluster, "a", ACCOUNTS.collect(), LATER).await;
    let b = Member::with(&cluster, "b", ACCOUNTS.collect(), LATER).await;
    for engine in [&a.engine, &b.engine] {
        cluster
            .eventually("both to know of each other", async || {
                engine.is_live(&a.entry.node) && engine.is_live(&b.entry.node)
            })
            .await;
    }
    let both = [a.entry.clone(), b.entry.clone()];
    let of_a = |of: &Submitter| preferred(*of, &both).unwrap().node == a.entry.node;
    let mut accounts = ACCOUNTS.map(account).filter(of_a);
    let (owned, unowned) = (accounts.next().unwrap(), accounts.next().unwrap());
    // Nobody's: where it should be.
    assert_eq!(a.engine.place(unowned).await.unwrap(), Place::Here);
    let Place::There(there) = b.engine.place(unowned).await.unwrap() else { panic!("not here") };
    assert_eq!((there.url.as_str(), there.owns), ("http://a:8550", false));
    // Owned: with the owner, also where another one is preferred.
    b.engine.create(owned, None, transfer(1)).await.unwrap();
    assert_eq!(b.engine.place(owned).await.unwrap(), Place::Here);
    let Place::There(there) = a.engine.place(owned).await.unwrap() else { panic!("not here") };
    assert_eq!((there.url.as_str(), there.owns), ("http://b:8550", true));

    // A node that drains takes up nothing, and says where to go; the last one says nowhere.
    a.engine.drain();
    let refused = a.engine.create(unowned, None, transfer(2)).await;
    assert!(matches!(refused, Err(CreateError::Unserved(Unserved::NotOwner(None)))), "{refused:?}");
    let Place::There(there) = a.engine.place(unowned).await.unwrap() else { panic!("not here") };
    assert_eq!(there.node, b.entry.node);
    let (store, me) = (cluster.store.clone(), a.entry.node.clone());
    b.leave(&cluster).await;
    cluster
        .eventually("b to be gone", async || {
            let live = store.live_nodes(owned.chain_id, Duration::from_secs(60)).await.unwrap();
            live.iter().all(|node| node.node == me) && a.engine.is_alone()
        })
        .await;
    a.engine.misplaced(unowned);
    assert_eq!(a.engine.place(unowned).await.unwrap(), Place::Nowhere);
}

#[tokio::test(flavor = "multi_thread")]
async fn released_account_is_not_taken_back_by_the_next_request() {
    let cluster = cluster().await;
    let renewed = Duration::from_secs(2);
    let a = Member::with(&cluster, "a", ACCOUNTS.collect(), renewed).await;
    let b = Member::with(&cluster, "b", ACCOUNTS.collect(), renewed).await;
    let both = [a.entry.clone(), b.entry.clone()];
    let of = ACCOUNTS.map(account).find(|of| preferred(*of, &both).unwrap().node == b.entry.node);
    let of = of.unwrap();
    // Callers that never leave the owner a quiet moment, and do not go elsewhere.
    let (mut ids, mut refused) = (Vec::new(), 0);
    cluster
        .eventually("the preferred node to own it", async || {
            match a.engine.create(of, None, transfer(ids.len() as u64)).await {
                Ok(created) => ids.push(id(created)),
                Err(CreateError::Unserved(Unserved::NotOwner(_))) => refused += 1,
                Err(error) => panic!("{error}"),
            }
            owners(&cluster).await.get(&of).is_some_and(|(owner, _)| *owner == b.entry.node)
        })
        .await;
    assert_eq!(owners(&cluster).await[&of].1, 3, "let go once, taken up once");
    cluster.mine_until_final(&ids).await;
    assert!(cluster.paid(of).into_iter().eq(0..ids.len() as u64), "{refused} were turned away");
}

#[tokio::test(flavor = "multi_thread")]
async fn account_stays_where_it_is_served_though_a_node_without_it_weighs_more() {
    let cluster = cluster().await;
    let a = Member::join(&cluster, "a").await;
    let b = Member::serving(&cluster, "b", vec![]).await;
    let both = [a.entry.clone(), b.entry.clone()];
    let of = ACCOUNTS.map(account).find(|of| preferred(*of, &both).unwrap().node == b.entry.node);
    let of = of.unwrap();
    cluster
        .eventually("both to know of each other", async || {
            a.engine.is_live(&b.entry.node) && b.engine.is_live(&a.entry.node)
        })
        .await;
    // Nobody's yet: it belongs to the node that serves it, wherever it is asked for.
    assert_eq!(a.engine.place(of).await.unwrap(), Place::Here);
    let Place::There(there) = b.engine.place(of).await.unwrap() else { panic!("not served here") };
    assert_eq!((there.node, there.owns), (a.entry.node.clone(), false));
    // For longer than an owner waits before it lets go for another one.
    let (mut ids, until) = (Vec::new(), a.beats.load(Ordering::Relaxed) + 8);
    cluster
        .eventually("heartbeats", async || {
            let created = a.engine.create(of, None, transfer(ids.len() as u64)).await;
            ids.push(id(created.unwrap_or_else(|error| panic!("refused: {error}"))));
            a.beats.load(Ordering::Relaxed) >= until
        })
        .await;
    assert_eq!(owners(&cluster).await[&of], (a.entry.node.clone(), 1), "it never moved");
    cluster.mine_until_final(&ids).await;
    assert!(cluster.paid(of).into_iter().eq(0..ids.len() as u64));
}

/// Submitters with open work and no owner, whose addresses sort before those of the tests.
async fn foreign_orphans(cluster: &Cluster, count: u32) -> Vec<Submitter> {
    let address = |n: u32| {
        let mut bytes = [0; 20];
        bytes[16..].copy_from_slice(&n.to_be_bytes());
        Address::from(bytes)
    };
    let chain_id = account(1).chain_id;
    let all: Vec<_> = (1..=count).map(|n| Submitter::new(chain_id, address(n))).collect();
    let setup =
        |submitter| SubmitterSetup { submitter, mode: Mode::Pipelined, start_from: Nonce::MIN };
    cluster
        .store
        .register_submitters(&all.iter().copied().map(setup).collect::<Vec<_>>())
        .await
        .unwrap();
    let (gone, terms) = (NodeId::new("gone", Uuid::now_v7()).unwrap(), options().lease);
    let (mut sections, mut leases) = (Vec::new(), Vec::new());
    for of in &all {
        let granted = cluster.store.acquire(*of, &gone, &terms).await.unwrap();
        let Acquisition::Granted { lease, .. } = granted else { panic!("{granted:?}") };
        let mut section = Section::new(lease);
        section.creates.push(NewTx {
            tx_id: tollgate_model::TxId::from_uuid(Uuid::now_v7()),
            request_id: None,
            payload: transfer(1).to_payload().unwrap(),
            slot: None,
            held: false,
            valid_until: None,
            author: None,
            trace: None,
        });
        sections.push(section);
        leases.push(lease);
    }
    let batch = FencedBatch::new(gone.clone(), sections).unwrap();
    cluster.store.commit(&batch).await.unwrap();
    assert_eq!(cluster.store.release(&gone, &leases).await.unwrap(), u64::from(count));
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn orphan_is_found_behind_more_than_a_page_of_orphans_that_nobody_here_serves() {
    let cluster = cluster().await;
    foreign_orphans(&cluster, 1_100).await;
    let gone = cluster.node("gone", options());
    let tx = id(gone.create(account(1), None, transfer(1)).await.unwrap());
    gone.stop().await;
    let _successor = cluster.node("successor", options());
    cluster.mine_until_final(&[tx]).await;
    assert_eq!(cluster.paid(account(1)), [1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn account_whose_only_node_has_just_left_is_unavailable_and_not_unknown() {
    let cluster = cluster().await;
    let serving = |name, accounts: Vec<u8>| {
        let served = ServedSet::new(accounts.iter().map(|n| account(*n).address));
        let cluster = &cluster;
        async move {
            cluster.store.publish_served(&served).await.unwrap();
            // A node that is gone may return for ten heartbeats.
            Member::start(cluster, name, accounts, LATER, Some(served.digest())).await
        }
    };
    let (a, b) = (serving("a", vec![1]).await, serving("b", vec![2]).await);
    cluster
        .eventually("b to know whom a serves", async || {
            matches!(b.engine.place(account(1)).await, Ok(Place::There(to)) if to.node == a.entry.node)
        })
        .await;
    let gone = a.entry.node.clone();
    a.leave(&cluster).await;
    cluster.eventually("b to know that a has left", async || !b.engine.is_live(&gone)).await;
    let refused = b.engine.create(account(1), None, transfer(1)).await;
    assert!(matches!(refused, Err(CreateError::Unserved(Unserved::Unavailable(_)))), "{refused:?}");
    let stranger = b.engine.create(account(3), None, transfer(1)).await;
    assert_eq!(stranger, Err(CreateError::Unserved(Unserved::UnknownSubmitter)));
}

#[tokio::test(flavor = "multi_thread")]
async fn open_work_that_no_node_serves_is_followed_to_its_end_without_a_key_and_with_an_alert() {
    let cluster = cluster().await;
    let (a, b) = (Member::join(&cluster, "a").await, Member::serving(&cluster, "b", vec![2]).await);
    let of = account(1);
    let sent = id(a.engine.create(of, None, transfer(1)).await.unwrap());
    cluster.eventually("the transaction to be sent", async || cluster.chain.pooled() == 1).await;
    a.engine.operator().pause(of, Text::lossy("test")).await.unwrap();
    let waits = id(a.engine.create(of, None, transfer(2)).await.unwrap());
    a.leave(&cluster).await;
    assert!(cluster.alerts.of(AlertKind::Unserved).is_empty(), "it was served until now");

    cluster.mine_until_final(&[sent]).await;
    assert_eq!(cluster.record(sent).await.row.state, TxState::Confirmed);
    assert_eq!(owners(&cluster).await[&of].0, b.entry.node);
    cluster
        .eventually("an alert", async || !cluster.alerts.of(AlertKind::Unserved).is_empty())
        .await;
    let alert = &cluster.alerts.of(AlertKind::Unserved)[0];
    assert_eq!(alert.submitter, of);
    assert!(alert.detail.contains("1 wait without a nonce"), "{}", alert.detail);

    // Nothing new is taken; what needs no key is done.
    let refused = b.engine.create(of, None, transfer(3)).await;
    assert!(
        matches!(refused, Err(CreateError::Unserved(Unserved::UnknownSubmitter))),
        "{refused:?}"
    );
    let reason = || Text::lossy("test");
    b.engine.operator().resume(of, reason()).await.unwrap();
    let queued = cluster.record(waits).await;
    assert_eq!((queued.nonce, queued.attempts), (None, 0), "nothing can be signed");
    let withdrawn = b.engine.operator().act(waits, Action::Cancel, reason()).await;
    assert_eq!(withdrawn, Ok(Acted::Withdrawn));
}

#[tokio::test(flavor = "multi_thread")]
async fn followed_account_goes_to_a_node_that_serves_it_as_soon_as_there_is_one() {
    let cluster = cluster().await;
    let (a, b) = (Member::join(&cluster, "a").await, Member::serving(&cluster, "b", vec![2]).await);
    let of = account(1);
    let first = id(a.engine.create(of, None, transfer(0)).await.unwrap());
    a.leave(&cluster).await;
    cluster
        .eventually("it to be followed", async || {
            owners(&cluster).await.get(&of).is_some_and(|(owner, _)| *owner == b.entry.node)
        })
        .await;
    let c = Member::join(&cluster, "c").await;
    // Asked at either node, it belongs to the one that serves it, also before the other one has let go.
    cluster.eventually("the follower to know", async || b.engine.is_live(&c.entry.node)).await;
    match b.engine.place(of).await.unwrap() {
        Place::There(there) => assert_eq!(there.node, c.entry.node),
        place => panic!("{place:?}"),
    }
    let mut second = None;
    cluster
        .eventually("a create to be taken", async || {
            match c.engine.create(of, None, transfer(1)).await {
                Ok(created) => second = Some(id(created)),
                Err(CreateError::Unserved(Unserved::NotOwner(_))) => {}
                Err(error) => panic!("{error}"),
            }
            second.is_some()
        })
        .await;
    assert_eq!(owners(&cluster).await[&of].0, c.entry.node);
    cluster.mine_until_final(&[first, second.unwrap()]).await;
    assert_eq!(cluster.paid(of), [0, 1]);
    let unknown = b.engine.operator().act(first, Action::Resubmit, Text::lossy("test")).await;
    assert!(matches!(unknown, Err(ActError::Unserved(Unserved::UnknownSubmitter))), "{unknown:?}");
}
