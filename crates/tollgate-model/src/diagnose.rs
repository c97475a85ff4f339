//! Mempool diagnosis: why a transaction has no receipt, according to the nodes' pools. Advice only.
//!
//! Owns no state and changes none: the diagnosis is stored on the transaction and shown, and stuck rules
//! may refer to it. With several nodes, nothing is called lost on a single node's answer, and a
//! transaction that is probably lost is still only resent.

use std::collections::BTreeMap;
use std::fmt;

use crate::ids::{Nonce, TxHash};
use crate::port::chain::AccountCounts;

/// The diagnosis of a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Diagnosis {
    /// A node holds one of its attempts, ready to be mined: it waits for time or price.
    InPool,
    /// Every node that answered has none of its attempts: it needs a resend.
    ProbablyLost,
    /// A node holds another transaction in its slot: a policy or an operator has to act.
    ReplacedByAnother {
        /// The hash of the other transaction.
        hash: TxHash,
    },
    /// Nodes lack a lower nonce, which has to be sent first.
    BlockedByLowerNonce {
        /// The lowest missing nonce.
        nonce: Nonce,
    },
    /// No conclusion is possible.
    Unknown,
}

impl Diagnosis {
    /// The name in configuration, logs and the API.
    pub const fn name(self) -> &'static str {
        match self {
            Self::InPool => "in_pool",
            Self::ProbablyLost => "probably_lost",
            Self::ReplacedByAnother { .. } => "replaced_by_another",
            Self::BlockedByLowerNonce { .. } => "blocked_by_lower_nonce",
            Self::Unknown => "unknown",
        }
    }

    pub const NAMES: [&'static str; 5] =
        ["in_pool", "probably_lost", "replaced_by_another", "blocked_by_lower_nonce", "unknown"];
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ReplacedByAnother { hash } => write!(f, "{} ({hash})", self.name()),
            Self::BlockedByLowerNonce { nonce } => write!(f, "{} ({nonce})", self.name()),
            Self::InPool | Self::ProbablyLost | Self::Unknown => f.write_str(self.name()),
        }
    }
}

/// One sender's part of one node's pool (`txpool_contentFrom`).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PoolContent {
    /// Transactions that can be mined next, by nonce.
    pub pending: BTreeMap<Nonce, TxHash>,
    /// Transactions that wait for a lower nonce, by nonce.
    pub queued: BTreeMap<Nonce, TxHash>,
}

/// One endpoint's knowledge of a sender. The default is an endpoint that did not answer.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EndpointReport {
    /// The sender's part of its pool, if the endpoint exposes it.
    pub pool: Option<PoolContent>,
    /// True if it knows any of the attempts by hash; `None` if not all look-ups were answered.
    pub knows_it: Option<bool>,
}

/// The facts about one open transaction without a receipt.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DiagnosisView<'a> {
    pub nonce: Nonce,
    pub attempts: &'a [TxHash],
    /// The answer of each endpoint of the chain, including those that did not answer.
    pub endpoints: &'a [EndpointReport],
    /// The account's counts, if the chain answered.
    pub counts: Option<AccountCounts>,
}

/// Diagnoses one open transaction.
pub fn diagnose(view: &DiagnosisView<'_>) -> Diagnosis {
    // A used slot is no matter of pools: its receipts are searched elsewhere.
    if view.counts.is_some_and(|counts| counts.mined > view.nonce) {
        return Diagnosis::Unknown;
    }
    let pools = || view.endpoints.iter().filter_map(|report| report.pool.as_ref());
    let ours = |found: Option<&TxHash>| found.is_some_and(|hash| view.attempts.contains(hash));
    if pools().any(|pool| ours(pool.pending.get(&view.nonce))) {
        return Diagnosis::InPool;
    }
    let queued = pools().any(|pool| ours(pool.queued.get(&view.nonce)));
    let known = view.endpoints.iter().any(|report| report.knows_it == Some(true));
    // What the nodes hold without a gap ends at the pending count: the first missing nonce.
    let missing = view.counts.map(|counts| counts.pending.max(counts.mined));
    let missing_below = missing.filter(|missing| *missing < view.nonce);
    match missing_below {
        Some(nonce) => return Diagnosis::BlockedByLowerNonce { nonce },
        None if known => return Diagnosis::InPool,
        // It waits for a lower nonce that no endpoint named.
        None if queued => return Diagnosis::Unknown,
        None => {}
    }
    let stranger = pools().find_map(|pool| {
        pool.pending.get(&view.nonce).or_else(|| pool.queued.get(&view.nonce)).copied()
    });
    if let Some(hash) = stranger {
        return Diagnosis::ReplacedByAnother { hash };
    }
    // The count is past the slot, but no endpoint showed with what.
    if missing.is_some_and(|missing| missing > view.nonce) {
        return Diagnosis::Unknown;
    }
    let deny = view.endpoints.iter().filter(|report| denies(report)).count();
    if deny >= witnesses_needed(view.endpoints.len()) {
        Diagnosis::ProbablyLost
    } else {
        Diagnosis::Unknown
    }
}

/// Returns whether an endpoint has none of the attempts. The caller has handled pools that show something
/// else in the slot, so either kind of answer will do.
const fn denies(report: &EndpointReport) -> bool {
    match report.knows_it {
        Some(known) => !known,
        None => report.pool.is_some(),
    }
}

/// The number of endpoints that must agree before an answer is believed: two, if there are two.
pub const fn witnesses_needed(endpoints: usize) -> usize {
    if endpoints < 2 { 1 } else { 2 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_values::nonce;

    const OURS: TxHash = TxHash::repeat_byte(1);
    const OLDER: TxHash = TxHash::repeat_byte(2);
    const FOREIGN: TxHash = TxHash::repeat_byte(9);

    fn counts(mined: u64, pending: u64) -> Option<AccountCounts> {
        Some(AccountCounts::confirmed(nonce(mined), nonce(pending)))
    }

    fn pool(pending: Option<TxHash>, queued: Option<TxHash>) -> EndpointReport {
        let at = |hash: Option<TxHash>| hash.map(|hash| (nonce(7), hash)).into_iter().collect();
        let content = PoolContent { pending: at(pending), queued: at(queued) };
        EndpointReport { pool: Some(content), knows_it: None }
    }

    fn by_hash(knows_it: bool) -> EndpointReport {
        EndpointReport { pool: None, knows_it: Some(knows_it) }
    }

    fn check(endpoints: &[EndpointReport], counts: Option<AccountCounts>) -> Diagnosis {
        let attempts = &[OLDER, OURS];
        diagnose(&DiagnosisView { nonce: nonce(7), attempts, endpoints, counts })
    }

    #[test]
    fn any_attempt_in_any_pool_is_in_the_pool() {
        let silent = EndpointReport::default();
        assert_eq!(check(&[silent.clone(), pool(Some(OLDER), None)], None), Diagnosis::InPool);
        assert_eq!(check(&[by_hash(false), by_hash(true)], counts(7, 7)), Diagnosis::InPool);
        let both = [pool(Some(FOREIGN), None), pool(Some(OURS), None)];
        assert_eq!(check(&both, counts(7, 8)), Diagnosis::InPool);
    }

    #[test]
    fn missing_lower_nonce_is_diagnosed_as_blocked() {
        let blocked = Diagnosis::BlockedByLowerNonce { nonce: nonce(5) };
        for report in [pool(None, Some(OURS)), by_hash(true), by_hash(false)] {
            assert_eq!(check(&[report], counts(4, 5)), blocked);
        }
    }

    #[test]
    fn another_one_in_the_slot_is_named() {
        let replaced = Diagnosis::ReplacedByAnother { hash: FOREIGN };
        assert_eq!(check(&[pool(Some(FOREIGN), None)], counts(7, 8)), replaced);
        let denied = [by_hash(false), pool(None, Some(FOREIGN))];
        assert_eq!(check(&denied, None), replaced);
    }

    #[test]
    fn loss_needs_more_than_one_endpoint_of_several() {
        let lost = Diagnosis::ProbablyLost;
        let silent = EndpointReport::default();
        assert_eq!(check(&[by_hash(false)], counts(7, 7)), lost);
        assert_eq!(check(&[by_hash(false), silent.clone()], counts(7, 7)), Diagnosis::Unknown);
        let two = [by_hash(false), pool(None, None), silent.clone()];
        assert_eq!(check(&two, counts(7, 7)), lost);
        assert_eq!(check(&[silent], counts(7, 7)), Diagnosis::Unknown);
        assert_eq!(check(&[], counts(7, 7)), Diagnosis::Unknown);
    }

    #[test]
    fn slot_below_the_mined_count_has_no_diagnosis() {
        assert_eq!(check(&[by_hash(false)], counts(8, 8)), Diagnosis::Unknown);
        assert_eq!(check(&[by_hash(false)], counts(7, 8)), Diagnosis::Unknown);
    }

    #[test]
    fn diagnosis_names_match_the_list() {
        let all = [
            Diagnosis::InPool,
            Diagnosis::ProbablyLost,
            Diagnosis::ReplacedByAnother { hash: FOREIGN },
            Diagnosis::BlockedByLowerNonce { nonce: nonce(1) },
            Diagnosis::Unknown,
        ];
        assert_eq!(all.map(Diagnosis::name), Diagnosis::NAMES);
    }
}
