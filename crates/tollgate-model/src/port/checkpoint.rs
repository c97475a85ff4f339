//! Checkpoints: named points in the life of a transaction at which tests pause or kill a process.
//!
//! The suites hold a writer at a checkpoint while another node acts, and kill the process at each
//! of them. In production nothing listens, and reaching a checkpoint costs one virtual call.
//! `docs/failpoints.md` has the same table.

use async_trait::async_trait;

/// A point in the work of a store or an engine.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Checkpoint {
    /// Nonces are chosen; nothing is signed.
    SlotsChosen,
    /// Attempts are signed; nothing is durable.
    AttemptsSigned,
    /// A fenced batch has proved its leases and still holds them.
    BatchGuarded,
    /// A fenced batch has written everything and is about to commit.
    BatchWritten,
    /// A fenced batch has committed; the caller has not been informed yet.
    BatchCommitted,
    /// The worker knows that slots and attempts are durable; nothing was sent and no caller answered.
    CreatesCommitted,
    /// The first byte is about to be sent to a node.
    Sending,
    /// A node has answered; the worker has not been informed.
    NodeAnswered,
    /// The worker is about to record the nodes' answers.
    AnswersSeen,
    /// The nodes' answers are recorded.
    AnswersRecorded,
    /// An action of a rule, a policy or a person is claimed and durable; nothing of it was sent.
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
    /// Finished transactions are durable in the archive; their rows are still in the database.
    ArchiveWritten,
}

names!(Checkpoint {
    SlotsChosen => "slots_chosen",
    AttemptsSigned => "attempts_signed",
    BatchGuarded => "batch_guarded",
    BatchWritten => "batch_written",
    BatchCommitted => "batch_committed",
    CreatesCommitted => "creates_committed",
    Sending => "sending",
    NodeAnswered => "node_answered",
    AnswersSeen => "answers_seen",
    AnswersRecorded => "answers_recorded",
    ActionClaimed => "action_claimed",
    ReceiptsSeen => "receipts_seen",
    ReceiptsRecorded => "receipts_recorded",
    FinalityJudged => "finality_judged",
    FinalityRecorded => "finality_recorded",
    TakeoverStarted => "takeover_started",
    ArchiveWritten => "archive_written",
});

/// Is called at each checkpoint.
#[async_trait]
pub trait Checkpoints: Send + Sync + 'static {
    /// The work continues when this returns.
    async fn reached(&self, at: Checkpoint);
}

/// Ignores all checkpoints; used in production.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoCheckpoints;

#[async_trait]
impl Checkpoints for NoCheckpoints {
    async fn reached(&self, _at: Checkpoint) {}
}
