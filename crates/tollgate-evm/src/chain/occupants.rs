//! Finds the transactions in an account's used slots.
//!
//! Owns the whole blocks that were read, so that a later search continues below them. A slot is found by
//! bisection over the account's count in past blocks, so its age does not matter. An endpoint without
//! old states is asked for whole blocks instead, from the newest down, a bounded number at a time (I13).
//! A transaction that is not found is not known: nothing here shows that a slot is empty or that a
//! transaction does not exist (I8). Where several endpoints are configured, two must show the same
//! transaction, or one shows it in a block that another one has as well, and the block's hash covers it.
//! One is enough after no other one has shown that block for
//! [`ChainConfig::single_source_after`](super::ChainConfig::single_source_after) (I15): corroborated if the block's
//! hash covers the transaction. One is never enough if another one has another block there, or shows the block
//! without the transaction and nothing is proven.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use alloy_consensus::{EthereumTxEnvelope, Transaction as _, TxEip4844};
use alloy_eips::eip2718::Encodable2718 as _;
use serde_json::{Value, json};
use tokio::time::Instant;
use tollgate_model::diagnose::witnesses_needed;
use tollgate_model::port::chain::{Occupant, OccupantSearch, OccupantSupport};
use tollgate_model::{Address, Nonce, TxHash, keccak256};

use super::block_proof::covers;
use super::block_search::{BlockScan, EndpointSearch, Miss, note, read};
use super::corroboration::SingleSource;
use super::count_proofs::{LoneClaim, Verdict};
use super::pool_member::PoolMember;
use super::router::{Needs, Router, unavailable};

/// Blocks this far below the head are remembered, because a reorg hardly reaches them.
pub(super) const REMEMBERED_DEPTH: u64 = 32;
/// Accounts whose blocks are remembered, for each endpoint (I13).
const ACCOUNTS_MAX: usize = 1_024;
/// Transactions of one account that are remembered (I13).
const SHOWN_MAX: usize = 16_384;

/// Transactions that one endpoint alone shows and that are remembered (I13).
const ALONE_MAX: usize = 16_384;

/// The whole blocks that each endpoint has shown, by endpoint and account.
#[derive(Debug, Default)]
pub(super) struct BlockScans {
    scans: Mutex<HashMap<(String, Address), BlockScan>>,
    /// Since when one endpoint alone shows a transaction.
    alone: Mutex<HashMap<TxHash, SingleSource>>,
}

impl BlockScans {
    fn get(&self, key: &(String, Address)) -> BlockScan {
        let scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        scans.get(key).cloned().unwrap_or_default()
    }

    /// Returns whether a transaction counts as seen that this many endpoints show.
    fn is_enough(&self, router: &Router, of: TxHash, witnesses: usize) -> bool {
        let (readers, after) = (router.readers_configured(), router.config.single_source_after);
        let mut alone = self.alone.lock().unwrap_or_else(PoisonError::into_inner);
        if alone.len() >= ALONE_MAX {
            alone.clear();
        }
        alone.entry(of).or_default().is_enough(witnesses, readers, Instant::now(), after)
    }

    fn keep(&self, key: (String, Address), mut scan: BlockScan, head: u64) {
        let highest = head.saturating_sub(REMEMBERED_DEPTH);
        scan.range = scan.range.map(|(low, high)| (low, high.min(highest)));
        scan.range = scan.range.filter(|(low, high)| low <= high);
        scan.shown.retain(|_, seen| seen.block_number <= highest);
        let mut scans = self.scans.lock().unwrap_or_else(PoisonError::into_inner);
        if scan.range.is_none() || scan.shown.len() > SHOWN_MAX {
            scans.remove(&key);
            return;
        }
        if scans.len() >= ACCOUNTS_MAX && !scans.contains_key(&key) {
            scans.clear();
        }
        scans.insert(key, scan);
    }
}

/// Asks one endpoint after the other until each slot's transaction was shown by as many as needed: two
/// where several are configured (I8), because one endpoint alone may show an invented one. Its block decides if
/// another endpoint has the same block and leaves the transaction out.
pub(super) async fn occupants(
    router: &Router,
    scans: &BlockScans,
    of: Address,
    slots: &[Nonce],
    lookback: u64,
) -> OccupantSearch {
    let mut missing: BTreeSet<u64> = slots.iter().map(|slot| slot.get()).collect();
    let (mut seen, mut refusals) = (Vec::new(), Vec::new());
    let needed = witnesses_needed(router.readers_configured());
    let mut shown: Vec<(Occupant, Arc<PoolMember>)> = Vec::new();
    let readers = router.readers(Needs::Head, Instant::now());
    for member in &readers {
        if missing.is_empty() {
            break;
        }
        let name = member.endpoint.name();
        let key = (name.to_owned(), of);
        let mut search = EndpointSearch::new(router, member, of, scans.get(&key), lookback);
        let mut found = Vec::new();
        if let Err(why) = search.find_all(&mut missing.clone(), &mut found).await {
            refusals.push(format!("{name}: {why}"));
        }
        for occupant in found {
            shown.push((occupant, member.clone()));
            if shown.iter().filter(|(other, _)| *other == occupant).count() >= needed {
                missing.remove(&occupant.nonce.get());
                let support = match needed {
                    0 | 1 => OccupantSupport::Single,
                    _ => OccupantSupport::Corroborated,
                };
                seen.push(Occupant { support, ..occupant });
            }
        }
        if let Some((head, _)) = search.counts.last_key_value() {
            scans.keep(key, search.scan, *head);
        }
    }
    // An endpoint that counts too little finds nothing by itself, but may have the block.
    for (occupant, by) in &shown {
        let (nonce, tx_hash) = (occupant.nonce.get(), occupant.tx_hash);
        if !missing.contains(&nonce) {
            continue;
        }
        let others = ask_others(router, &readers, by, of, occupant).await;
        let is_corroborated = others.corroborate(router, by, of, occupant).await;
        let witnesses = if is_corroborated { needed } else { 1 };
        let is_contradicted = !is_corroborated && others.contradict();
        if scans.is_enough(router, tx_hash, witnesses) && !is_contradicted {
            missing.remove(&nonce);
            let support = match is_corroborated || is_proven(router, by, of, occupant).await {
                true => OccupantSupport::Corroborated,
                false => OccupantSupport::Single,
            };
            seen.push(Occupant { support, ..*occupant });
        } else {
            let name = by.endpoint.name();
            refusals.push(format!("{name}: alone in showing {tx_hash} in slot {nonce}"));
        }
    }
    let problem = || unavailable("what is in the slot", &refusals).0;
    OccupantSearch { problem: (!missing.is_empty()).then(problem), seen }
}

/// Has an endpoint show the last transaction of the count that it claims.
///
/// Its own blocks contradict the claim if the count passes the slot in a block without the transaction, or
/// if it does not count the slot by the number of its head. Another endpoint that shows the block
/// differently leaves it open which of the two is right.
pub(super) async fn prove_slot(
    router: &Router,
    scans: &BlockScans,
    of: Address,
    claim: LoneClaim,
    lookback: u64,
) -> Verdict {
    let Some(slot) = claim.value.checked_sub(1) else { return Verdict::Unknown };
    let readers = router.readers(Needs::Head, Instant::now());
    let Some(member) = readers.iter().find(|member| member.place == claim.place) else {
        return Verdict::Unknown;
    };
    let key = (member.endpoint.name().to_owned(), of);
    let mut search = EndpointSearch::new(router, member, of, scans.get(&key), lookback);
    let found = search.find_one(slot).await;
    if let Some((head, _)) = search.counts.last_key_value() {
        scans.keep(key, search.scan, *head);
    }
    let occupant = match found {
        Ok(occupant) => occupant,
        Err(Miss::Contradicted(_)) => return Verdict::Contradicted,
        Err(Miss::Unknown(_)) => return Verdict::Unknown,
    };
    let others = ask_others(router, &readers, member, of, &occupant).await;
    if others.corroborate(router, member, of, &occupant).await {
        return Verdict::Shown;
    }
    // Nobody but the account can have signed for the slot.
    match !others.contradict() && is_signed(router, member, of, &occupant).await {
        true => Verdict::Shown,
        false => Verdict::Unknown,
    }
}

/// The other endpoints' contents of a slot in which one endpoint shows a transaction.
#[derive(Clone, Copy, Debug, Default)]
struct OtherBlocks {
    /// The same transaction in the same block.
    is_shown: bool,
    /// The same block without the transaction.
    is_left_out: bool,
    /// Another block.
    differs: bool,
}

impl OtherBlocks {
    const fn contradict(self) -> bool {
        self.is_left_out || self.differs
    }

    /// Returns whether the transaction does not rest on one endpoint's word: a second one shows it, or a second one
    /// has the block and the block's hash covers the transaction, which the account has signed for this slot.
    async fn corroborate(
        self,
        router: &Router,
        by: &PoolMember,
        of: Address,
        occupant: &Occupant,
    ) -> bool {
        self.is_shown || self.is_left_out && is_proven(router, by, of, occupant).await
    }
}

/// Returns whether the hash of its block covers a transaction, which the account has signed for the slot.
async fn is_proven(router: &Router, by: &PoolMember, of: Address, occupant: &Occupant) -> bool {
    let Occupant { block_hash, tx_hash, .. } = *occupant;
    covers(by, block_hash, tx_hash, router.deadline()).await
        && is_signed(router, by, of, occupant).await
}

/// Asks the other endpoints for the block of a transaction that one endpoint shows, until a second one shows it too.
async fn ask_others(
    router: &Router,
    readers: &[Arc<PoolMember>],
    by: &PoolMember,
    of: Address,
    occupant: &Occupant,
) -> OtherBlocks {
    let mut found = OtherBlocks::default();
    for other in readers.iter().filter(|other| other.place != by.place) {
        let Ok(block) = read(router, other, occupant.block_number).await else { continue };
        let mut shown = BTreeMap::new();
        note(of, &block, &mut shown);
        if shown.get(&occupant.nonce.get()) == Some(occupant) {
            found.is_shown = true;
            break;
        }
        match block.hash.0 == occupant.block_hash {
            true => found.is_left_out = true,
            false => found.differs = true,
        }
    }
    found
}

/// Returns whether the transaction that an endpoint shows has the account's signature and the slot's nonce.
async fn is_signed(router: &Router, member: &PoolMember, of: Address, occupant: &Occupant) -> bool {
    let params = json!([occupant.tx_hash.to_string()]);
    let call = member.endpoint.call_until::<Option<Value>>(
        "eth_getTransactionByHash",
        params,
        router.deadline(),
    );
    let Ok(Some(shown)) = call.await else { return false };
    let Ok(tx) = serde_json::from_value::<EthereumTxEnvelope<TxEip4844>>(shown) else {
        return false;
    };
    let signer = tx.signature().recover_address_from_prehash(&tx.signature_hash()).ok();
    let hash = keccak256(tx.encoded_2718());
    (signer, tx.nonce(), hash) == (Some(of), occupant.nonce.get(), occupant.tx_hash)
}
