//! Submitters with owner and load, and what operators do to them.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::account::EffectiveSettings;
use crate::number::Number;
use crate::schema;
use crate::tx::BlockedBy;

/// An account on a chain.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Submitter {
    /// The chain.
    pub chain_id: u64,
    /// The account, with its checksum.
    #[schema(value_type = schema::Address)]
    pub address: String,
    /// A name for people.
    #[schema(required)]
    pub label: Option<String>,
    /// The reference to its key, if it was opened while nodes run; null if nodes have it by their settings.
    #[schema(required)]
    pub key: Option<String>,
    /// `false`: new transactions are refused.
    pub enabled: bool,
    /// The settings that hold for it, and where each comes from.
    pub settings: EffectiveSettings,
    /// The mode in which nonces are given out.
    #[schema(value_type = schema::Mode)]
    pub mode: Cow<'static, str>,
    /// The status: only an active submitter opens new slots.
    #[schema(value_type = schema::SubmitterStatus)]
    pub status: Cow<'static, str>,
    /// The reason given with the last change of its status.
    #[schema(required)]
    pub status_reason: Option<String>,
    /// The node that works for it; null if none does.
    #[schema(required)]
    pub owner: Option<String>,
    /// The URL of that node; null if none works for it, or the node is not on the list.
    #[schema(required)]
    pub owner_url: Option<String>,
    /// The token that the owner writes under; only for operators, as all nonces here.
    #[schema(required)]
    pub fencing_token: Option<u64>,
    /// The next nonce that will be given out; null for callers who are no operators.
    #[schema(required)]
    pub next_nonce: Option<u64>,
    /// The number of its transactions that the chain has mined, as two endpoints confirm it where several are
    /// configured; null in lists, and if the chain can't be asked or nothing is confirmed yet.
    #[schema(required)]
    pub chain_nonce: Option<u64>,
    /// The most slots that may be open at once.
    pub window: u32,
    /// The number of open transactions in each state.
    #[schema(value_type = schema::Depth)]
    pub depth: BTreeMap<Cow<'static, str>, u64>,
    /// The age of the oldest open transaction.
    #[schema(required)]
    pub oldest_pending_seconds: Option<u64>,
    /// Nonces from the chain's count on, below an open transaction, that neither an open transaction
    /// nor a caller has: the lowest 100. The same rule as that of `reconcile`. Null in lists, and if
    /// they can't be told.
    #[schema(required)]
    pub holes: Option<Vec<u64>>,
    /// The number of such nonces in all; null where `holes` is.
    #[schema(required)]
    pub hole_count: Option<u64>,
    /// The lowest open slot, if it stands still: everything else of the account waits for it. Null in
    /// lists.
    #[schema(required)]
    pub blocked_by: Option<BlockedBy>,
    /// The balance of the account, in wei; null in lists, and if the chain can't be asked.
    #[schema(value_type = Option<schema::Amount>, required)]
    pub balance: Option<String>,
}

/// Declares answers to actions: the submitter as it is now, and what the action did.
macro_rules! changed_submitters {
    ($($(#[doc = $about:literal])+ $name:ident as $schema:ident {
        $($(#[doc = $doc:literal])+ $(#[schema($($shape:tt)+)])? $field:ident: $type:ty,)+
    })+) => {$(
        $(#[doc = $about])+
        #[derive(Serialize, Deserialize, ToSchema, Clone, Debug)]
        #[schema(as = $schema)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            /// The submitter as it is now.
            #[serde(flatten)]
            pub submitter: Submitter,
            $($(#[doc = $doc])+ $(#[schema($($shape)+)])? pub $field: $type,)+
        }
    )+};
}

changed_submitters! {
    /// A submitter that was paused or resumed.
    StatusChanged as StoodSubmitter {
        /// The status before.
        #[schema(value_type = schema::SubmitterStatus)]
        was: Cow<'static, str>,
    }
    /// A submitter whose mode was changed.
    ModeChanged as RemodedSubmitter {
        /// The mode before.
        #[schema(value_type = schema::Mode)]
        was_mode: Cow<'static, str>,
    }
    /// A submitter that was compared with the chain; `chainNonce` is what the comparison saw.
    Reconciled as ReconciledSubmitter {
        /// The number of its transactions that the chain has mined or holds in its pools.
        pending_nonce: u64,
        /// The steps that followed, in words; empty if everything agrees.
        steps: Vec<String>,
    }
    /// A submitter with nonces that were handed back.
    Filled as FilledSubmitter {
        /// The number of nonces of the range that are free now, to be filled.
        handed_back: u64,
        /// The number of nonces of the range that a transaction or a caller has.
        taken: u64,
        /// The number of nonces of the range that the chain or a pool counts already.
        counted: u64,
        /// The number of free nonces of the submitter in all. It falls as they are filled.
        free: u64,
    }
    /// A submitter whose cursor was moved forward by a person.
    CursorMoved as AdvancedSubmitter {
        /// The next nonce before.
        was_next_nonce: u64,
    }
}

/// The body of an action that needs a reason.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[schema(as = NeededReason)]
#[serde(deny_unknown_fields)]
pub struct RequiredReason {
    /// Shown with the submitter: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText, required)]
    pub reason: Option<String>,
}

/// The body of a change of mode.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct NewMode {
    /// `pipelined` or `strict`.
    #[schema(value_type = schema::Mode, required)]
    pub mode: Option<String>,
    /// For the submitter's audit trail: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText, required)]
    pub reason: Option<String>,
}

/// The body of a fill: a range of nonces, and what fills it.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FillNonces {
    /// The lowest nonce.
    #[schema(value_type = schema::Number, required)]
    pub first: Option<Number>,
    /// The highest nonce: below the submitter's next one, and at most 999 above `first`.
    #[schema(value_type = schema::Number, required)]
    pub last: Option<Number>,
    /// `next`: the transactions that come next. `placeholder`: transfers to self, which cost gas.
    #[schema(value_type = schema::FillWith, required)]
    pub with: Option<String>,
    /// Also nonces that callers reserved and said to use: with `true` the operator vouches that what
    /// they signed will not be sent.
    pub used: Option<bool>,
    /// For the submitter's audit trail: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText, required)]
    pub reason: Option<String>,
}

/// The body of a move of the next nonce.
#[derive(Serialize, Deserialize, ToSchema, Clone, Debug, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewCursor {
    /// The submitter's next nonce: above the present one, and at most what an endpoint counts.
    #[schema(value_type = schema::Number, required)]
    pub next_nonce: Option<Number>,
    /// For the submitter's audit trail: up to 500 bytes, not empty.
    #[schema(value_type = schema::ReasonText, required)]
    pub reason: Option<String>,
}
