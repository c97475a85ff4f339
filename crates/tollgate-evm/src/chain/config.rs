//! What a chain's view is set up with.

use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tollgate_model::{B256, ChainId};

use crate::classify::Overrides;
use crate::endpoint::{BadUrl, EndpointConfig, RpcObserver};

/// One chain: its endpoints, and how they are used together.
#[derive(Clone)]
pub struct ChainConfig {
    /// The chain that it must be; `None` takes what the first endpoint says.
    pub chain_id: Option<ChainId>,
    /// The endpoints, at least one of which can be read from.
    pub endpoints: Vec<EndpointConfig>,
    /// How often the head is asked for where nothing announces it.
    pub poll_interval: Duration,
    /// How long a read may take, with all endpoints that are tried for it.
    pub read_deadline: Duration,
    /// How long a send may take, with all endpoints that are tried for it.
    pub send_deadline: Duration,
    /// How long the first endpoints have for a send before the others get it too.
    pub send_patience: Duration,
    /// How many endpoints a transaction goes to at first, and twice as many each time that it is sent
    /// again; the others follow if none takes it.
    pub fan_out: usize,
    /// How long an endpoint may lack a block that another one has before it counts as lagging.
    pub lag_grace: Duration,
    /// How long a head stands that no healthy endpoint confirms any more.
    pub head_hold: Duration,
    /// How long no second endpoint must have been heard before one endpoint's word is enough for what
    /// makes a transaction final or puts an account into PROTECT, where several are read from.
    pub lone_voice_after: Duration,
    /// How long a fee quote is good.
    pub fee_cache: Duration,
    /// What the nodes of this chain mean where they differ from all others.
    pub overrides: Overrides,
    /// Is told of every call.
    pub observer: Option<Arc<dyn RpcObserver>>,
}

impl ChainConfig {
    /// These endpoints with the defaults.
    pub fn new(endpoints: Vec<EndpointConfig>) -> Self {
        Self {
            chain_id: None,
            endpoints,
            poll_interval: Duration::from_secs(1),
            read_deadline: Duration::from_secs(10),
            send_deadline: Duration::from_secs(10),
            send_patience: Duration::from_secs(2),
            fan_out: 1,
            lag_grace: Duration::from_secs(5),
            head_hold: Duration::from_secs(30),
            lone_voice_after: Duration::from_secs(300),
            fee_cache: Duration::from_secs(2),
            overrides: Overrides::default(),
            observer: None,
        }
    }
}

/// Why a chain can't be worked with.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConnectError {
    /// None that can be read from.
    #[error("a chain needs at least one endpoint that can be read from")]
    NoReader,
    /// A time or a number that would stop everything.
    #[error("{0} must be above zero")]
    ZeroLimit(&'static str),
    /// A URL that can't be used.
    #[error("endpoint number {place}: {problem}")]
    BadEndpoint {
        /// Its place in the list, from 1.
        place: usize,
        /// What is wrong.
        problem: BadUrl,
    },
    /// An endpoint of another chain.
    #[error("{endpoint} is on chain {found}, not on {expected}")]
    WrongChain {
        /// Which endpoint.
        endpoint: String,
        /// The chain of the configuration, or of the endpoints before it.
        expected: ChainId,
        /// What it says.
        found: u64,
    },
    /// An endpoint of another chain with the same id.
    #[error("{endpoint} has the genesis block {found}, the others have {expected}")]
    WrongGenesis {
        /// Which endpoint.
        endpoint: String,
        /// The genesis of the endpoints before it.
        expected: B256,
        /// What it says.
        found: B256,
    },
    /// No endpoint that can be read from says which chain it is on and how it began.
    #[error("no endpoint answers: {0}")]
    Unavailable(String),
}
