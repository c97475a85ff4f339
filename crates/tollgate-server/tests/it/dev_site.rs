//! A node whose routes are called without a socket, on a dev chain that mines when it is told to.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Value, json};
use tollgate_devchain::{DevChain, DevChainOptions, RunningDevChain, dev_accounts};
use tollgate_engine::{Engine, EngineOptions, EnginePorts};
use tollgate_evm::chain::EvmChain;
use tollgate_model::NodeId;
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::Store;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::signer::Signer;
use tollgate_server::{Chains, router};
use tollgate_sqlite::{SqliteOptions, SqliteStore};
use tollgate_testkit::builders::node_id;
use tollgate_testkit::cluster::{chain_config, dev_signer, ports, register};
use tollgate_testkit::{rpc, wait};

use crate::site::{Answer, Door};

/// Blocks above the one that holds a transaction that make it final, and one more for luck.
const FINAL: u64 = 3;
/// The dev account that has no key here: its transactions come signed.
pub(crate) const KEYLESS: usize = 1;

/// A node on a dev chain.
pub(crate) struct DevSite {
    door: Door,
    store: SqliteStore,
    pub(crate) chain: RunningDevChain,
}

impl Deref for DevSite {
    type Target = Door;

    fn deref(&self) -> &Door {
        &self.door
    }
}

/// The account that sends.
pub(crate) fn sender() -> String {
    dev_accounts()[0].address.to_string()
}

/// Somebody who is paid.
pub(crate) fn target(number: usize) -> String {
    dev_accounts()[number].address.to_string()
}

impl DevSite {
    pub(crate) async fn new() -> Self {
        Self::with(EngineOptions::default()).await
    }

    /// With this many slots open at once.
    pub(crate) async fn with_window(window: u32) -> Self {
        let mut options = EngineOptions::default();
        options.nonces.window = window;
        Self::with(options).await
    }

    async fn with(options: EngineOptions) -> Self {
        Self::with_keys(options, &[0]).await
    }

    /// With the keys of these dev accounts.
    pub(crate) async fn with_keys(options: EngineOptions, keys: &[usize]) -> Self {
        let chain = DevChain::start(DevChainOptions::default()).await.unwrap();
        let store = SqliteStore::open(SqliteOptions::memory()).await.unwrap();
        let door = node(&store, &chain, options, keys).await;
        Self { door, store, chain }
    }

    /// Another node of the same database.
    pub(crate) async fn neighbour(&self) -> Door {
        node(&self.store, &self.chain, EngineOptions::default(), &[0]).await
    }

    /// Takes a create that must be taken; the id.
    pub(crate) async fn create(&self, more: Value) -> String {
        let mut body = json!({
            "submitter": sender(),
            "payload": { "to": target(2), "value": "7", "gas": 30_000 },
        });
        for (name, value) in more.as_object().unwrap() {
            body[name] = value.clone();
        }
        self.take(&body).await
    }

    /// The same for a body as it is.
    pub(crate) async fn take(&self, body: &Value) -> String {
        let taken = self.post("/api/v1/tx", body.to_string()).await.with(202);
        taken["txId"].as_str().unwrap().to_owned()
    }

    /// A create that a node of the chain has.
    pub(crate) async fn pending(&self, more: Value) -> String {
        let tx_id = self.create(more).await;
        self.until(&tx_id, "TRACKING", "PENDING").await;
        tx_id
    }

    pub(crate) async fn act(&self, tx_id: &str, word: &str, body: Value) -> Answer {
        self.post(&format!("/api/v1/tx/{tx_id}/{word}"), body.to_string()).await
    }

    pub(crate) async fn operate(&self, word: &str, body: Value) -> Answer {
        self.post(&format!("/api/v1/submitters/{}/{word}", sender()), body.to_string()).await
    }

    /// As operators see it.
    pub(crate) async fn seen(&self, tx_id: &str) -> Value {
        self.get(&format!("/api/v1/tx/{tx_id}?view=operator")).await.json()
    }

    pub(crate) async fn until(&self, tx_id: &str, state: &str, sub_state: &str) -> Value {
        wait::until(&format!("{state}/{sub_state}"), || async {
            let tx = self.seen(tx_id).await;
            (tx["state"] == state && tx["subState"] == sub_state).then_some(tx)
        })
        .await
    }

    /// Mines until it is final.
    pub(crate) async fn finish(&self, tx_id: &str) -> Value {
        wait::until("the end", || async {
            let tx = self.seen(tx_id).await;
            let is_final = tx["state"] == "CONFIRMED" || tx["state"] == "FAILED_FINAL";
            if !is_final {
                self.chain.mine(FINAL);
            }
            is_final.then_some(tx)
        })
        .await
    }

    pub(crate) async fn chain_says(&self, method: &str, params: Value) -> Value {
        rpc::call(&self.chain.url(), method, params).await
    }

    /// Waits until a pool of the chain has it.
    pub(crate) async fn until_pooled(&self, hash: &Value) {
        wait::until("it to be in a pool", || async {
            let found = self.chain_says("eth_getTransactionByHash", json!([hash])).await;
            (!found.is_null()).then_some(())
        })
        .await;
    }
}

async fn node(
    store: &SqliteStore,
    chain: &RunningDevChain,
    options: EngineOptions,
    keys: &[usize],
) -> Door {
    let store: Arc<dyn Store> = Arc::new(store.clone());
    let engine = node_with(store.clone(), chain, options, node_id("site"), keys).await;
    Door(router(Chains::of_one(engine, store)))
}

/// A node with the keys of some dev accounts.
pub(crate) async fn node_with(
    store: Arc<dyn Store>,
    chain: &RunningDevChain,
    options: EngineOptions,
    id: NodeId,
    keys: &[usize],
) -> Engine {
    let evm = EvmChain::connect(chain_config([chain.ws_url()])).await.unwrap();
    let signer = dev_signer(keys.iter().copied());
    let keyless = dev_accounts()[KEYLESS].address;
    let accounts = signer.accounts().into_iter().chain([keyless]);
    let registered = (evm.chain_id(), evm.genesis());
    register(store.as_ref(), registered, accounts, options.nonces.mode).await;
    let ports = ports("site", store.clone(), Arc::new(evm), Arc::new(signer));
    let ports = EnginePorts { node: id, ..ports };
    let finality = FinalityRule::Confirmations(2);
    let options = EngineOptions { finality, presigned: vec![keyless], ..options };
    Engine::start(ports, options)
}
