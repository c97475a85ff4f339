//! The audit log: who asked for a change, from where, and why.
//!
//! An entry is written before its change is carried out, so that no change is without one; a change that is refused
//! afterwards has one as well. Creates are not here: the first entry of a transaction's own history names their
//! author.

use std::net::IpAddr;

use crate::access::KeyId;
use crate::text::Text;
use crate::time::Timestamp;

/// A change that is recorded. Those of the API have the names of its operations.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AuditedAction {
    CancelTx,
    SpeedUpTx,
    ResubmitTx,
    ReplaceTx,
    ResolveTx,
    OpenSubmitter,
    ChangeSubmitter,
    RemoveSubmitter,
    PauseSubmitter,
    ResumeSubmitter,
    ChangeSubmitterMode,
    ReconcileSubmitter,
    FillSubmitterNonces,
    AdvanceSubmitter,
    ReserveNonce,
    UseNonce,
    ReturnNonce,
    PutPool,
    RemovePool,
    MakeApiKey,
    RevokeApiKey,
    RotateApiKey,
    /// A session of the pages begins.
    LogIn,
    /// A session of the pages is ended by its user.
    LogOut,
    /// `tollgate events replay`.
    ReplayEvents,
    /// `tollgate events dead-letters replay`.
    ReplayDeadLetters,
}

names! {
    AuditedAction {
        CancelTx => "cancelTx",
        SpeedUpTx => "speedUpTx",
        ResubmitTx => "resubmitTx",
        ReplaceTx => "replaceTx",
        ResolveTx => "resolveTx",
        OpenSubmitter => "openSubmitter",
        ChangeSubmitter => "changeSubmitter",
        RemoveSubmitter => "removeSubmitter",
        PauseSubmitter => "pauseSubmitter",
        ResumeSubmitter => "resumeSubmitter",
        ChangeSubmitterMode => "changeSubmitterMode",
        ReconcileSubmitter => "reconcileSubmitter",
        FillSubmitterNonces => "fillSubmitterNonces",
        AdvanceSubmitter => "advanceSubmitter",
        ReserveNonce => "reserveNonce",
        UseNonce => "useNonce",
        ReturnNonce => "returnNonce",
        PutPool => "putPool",
        RemovePool => "removePool",
        MakeApiKey => "makeApiKey",
        RevokeApiKey => "revokeApiKey",
        RotateApiKey => "rotateApiKey",
        LogIn => "logIn",
        LogOut => "logOut",
        ReplayEvents => "replayEvents",
        ReplayDeadLetters => "replayDeadLetters",
    }
}

/// The author of a change.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditAuthor {
    /// The key that was shown; `None` where no key is asked for, and for commands that work on the database.
    pub key_id: Option<KeyId>,
    /// The name of the key; `cli` for commands that work on the database, empty where no key is asked for.
    pub name: Text<100>,
    /// The address of the caller's connection; `None` for commands that work on the database.
    pub address: Option<IpAddr>,
}

impl AuditAuthor {
    /// Somebody with access to the database.
    pub fn command_line() -> Self {
        Self { key_id: None, name: Text::lossy("cli"), address: None }
    }
}

/// An entry to write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AuditEntry {
    pub author: AuditAuthor,
    pub action: AuditedAction,
    /// The object of the change: a transaction, `CHAIN:ADDRESS`, a pool, a key.
    pub subject: Text<300>,
    pub reason: Option<Text<500>>,
}

/// An entry as it is stored.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredAuditEntry {
    /// Grows with the entries. Entries that are written at the same time may appear in another order.
    pub number: u64,
    /// When it was written, by the database's clock.
    pub at: Timestamp,
    pub author: AuditAuthor,
    /// The name of an [`AuditedAction`], perhaps of another version.
    pub action: String,
    pub subject: Text<300>,
    pub reason: Option<Text<500>>,
}
