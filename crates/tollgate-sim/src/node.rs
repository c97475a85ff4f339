//! A node: a real engine whose calls go through its network.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_engine::{
    Engine, EngineOptions, EnginePorts, LoggedAlerts, Policies, ReservationLimits,
};
use tollgate_model::bump::BumpRules;
use tollgate_model::finality::FinalityRule;
use tollgate_model::ids::InvalidValue;
use tollgate_model::nonce::NonceRules;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::ids::Ids;
use tollgate_model::port::policy::{StuckAction, StuckContext, StuckDecision, StuckPolicy};
use tollgate_model::port::span::NoSpans;
use tollgate_model::port::{
    LeaseTerms, LiveNode, NoCheckpoints, NoKeys, NodeStore as _, ServedSet,
};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::stuck::StuckThresholds;
use tollgate_model::{ChainId, NodeId, Text, TxId};
use uuid::{Builder, Uuid};

use crate::chain::{CHAIN_ID, ClientChain, NodeChain};
use crate::network::Network;
use crate::planted::{Bug, PlantedChain};
use crate::signer::Keys;
use crate::store::NodeStore;
use crate::world::World;

/// The heartbeat interval.
const BEAT: Duration = Duration::from_secs(1);

/// A running node.
#[derive(Clone)]
pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) network: Arc<Network>,
}

impl Node {
    fn start(world: &Arc<World>, index: usize, start: u64) -> Result<Self, InvalidValue> {
        let letter = if world.chain_id().get() == CHAIN_ID { 'n' } else { 'm' };
        let name = format!("{letter}{index}.{start}");
        let network = Arc::new(Network::new(world, name.clone()));
        let ids = Arc::new(SeededIds { world: world.clone(), network: network.clone() });
        let node = NodeId::new(&name, ids.owner_token())?;
        let policies = Policies {
            stuck: if world.plan.random_policy {
                Arc::new(RandomPolicy(world.clone()))
            } else {
                Policies::default().stuck
            },
            bump: Arc::new(BumpRules {
                enabled: world.plan.bumps,
                min_interval: Duration::from_secs(4),
                ..BumpRules::default()
            }),
        };
        let chain = chain_client(world, &network);
        let store =
            NodeStore { world: world.clone(), network: network.clone(), chain: chain.clone() };
        let store = Arc::new(store);
        let live = LiveNode {
            node: node.clone(),
            chain_id: world.chain_id(),
            advertise_url: Text::lossy(&format!("http://{name}")),
            draining: false,
            serves: None,
        };
        let (signer, options) = (Arc::new(Keys::of_node(world, index)), options(world)?);
        tokio::spawn(beat(store.clone(), live, options.served_with(signer.as_ref())));
        let ports = EnginePorts {
            node,
            store,
            chain,
            signer,
            clock: network.clone(),
            ids,
            checkpoints: Arc::new(NoCheckpoints),
            policies,
            alerts: Arc::new(LoggedAlerts),
            keys: Arc::new(NoKeys),
            metrics: Arc::default(),
            spans: Arc::new(NoSpans),
        };
        world.note(format_args!("{name} starts"));
        Ok(Self { engine: Engine::start(ports, options), network })
    }
}

fn chain_client(world: &Arc<World>, network: &Arc<Network>) -> Arc<dyn Chain> {
    let (planted, world, network) = (world.clone(), world.clone(), network.clone());
    let chain: Arc<dyn Chain> = if world.plan.real_client {
        Arc::new(ClientChain::new(world, network))
    } else {
        Arc::new(NodeChain { world, network, marks: Mutex::default(), gave_up: Mutex::default() })
    };
    PlantedChain::around(planted, chain)
}

/// Sends heartbeats for as long as the node's calls return.
async fn beat(store: Arc<NodeStore>, node: LiveNode, served: ServedSet) {
    let node = LiveNode { serves: Some(served.digest()), ..node };
    loop {
        // One that is lost is followed by another.
        let _ = store.publish_served(&served).await;
        let _ = store.heartbeat(&node).await;
        tokio::time::sleep(BEAT).await;
    }
}

/// Runs the node at this place; starts it again after each crash.
pub(crate) async fn run_node(world: Arc<World>, index: usize) {
    for start in 0.. {
        match Node::start(&world, index, start) {
            Ok(node) => {
                world.seat(index, Some(node.clone()));
                node.network.crash().await;
                world.checker.note_deaths(&node.engine);
                world.seat(index, None);
            }
            Err(error) => return world.checker.fail(&world, "sim", error.to_string()),
        }
        tokio::time::sleep(world.between(500, 8_000)).await;
    }
}

/// A node of another chain on the same database, alive throughout. It can do nothing for this chain: a node
/// that took it for a peer would wait for it.
pub(crate) async fn foreign_node(world: Arc<World>) {
    let Ok(chain_id) = ChainId::new(world.chain_id().get() + 100) else { return };
    let Ok(node) = NodeId::new("foreign", Uuid::nil()) else { return };
    let advertise_url = Text::lossy("http://foreign");
    let node = LiveNode { node, chain_id, advertise_url, draining: false, serves: None };
    loop {
        let _ = world.store.heartbeat(&node).await;
        tokio::time::sleep(BEAT).await;
    }
}

fn options(world: &World) -> Result<EngineOptions, InvalidValue> {
    let plan = &world.plan;
    let millis = Duration::from_millis;
    let finality = match plan.finality {
        FinalityRule::Confirmations(count) if world.has(Bug::EarlyFinality) => {
            FinalityRule::Confirmations(count - 1)
        }
        rule => rule,
    };
    Ok(EngineOptions {
        lease: LeaseTerms::new(millis(3_000), millis(1_000), millis(300))?,
        lease_idle: Duration::from_secs(5),
        nonces: NonceRules {
            mode: plan.mode,
            window: plan.window,
            unfinal_max: plan.window.saturating_mul(2),
            strict_advance: plan.strict_advance,
            state_timeout: Duration::from_secs(10),
        },
        finality,
        resubmit: ResubmitRules {
            interval: Duration::from_secs(3),
            interval_max: Duration::from_secs(10),
            max_attempts: 8,
            timeout: Some(Duration::from_secs(40)),
            grey_zone_timeout: Duration::from_secs(20),
            private_interval: Duration::from_secs(3),
            private_stuck_after: Duration::from_secs(20),
            ..ResubmitRules::default()
        },
        stuck: StuckThresholds {
            head_after: Duration::from_secs(15),
            ask_interval: Duration::from_secs(8),
            ..StuckThresholds::default()
        },
        rejected_slot: plan.rejected_slot,
        reconcile_interval: Duration::from_secs(15),
        lookback_blocks: plan.lookback_blocks,
        reservations: Some(ReservationLimits {
            hold_max: Duration::from_secs(20),
            outstanding_max: 4,
            ..ReservationLimits::default()
        }),
        diagnose: plan.bumps.then_some(Duration::from_secs(5)),
        events: tollgate_model::event::EventKinds::ALL,
        ..EngineOptions::default()
    })
}

/// Ids that follow from the seed.
struct SeededIds {
    world: Arc<World>,
    network: Arc<Network>,
}

impl Ids for SeededIds {
    fn tx_id(&self) -> TxId {
        let millis = tollgate_model::port::clock::Clock::now(&*self.network).unix_micros() / 1_000;
        let mut chance = [0; 10];
        chance[..8].copy_from_slice(&self.world.below(u64::MAX).to_be_bytes());
        let id = Builder::from_unix_timestamp_millis(u64::try_from(millis).unwrap_or(0), &chance);
        TxId::from_uuid(id.into_uuid())
    }

    fn owner_token(&self) -> Uuid {
        Uuid::from_u64_pair(self.world.below(u64::MAX), self.world.below(u64::MAX))
    }
}

/// A policy that decides at random, after a random time.
struct RandomPolicy(Arc<World>);

#[async_trait]
impl StuckPolicy for RandomPolicy {
    async fn decide(&self, _context: &StuckContext) -> StuckDecision {
        tokio::time::sleep(self.0.between(10, 15_000)).await;
        let action = StuckAction::ALL[self.0.below(StuckAction::ALL.len() as u64) as usize];
        StuckDecision::new(action, "a random decision")
    }
}
