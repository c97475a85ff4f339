//! Operator actions on work that is under way.

use thiserror::Error;
use tokio::sync::{mpsc, oneshot};
use tollgate_model::bump::{CapReached, Minimum, NoTip};
use tollgate_model::fill::{FillWith, NonceRange, NoncesRefused};
use tollgate_model::mode::CannotChangeMode;
use tollgate_model::nonce::{Mode, SubmitterStatus};
use tollgate_model::port::CursorMove;
use tollgate_model::port::chain::AccountCounts;
use tollgate_model::port::policy::Replacement;
use tollgate_model::reconcile::CannotResume;
use tollgate_model::refusal::{NoEstimate, Refusal};
use tollgate_model::stuck::Forbidden;
use tollgate_model::{ChainId, Nonce, Submitter, Text, TxHash, TxId};

use crate::engine::Engine;
use crate::errors::Unserved;
use crate::worker::{Command, Reply};

/// An operator's action on a transaction. No action outruns the chain: whichever attempt is
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

/// The result of an action. Durable when it is returned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Acted {
    /// The transaction ended without a slot.
    Withdrawn,
    /// A further attempt was signed and is on its way.
    Signed(TxHash),
    /// The newest bytes are on their way again.
    Resent,
    /// The same is under way already, or the policy is being asked.
    UnderWay,
}

/// The change of status of a submitter that was paused or resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PauseOutcome {
    /// The value before.
    pub was: SubmitterStatus,
    /// The value now.
    pub is: SubmitterStatus,
}

/// The change of a submitter's mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModeChanged {
    /// The value before.
    pub was: Mode,
    /// The value now.
    pub is: Mode,
}

/// The result of a comparison with the chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reconciled {
    /// The next nonce to give out.
    pub cursor: Nonce,
    /// The chain's counts.
    pub counts: AccountCounts,
    /// The steps that followed, in words; empty if everything agrees.
    pub steps: Vec<String>,
}

/// Nonces that an operator wants filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fill {
    /// The nonces.
    pub range: NonceRange,
    /// With what.
    pub with: FillWith,
    /// Also those that callers said to use: the operator vouches that they will not be sent.
    pub used: bool,
}

/// The result of a fill, by numbers of nonces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filled {
    /// Nonces of the range that are free now, to be filled.
    pub handed_back: u64,
    /// Nonces of the range that a transaction or a caller has.
    pub taken: u64,
    /// Nonces of the range that the chain or a pool counts.
    pub counted: u64,
    /// All free nonces of the account.
    pub free: u64,
}

/// The reason why nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ActError {
    /// There is no such transaction.
    #[error("no such transaction")]
    UnknownTx,
    /// The transaction is for another chain than this engine's.
    #[error("the transaction is on chain {of}, this node works on chain {own}")]
    WrongChain {
        /// The transaction's chain.
        of: ChainId,
        /// The engine's chain.
        own: ChainId,
    },
    /// The submitter's worker can't be asked, or could not go on.
    #[error(transparent)]
    Unserved(#[from] Unserved),
    /// The action can't be done to this transaction.
    #[error("{0}")]
    Forbidden(#[from] Forbidden),
    /// The price of the next attempt is above a cap.
    #[error("what would replace it {0}")]
    AboveCap(CapReached),
    /// The price that was asked for replaces nothing.
    #[error("what would replace it {0}")]
    FeeTooLow(Minimum),
    /// A tip was asked for, and the transaction can't have one.
    #[error("maxPriorityFeePerGas: {0}")]
    NoTip(#[from] NoTip),
    /// The chain would certainly refuse what should stand in its place.
    #[error("{0}")]
    Refused(#[from] Refusal),
    /// The submitter can't go on.
    #[error("can't resume: {0}")]
    CannotResume(#[from] CannotResume),
    /// The submitter's mode can't change now.
    #[error("the mode can't change: {0}")]
    CannotChangeMode(#[from] CannotChangeMode),
    /// The nonces can't be handed back, or the cursor can't be moved there.
    #[error("{0}")]
    Nonces(#[from] NoncesRefused),
}

impl From<NoEstimate> for ActError {
    fn from(why: NoEstimate) -> Self {
        match why {
            NoEstimate::Refused(refusal) => Self::Refused(refusal),
            NoEstimate::Unavailable(why) => Unserved::unavailable(why).into(),
        }
    }
}

/// The commands of operators ([`Engine::operator`]).
#[derive(Clone, Copy)]
pub struct Operator<'a>(&'a Engine);

impl Operator<'_> {
    /// Does to a transaction what a person wants done, under the fence like everything else.
    pub async fn act(
        self,
        tx_id: TxId,
        action: Action,
        reason: Text<500>,
    ) -> Result<Acted, ActError> {
        let record = self.0.context.store.tx(tx_id).await?.ok_or(ActError::UnknownTx)?;
        let (of, own) = (record.submitter.chain_id, self.0.chain_id());
        if of != own {
            return Err(ActError::WrongChain { of, own });
        }
        self.0
            .command(record.submitter, |reply| Command::Act { tx_id, action, reason, reply })
            .await
    }

    /// Stops opening slots for a submitter. What has one goes on.
    pub async fn pause(self, of: Submitter, reason: Text<500>) -> Result<PauseOutcome, ActError> {
        self.0.command(of, |reply| Command::Pause { reason, reply }).await
    }

    /// Lets a submitter that was paused, or is in PROTECT, take work again.
    pub async fn resume(self, of: Submitter, reason: Text<500>) -> Result<PauseOutcome, ActError> {
        self.0.command(of, |reply| Command::Resume { reason, reply }).await
    }

    /// Makes a submitter pipelined or strict, while nothing of it is open or reserved.
    pub async fn change_mode(
        self,
        of: Submitter,
        to: Mode,
        reason: Text<500>,
    ) -> Result<ModeChanged, ActError> {
        self.0.command(of, |reply| Command::ChangeMode { to, reason, reply }).await
    }

    /// Hands nonces back that the chain waits for and nobody has, and has them filled.
    pub async fn fill(
        self,
        of: Submitter,
        fill: Fill,
        reason: Text<500>,
    ) -> Result<Filled, ActError> {
        self.0.command(of, |reply| Command::Fill { fill, reason, reply }).await
    }

    /// Moves a submitter's cursor forward to a count that a person vouches for, where one endpoint's
    /// word is not enough (I16).
    pub async fn advance(
        self,
        of: Submitter,
        to: Nonce,
        reason: Text<500>,
    ) -> Result<CursorMove, ActError> {
        self.0.command(of, |reply| Command::Advance { to, reason, reply }).await
    }

    /// Compares a submitter's slots with the chain now.
    pub async fn reconcile(self, of: Submitter) -> Result<Reconciled, ActError> {
        self.0.command(of, |reply| Command::Reconcile { reply }).await
    }
}

impl Engine {
    /// The commands of operators on transactions and submitters.
    pub const fn operator(&self) -> Operator<'_> {
        Operator(self)
    }

    /// Gives a command to the submitter's worker, which is started if there is none.
    #[expect(clippy::result_large_err, reason = "what is not taken comes back")]
    pub(crate) async fn command<T, E: From<Unserved>>(
        &self,
        of: Submitter,
        command: impl FnOnce(Reply<T, E>) -> Command,
    ) -> Result<T, E> {
        // What is followed without a key takes commands too: some need no signature.
        if !self.serves(of) && !self.workers.works_for(of) {
            return Err(self.refusal(of).into());
        }
        let (reply, answer) = oneshot::channel();
        let mut command = command(reply);
        let gone = || E::from(Unserved::unavailable("the worker stopped; ask again"));
        for _ in 0..2 {
            match self.offer(of, |worker| worker.commands.try_send(command)) {
                Some(Ok(())) => return answer.await.map_err(|_| gone())?,
                Some(Err(mpsc::error::TrySendError::Full(_))) => return Err(Unserved::Busy.into()),
                Some(Err(mpsc::error::TrySendError::Closed(back))) => command = back,
                None => return Err(Unserved::NotOwner(None).into()),
            }
        }
        Err(gone())
    }
}
