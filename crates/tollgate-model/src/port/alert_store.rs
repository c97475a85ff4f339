//! Stored alerts and the notices about them: what makes two nodes tell people of one alert once.
//!
//! An alert is open until it is resolved; a report of an open one only notes that it was seen again. Each
//! sink gets one notice when an alert is raised and one when it is resolved, claimed before it is sent
//! (I11).

use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;

use super::{AlertKind, Page, StoreError};
use crate::alert::{AlertLevel, AlertSubject};
use crate::ids::{NodeId, Submitter};
use crate::text::Text;
use crate::time::Timestamp;

/// A condition that a node found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlertReport {
    /// The id of the alert, if it is a new one.
    pub alert_id: Uuid,
    pub kind: AlertKind,
    pub subject: AlertSubject,
    pub level: AlertLevel,
    pub detail: Text<500>,
    pub node: NodeId,
}

/// An alert as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredAlert {
    pub alert_id: Uuid,
    pub kind: AlertKind,
    pub subject: AlertSubject,
    pub level: AlertLevel,
    /// The latest report's.
    pub detail: Text<500>,
    /// The name of the node that raised it.
    pub node: String,
    pub raised_at: Timestamp,
    /// When it was last reported.
    pub seen_at: Timestamp,
    pub resolved_at: Option<Timestamp>,
    /// The number of reports.
    pub times: u64,
    /// The time since the last report, by the database's clock.
    pub unseen: Duration,
}

/// The part of an alert's life that a notice tells of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlertPhase {
    Raised,
    Resolved,
}

names!(AlertPhase {
    Raised => "raised",
    Resolved => "resolved",
});
codes!(AlertPhase {
    Raised => 1,
    Resolved => 2,
});

/// A notice that this node has claimed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlertNotice {
    pub alert: StoredAlert,
    pub phase: AlertPhase,
    /// Earlier tries.
    pub tries: u32,
}

/// The result of an attempt to send a notice.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NoticeOutcome {
    Delivered,
    /// The notice is tried again after this time.
    Retry {
        after: Duration,
        error: Text<300>,
    },
    /// The notice is never tried again.
    GivenUp {
        error: Text<300>,
    },
}

/// The bounds of a claim (I13).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoticeClaim {
    /// Notices of one message.
    pub batch_max: u32,
    /// Messages to the sink in a minute, of all nodes together.
    pub per_minute: u32,
    /// The time after which another node may claim the same notices.
    pub term: Duration,
}

/// Alerts in the database. No lease is needed: they are no work, and nothing depends on them.
#[async_trait]
pub trait AlertStore: Send + Sync {
    /// Raises an alert with a notice for each of these sinks, or notes that an open one was seen again.
    /// Returns whether it is new.
    async fn report_alert(
        &self,
        report: &AlertReport,
        sinks: &[String],
    ) -> Result<bool, StoreError>;

    /// Resolves an open alert that was not seen after `seen_at`. A sink that was told of it, or is being told,
    /// gets a notice; a notice that nobody has tried to send is withdrawn instead. Returns whether it was
    /// open and is resolved now.
    async fn resolve_alert(&self, alert_id: Uuid, seen_at: Timestamp) -> Result<bool, StoreError>;

    /// Reads alerts, the newest first: those that are open, or all.
    async fn alerts(&self, is_open: bool, page: Page) -> Result<Vec<StoredAlert>, StoreError>;

    /// Claims the oldest notices of a sink that are due (I11): no other node gets them within the term. A
    /// notice of a resolved alert waits for the one that it was raised.
    async fn claim_notices(
        &self,
        node: &NodeId,
        sink: &str,
        claim: NoticeClaim,
    ) -> Result<Vec<AlertNotice>, StoreError>;

    /// Writes the outcome of notices that this node still holds.
    async fn settle_notices(
        &self,
        node: &NodeId,
        sink: &str,
        notices: &[(Uuid, AlertPhase)],
        outcome: &NoticeOutcome,
    ) -> Result<(), StoreError>;

    /// Deletes alerts that were resolved longer than `age` ago, at most a page of them; returns how many.
    async fn forget_alerts(&self, age: Duration, page: Page) -> Result<u64, StoreError>;

    /// Makes this node the one that looks after the alerts of all nodes, for a time; false if another node is.
    async fn claim_alert_watch(&self, node: &NodeId, term: Duration) -> Result<bool, StoreError>;

    /// The number of nonces that callers hold of each of these submitters, in the order asked.
    async fn reserved_counts(&self, of: &[Submitter]) -> Result<Vec<u64>, StoreError>;

    /// The database's clock.
    async fn database_time(&self) -> Result<Timestamp, StoreError>;
}
