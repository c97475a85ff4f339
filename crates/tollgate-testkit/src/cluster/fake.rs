//! A cluster on the fake chain: one store for all nodes, and keys of any account.

use std::sync::Arc;

use tollgate_engine::{Engine, EngineOptions, EnginePorts, Policies};
use tollgate_model::nonce::Mode;
use tollgate_model::port::signer::Signer;
use tollgate_model::{Address, B256, ChainId, Submitter, TxId};

use super::{Cluster, register};
use crate::fake_chain::{FakeChain, FakeSigner};
use crate::store_fixture::{SqliteFixture, StoreFixture};
use crate::wait;

pub type FakeCluster = Cluster<Arc<FakeChain>>;

/// Accounts that every cluster registers.
const ACCOUNTS: [u8; 3] = [1, 2, 3];

fn chain_id() -> ChainId {
    ChainId::new(7).unwrap()
}

/// The `n`th account on the fake chain.
pub fn account(n: u8) -> Submitter {
    Submitter::new(chain_id(), Address::repeat_byte(n))
}

impl Cluster<Arc<FakeChain>> {
    /// On SQLite, with three pipelined submitters.
    pub async fn pipelined() -> Self {
        Self::with_mode(Mode::Pipelined).await
    }

    /// On SQLite, with three submitters of this mode.
    pub async fn with_mode(mode: Mode) -> Self {
        Self::on(Arc::new(SqliteFixture::new().await), mode).await
    }

    /// On SQLite, with three pipelined submitters and one node.
    pub async fn with_node(options: EngineOptions) -> (Self, Engine) {
        let cluster = Self::pipelined().await;
        let engine = cluster.node("a", options);
        (cluster, engine)
    }

    /// The same with strict submitters.
    pub async fn strict_with_node(options: EngineOptions) -> (Self, Engine) {
        let cluster = Self::with_mode(Mode::Strict).await;
        let engine = cluster.node("a", options);
        (cluster, engine)
    }

    /// On this database, with three submitters of this mode.
    pub async fn on(fixture: Arc<dyn StoreFixture>, mode: Mode) -> Self {
        let cluster = Self::new(fixture, Arc::new(FakeChain::new()), chain_id()).await;
        let accounts = ACCOUNTS.map(|n| account(n).address);
        let chain = (chain_id(), B256::repeat_byte(1));
        register(cluster.store.as_ref(), chain, accounts, mode).await;
        cluster
    }

    /// Starts a node with the keys of all accounts.
    pub fn node(&self, name: &str, options: EngineOptions) -> Engine {
        self.node_with(name, options, Policies::default())
    }

    /// Starts a node with these policies.
    pub fn node_with(&self, name: &str, options: EngineOptions, policies: Policies) -> Engine {
        let signer = Arc::new(FakeSigner(ACCOUNTS.map(|n| account(n).address).to_vec()));
        Engine::start(EnginePorts { policies, ..self.node_ports(name, signer) }, options)
    }

    /// Starts a node with this signer.
    pub fn node_signing(
        &self,
        name: &str,
        options: EngineOptions,
        signer: Arc<dyn Signer>,
    ) -> Engine {
        Engine::start(self.node_ports(name, signer), options)
    }

    /// The ports of a node that uses the cluster's store and checkpoints.
    pub fn node_ports(&self, name: &str, signer: Arc<dyn Signer>) -> EnginePorts {
        let ports = self.ports(name, self.store.clone(), self.chain.clone(), signer);
        EnginePorts { checkpoints: self.checkpoints.clone(), ..ports }
    }

    pub async fn mine_until_final(&self, ids: &[TxId]) {
        let mut limit = wait::Limit::new();
        for id in ids {
            loop {
                let record = self.record(*id).await;
                if record.row.state.is_final() {
                    break;
                }
                assert!(!limit.is_over(), "not final: {record:?}, pool {}", self.chain.pooled());
                self.chain.mine();
                limit.pause().await;
            }
        }
    }

    /// The values that an account paid, in the order of nonces, which must have no gap.
    pub fn paid(&self, from: Submitter) -> Vec<u64> {
        let mined = self.chain.mined(from.address);
        for (expected, tx) in mined.iter().enumerate() {
            assert_eq!(tx.nonce, expected as u64, "the chain's nonces have no gap");
        }
        mined.iter().map(|tx| tx.value.to::<u64>()).collect()
    }
}
