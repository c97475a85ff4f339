//! What can be set, with the defaults of the specification.

use std::time::Duration;

use tollgate_model::Address;
use tollgate_model::fees::FeeCaps;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, NonceRules, StrictAdvance};
use tollgate_model::port::LeaseTerms;

/// How an engine runs.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Leases.
    pub lease: LeaseTerms,
    /// How long a lease is kept for a submitter without work.
    pub lease_idle: Duration,
    /// Operations in one database transaction (`writer.batch_max`).
    pub batch_max: usize,
    /// Work that may wait for one submitter (`submitter.max_queued`).
    pub queued_max: usize,
    /// Nonces.
    pub nonces: NonceRules,
    /// When a receipt is final.
    pub finality: FinalityRule,
    /// How often what no block has picked up is sent again.
    pub resubmit_interval: Duration,
    /// What no transaction may offer (`chain.max_fee_per_gas`, `chain.max_tx_fee`).
    pub fee_caps: FeeCaps,
    /// Accounts without a key here, whose transactions come signed.
    pub presigned: Vec<Address>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            lease: LeaseTerms::default(),
            lease_idle: Duration::from_secs(60),
            batch_max: 500,
            queued_max: 10_000,
            nonces: NonceRules {
                mode: Mode::Pipelined,
                window: 64,
                strict_advance: StrictAdvance::Final,
                state_timeout: Duration::from_secs(300),
            },
            finality: FinalityRule::default(),
            resubmit_interval: Duration::from_secs(30),
            fee_caps: FeeCaps::default(),
            presigned: Vec::new(),
        }
    }
}
