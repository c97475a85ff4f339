//! The engine's settings, with the defaults of the specification.

use std::sync::Arc;
use std::time::Duration;

use tollgate_model::bump::{BumpRules, ClosingPrice};
use tollgate_model::event::EventKinds;
use tollgate_model::fees::FeeCaps;
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, NonceRules, StrictAdvance};
use tollgate_model::port::policy::{BumpPolicy, StuckPolicy};
use tollgate_model::port::signer::Signer;
use tollgate_model::port::{LeaseTerms, ServedSet};
use tollgate_model::refusal::TxLimitSettings;
use tollgate_model::rejected::RejectedSlot;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::stuck::StuckThresholds;
use tollgate_model::stuck::rules::StuckRules;
use tollgate_model::{Address, Nonce};

/// The settings of an engine.
#[derive(Clone, Debug)]
pub struct EngineOptions {
    /// Leases.
    pub lease: LeaseTerms,
    /// The time after which the lease of a submitter without work is released.
    pub lease_idle: Duration,
    /// Operations in one database transaction (`writer.batch_max`).
    pub batch_max: usize,
    /// The kinds of events that are written (`events.kinds`).
    pub events: EventKinds,
    /// Work that may wait for one submitter (`submitter.max_queued`).
    pub queued_max: usize,
    /// Nonces. The mode that counts is each submitter's own, in the store.
    pub nonces: NonceRules,
    /// When a receipt is final.
    pub finality: FinalityRule,
    /// The longest time for which the receipt of one of our transactions, or the next block, may be unreadable
    /// at all endpoints before an alert is raised. A block that can't be read for that long, although
    /// the head can, is left out.
    pub receipt_alert_after: Duration,
    /// The longest time for which the settled height may stand while a mined transaction waits for it, before an
    /// alert is raised. Where the chain does not name the tagged block it is `receipt_alert_after`.
    pub finality_alert_after: Duration,
    /// When what no block has picked up is sent again, and when somebody has to decide.
    pub resubmit: ResubmitRules,
    /// When the stuck policy is asked.
    pub stuck: StuckThresholds,
    /// The policy for rejected slots and for holes (`stuck.rejected_slot`).
    pub rejected_slot: RejectedSlot,
    /// The time between two comparisons of chain count, cursor and open slots (`reconcile.interval`).
    pub reconcile_interval: Duration,
    /// Whole blocks that are read at a time to find what is in a used slot, where an endpoint has no
    /// old states (`grey_zone.lookback_blocks`).
    pub lookback_blocks: u64,
    /// The interval at which the head's place in the pools is read; `None` if never
    /// (`mempool.diagnose.enabled`, `mempool.diagnose.interval`).
    pub diagnose: Option<Duration>,
    /// Nonces for callers that send by themselves; `None` if there are none.
    pub reservations: Option<ReservationLimits>,
    /// The caps on offers (`chain.max_fee_per_gas`, `chain.max_tx_fee`).
    pub fee_caps: FeeCaps,
    /// The chain's limits on one transaction (`chain.max_tx_gas`, `chain.max_initcode_bytes`,
    /// `chain.max_tx_bytes`).
    pub tx_limits: TxLimitSettings,
    /// The price limit of an attempt that closes a slot: whether it may exceed the caller's own cap
    /// (`cancel.may_exceed_cap`).
    pub closing_price: ClosingPrice,
    /// Accounts without a key here, whose transactions come signed.
    pub presigned: Vec<Address>,
    /// The first nonce of accounts that are opened (`nonce.start_from`).
    pub start_from: Nonce,
    /// The interval at which the accounts' balances are read for metrics; `None` if never
    /// (`metrics.balance_interval`).
    pub balance_interval: Option<Duration>,
    /// Settings that the chain's own entry sets; the others are the node's.
    pub set_by_chain: Vec<&'static str>,
}

impl EngineOptions {
    /// The accounts that an engine with these keys serves: it signs for them, or takes what was signed
    /// elsewhere.
    pub fn served_with(&self, signer: &dyn Signer) -> ServedSet {
        ServedSet::new(signer.accounts().into_iter().chain(self.presigned.iter().copied()))
    }
}

/// Bounds on what callers may reserve (I13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReservationLimits {
    /// The hold time if the caller names none (`reservations.hold`).
    pub hold: Duration,
    /// The longest hold time (`reservations.hold_max`).
    pub hold_max: Duration,
    /// The maximum number of reserved nonces of one submitter (`reservations.max_outstanding`).
    pub outstanding_max: u32,
}

impl Default for ReservationLimits {
    fn default() -> Self {
        Self {
            hold: Duration::from_secs(60),
            hold_max: Duration::from_secs(3_600),
            outstanding_max: 64,
        }
    }
}

/// The policies for stuck transactions and for prices.
#[derive(Clone)]
pub struct Policies {
    /// The policy for stuck transactions.
    pub stuck: Arc<dyn StuckPolicy>,
    /// The policy for fee bumps.
    pub bump: Arc<dyn BumpPolicy>,
}

impl Default for Policies {
    fn default() -> Self {
        Self { stuck: Arc::new(StuckRules::default()), bump: Arc::new(BumpRules::default()) }
    }
}

impl Default for EngineOptions {
    fn default() -> Self {
        Self {
            lease: LeaseTerms::default(),
            lease_idle: Duration::from_secs(60),
            batch_max: 500,
            events: EventKinds::NONE,
            queued_max: 10_000,
            nonces: NonceRules {
                mode: Mode::Pipelined,
                window: 64,
                unfinal_max: 10_000,
                strict_advance: StrictAdvance::Final,
                state_timeout: Duration::from_secs(300),
            },
            finality: FinalityRule::default(),
            receipt_alert_after: Duration::from_secs(60),
            finality_alert_after: Duration::from_secs(900),
            resubmit: ResubmitRules::default(),
            stuck: StuckThresholds::default(),
            rejected_slot: RejectedSlot::default(),
            reconcile_interval: Duration::from_secs(300),
            lookback_blocks: 256,
            diagnose: None,
            reservations: None,
            fee_caps: FeeCaps::by_default(),
            tx_limits: TxLimitSettings::default(),
            closing_price: ClosingPrice::default(),
            presigned: Vec::new(),
            start_from: Nonce::MIN,
            balance_interval: None,
            set_by_chain: Vec::new(),
        }
    }
}
