//! The configuration of a chain.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tollgate_metrics::ChainMetrics;
use tollgate_model::{B256, ChainId};

use crate::classify::Overrides;
use crate::endpoint::{BadUrl, EndpointConfig};

/// One chain: its endpoints, and how they are used.
#[derive(Clone)]
pub struct ChainConfig {
    /// The expected chain id; `None` takes the one that most endpoints report.
    pub chain_id: Option<ChainId>,
    /// The expected hash of block 0; `None` takes the one that most endpoints report, the first of the list
    /// if as many report another one.
    pub genesis: Option<B256>,
    /// The endpoints; at least one must be for reads.
    pub endpoints: Vec<EndpointConfig>,
    /// The interval at which the head is polled where nothing announces it.
    pub poll_interval: Duration,
    /// The limit on a read over all endpoints that are tried.
    pub read_deadline: Duration,
    /// The limit on a send over all endpoints that are tried.
    pub send_deadline: Duration,
    /// The time that the first endpoints have for a send before it goes to the others as well.
    pub send_patience: Duration,
    /// The number of endpoints a transaction is sent to at first; twice as many with each resend. The others
    /// follow if none accepts it.
    pub fan_out: usize,
    /// The time for which an endpoint may lack a block that another one has before it counts as lagging.
    pub lag_grace: Duration,
    /// The time for which a delivered head is kept after no healthy endpoint reports it any more.
    pub head_hold: Duration,
    /// The time without a second endpoint after which the reading of one is enough to make a
    /// transaction final or to put an account into PROTECT, where several are configured.
    pub single_source_after: Duration,
    /// The time for which a fee quote is reused.
    pub fee_cache: Duration,
    /// Corrections of how answers of this chain's nodes are classified.
    pub overrides: Overrides,
    /// Counts and times the calls.
    pub metrics: Arc<ChainMetrics>,
}

impl ChainConfig {
    /// These endpoints with the defaults.
    pub fn new(endpoints: Vec<EndpointConfig>) -> Self {
        Self {
            chain_id: None,
            genesis: None,
            endpoints,
            poll_interval: Duration::from_secs(1),
            read_deadline: Duration::from_secs(10),
            send_deadline: Duration::from_secs(10),
            send_patience: Duration::from_secs(2),
            fan_out: 1,
            lag_grace: Duration::from_secs(5),
            head_hold: Duration::from_secs(30),
            single_source_after: Duration::from_secs(300),
            fee_cache: Duration::from_secs(2),
            overrides: Overrides::default(),
            metrics: Arc::default(),
        }
    }
}

/// The reason why a chain can't be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// No endpoint is for reads.
    #[error("a chain needs at least one endpoint that can be read from")]
    NoReader,
    /// A duration that must not be zero.
    #[error("{0} must be above zero")]
    ZeroLimit(&'static str),
    /// A URL that can't be used.
    #[error("endpoint number {place}: {problem}")]
    BadEndpoint {
        /// Its place in the list, from 1.
        place: usize,
        /// The reason why its URL or its limits can't be used.
        #[source]
        problem: BadUrl,
    },
    /// An endpoint of another chain.
    #[error("{endpoint} is on chain {found}, not on {expected}")]
    WrongChain {
        /// The endpoint's name.
        endpoint: String,
        /// The chain of the configuration, or of the other endpoints.
        expected: ChainId,
        /// The chain that it reports.
        found: u64,
    },
    /// An endpoint of another chain with the same id.
    #[error("{endpoint} has the genesis block {found}, not {expected}")]
    WrongGenesis {
        /// The endpoint's name.
        endpoint: String,
        /// The genesis that is configured, or that of the other endpoints.
        expected: B256,
        /// The genesis that it reports.
        found: B256,
    },
    /// No endpoint for reads has answered with its chain id and genesis block.
    #[error("no endpoint answers: {0}")]
    Unavailable(String),
}
