//! A reserved nonce while a closure runs with it.
//!
//! I5: durable before the wire. The hash is reported to Tollgate before the bytes are returned; if the
//! report fails, they are not.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use tollgate_model::port::signer::{SignError, SignedTx, TxDraft};
use tollgate_model::{Address, Bytes, ChainId, Nonce};
use tollgate_signer::{LocalSigner, recover};

use super::error::SlotError;
use super::reservation::Reservation;
use super::tx::Tx;
use crate::client::{Client, ClientError};

/// Signs for the caller.
#[async_trait]
pub trait SlotSigner: Send + Sync {
    /// Signs one draft.
    async fn sign(&self, draft: TxDraft) -> Result<SignedTx, SignError>;
}

#[async_trait]
impl SlotSigner for LocalSigner {
    async fn sign(&self, draft: TxDraft) -> Result<SignedTx, SignError> {
        self.sign_one(&draft)
    }
}

/// The progress of a slot.
#[derive(Clone, Debug)]
pub(crate) enum Progress {
    /// Nothing is signed.
    Open,
    /// Signed; the outcome of the report is unknown.
    Reporting(SignedTx),
    /// Reported, and returned to the closure.
    SlotToFill(SignedTx),
    /// The reservation is no longer ours.
    Lost,
}

/// A reserved nonce for one signature.
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

    /// Signs for this slot and reports the hash to Tollgate. The returned bytes may be sent: from now
    /// on nobody else gets the nonce.
    ///
    /// # Errors
    /// [`SlotError`].
    pub async fn sign(&self, tx: Tx) -> Result<SignedTx, SlotError> {
        self.check_open()?;
        let signed = self.signer.sign(tx.for_slot(&self.reservation)).await?;
        self.report(signed).await
    }

    /// The same for bytes that were signed elsewhere, for this account and this nonce.
    ///
    /// # Errors
    /// [`SlotError`].
    pub async fn adopt(&self, raw: Bytes) -> Result<SignedTx, SlotError> {
        self.check_open()?;
        let read = recover(&raw, self.chain_id());
        let read = read.map_err(|error| SlotError::OtherSlot(error.to_string()))?;
        if (read.draft.from, read.draft.nonce) != (self.submitter(), self.nonce()) {
            let found = format!("nonce {} of {}", read.draft.nonce, read.draft.from);
            return Err(SlotError::OtherSlot(found));
        }
        self.report(SignedTx { tx_hash: read.tx_hash, raw }).await
    }

    fn check_open(&self) -> Result<(), SlotError> {
        match &*self.progress() {
            Progress::Open => Ok(()),
            Progress::Reporting(_) | Progress::SlotToFill(_) => Err(SlotError::AlreadySigned),
            Progress::Lost => Err(SlotError::Stale),
        }
    }

    async fn report(&self, signed: SignedTx) -> Result<SignedTx, SlotError> {
        let tx_hash = signed.tx_hash;
        // Set before the report: from here on Tollgate may know the nonce as used.
        *self.progress() = Progress::Reporting(signed.clone());
        match self.client.used(&self.reservation, tx_hash).await {
            Ok(()) => {
                *self.progress() = Progress::SlotToFill(signed.clone());
                Ok(signed)
            }
            // Nothing was written, so no later nonce waits for these bytes.
            Err(ClientError::Stale) => {
                *self.progress() = Progress::Lost;
                Err(SlotError::Stale)
            }
            Err(source) => Err(SlotError::NotReported { tx_hash, source }),
        }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
