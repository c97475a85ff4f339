//! A chain's limits for one transaction, beyond what its blocks show.
//!
//! Nodes don't report these limits, and not every chain has them. If neither the operator nor the chain id
//! says so, they refuse nothing.

use crate::ids::ChainId;

use super::{PricedTx, Refusal, RefusalKind, RefusedField};

/// The maximum gas of a transaction under EIP-7825.
pub const EIP_7825_GAS: u64 = 1 << 24;
/// The maximum length of initcode under EIP-3860.
pub const EIP_3860_BYTES: u64 = 49_152;
/// The maximum length of a transaction in the pools of the common clients.
pub const POOL_TX_BYTES: u64 = 128 * 1024;

/// The minimum length of an authorization: a contract and a signature.
const AUTHORIZATION_BYTES: u64 = 20 + 2 * 32;

/// Ethereum's main network, Sepolia, Holesky and Hoodi: both EIPs are in force.
const ETHEREUM: [u64; 4] = [1, 11_155_111, 17_000, 560_048];

/// A limit as configured.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum TxLimit {
    #[default]
    ByChain,
    Unlimited,
    At(u64),
}

impl TxLimit {
    fn or(self, known: Option<u64>) -> Option<u64> {
        match self {
            Self::ByChain => known,
            Self::Unlimited => None,
            Self::At(most) => Some(most),
        }
    }
}

/// The configured limits of one transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TxLimitSettings {
    /// `chain.max_tx_gas`.
    pub gas: TxLimit,
    /// `chain.max_initcode_bytes`.
    pub initcode_bytes: TxLimit,
    /// `chain.max_tx_bytes`.
    pub bytes: TxLimit,
}

/// The limits of one transaction on a chain; `None` is no limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TxLimits {
    pub gas: Option<u64>,
    /// The end of the margin above an estimate if the estimate itself is below. A chain may have EIP-7825
    /// without being known for it: a smaller margin costs little, a rejected slot costs more.
    pub margin: Option<u64>,
    pub initcode_bytes: Option<u64>,
    pub bytes: Option<u64>,
}

impl TxLimitSettings {
    /// The limits on this chain.
    pub fn on(&self, chain_id: ChainId) -> TxLimits {
        let is_ethereum = ETHEREUM.contains(&chain_id.get());
        TxLimits {
            gas: self.gas.or(is_ethereum.then_some(EIP_7825_GAS)),
            margin: self.gas.or(Some(EIP_7825_GAS)),
            initcode_bytes: self.initcode_bytes.or(is_ethereum.then_some(EIP_3860_BYTES)),
            bytes: self.bytes.or(Some(POOL_TX_BYTES)),
        }
    }
}

impl TxLimits {
    /// Judges a transaction's gas limit against the chain's limit for one transaction.
    ///
    /// # Errors
    /// The gas limit is above the chain's limit.
    pub fn judge_gas(&self, demand: &PricedTx<'_>) -> Result<(), Refusal> {
        let given = demand.fees.gas_limit;
        let Some(most) = self.gas.filter(|most| given > *most) else { return Ok(()) };
        let detail = format!(
            "{given} is above {most}, which is what a transaction may have on this chain \
             (chain.max_tx_gas)"
        );
        Err(Refusal::of(RefusalKind::GasAboveTxLimit, RefusedField::Gas, detail))
    }

    /// Judges a transaction's length. Encoding and signature are not counted: what is refused here is
    /// certainly too long.
    ///
    /// # Errors
    /// Its data, or the whole transaction, is longer than nodes accept.
    pub fn judge_size(&self, demand: &PricedTx<'_>) -> Result<(), Refusal> {
        let data = demand.data.len() as u64;
        let refused = |bytes: u64, most: u64, what: &str| {
            let detail = format!("{bytes} bytes are more than {most}, {what}");
            Err(Refusal::of(RefusalKind::TxTooLarge, RefusedField::Data, detail))
        };
        let creates = demand.to.is_none();
        if let Some(most) = self.initcode_bytes.filter(|most| creates && data > *most) {
            let what = "the most for code that creates a contract (chain.max_initcode_bytes)";
            return refused(data, most, what);
        }
        let listed: u64 =
            demand.access_list.iter().map(|entry| 20 + 32 * entry.storage_keys.len() as u64).sum();
        let listed = listed + AUTHORIZATION_BYTES * demand.authorizations as u64;
        match self.bytes.filter(|most| data + listed > *most) {
            Some(most) => refused(
                data + listed,
                most,
                "the most that nodes take in one transaction (chain.max_tx_bytes)",
            ),
            None => Ok(()),
        }
    }

    /// Lowers a gas limit with margin to where the margin ends, but not below `least`.
    pub(super) fn clamp_margin(&self, with_margin: u64, least: u64) -> u64 {
        match self.margin {
            Some(most) if least <= most => with_margin.min(most),
            Some(_) | None => with_margin,
        }
    }
}
