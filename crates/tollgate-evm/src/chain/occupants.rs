//! Which transactions are in an account's used slots, as far as endpoints can show them.
//!
//! Owns what was read of whole blocks, so that a later look goes on below it. A slot is found by the
//! account's count in past blocks: bisection over all of them, so that its age does not matter. An
//! endpoint without old states is asked for whole blocks instead, from the newest down, a bounded
//! number at a time (I13). What is not shown is not known; nothing here says that a slot is empty or
//! that a transaction does not exist (I8).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::{StreamExt, stream};
use serde_json::json;
use tollgate_model::diagnose::witnesses_needed;
use tollgate_model::port::chain::{Occupant, OccupantSearch};
use tollgate_model::{Address, Nonce};

use super::member::Member;
use super::router::{Needs, Router, unavailable};
use crate::endpoint::wire::{BlockWire, FullBlockWire, Quantity, quantity};
use crate::endpoint::{RpcError, RpcErrorKind};
use tokio::time::Instant;

/// Whole blocks in flight at once.
const IN_FLIGHT: usize = 4;
/// Blocks so far below the head are remembered: a reorg hardly reaches them.
const REMEMBERED_DEPTH: u64 = 32;
/// So many blocks are read at least, so that each look gets below those that are not remembered.
const LOOKBACK_MIN: u64 = 2 * REMEMBERED_DEPTH;
/// Accounts whose blocks are remembered, for each endpoint (I13).
const ACCOUNTS_MAX: usize = 1_024;
/// Transactions of one account that are remembered (I13).
const SHOWN_MAX: usize = 16_384;

/// The whole blocks that an endpoint has shown, by account.
#[derive(Debug, Default)]
pub(super) struct Walks {
    walks: Mutex<HashMap<(String, Address), Walk>>,
}

/// Consecutive whole blocks that one endpoint has shown, and what of one account is in them.
#[derive(Clone, Debug, Default)]
struct Walk {
    /// The lowest and the highest block.
    range: Option<(u64, u64)>,
    shown: BTreeMap<u64, Occupant>,
}

impl Walks {
    fn get(&self, key: &(String, Address)) -> Walk {
        let walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        walks.get(key).cloned().unwrap_or_default()
    }

    fn keep(&self, key: (String, Address), mut walk: Walk, head: u64) {
        let highest = head.saturating_sub(REMEMBERED_DEPTH);
        walk.range = walk.range.map(|(low, high)| (low, high.min(highest)));
        walk.range = walk.range.filter(|(low, high)| low <= high);
        walk.shown.retain(|_, seen| seen.block_number <= highest);
        let mut walks = self.walks.lock().unwrap_or_else(PoisonError::into_inner);
        if walk.range.is_none() || walk.shown.len() > SHOWN_MAX {
            walks.remove(&key);
            return;
        }
        if walks.len() >= ACCOUNTS_MAX && !walks.contains_key(&key) {
            walks.clear();
        }
        walks.insert(key, walk);
    }
}

/// Asks one endpoint after the other until each slot's transaction was shown by as many as it takes:
/// two, where several are configured (I8). What one endpoint alone shows in a block may be made up.
pub(super) async fn occupants(
    router: &Router,
    walks: &Walks,
    of: Address,
    slots: &[Nonce],
    lookback: u64,
) -> OccupantSearch {
    let mut missing: BTreeSet<u64> = slots.iter().map(|slot| slot.get()).collect();
    let (mut seen, mut refusals) = (Vec::new(), Vec::new());
    let needed = witnesses_needed(router.readers_configured());
    let mut shown: Vec<(Occupant, Arc<Member>)> = Vec::new();
    let readers = router.readers(Needs::Head, Instant::now());
    for member in &readers {
        if missing.is_empty() {
            break;
        }
        let name = member.endpoint.name();
        let key = (name.to_owned(), of);
        let mut look = Look {
            router,
            member,
            of,
            budget: usize::try_from(lookback.max(LOOKBACK_MIN)).unwrap_or(usize::MAX),
            counts: BTreeMap::new(),
            walk: walks.get(&key),
        };
        let mut found = Vec::new();
        if let Err(why) = look.find_all(&mut missing.clone(), &mut found).await {
            refusals.push(format!("{name}: {why}"));
        }
        for occupant in found {
            shown.push((occupant, member.clone()));
            if shown.iter().filter(|(other, _)| *other == occupant).count() >= needed {
                missing.remove(&occupant.nonce.get());
                seen.push(occupant);
            }
        }
        if let Some((head, _)) = look.counts.last_key_value() {
            walks.keep(key, look.walk, *head);
        }
    }
    // Who counts too little finds nothing by itself, and may have the very block all the same.
    for (occupant, by) in &shown {
        let nonce = occupant.nonce.get();
        if !missing.contains(&nonce) {
            continue;
        }
        let mut witnesses = 1;
        for other in readers.iter().filter(|other| other.place != by.place) {
            witnesses += usize::from(shows(router, other, of, occupant).await);
            if witnesses >= needed {
                missing.remove(&nonce);
                seen.push(*occupant);
                break;
            }
        }
        if witnesses < needed {
            let (name, tx_hash) = (by.endpoint.name(), occupant.tx_hash);
            refusals.push(format!("{name}: alone in showing {tx_hash} in slot {nonce}"));
        }
    }
    let problem = || unavailable("what is in the slot", &refusals).0;
    OccupantSearch { problem: (!missing.is_empty()).then(problem), seen }
}

/// Whether an endpoint has the same transaction in the same block.
async fn shows(router: &Router, member: &Member, of: Address, occupant: &Occupant) -> bool {
    let Ok(block) = read(router, member, occupant.block_number).await else { return false };
    let mut shown = BTreeMap::new();
    note(of, &block, &mut shown);
    shown.get(&occupant.nonce.get()) == Some(occupant)
}

/// One look at one endpoint.
struct Look<'a> {
    router: &'a Router,
    member: &'a Member,
    of: Address,
    /// Whole blocks that may still be read in this look.
    budget: usize,
    /// What the endpoint has counted, by block.
    counts: BTreeMap<u64, u64>,
    walk: Walk,
}

/// How far counts could narrow the search.
enum Narrowed {
    /// The count passed the slot in this block.
    At(u64),
    /// The slot is used in this block, and what was before can't be counted.
    UpTo(u64),
}

impl Look<'_> {
    /// Moves what is shown from `missing` to `seen`; says why the rest is not, if there is a rest.
    async fn find_all(
        &mut self,
        missing: &mut BTreeSet<u64>,
        seen: &mut Vec<Occupant>,
    ) -> Result<(), String> {
        let said = |error: RpcError| error.to_string();
        let params = json!(["latest", false]);
        let head: Option<BlockWire> =
            self.call("eth_getBlockByNumber", params).await.map_err(said)?;
        let mut head = head.and_then(|block| block.at()).ok_or("does not tell its head")?.number;
        let mut counted = self.count(head).await;
        // It may tell a head that it does not have: what others have, it may have, too.
        let common = self.router.common_height().filter(|common| *common < head);
        if let (true, Some(common)) = (counted.is_err(), common) {
            head = common;
            counted = self.count(head).await;
        }
        let counted = counted.map_err(said)?;
        let mut problem = Ok(());
        for nonce in missing.clone().into_iter().rev() {
            // I8: who does not count a slot can't say what is in it.
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
        if let Some(known) = self.walk.shown.get(&nonce) {
            return Ok(*known);
        }
        let top = match self.narrow(nonce, head).await.map_err(|error| error.to_string())? {
            Narrowed::At(block) => {
                let mut shown = BTreeMap::new();
                self.read_block(block, &mut shown).await?;
                if let Some(there) = shown.get(&nonce) {
                    return Ok(*there);
                }
                // Some nodes (Besu) count zero where they have no state any more: it may be older.
                block
            }
            Narrowed::UpTo(block) => block,
        };
        self.walk_down(nonce, top).await
    }

    /// Looks for the block in which the count passed the nonce, from the head downwards: the newer a
    /// state, the more nodes have it.
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
                    // The first block is the last to ask about.
                    None => break,
                },
            };
            match self.count(probe).await {
                Ok(count) if count > nonce => to = probe,
                Ok(_) => from = Some(probe + 1),
                // It has no such state any more, or yet: its blocks it may have.
                Err(error) if error.kind == RpcErrorKind::Node => return Ok(Narrowed::UpTo(to)),
                Err(error) => return Err(error),
            }
            step = step.saturating_mul(2);
        }
        Ok(Narrowed::At(to))
    }

    /// Reads whole blocks from the highest down that were not read before, at most `lookback`.
    async fn walk_down(&mut self, nonce: u64, top: u64) -> Result<Occupant, String> {
        let (low, high) = self.walk.range.unwrap_or((top + 1, top));
        let above = (high.saturating_add(1).min(top + 1)..=top).rev();
        // What is older than a lower nonce has lower nonces only.
        let is_passed = self.walk.shown.range(..nonce).next().is_some();
        let below = (0..if is_passed { 0 } else { low.min(top + 1) }).rev();
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
            // A part that does not join what was read before begins anew.
            let joins = self.walk.range.is_some() && done >= above_count && top + 1 >= low;
            let highest = if joins { high.max(top) } else { top };
            self.walk.range = Some(((*lowest).min(if joins { low } else { *lowest }), highest));
        }
        let is_passed = is_passed || is_below(&shown);
        let found = shown.get(&nonce).copied();
        self.walk.shown.extend(shown);
        match (found, problem) {
            (Some(found), _) => Ok(found),
            (None, Some(why)) => Err(why),
            (None, None) if is_passed => Err(format!("shows no transaction in slot {nonce}")),
            (None, None) => {
                let reached = self.walk.range.map_or(top, |(low, _)| low);
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
        self.member.insist(method, params, self.router.deadline()).await
    }
}

async fn read(router: &Router, member: &Member, number: u64) -> Result<FullBlockWire, String> {
    let params = json!([quantity(number), true]);
    let call = member.insist("eth_getBlockByNumber", params, router.deadline());
    let block: Option<FullBlockWire> = call.await.map_err(|error: RpcError| error.to_string())?;
    // Not to have a block is no word on what is in it.
    let block = block.ok_or("lacks a block below its head")?;
    match block.number.0 == number {
        true => Ok(block),
        false => Err(format!("shows another block than {number}")),
    }
}

/// Notes the account's transactions in a block.
fn note(of: Address, block: &FullBlockWire, shown: &mut BTreeMap<u64, Occupant>) {
    for tx in block.transactions.iter().filter(|tx| tx.from.is_some_and(|from| from.0 == of)) {
        let Some(Ok(nonce)) = tx.nonce.map(|nonce| Nonce::new(nonce.0)) else { continue };
        let (block_number, block_hash) = (block.number.0, block.hash.0);
        let occupant = Occupant { nonce, tx_hash: tx.hash.0, block_number, block_hash };
        shown.insert(nonce.get(), occupant);
    }
}
