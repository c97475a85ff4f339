//! The outcomes of a batch.

use super::Payload;
use crate::ids::Nonce;
use crate::nonce::SubmitterStatus;
use crate::port::record::KnownRequest;
use crate::time::Timestamp;

/// The outcome of one section.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SectionOutcome {
    /// The section is durable, except for what the answers say.
    Committed {
        /// When the creates were accepted, by the database's clock.
        at: Timestamp,
        /// One answer for each create, in order.
        creates: Vec<CreateAnswer>,
        /// One answer for each update, in order.
        updates: Vec<UpdateAnswer>,
    },
    /// Nothing was written: the lease was lost (I2).
    Fenced,
    /// Nothing was written: the section's slots do not fit what is stored. The cursor has moved, a
    /// request is known already, or a row has changed. Drop the cached nonce, leave out what the
    /// answers name, and allocate again.
    Stale {
        /// The stored cursor.
        cursor: Nonce,
        status: SubmitterStatus,
        /// The outcome that each create would have had.
        creates: Vec<CreateAnswer>,
        /// The outcome that each update would have had.
        updates: Vec<UpdateAnswer>,
    },
    /// Nothing was written: a database constraint refused the section; it is named here. This is a clash
    /// of ids or a defect; the neighbouring sections are not affected.
    Refused(String),
}

impl SectionOutcome {
    /// The answers to creates and updates, if the section is durable.
    pub fn answers(self) -> Option<(Vec<CreateAnswer>, Vec<UpdateAnswer>)> {
        match self {
            Self::Committed { creates, updates, .. } => Some((creates, updates)),
            Self::Fenced | Self::Stale { .. } | Self::Refused(_) => None,
        }
    }
}

/// The outcome of one create.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CreateAnswer {
    /// The transaction was created.
    Created,
    /// The same request created this transaction earlier (I7).
    Duplicate(KnownRequest),
    /// The request id is in use with another payload (I7).
    Conflict(KnownRequest),
}

impl CreateAnswer {
    /// The answer to a create, given the transaction that already uses its request id.
    pub fn judge(payload: &Payload, known: Option<KnownRequest>) -> Self {
        match known {
            None => Self::Created,
            Some(known) if known.payload_digest == payload.digest() => Self::Duplicate(known),
            Some(known) => Self::Conflict(known),
        }
    }
}

/// The outcome of one update.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UpdateAnswer {
    /// The row is now what [`TxUpdate::applied`](super::TxUpdate::applied) says.
    Applied,
    /// The row had changed since the writer read it: read it again.
    Lost,
}
