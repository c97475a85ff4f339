//! Work that nobody here can do: accounts whose keys are gone, each with an intent that waits and a
//! lease that nobody renews. Whoever looks for orphans finds these first.

use std::time::Duration;

use tollgate_model::nonce::Mode;
use tollgate_model::port::{
    Acquisition, FencedBatch, LeaseStore, LeaseTerms, NewTx, Section, StoreError, SubmitterSetup,
    TxStore,
};
use tollgate_model::{Address, Intent, NodeId, Nonce, Submitter, TxId, U256};
use uuid::Uuid;

use crate::world::World;

/// Sections of one batch.
const BATCH: usize = 200;

/// Leaves as many as the plan says.
pub(crate) async fn leave(world: &World) -> Result<(), StoreError> {
    let node = NodeId::new("gone", Uuid::from_u128(1))?;
    let second = Duration::from_secs(1);
    let terms = LeaseTerms::new(second, second / 4, second / 10)?;
    // Low addresses: first in any order by address.
    let address = |number: usize| Address::left_padding_from(&(number + 1).to_be_bytes());
    let all: Vec<Submitter> = (0..world.plan.orphans)
        .map(|number| Submitter::new(world.chain_id(), address(number)))
        .collect();
    for some in all.chunks(BATCH) {
        let setup = |submitter: &Submitter| SubmitterSetup {
            submitter: *submitter,
            mode: Mode::Pipelined,
            start_from: Nonce::MIN,
        };
        world.store.register_submitters(&some.iter().map(setup).collect::<Vec<_>>()).await?;
        let mut sections = Vec::with_capacity(some.len());
        for submitter in some {
            let taken = world.store.acquire(*submitter, &node, &terms).await?;
            let Acquisition::Granted { lease, .. } = taken else { continue };
            let id = u128::from(world.below(u64::MAX)) << 64 | u128::from(world.below(u64::MAX));
            let create = NewTx {
                tx_id: TxId::from_uuid(Uuid::from_u128(id)),
                request_id: None,
                payload: Intent::transfer(crate::chain::PAID, U256::from(1)).to_payload()?,
                slot: None,
                held: false,
                valid_until: None,
                author: None,
                trace: None,
            };
            sections.push(Section { creates: vec![create], ..Section::new(lease) });
        }
        world.store.commit(&FencedBatch::new(node.clone(), sections)?).await?;
    }
    Ok(())
}
