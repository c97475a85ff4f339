//! The options of a dev chain. Plain values with defaults.

use std::time::Duration;

use alloy_primitives::U256;
use serde::{Deserialize, Serialize};

use crate::accounts::dev_accounts;
use crate::chain::ChainConfig;
use crate::dialect::Dialect;
use crate::fault::FaultPlan;

/// Optional capabilities of an endpoint; real ones lack some.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Features {
    /// `eth_getBlockReceipts`.
    pub block_receipts: bool,
    /// `eth_feeHistory`.
    pub fee_history: bool,
    /// `txpool_*`.
    pub txpool: bool,
    pub web_socket: bool,
}

impl Default for Features {
    fn default() -> Self {
        Self { block_receipts: true, fee_history: true, txpool: true, web_socket: true }
    }
}

#[derive(Clone, PartialEq, Debug)]
pub struct DevChainOptions {
    /// The chain: id, fees, limits, finality, balances, seed.
    pub chain: ChainConfig,
    /// On 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// The block interval; `None`: only by `devchain_mine`.
    pub block_interval: Option<Duration>,
    /// The client software whose messages it uses.
    pub dialect: Dialect,
    pub features: Features,
    pub fault_plan: FaultPlan,
}

impl Default for DevChainOptions {
    /// The dev accounts with 10,000 ether each, and blocks on demand.
    fn default() -> Self {
        let balance = U256::from(10_000) * U256::from(10_u64.pow(18));
        let funded = dev_accounts().iter().map(|account| (account.address, balance)).collect();
        Self {
            chain: ChainConfig { funded, ..ChainConfig::default() },
            port: 0,
            block_interval: None,
            dialect: Dialect::default(),
            features: Features::default(),
            fault_plan: FaultPlan::default(),
        }
    }
}

/// One more endpoint onto a chain.
#[derive(Clone, PartialEq, Debug)]
pub struct ViewOptions {
    /// On 127.0.0.1; 0 takes a free one.
    pub port: u16,
    /// The client software whose messages it uses.
    pub dialect: Dialect,
    pub features: Features,
    /// The planned faults of this endpoint; the chain's own faults (`blocks`) are those of
    /// the first endpoint.
    pub fault_plan: FaultPlan,
    /// The delay until the other pools get a transaction sent here; `None`: never.
    pub gossip_delay: Option<Duration>,
    /// Transactions sent here reach block producers.
    pub is_mined_from: bool,
}

impl Default for ViewOptions {
    fn default() -> Self {
        Self {
            port: 0,
            dialect: Dialect::default(),
            features: Features::default(),
            fault_plan: FaultPlan::default(),
            gossip_delay: Some(Duration::ZERO),
            is_mined_from: true,
        }
    }
}
