//! Signs with the development keys through the real signer, on the caller's thread.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft};
use tollgate_model::{Address, Bytes, ChainId};
use tollgate_signer::{Key, LocalSigner};

use crate::chain::accounts;
use crate::planted::Bug;
use crate::world::World;

/// The keys of one node.
pub(crate) struct Keys {
    signer: LocalSigner,
    /// [`Bug::KeysPretended`]: claims to have the key of every account.
    pretends: bool,
    /// Drafts of its own transactions: recovering a sender costs more than all else here.
    read: Mutex<HashMap<Bytes, TxDraft>>,
}

impl Keys {
    /// The keys of the node with this index: it may lack one.
    pub(crate) fn of_node(world: &World, index: usize) -> Self {
        let lacks = world.plan.keys_missing && world.plan.nodes > 1;
        let held = accounts().into_iter().enumerate().filter(|(at, _)| !lacks || *at != index);
        let keys = held.filter_map(|(_, account)| Key::from_bytes(&account.private_key.0).ok());
        let pretends = world.has(Bug::KeysPretended);
        Self { signer: LocalSigner::new(keys), pretends, read: Mutex::default() }
    }
}

#[async_trait]
impl Signer for Keys {
    fn accounts(&self) -> Vec<Address> {
        let all = accounts().into_iter().map(|account| account.address);
        all.filter(|address| self.pretends || self.signer.signs_for(*address)).collect()
    }

    fn read(&self, chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError> {
        let known = self.read.lock().unwrap_or_else(PoisonError::into_inner).get(raw).cloned();
        known.map_or_else(|| self.signer.read(chain_id, raw), Ok)
    }

    async fn sign(&self, drafts: Vec<TxDraft>) -> Vec<Result<SignedTx, SignError>> {
        let sign = |draft: TxDraft| {
            let signed = self.signer.sign_one(&draft)?;
            let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
            read.insert(signed.raw.clone(), draft);
            Ok(signed)
        };
        drafts.into_iter().map(sign).collect()
    }
}
