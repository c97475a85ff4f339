//! Sinks, notices and a clock for tests.

use std::time::Duration;

use tollgate_alert::{Sink, SinkKind, SinkOptions};
use tollgate_model::alert::{AlertLevel, AlertSubject};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{AlertKind, AlertNotice, AlertPhase, StoredAlert};
use tollgate_model::{Address, ChainId, Submitter, Text, Timestamp};
use uuid::Uuid;
use zeroize::Zeroizing;

/// The seconds of the tests' clock.
pub(crate) const NOW: u64 = 1_800_000_000;

pub(crate) struct FixedClock;

impl Clock for FixedClock {
    fn now(&self) -> Timestamp {
        now()
    }
}

pub(crate) fn now() -> Timestamp {
    Timestamp::EPOCH.after(Duration::from_secs(NOW))
}

pub(crate) fn options(kind: SinkKind, url: &str, secret: Option<&str>) -> SinkOptions {
    SinkOptions {
        name: "ops".to_owned(),
        kind,
        url: Some(url.to_owned()),
        secret: secret.map(|secret| Zeroizing::new(secret.to_owned())),
        min_level: AlertLevel::Info,
        kinds: Vec::new(),
        per_minute: 1_000,
        timeout: Duration::from_secs(60),
        allows_link_local: false,
    }
}

pub(crate) fn sink(kind: SinkKind, url: &str, secret: Option<&str>) -> Sink {
    Sink::new(options(kind, url, secret)).unwrap()
}

pub(crate) fn account() -> Submitter {
    Submitter::new(ChainId::new(8453).unwrap(), Address::repeat_byte(0xab))
}

pub(crate) fn notice(phase: AlertPhase, detail: &str) -> AlertNotice {
    let alert = StoredAlert {
        alert_id: Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0001),
        kind: AlertKind::Stuck,
        subject: AlertSubject::account(account()),
        level: AlertLevel::Critical,
        detail: Text::lossy(detail),
        node: "node-1".to_owned(),
        raised_at: now(),
        seen_at: now(),
        resolved_at: (phase == AlertPhase::Resolved).then(now),
        times: 3,
        unseen: Duration::ZERO,
    };
    AlertNotice { alert, phase, tries: 0 }
}
