//! Short forms for what the tests on the fake chain write.

use std::time::Duration;

use tollgate_engine::{Created, EngineOptions};
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::LeaseTerms;
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Address, Intent, RequestId, TxId, U256};

pub(crate) use tollgate_testkit::cluster::{FakeCluster as Cluster, account};

/// An intent that differs from all others by its value.
pub(crate) fn transfer(value: u64) -> Intent {
    Intent::transfer(Address::repeat_byte(0xee), U256::from(value))
}

pub(crate) fn request(text: &str) -> Option<RequestId> {
    Some(RequestId::new(text).unwrap())
}

pub(crate) fn id(created: Created) -> TxId {
    created.tx_id()
}

/// Short times, but leases that outlast a test: nobody loses one because the machine is busy.
pub(crate) fn options() -> EngineOptions {
    let millis = Duration::from_millis;
    EngineOptions {
        lease: LeaseTerms::new(millis(600_000), millis(200), Duration::ZERO).unwrap(),
        finality: FinalityRule::Confirmations(3),
        resubmit: ResubmitRules { interval: millis(400), ..ResubmitRules::default() },
        ..EngineOptions::default()
    }
}

/// Leases that end soon after their owner.
pub(crate) fn hasty() -> EngineOptions {
    let millis = Duration::from_millis;
    let lease = LeaseTerms::new(millis(900), millis(200), Duration::ZERO).unwrap();
    EngineOptions { lease, ..options() }
}
