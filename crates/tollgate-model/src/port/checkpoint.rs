//! Named places in the life of a transaction, so that tests can stop there or die there.
//!
//! A race is only tested when it is made to happen: the suites hold a writer at a checkpoint while
//! another node acts, and kill the process at each of them. In production nobody watches, and
//! reaching one costs a virtual call. `docs/failpoints.md` shows the same table to people.

use async_trait::async_trait;

/// A place in the work of a store or an engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Checkpoint {
    /// Nonces are chosen; nothing is signed.
    SlotsChosen,
    /// Attempts are signed; nothing is durable.
    AttemptsSigned,
    /// A fenced batch has proved its leases and holds them still.
    BatchGuarded,
    /// A fenced batch has written everything and is about to commit.
    BatchWritten,
    /// A fenced batch has committed; the caller does not know yet.
    BatchCommitted,
    /// The worker knows that slots and attempts are durable; nothing is sent, nobody is answered.
    CreatesCommitted,
    /// The first byte is about to go to a node.
    Sending,
    /// A node has answered; nobody was told.
    NodeAnswered,
    /// The worker is about to record what nodes answered.
    AnswersSeen,
    /// What nodes answered is recorded.
    AnswersRecorded,
    /// What a rule, a policy or a person wants done is claimed and durable; nothing of it is sent.
    ActionClaimed,
    /// The worker is about to record receipts.
    ReceiptsSeen,
    /// Receipts are recorded.
    ReceiptsRecorded,
    /// The worker is about to record that transactions are final.
    FinalityJudged,
    /// Transactions are final.
    FinalityRecorded,
    /// A takeover is about to look for an expired lease.
    TakeoverStarted,
}

impl Checkpoint {
    /// Every checkpoint, in the order in which a transaction passes them.
    pub const ALL: [Self; 16] = [
        Self::SlotsChosen,
        Self::AttemptsSigned,
        Self::BatchGuarded,
        Self::BatchWritten,
        Self::BatchCommitted,
        Self::CreatesCommitted,
        Self::Sending,
        Self::NodeAnswered,
        Self::AnswersSeen,
        Self::AnswersRecorded,
        Self::ActionClaimed,
        Self::ReceiptsSeen,
        Self::ReceiptsRecorded,
        Self::FinalityJudged,
        Self::FinalityRecorded,
        Self::TakeoverStarted,
    ];

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlotsChosen => "slots_chosen",
            Self::AttemptsSigned => "attempts_signed",
            Self::BatchGuarded => "batch_guarded",
            Self::BatchWritten => "batch_written",
            Self::BatchCommitted => "batch_committed",
            Self::CreatesCommitted => "creates_committed",
            Self::Sending => "sending",
            Self::NodeAnswered => "node_answered",
            Self::AnswersSeen => "answers_seen",
            Self::AnswersRecorded => "answers_recorded",
            Self::ActionClaimed => "action_claimed",
            Self::ReceiptsSeen => "receipts_seen",
            Self::ReceiptsRecorded => "receipts_recorded",
            Self::FinalityJudged => "finality_judged",
            Self::FinalityRecorded => "finality_recorded",
            Self::TakeoverStarted => "takeover_started",
        }
    }

    /// The checkpoint of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|checkpoint| checkpoint.name() == name)
    }
}

/// Somebody who wants to know.
#[async_trait]
pub trait Checkpoints: Send + Sync + 'static {
    /// Work waits here until this returns.
    async fn reached(&self, at: Checkpoint);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

#[async_trait]
impl Checkpoints for Unwatched {
    async fn reached(&self, _at: Checkpoint) {}
}
