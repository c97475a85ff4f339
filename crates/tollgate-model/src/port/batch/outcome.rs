//! What became of a batch.

use super::Payload;
use crate::ids::Nonce;
use crate::nonce::SubmitterStatus;
use crate::port::record::KnownRequest;
use crate::time::Timestamp;

/// What became of one section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SectionOutcome {
    /// It is durable, but for what the answers say.
    Committed {
        /// When its creates were accepted, by the database's clock.
        at: Timestamp,
        /// One for each create, in order.
        creates: Vec<CreateAnswer>,
        /// One for each update, in order.
        updates: Vec<UpdateAnswer>,
    },
    /// Nothing was written: the lease is gone (I2).
    Fenced,
    /// Nothing was written: the section's slots would not fit what is stored. The cursor is
    /// elsewhere, a request is known already, a row has moved. Drop the cached nonce, leave out
    /// what the answers name, and allocate again.
    Stale {
        /// Where the cursor is.
        cursor: Nonce,
        /// The submitter's status.
        status: SubmitterStatus,
        /// What would have become of each create.
        creates: Vec<CreateAnswer>,
        /// What would have become of each update.
        updates: Vec<UpdateAnswer>,
    },
    /// Nothing was written: the database's own rules (the second line) refused the section, by
    /// the constraint named here. A clash of ids, or a defect; its neighbours were not harmed.
    Refused(String),
}

impl SectionOutcome {
    /// The answers to creates and updates, if it is durable.
    pub fn answers(self) -> Option<(Vec<CreateAnswer>, Vec<UpdateAnswer>)> {
        match self {
            Self::Committed { creates, updates, .. } => Some((creates, updates)),
            Self::Fenced | Self::Stale { .. } | Self::Refused(_) => None,
        }
    }
}

/// What became of one create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateAnswer {
    /// It is new.
    Created,
    /// The same request made this transaction already (I7).
    Duplicate(KnownRequest),
    /// The request id belongs to another payload (I7).
    Conflict(KnownRequest),
}

impl CreateAnswer {
    /// The answer for a create whose request id is, or is not, taken.
    pub fn judge(payload: &Payload, known: Option<KnownRequest>) -> Self {
        match known {
            None => Self::Created,
            Some(known) if known.payload_digest == payload.digest() => Self::Duplicate(known),
            Some(known) => Self::Conflict(known),
        }
    }
}

/// What became of one update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateAnswer {
    /// The row is now what [`TxUpdate::applied`](super::TxUpdate::applied) says.
    Applied,
    /// The row was not what the writer had seen: read it again.
    Lost,
}
