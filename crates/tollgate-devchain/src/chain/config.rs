//! The configuration of a chain: id, fees, limits and finality. Plain values, no behaviour.

use alloy_primitives::{Address, U256};

pub const GWEI: u64 = 1_000_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BaseFee {
    /// There is none: a chain before London. Type-2 transactions and `eth_feeHistory` are refused.
    Absent,
    /// Starts at this value and follows EIP-1559.
    Moving(u64),
    /// Stays at this value, however full the blocks are (for load tests).
    Fixed(u64),
}

/// The distance of the tags behind the head, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FinalityDistances {
    /// `safe` = head minus this.
    pub safe: u64,
    /// `finalized` = head minus this.
    pub finalized: u64,
}

impl Default for FinalityDistances {
    fn default() -> Self {
        Self { safe: 32, finalized: 64 }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolLimits {
    /// Transactions in all; when full, the cheapest has to go.
    pub total: usize,
    /// Transactions of one sender.
    pub per_sender: usize,
    /// The largest gap above the next nonce; `None`: any gap is queued.
    pub nonce_gap: Option<u64>,
    /// The lowest tip (or gas price of a legacy transaction), in wei.
    pub min_tip_wei: u128,
    /// The highest gas × price of one transaction, in wei; `None`: no cap.
    pub fee_cap_wei: Option<U256>,
    /// The largest encoded transaction, in bytes.
    pub tx_bytes: usize,
    /// The increase that a replacement must pay on both fees, in percent.
    pub price_bump_percent: u128,
    /// Refuse what could not be mined at the next base fee (most clients keep it).
    pub refuse_below_base_fee: bool,
    /// Keep what its sender can't pay for any more (most clients drop it).
    pub keep_unpayable: bool,
}

impl Default for PoolLimits {
    fn default() -> Self {
        Self {
            total: 50_000,
            per_sender: 20_000,
            nonce_gap: None,
            min_tip_wei: 1,
            fee_cap_wei: Some(U256::from(10_u64.pow(18))),
            tx_bytes: 128 * 1024,
            price_bump_percent: 10,
            refuse_below_base_fee: false,
            keep_unpayable: false,
        }
    }
}

/// The history that is kept. Older data is unavailable, as at a pruned node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retention {
    /// Blocks, at most.
    pub blocks: usize,
    /// Transactions in them, at most.
    pub transactions: usize,
    /// Blocks that reorgs threw out and that can still be asked for by hash.
    pub orphans: usize,
}

impl Default for Retention {
    fn default() -> Self {
        Self { blocks: 100_000, transactions: 1_000_000, orphans: 1_000 }
    }
}

/// A chain before its first block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChainConfig {
    /// The id that EIP-155 signatures carry.
    pub chain_id: u64,
    pub base_fee: BaseFee,
    pub block_gas_limit: u64,
    /// The tip that `eth_maxPriorityFeePerGas` suggests, in wei.
    pub suggested_tip_wei: u128,
    pub pool: PoolLimits,
    pub finality: FinalityDistances,
    pub retention: Retention,
    /// The time of block 0, in seconds. A constant by default, so that hashes are reproducible.
    pub genesis_timestamp: u64,
    /// Balances in block 0.
    pub funded: Vec<(Address, U256)>,
    /// The balance in block 0 of every other account.
    pub default_balance: U256,
    /// The seed of every random choice; also part of every block hash.
    pub seed: u64,
}

impl Default for ChainConfig {
    fn default() -> Self {
        Self {
            chain_id: 31_337,
            base_fee: BaseFee::Moving(GWEI),
            block_gas_limit: 60_000_000,
            suggested_tip_wei: u128::from(GWEI),
            pool: PoolLimits::default(),
            finality: FinalityDistances::default(),
            retention: Retention::default(),
            genesis_timestamp: 1_750_000_000,
            funded: Vec::new(),
            default_balance: U256::ZERO,
            seed: 0,
        }
    }
}
