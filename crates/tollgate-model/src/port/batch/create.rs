//! New transactions.

use alloy_primitives::{B256, Bytes, keccak256};

use super::{BatchLimits, Slot};
use crate::ids::{InvalidId, RequestId, TxId};
use crate::state::{Allocated, Queued, TxState};
use crate::text::Text;
use crate::time::Timestamp;

/// An intent as it was accepted, and its digest.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Payload {
    bytes: Bytes,
    digest: B256,
}

impl Payload {
    /// Takes the intent's canonical bytes: equal intents must have equal bytes (I7).
    pub fn new(bytes: Bytes) -> Result<Self, InvalidId> {
        if bytes.is_empty() || bytes.len() > BatchLimits::PAYLOAD_BYTES {
            let problem =
                format!("{} bytes, must be 1 to {}", bytes.len(), BatchLimits::PAYLOAD_BYTES);
            return Err(InvalidId::new("payload", problem));
        }
        let digest = keccak256(&bytes);
        Ok(Self { bytes, digest })
    }

    /// Keeps `bytes`, but knows them by what was asked for: what was filled in on the way (an
    /// estimate of gas, say) does not make another request of it.
    pub fn filled_in(bytes: Bytes, asked: &Self) -> Result<Self, InvalidId> {
        Ok(Self { digest: asked.digest, ..Self::new(bytes)? })
    }

    /// The bytes.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The Keccak-256 of what was asked for.
    pub const fn digest(&self) -> B256 {
        self.digest
    }
}

/// A transaction to create.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewTx {
    /// Its id, made by the writer.
    pub tx_id: TxId,
    /// The caller's name for it.
    pub request_id: Option<RequestId>,
    /// The intent.
    pub payload: Payload,
    /// Its slot and signed attempt; without one it is QUEUED.
    pub slot: Option<Slot>,
    /// QUEUED/HELD instead of QUEUED/WAITING.
    pub held: bool,
    /// When the intent expires.
    pub valid_until: Option<Timestamp>,
    /// What to tell the world.
    pub outbox: Option<NewEvent>,
}

impl NewTx {
    /// The state that it is born in.
    pub const fn born(&self) -> TxState {
        match (&self.slot, self.held) {
            (Some(_), _) => TxState::Allocated(Allocated::Unsent),
            (None, false) => TxState::Queued(Queued::Waiting),
            (None, true) => TxState::Queued(Queued::Held),
        }
    }
}

/// An event for the outbox, written with the change that it tells of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NewEvent {
    /// `TxAccepted`, `TxSubmitted`, ….
    pub kind: &'static str,
    /// Receivers drop a second event with the same key.
    pub key: Text<200>,
    /// What receivers get.
    pub body: Bytes,
}
