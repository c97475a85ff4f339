//! Finds the transactions in an account's used slots.
//!
//! Owns the whole blocks that were read, so that a later search continues below them. A slot is found by
//! bisection over the account's count in past blocks, so its age does not matter. An endpoint without
//! old states is asked for whole blocks instead, from the newest down, a bounded number at a time (I13).
//! A transaction that is not found is not known: nothing here shows that a slot is empty or that a
//! transaction does not exist (I8). Where several endpoints are configured, two must show the same
//! transaction. One is enough after no other one has shown that block for
//! [`ChainConfig::single_source_after`](super::ChainConfig::single_source_after) (I15), and never if
//! another one shows the block differently.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use serde_json::json;
use tollgate_model::diagnose::witnesses_needed;
use tollgate_model::port::chain::{Occupant, OccupantSearch};
use tollgate_model::{Address, Nonce, TxHash};

use super::corroboration::SingleSource;
use super::pool_member::PoolMember;
use super::router::{Needs, Router, unavailable};
use crate::endpoint::json::{BlockJson, FullBlockJson, Quantity, quantity};
use crate::endpoint::{RpcError, RpcErrorKind};
use tokio::time::Instant;

/// Whole blocks in flight at once.
const IN_FLIGHT: usize = 4;
/// Blocks this far below the head are remembered, because a reorg hardly reaches them.
const REMEMBERED_DEPTH: u64 = 32;
/// The least number of blocks that a search reads, so that it gets below those that are not remembered.
const LOOKBACK_MIN: u64 = 2 * REMEMBERED_DEPTH;
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

/// Consecutive whole blocks of one endpoint, and the transactions of one account in them.
#[derive(Clone, Debug, Default)]
struct BlockScan {
    /// The lowest and the highest block.
    range: Option<(u64, u64)>,
    shown: BTreeMap<u64, Occupant>,
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
/// where several are configured (I8), because one endpoint alone may show an invented one.
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
        let mut search = EndpointSearch {
            router,
            member,
            of,
            budget: usize::try_from(lookback.max(LOOKBACK_MIN)).unwrap_or(usize::MAX),
            counts: BTreeMap::new(),
            scan: scans.get(&key),
        };
        let mut found = Vec::new();
        if let Err(why) = search.find_all(&mut missing.clone(), &mut found).await {
            refusals.push(format!("{name}: {why}"));
        }
        for occupant in found {
            shown.push((occupant, member.clone()));
            if shown.iter().filter(|(other, _)| *other == occupant).count() >= needed {
                missing.remove(&occupant.nonce.get());
                seen.push(occupant);
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
        let (mut witnesses, mut is_contradicted) = (1, false);
        for other in readers.iter().filter(|other| other.place != by.place) {
            match shows(router, other, of, occupant).await {
                Some(true) => witnesses += 1,
                Some(false) => is_contradicted = true,
                None => {}
            }
            if witnesses >= needed {
                break;
            }
        }
        let is_alone = witnesses < needed;
        if scans.is_enough(router, tx_hash, witnesses) && !(is_alone && is_contradicted) {
            missing.remove(&nonce);
            seen.push(*occupant);
        } else {
            let name = by.endpoint.name();
            refusals.push(format!("{name}: alone in showing {tx_hash} in slot {nonce}"));
        }
    }
    let problem = || unavailable("what is in the slot", &refusals).0;
    OccupantSearch { problem: (!missing.is_empty()).then(problem), seen }
}

/// Whether an endpoint has the same transaction in the same block; `None` if it does not show the block.
async fn shows(
    router: &Router,
    member: &PoolMember,
    of: Address,
    occupant: &Occupant,
) -> Option<bool> {
    let block = read(router, member, occupant.block_number).await.ok()?;
    let mut shown = BTreeMap::new();
    note(of, &block, &mut shown);
    Some(shown.get(&occupant.nonce.get()) == Some(occupant))
}

/// A search at one endpoint.
struct EndpointSearch<'a> {
    router: &'a Router,
    member: &'a PoolMember,
    of: Address,
    /// Whole blocks that may still be read in this search.
    budget: usize,
    /// The endpoint's counts by block.
    counts: BTreeMap<u64, u64>,
    scan: BlockScan,
}

/// The result of bisection by counts.
enum Narrowed {
    /// The count passed the slot in this block.
    At(u64),
    /// The slot is used in this block; older counts are not available.
    UpTo(u64),
}

impl EndpointSearch<'_> {
    /// Moves the slots that are found from `missing` to `seen`; the error tells why the others were not.
    async fn find_all(
        &mut self,
        missing: &mut BTreeSet<u64>,
        seen: &mut Vec<Occupant>,
    ) -> Result<(), String> {
        let text = |error: RpcError| error.to_string();
        let params = json!(["latest", false]);
        let head: Option<BlockJson> =
            self.call("eth_getBlockByNumber", params).await.map_err(text)?;
        let mut head = head.and_then(|block| block.at()).ok_or("does not tell its head")?.number;
        let mut counted = self.count(head).await;
        // It may report a head that it does not have; a height that two endpoints reached will do.
        let common = self.router.common_height().filter(|common| *common < head);
        if let (true, Some(common)) = (counted.is_err(), common) {
            head = common;
            counted = self.count(head).await;
        }
        let counted = counted.map_err(text)?;
        let mut problem = Ok(());
        for nonce in missing.clone().into_iter().rev() {
            // I8: an endpoint that does not count a slot can't show what is in it.
            if counted <= nonce {
                problem = Err(format!("counts {counted}, so slot {nonce} is unused for it"));
                continue;
            }
            match self.find(nonce, head).await {
                Ok(occupant) => {
                    missing.remove(&nonce);
                    seen.push(occupant);
                }
                Err(why) => problem = Err(why),
            }
        }
        problem
    }

    async fn find(&mut self, nonce: u64, head: u64) -> Result<Occupant, String> {
        if let Some(known) = self.scan.shown.get(&nonce) {
            return Ok(*known);
        }
        let top = match self.narrow(nonce, head).await.map_err(|error| error.to_string())? {
            Narrowed::At(block) => {
                let mut shown = BTreeMap::new();
                self.read_block(block, &mut shown).await?;
                if let Some(there) = shown.get(&nonce) {
                    return Ok(*there);
                }
                // Some nodes (Besu) count zero where they have no state: the block may be older.
                block
            }
            Narrowed::UpTo(block) => block,
        };
        self.scan_down(nonce, top).await
    }

    /// Finds the block in which the count passed the nonce, from the head down, because more nodes have
    /// newer states.
    async fn narrow(&mut self, nonce: u64, head: u64) -> Result<Narrowed, RpcError> {
        let used = self.counts.iter().find(|(_, count)| **count > nonce);
        let mut to = used.map_or(head, |(block, _)| *block);
        let unused = self.counts.range(..to).rev().find(|(_, count)| **count <= nonce);
        let mut from = unused.map(|(block, _)| block + 1);
        let mut step = 1_u64;
        while from.is_none_or(|from| from < to) {
            let probe = match from {
                Some(from) => from + (to - from) / 2,
                None => match to.checked_sub(1) {
                    Some(below) => to.saturating_sub(step).min(below),
                    // There is nothing below the first block.
                    None => break,
                },
            };
            match self.count(probe).await {
                Ok(count) if count > nonce => to = probe,
                Ok(_) => from = Some(probe + 1),
                // It has no such state; it may still have the blocks.
                Err(error) if error.kind == RpcErrorKind::Node => return Ok(Narrowed::UpTo(to)),
                Err(error) => return Err(error),
            }
            step = step.saturating_mul(2);
        }
        Ok(Narrowed::At(to))
    }

    /// Reads whole blocks that were not read before, from the highest down, within the budget.
    async fn scan_down(&mut self, nonce: u64, top: u64) -> Result<Occupant, String> {
        let (low, high) = self.scan.range.unwrap_or((top.saturating_add(1), top));
        let above = (high.saturating_add(1).min(top.saturating_add(1))..=top).rev();
        // Blocks below a lower nonce hold lower nonces only.
        let is_passed = self.scan.shown.range(..nonce).next().is_some();
        let below = (0..if is_passed { 0 } else { low.min(top.saturating_add(1)) }).rev();
        let above_count = usize::try_from(top.saturating_sub(high)).unwrap_or(usize::MAX);
        let numbers: Vec<u64> = above.chain(below).take(self.budget).collect();
        let (router, member, of) = (self.router, self.member, self.of);
        let blocks = stream::iter(numbers.clone()).map(|number| read(router, member, number));
        let mut blocks = blocks.buffered(IN_FLIGHT);
        let (mut shown, mut done, mut problem) = (BTreeMap::new(), 0_usize, None);
        let is_below = |shown: &BTreeMap<u64, Occupant>| shown.range(..nonce).next().is_some();
        while !shown.contains_key(&nonce) && !is_below(&shown) && problem.is_none() {
            match blocks.next().await {
                Some(Ok(block)) => {
                    done += 1;
                    note(of, &block, &mut shown);
                }
                Some(Err(why)) => problem = Some(why),
                None => break,
            }
        }
        drop(blocks);
        self.budget = self.budget.saturating_sub(done);
        if let Some(lowest) = done.checked_sub(1).and_then(|last| numbers.get(last)) {
            // A part that does not join the blocks read before replaces them.
            let joins =
                self.scan.range.is_some() && done >= above_count && top.saturating_add(1) >= low;
            let highest = if joins { high.max(top) } else { top };
            self.scan.range = Some(((*lowest).min(if joins { low } else { *lowest }), highest));
        }
        let is_passed = is_passed || is_below(&shown);
        let found = shown.get(&nonce).copied();
        self.scan.shown.extend(shown);
        match (found, problem) {
            (Some(found), _) => Ok(found),
            (None, Some(why)) => Err(why),
            (None, None) if is_passed => Err(format!("shows no transaction in slot {nonce}")),
            (None, None) => {
                let reached = self.scan.range.map_or(top, |(low, _)| low);
                Err(format!(
                    "has no old states, and shows slot {nonce} in no block down to {reached}"
                ))
            }
        }
    }

    /// Reads one whole block.
    async fn read_block(
        &self,
        number: u64,
        shown: &mut BTreeMap<u64, Occupant>,
    ) -> Result<(), String> {
        note(self.of, &read(self.router, self.member, number).await?, shown);
        Ok(())
    }

    async fn count(&mut self, number: u64) -> Result<u64, RpcError> {
        if let Some(known) = self.counts.get(&number) {
            return Ok(*known);
        }
        let params = json!([self.of.to_string(), quantity(number)]);
        let Quantity(count) = self.call("eth_getTransactionCount", params).await?;
        self.counts.insert(number, count);
        Ok(count)
    }

    async fn call<T: serde::de::DeserializeOwned>(
        &self,
        method: &'static str,
        params: serde_json::Value,
    ) -> Result<T, RpcError> {
        self.member.call_with_retries(method, params, self.router.deadline()).await
    }
}

async fn read(router: &Router, member: &PoolMember, number: u64) -> Result<FullBlockJson, String> {
    let params = json!([quantity(number), true]);
    let call = member.call_with_retries("eth_getBlockByNumber", params, router.deadline());
    let block: Option<FullBlockJson> = call.await.map_err(|error: RpcError| error.to_string())?;
    // A missing block tells nothing about its transactions.
    let block = block.ok_or("lacks a block below its head")?;
    match block.number.0 == number {
        true => Ok(block),
        false => Err(format!("shows another block than {number}")),
    }
}

/// Notes the account's transactions in a block.
fn note(of: Address, block: &FullBlockJson, shown: &mut BTreeMap<u64, Occupant>) {
    for tx in block.transactions.iter().filter(|tx| tx.from.is_some_and(|from| from.0 == of)) {
        let Some(Ok(nonce)) = tx.nonce.map(|nonce| Nonce::new(nonce.0)) else { continue };
        let (block_number, block_hash) = (block.number.0, block.hash.0);
        let occupant = Occupant { nonce, tx_hash: tx.hash.0, block_number, block_hash };
        shown.insert(nonce.get(), occupant);
    }
}
