//! An account's nonce counts, and how well the endpoints support them.

use crate::ids::Nonce;

/// The endpoints' support of an account's mined count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CountSupport {
    /// Two endpoints report exactly this count, or the chain has one endpoint only.
    #[default]
    Confirmed,
    /// The endpoints report different counts, or only one has answered. Ask again.
    Open,
    /// As [`Self::Open`], and there is nothing more to wait for: the blocks of the endpoint that counts
    /// more contradict it, or no proof was found for longer than a second endpoint is waited for.
    Overdue,
}

/// An account's nonce counts: the highest values that were ever confirmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccountCounts {
    /// The count in the canonical head.
    pub mined: Nonce,
    /// The count including pending transactions.
    pub pending: Nonce,
    /// The highest count, mined or pending, that does not rest on one endpoint alone (I16): two
    /// endpoints report at least this much, or it is the mined count of the chain's only endpoint.
    pub sure: Nonce,
    /// The highest mined count that any single endpoint reports now; never below `mined`.
    pub highest: Nonce,
    /// The highest count, mined or pending, that any endpoint that was asked tells now; never below
    /// `mined` and `pending`. For people only.
    pub told: Nonce,
    /// The support of `mined` ([`crate::nonce::accept_counts`]).
    pub support: CountSupport,
}

impl AccountCounts {
    /// Counts that more than one endpoint confirms.
    pub fn confirmed(mined: Nonce, pending: Nonce) -> Self {
        let sure = mined.max(pending);
        Self { mined, pending, sure, highest: mined, told: sure, support: CountSupport::Confirmed }
    }

    /// These counts, and no less than what the submitter's own final slots show: the chain has used every
    /// nonce below `final_end`, whatever an endpoint counts.
    #[must_use]
    pub fn with_final_slots(self, final_end: Nonce) -> Self {
        let least = |count: Nonce| count.max(final_end);
        Self {
            mined: least(self.mined),
            pending: least(self.pending),
            sure: least(self.sure),
            highest: least(self.highest),
            told: least(self.told),
            ..self
        }
    }

    /// The lowest nonce that may be unused. What a single endpoint calls mined is no hole until the
    /// claim is proven or contradicted.
    pub const fn lowest_unused(&self) -> Nonce {
        match self.support {
            CountSupport::Open => self.highest,
            CountSupport::Confirmed | CountSupport::Overdue => self.mined,
        }
    }

    /// The mined count as far as more than one endpoint confirms it, for people (I16). `None` if
    /// nothing was confirmed yet.
    pub fn confirmed_mined(&self) -> Option<Nonce> {
        let is_known = self.sure > Nonce::MIN || self.mined == Nonce::MIN;
        is_known.then(|| self.mined.min(self.sure))
    }
}

/// An account's nonce count at a past block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PastCount {
    /// The count that two endpoints confirm, if there are several.
    pub count: Nonce,
    /// The highest count that any single endpoint reports; never below `count`.
    pub highest: Nonce,
}

impl PastCount {
    /// A count that no endpoint contradicts.
    pub const fn undisputed(count: Nonce) -> Self {
        Self { count, highest: count }
    }
}
