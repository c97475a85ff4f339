//! Alerts: the table of their kinds, when they are raised, and when they are over.
//!
//! Every alert is a report that is repeated while its condition holds. So there is one rule for all of them:
//! an alert is over when what it reports is seen to be gone, or was not reported for long enough. A node that
//! dies leaves no alert open for ever, and two nodes that see the same condition differently don't argue.

pub mod balance;
mod catalogue;
mod threshold;

use std::fmt;
use std::time::Duration;

use crate::ids::{ChainId, Submitter};
use crate::nonce::SubmitterStatus;
use crate::port::AlertKind;
use crate::text::Text;
use crate::time::Timestamp;
use alloy_primitives::Address;

pub use catalogue::AlertInfo;
pub use threshold::{Gate, Standing, Threshold};

/// The pause between two reports of the same condition by an engine.
pub const ALERT_REPEAT: Duration = Duration::from_secs(600);
/// The time without a report after which an alert of an engine is over: two reports may have failed.
pub const ALERT_QUIET: Duration = Duration::from_secs(1_500);
/// The time by which the account's row may be older than the alert about it: the alert is raised before the
/// change is committed.
const COMMIT_GRACE: Duration = Duration::from_secs(60);

/// The urgency of an alert.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AlertLevel {
    /// Worth knowing; nothing has to be done.
    Info,
    /// Somebody should look at it today.
    Warning,
    /// Somebody should look at it now.
    Critical,
}

names!(AlertLevel {
    Info => "info",
    Warning => "warning",
    Critical => "critical",
});
codes!(AlertLevel {
    Info => 1,
    Warning => 2,
    Critical => 3,
});

/// The subject of an alert: an account, a chain, or something else that has a name, such as an endpoint of a
/// chain or a node. One alert of a kind is open for it at a time.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct AlertSubject {
    pub chain_id: Option<ChainId>,
    pub account: Option<Address>,
    /// The name of an endpoint or a node.
    pub part: Option<Text<200>>,
}

impl AlertSubject {
    pub fn account(of: Submitter) -> Self {
        Self { chain_id: Some(of.chain_id), account: Some(of.address), part: None }
    }

    pub fn chain(chain_id: ChainId) -> Self {
        Self { chain_id: Some(chain_id), ..Self::default() }
    }

    pub fn endpoint(chain_id: ChainId, name: &str) -> Self {
        Self { part: Some(Text::lossy(name)), ..Self::chain(chain_id) }
    }

    pub fn node(name: &str) -> Self {
        Self { part: Some(Text::lossy(name)), ..Self::default() }
    }

    /// The submitter, if it is about one.
    pub fn submitter(&self) -> Option<Submitter> {
        Some(Submitter::new(self.chain_id?, self.account?))
    }
}

/// The same text for the same subject, at most 300 bytes: stores compare it.
impl fmt::Display for AlertSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut gap = "";
        if let Some(chain_id) = self.chain_id {
            write!(f, "chain {chain_id}")?;
            gap = " ";
        }
        if let Some(account) = self.account {
            write!(f, "{gap}{account}")?;
            gap = " ";
        }
        match &self.part {
            Some(part) => write!(f, "{gap}{part}"),
            None => Ok(()),
        }
    }
}

/// The condition that ends an alert, besides that it is resolved by hand.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AlertEnd {
    /// The account has no open transactions any more, or the alert was not repeated for [`ALERT_QUIET`].
    NothingOpen,
    /// No transaction of the account is STUCK, and the alert was not repeated for [`ALERT_REPEAT`].
    NothingStuck,
    /// The account is not in PROTECT, and the alert was not repeated for [`ALERT_REPEAT`].
    NotProtected,
    /// The alert is about an event, and was not repeated for [`ALERT_QUIET`].
    Event,
    /// The condition is measured all the time, and was not found again for `alerts.resolve_after`.
    Measured,
}

/// An account as the rule on ends sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountFacts {
    /// Open transactions.
    pub open: u64,
    /// Those of them that are STUCK.
    pub stuck: u64,
    pub status: SubmitterStatus,
}

/// Decides whether an alert is over that was last reported `unseen` ago. Without facts about its account it is
/// judged by its silence alone.
pub fn is_over(
    kind: AlertKind,
    unseen: Duration,
    account: Option<AccountFacts>,
    resolve_after: Duration,
) -> bool {
    let (is_quiet, is_settled) = (unseen >= ALERT_QUIET, unseen >= COMMIT_GRACE);
    match (kind.info().end, account) {
        (AlertEnd::Measured, _) => unseen >= resolve_after,
        (AlertEnd::NothingOpen, Some(account)) => is_quiet || (is_settled && account.open == 0),
        (AlertEnd::NothingStuck, Some(account)) => {
            account.stuck == 0 && (unseen > ALERT_REPEAT || (is_settled && account.open == 0))
        }
        (AlertEnd::NotProtected, Some(account)) => {
            // The alert also announces a PROTECT that is not proven yet, and is repeated until it is.
            unseen > ALERT_REPEAT && account.status != SubmitterStatus::Protect
        }
        (AlertEnd::Event, _)
        | (AlertEnd::NothingOpen | AlertEnd::NothingStuck | AlertEnd::NotProtected, None) => {
            is_quiet
        }
    }
}

/// The least by which two clocks differ, if the other one was read between these two times of this one.
pub fn clock_drift(asked: Timestamp, answered: Timestamp, other: Timestamp) -> Duration {
    asked.since(other).max(other.since(answered))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: AccountFacts =
        AccountFacts { open: 3, stuck: 0, status: SubmitterStatus::Active };
    const RESOLVE_AFTER: Duration = Duration::from_secs(120);

    fn over(kind: AlertKind, seconds: u64, account: Option<AccountFacts>) -> bool {
        is_over(kind, Duration::from_secs(seconds), account, RESOLVE_AFTER)
    }

    #[test]
    fn alert_of_an_account_ends_with_its_cause_and_not_before() {
        let idle = AccountFacts { open: 0, ..ACTIVE };
        let stuck = AccountFacts { stuck: 1, ..ACTIVE };
        let protected = AccountFacts { status: SubmitterStatus::Protect, ..idle };
        assert!(!over(AlertKind::InsufficientFunds, 600, Some(ACTIVE)));
        assert!(over(AlertKind::InsufficientFunds, 60, Some(idle)));
        assert!(
            !over(AlertKind::InsufficientFunds, 59, Some(idle)),
            "the create may not be committed"
        );
        assert!(!over(AlertKind::Stuck, 1_000_000, Some(stuck)), "it stays as long as it is STUCK");
        assert!(over(AlertKind::Stuck, 601, Some(ACTIVE)));
        assert!(
            !over(AlertKind::Stuck, 599, Some(ACTIVE)),
            "the head may be stuck without the state"
        );
        assert!(!over(AlertKind::Protect, 1_000_000, Some(protected)));
        assert!(over(AlertKind::Protect, 601, Some(ACTIVE)));
        assert!(
            !over(AlertKind::Protect, 599, Some(ACTIVE)),
            "it may be announced and not proven yet"
        );
    }

    #[test]
    fn every_alert_without_facts_ends_by_silence_and_none_at_once() {
        for kind in AlertKind::ALL {
            assert!(!over(kind, 0, None), "{kind}");
            assert!(over(kind, ALERT_QUIET.as_secs(), None), "{kind}");
        }
        assert!(over(AlertKind::EndpointDown, 120, None));
        assert!(!over(AlertKind::EndpointDown, 119, None));
    }

    #[test]
    fn silence_of_an_engine_outlasts_two_of_its_reports() {
        assert!(ALERT_QUIET > 2 * ALERT_REPEAT);
    }

    #[test]
    fn subjects_have_texts_of_their_own_within_the_limit() {
        let chain = ChainId::new(8453).unwrap();
        let account = AlertSubject::account(Submitter::new(chain, Address::repeat_byte(7)));
        let endpoint = AlertSubject::endpoint(chain, &"x".repeat(400));
        let all = [account, endpoint, AlertSubject::chain(chain), AlertSubject::node("node-1")];
        let texts = all.map(|subject| subject.to_string());
        assert_eq!(texts[0], "chain 8453 0x0707070707070707070707070707070707070707");
        assert_eq!((texts[2].as_str(), texts[3].as_str()), ("chain 8453", "node-1"));
        assert!(texts.iter().all(|text| text.len() <= 300));
    }

    #[test]
    fn drift_is_the_distance_to_the_interval_of_the_question() {
        let at = |millis: i64| Timestamp::from_unix_micros(millis * 1_000);
        let drift = |other| clock_drift(at(1_000), at(1_200), at(other)).as_millis();
        assert_eq!([900, 1_000, 1_100, 1_200, 1_500].map(drift), [100, 0, 0, 0, 300]);
    }
}
