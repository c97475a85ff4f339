//! The labels whose values are known beforehand, and the names of the others.

use tollgate_model::StuckReason;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::AlertKind;

/// A label with a fixed set of values.
pub trait LabelValue: Copy + Send + Sync + 'static {
    /// The label's name.
    const LABEL: &'static str;
    /// The place of the value among all.
    fn index(self) -> usize;
    /// All values.
    fn names() -> Vec<&'static str>;
}

/// Names of labels whose values are found while the process runs.
pub trait LabelNames: Send + Sync + 'static {
    /// The names, in the order of the values.
    const LABELS: &'static [&'static str];
}

/// Declares labels: an enum for each, with the names of its values.
macro_rules! labels {
    ($( $(#[doc = $about:literal])+ $type:ident: $label:literal {
        $( $(#[doc = $doc:literal])+ $variant:ident => $name:literal, )+
    } )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum $type { $( $(#[doc = $doc])+ $variant, )+ }

        impl LabelValue for $type {
            const LABEL: &'static str = $label;

            fn index(self) -> usize {
                self as usize
            }

            fn names() -> Vec<&'static str> {
                vec![$($name),+]
            }
        }
    )+};
}

labels! {
    /// The result of an attempt to take a lease.
    LeaseResult: "result" {
        /// Nobody had it before.
        First => "first",
        /// This node had it already.
        Kept => "kept",
        /// Taken over from another owner.
        TakenOver => "taken_over",
        /// Another node has it.
        Held => "held",
        /// The store could not be asked.
        Error => "error",
    }
    /// The result of the renewal of one lease.
    RenewResult: "result" {
        /// Renewed.
        Renewed => "renewed",
        /// Another node has it.
        Lost => "lost",
        /// The store could not be asked.
        Error => "error",
    }
    /// The write that found its lease lost.
    FencedOp: "op" {
        /// A batch.
        Commit => "commit",
        /// A renewal.
        Renew => "renew",
        /// The lease was lost while the store could not be asked.
        Acquire => "acquire",
    }
    /// The result of a create.
    CreateResult: "result" {
        /// A new transaction.
        Created => "created",
        /// The same request as before.
        Known => "known",
        /// A known request id with another payload.
        Conflict => "conflict",
        /// The intent is wrong, or the chain would refuse it.
        Refused => "refused",
        /// Too much waits for the account.
        Busy => "busy",
        /// The account's worker, the store or the chain could not be asked.
        Unavailable => "unavailable",
    }
    /// The result of a section of a batch.
    CommitResult: "result" {
        /// Written.
        Committed => "committed",
        /// The lease is lost: nothing was written.
        Fenced => "fenced",
        /// Another writer was first: nothing was written.
        Stale => "stale",
        /// The store refused a row: nothing was written.
        Refused => "refused",
        /// The outcome of the commit is unknown.
        Unknown => "unknown",
        /// The store could not be asked.
        Error => "error",
    }
    /// The end of a transaction.
    TxEnd: "outcome" {
        /// Executed.
        Confirmed => "confirmed",
        /// Mined and reverted.
        Reverted => "reverted",
        /// Withdrawn.
        Cancelled => "cancelled",
        /// No node accepted it.
        Rejected => "rejected",
        /// Another transaction used its slot.
        NonceTaken => "nonce_taken",
    }
    /// The result of a read of a receipt.
    ReceiptResult: "result" {
        /// The receipt.
        Found => "found",
        /// No endpoint has it yet.
        Missing => "missing",
    }
    /// The result of a look at a transaction that no block has picked up.
    ResubmitResult: "result" {
        /// Claimed and sent again.
        Sent => "sent",
        /// The claim could not be written.
        Refused => "refused",
        /// All tries are used up: somebody has to decide.
        Exhausted => "exhausted",
    }
    /// Ways into the grey zone and out of it.
    GreyZoneResult: "result" {
        /// Sent, with an outcome that is not known.
        Entered => "entered",
        /// A node has it.
        Accepted => "accepted",
        /// Found in a block.
        Mined => "mined",
        /// The nodes say that the balance does not cover it.
        Funds => "funds",
        /// Marked STUCK.
        Stuck => "stuck",
        /// Ended otherwise.
        Ended => "ended",
    }
    /// The result of a comparison of the chain's count with the open slots.
    ReconcileResult: "result" {
        /// They agree.
        Agreed => "agreed",
        /// They differ, and something was done.
        Acted => "acted",
        /// The chain could not be asked.
        Error => "error",
    }
    /// The place where a request about an account was carried out.
    ForwardResult: "result" {
        /// Here.
        Here => "here",
        /// At the node that owns the account.
        Forwarded => "forwarded",
        /// The owner was not reached, or gave no answer.
        Failed => "failed",
    }
    /// The end of a span on its way to the collector.
    SpanResult: "result" {
        /// The receiver has it.
        Exported => "exported",
        /// More spans waited than are kept.
        Dropped => "dropped",
        /// The receiver did not take it.
        Failed => "failed",
    }
    /// The level of a log line.
    LogLevel: "level" {
        /// Error.
        Error => "error",
        /// Warning.
        Warn => "warn",
        /// Information.
        Info => "info",
        /// Debug or trace.
        Debug => "debug",
    }
}

/// Gives an enum of the model its label.
macro_rules! model_labels {
    ($($type:ty => $label:literal;)+) => {$(
        impl LabelValue for $type {
            const LABEL: &'static str = $label;

            fn index(self) -> usize {
                self as usize
            }

            fn names() -> Vec<&'static str> {
                Self::ALL.iter().map(|value| value.name()).collect()
            }
        }
    )+};
}

model_labels! {
    AnswerClass => "result";
    StuckReason => "reason";
    AlertKind => "kind";
}

/// Declares the names of labels whose values are found while the process runs.
macro_rules! label_names {
    ($( $(#[doc = $about:literal])+ $type:ident => [$($label:literal),+]; )+) => {$(
        $(#[doc = $about])+
        pub struct $type;

        impl LabelNames for $type {
            const LABELS: &'static [&'static str] = &[$($label),+];
        }
    )+};
}

label_names! {
    /// An RPC endpoint: scheme, host and port.
    OfEndpoint => ["endpoint"];
    /// An endpoint and a JSON-RPC method.
    OfCall => ["endpoint", "method"];
    /// An endpoint and the class of an error.
    OfRpcError => ["endpoint", "class"];
    /// An account.
    OfSubmitter => ["submitter"];
    /// A route of the API, and the status of the answer.
    OfRequest => ["method", "route", "status"];
    /// A route of the API.
    OfRoute => ["route"];
    /// The build.
    OfBuild => ["version", "database"];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_model_stand_at_the_places_of_their_names() {
        fn check<L: LabelValue + std::fmt::Display>(all: &[L]) {
            for value in all {
                assert_eq!(L::names()[value.index()], value.to_string());
            }
        }
        check(&AnswerClass::ALL);
        check(&StuckReason::ALL);
        check(&AlertKind::ALL);
    }
}
