//! What people ask of an engine about work that is under way, and what it answers.

use thiserror::Error;
use tollgate_model::bump::Cap;
use tollgate_model::nonce::SubmitterStatus;
use tollgate_model::port::Owner;
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::policy::Replacement;
use tollgate_model::reconcile::CannotResume;
use tollgate_model::stuck::Forbidden;
use tollgate_model::{Nonce, TxHash};

/// What a person wants done to a transaction. None of it outruns the chain: whichever attempt is
/// mined decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// End it: at once if it has no slot, else by a transfer to self in its slot.
    Cancel,
    /// Offer more for what is under way: the intent, or what closes its slot.
    SpeedUp,
    /// Send the newest bytes again now.
    Resubmit,
    /// Put something else in its place, at a price.
    Replace(Replacement),
    /// Ask the stuck policy now.
    AskPolicy,
}

impl Action {
    /// The word for it in the audit trail.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::SpeedUp => "speed_up",
            Self::Resubmit => "resubmit",
            Self::Replace(_) => "replace",
            Self::AskPolicy => "ask_policy",
        }
    }
}

/// What was done; durable when it is answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acted {
    /// It ended without a slot.
    Withdrawn,
    /// A further attempt was signed and is on its way.
    Signed(TxHash),
    /// The newest bytes are on their way again.
    Resent,
    /// What was asked for is under way already, or the policy is being asked.
    UnderWay,
}

/// What became of a submitter that was paused or resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standstill {
    /// What it was.
    pub was: SubmitterStatus,
    /// What it is.
    pub is: SubmitterStatus,
}

/// What a comparison with the chain found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reconciled {
    /// The next nonce to give out.
    pub cursor: Nonce,
    /// What the chain counts.
    pub counts: AccountCounts,
    /// What followed from it, in words; empty if everything agrees.
    pub steps: Vec<String>,
}

/// Why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ActError {
    /// There is no such transaction.
    #[error("no such transaction")]
    UnknownTx,
    /// No key for the account, or no such chain here.
    #[error("submitter is not served here")]
    UnknownSubmitter,
    /// What is asked for can't be done to this transaction.
    #[error("{0}")]
    Forbidden(#[from] Forbidden),
    /// What would replace it is above a cap.
    #[error("what would replace it is above {}", .0.name())]
    AboveCap(Cap),
    /// The call that should stand in its place would fail on the chain.
    #[error("the call would revert: {0}")]
    Reverts(String),
    /// The submitter can't go on.
    #[error("can't resume: {0}")]
    CannotResume(#[from] CannotResume),
    /// Another node owns the submitter.
    #[error("another node owns the submitter")]
    NotOwner(Option<Owner>),
    /// Too much is asked of this submitter at once (I13).
    #[error("too much is asked of this submitter at once")]
    Busy,
    /// The database, the chain or the signer can't be asked now.
    #[error("not now: {0}")]
    Unavailable(String),
}
