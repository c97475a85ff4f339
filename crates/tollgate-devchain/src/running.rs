//! A dev chain that runs: its endpoints, and the handle through which tests break it.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::chain::{Block, Chain, MAIN_POOL, Reorg, ReorgOutcome, ReorgRefused};
use crate::error::RpcError;
use crate::fault::FaultRule;
use crate::options::{DevChainOptions, ViewOptions};
use crate::rpc::{Endpoint, Shared, keep_gossiping, keep_mining, serve};

pub struct DevChain;

impl DevChain {
    /// Listens on 127.0.0.1 and mines, on the runtime that calls it, until the handle is dropped.
    pub async fn start(options: DevChainOptions) -> io::Result<RunningDevChain> {
        let chain = Chain::new(options.chain);
        let shared = Arc::new(Shared::new(chain, options.block_interval));
        let endpoint = Arc::new(Endpoint::new(
            shared.clone(),
            MAIN_POOL,
            (options.dialect, options.features),
            options.fault_plan,
        ));
        let view = RunningView::open(endpoint.clone(), options.port).await?;
        let tasks = [
            tokio::spawn(keep_mining(shared.clone(), Arc::downgrade(&endpoint))),
            tokio::spawn(keep_gossiping(shared.clone())),
        ];
        Ok(RunningDevChain { shared, view, tasks })
    }
}

/// A running dev chain with its first endpoint. Stops when dropped.
pub struct RunningDevChain {
    shared: Arc<Shared>,
    view: RunningView,
    tasks: [JoinHandle<()>; 2],
}

impl RunningDevChain {
    /// The first endpoint, over HTTP.
    pub fn url(&self) -> String {
        self.view.url()
    }

    /// The first endpoint, as a WebSocket.
    pub fn ws_url(&self) -> String {
        self.view.ws_url()
    }

    pub fn view(&self) -> &RunningView {
        &self.view
    }

    /// One more endpoint onto the same chain, with a pool and faults of its own.
    pub async fn second_view(&self, options: ViewOptions) -> io::Result<RunningView> {
        let pool = self.with_chain(|chain| {
            let pool = chain.add_pool();
            let delay_ms = options.gossip_delay.map(|delay| delay.as_millis() as u64);
            chain.pool_mut(pool).gossip_delay_ms = delay_ms;
            chain.pool_mut(pool).is_mined_from = options.is_mined_from;
            pool
        });
        let endpoint = Endpoint::new(
            self.shared.clone(),
            pool,
            (options.dialect, options.features),
            options.fault_plan,
        );
        RunningView::open(Arc::new(endpoint), options.port).await
    }

    /// Looks at or changes the core, under its lock. Heads made in here are not announced.
    pub fn with_chain<T>(&self, work: impl FnOnce(&mut Chain) -> T) -> T {
        work(&mut self.shared.chain())
    }

    /// A clone of the core as it is now.
    pub fn snapshot(&self) -> Chain {
        self.shared.chain().clone()
    }

    /// Mines blocks now; the head after it.
    pub fn mine(&self, blocks: u64) -> Arc<Block> {
        for _ in 0..blocks {
            self.shared.mine(None);
        }
        self.shared.chain().head().clone()
    }

    pub fn reorg(&self, reorg: Reorg) -> Result<ReorgOutcome, ReorgRefused> {
        self.shared.reorg(reorg)
    }

    /// The block interval; `None`: on request only.
    pub fn set_block_interval(&self, interval: Option<Duration>) {
        self.shared.mining.send_modify(|mining| mining.interval = interval);
    }
}

impl Drop for RunningDevChain {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// One endpoint. Closes its port and its connections when dropped.
pub struct RunningView {
    endpoint: Arc<Endpoint>,
    address: SocketAddr,
    task: JoinHandle<io::Result<()>>,
}

impl RunningView {
    async fn open(endpoint: Arc<Endpoint>, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        let task = tokio::spawn(serve(listener, endpoint.clone()));
        Ok(Self { endpoint, address, task })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn ws_url(&self) -> String {
        format!("ws://{}", self.address)
    }

    /// The index of its own pool.
    pub fn pool(&self) -> usize {
        self.endpoint.pool
    }

    /// Carries out any method in the process: no socket, no faults. The way to every
    /// `devchain_*` method while the endpoint is unreachable. To be called on the runtime.
    pub fn call(&self, method: &str, params: &Value) -> Result<Value, RpcError> {
        self.endpoint.call(method, params)
    }

    /// Adds a fault; false if there are too many.
    pub fn fail(&self, rule: FaultRule) -> bool {
        self.endpoint.faults().add(rule)
    }

    /// Refuses connections (and closes the open ones), or lets callers in again.
    pub fn refuse_connections(&self, is_refusing: bool) {
        self.endpoint.shut(is_refusing);
    }

    /// Closes all connections that are open now.
    pub fn close_connections(&self) {
        self.endpoint.hang_up();
    }
}

impl Drop for RunningView {
    fn drop(&mut self) {
        // WebSockets run in tasks of their own, which end when the port is shut.
        self.endpoint.shut(true);
        self.task.abort();
    }
}
