//! A reserved nonce while a closure runs with it.
//!
//! I5: durable before the wire. The hash is told to Tollgate before the bytes are handed out, and
//! where telling failed they are not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tollgate_evm::signer::{LocalSigner, recover};
use tollgate_model::port::signer::{SignError, SignedTx, TxDraft};
use tollgate_model::{Address, Bytes, ChainId, Nonce};

use crate::client::Client;
use crate::error::{ClientError, SlotError};
use crate::reservation::Reservation;
use crate::tx::Tx;

/// Whoever signs for the caller.
#[async_trait]
pub trait SlotSigner: Send + Sync {
    /// Signs one draft, or says why not.
    async fn sign(&self, draft: TxDraft) -> Result<SignedTx, SignError>;
}

#[async_trait]
impl SlotSigner for LocalSigner {
    async fn sign(&self, draft: TxDraft) -> Result<SignedTx, SignError> {
        self.sign_one(&draft)
    }
}

/// How far a slot has come.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    /// Nothing is signed.
    Open,
    /// Signed, and not known to be told: maybe it is.
    Telling(SignedTx),
    /// Told, and handed out.
    HandedOut(SignedTx),
    /// The nonce is not ours.
    Lost,
}

/// A nonce for one signature.
pub struct Slot {
    pub(crate) client: Client,
    pub(crate) reservation: Reservation,
    pub(crate) signer: Arc<dyn SlotSigner>,
    pub(crate) progress: Arc<Mutex<Progress>>,
}

impl Slot {
    /// The nonce.
    pub const fn nonce(&self) -> Nonce {
        self.reservation.nonce
    }

    /// The account.
    pub const fn submitter(&self) -> Address {
        self.reservation.submitter
    }

    /// The chain.
    pub const fn chain_id(&self) -> ChainId {
        self.reservation.chain_id
    }

    /// Signs for this slot and tells Tollgate of it. What comes back may be sent: from now on nobody
    /// else gets the nonce.
    pub async fn sign(&self, tx: Tx) -> Result<SignedTx, SlotError> {
        self.check_open()?;
        let signed = self.signer.sign(tx.for_slot(&self.reservation)).await?;
        self.tell(signed).await
    }

    /// The same for bytes that somebody else has signed, for this account and this nonce.
    pub async fn take(&self, raw: Bytes) -> Result<SignedTx, SlotError> {
        self.check_open()?;
        let read = recover(&raw, self.chain_id());
        let read = read.map_err(|error| SlotError::OtherSlot(error.to_string()))?;
        if (read.draft.from, read.draft.nonce) != (self.submitter(), self.nonce()) {
            let found = format!("nonce {} of {}", read.draft.nonce, read.draft.from);
            return Err(SlotError::OtherSlot(found));
        }
        self.tell(SignedTx { tx_hash: read.tx_hash, raw }).await
    }

    fn check_open(&self) -> Result<(), SlotError> {
        match &*self.progress() {
            Progress::Open => Ok(()),
            Progress::Telling(_) | Progress::HandedOut(_) => Err(SlotError::AlreadySigned),
            Progress::Lost => Err(SlotError::Stale),
        }
    }

    async fn tell(&self, signed: SignedTx) -> Result<SignedTx, SlotError> {
        let tx_hash = signed.tx_hash;
        // Before it is told: whatever happens from here on, it may be known as used.
        *self.progress() = Progress::Telling(signed.clone());
        match self.client.used(&self.reservation, tx_hash).await {
            Ok(()) => {
                *self.progress() = Progress::HandedOut(signed.clone());
                Ok(signed)
            }
            // Nothing was written, so nobody waits for these bytes.
            Err(ClientError::Stale) => {
                *self.progress() = Progress::Lost;
                Err(SlotError::Stale)
            }
            Err(why @ (ClientError::Refused { .. } | ClientError::NoAnswer(_))) => {
                Err(SlotError::Untold { tx_hash, why })
            }
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
