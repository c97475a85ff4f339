//! Searches the blocks of one endpoint for the transactions in an account's used slots.
//!
//! Owns no state beyond one search; [`super::occupants`] keeps the whole blocks that were read and judges
//! what several endpoints show.

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use serde_json::json;
use tollgate_model::port::chain::{Occupant, OccupantSupport};
use tollgate_model::{Address, Nonce};

use super::occupants::REMEMBERED_DEPTH;
use super::pool_member::PoolMember;
use super::router::Router;
use crate::endpoint::json::{BlockJson, FullBlockJson, Quantity, quantity};
use crate::endpoint::{RpcError, RpcErrorKind};

/// Whole blocks in flight at once.
const IN_FLIGHT: usize = 4;
/// The least number of blocks that a search reads, so that it gets below those that are not remembered.
const LOOKBACK_MIN: u64 = 2 * REMEMBERED_DEPTH;

/// Consecutive whole blocks of one endpoint, and the transactions of one account in them.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockScan {
    /// The lowest and the highest block.
    pub(super) range: Option<(u64, u64)>,
    pub(super) shown: BTreeMap<u64, Occupant>,
}

/// A search at one endpoint.
pub(super) struct EndpointSearch<'a> {
    router: &'a Router,
    member: &'a PoolMember,
    of: Address,
    /// Whole blocks that may still be read in this search.
    budget: usize,
    /// The endpoint's counts by block.
    pub(super) counts: BTreeMap<u64, u64>,
    pub(super) scan: BlockScan,
}

/// The result of bisection by counts.
enum Narrowed {
    /// The count passed the slot in this block.
    At(u64),
    /// The slot is used in this block; older counts are not available.
    UpTo(u64),
}

/// The reason why an endpoint did not show what is in a slot that it counts.
pub(super) enum Miss {
    /// Its blocks lack the transaction that its count claims.
    Contradicted(String),
    /// The endpoint could not tell, or has not shown enough blocks yet.
    Unknown(String),
}

impl From<String> for Miss {
    fn from(why: String) -> Self {
        Self::Unknown(why)
    }
}

impl From<Miss> for String {
    fn from(miss: Miss) -> Self {
        match miss {
            Miss::Contradicted(why) | Miss::Unknown(why) => why,
        }
    }
}

impl<'a> EndpointSearch<'a> {
    pub(super) fn new(
        router: &'a Router,
        member: &'a PoolMember,
        of: Address,
        scan: BlockScan,
        lookback: u64,
    ) -> Self {
        let budget = usize::try_from(lookback.max(LOOKBACK_MIN)).unwrap_or(usize::MAX);
        Self { router, member, of, budget, counts: BTreeMap::new(), scan }
    }

    /// Finds the transaction in one slot.
    pub(super) async fn find_one(&mut self, nonce: u64) -> Result<Occupant, Miss> {
        let (head, counted) = self.counted_at_head().await?;
        if counted <= nonce {
            return Err(Miss::Contradicted(not_counted(counted, nonce)));
        }
        self.find(nonce, head).await
    }

    /// Moves the slots that are found from `missing` to `seen`; the error tells why the others were not.
    pub(super) async fn find_all(
        &mut self,
        missing: &mut BTreeSet<u64>,
        seen: &mut Vec<Occupant>,
    ) -> Result<(), String> {
        let (head, counted) = self.counted_at_head().await?;
        let mut problem = Ok(());
        for nonce in missing.clone().into_iter().rev() {
            // I8: an endpoint that does not count a slot can't show what is in it.
            if counted <= nonce {
                problem = Err(not_counted(counted, nonce));
                continue;
            }
            match self.find(nonce, head).await {
                Ok(occupant) => {
                    missing.remove(&nonce);
                    seen.push(occupant);
                }
                Err(miss) => problem = Err(miss.into()),
            }
        }
        problem
    }

    /// Its head, and its count there.
    async fn counted_at_head(&mut self) -> Result<(u64, u64), String> {
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
        Ok((head, counted.map_err(text)?))
    }

    async fn find(&mut self, nonce: u64, head: u64) -> Result<Occupant, Miss> {
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
    async fn scan_down(&mut self, nonce: u64, top: u64) -> Result<Occupant, Miss> {
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
            (None, Some(why)) => Err(Miss::Unknown(why)),
            (None, None) if is_passed => {
                Err(Miss::Contradicted(format!("shows no transaction in slot {nonce}")))
            }
            (None, None) => {
                let reached = self.scan.range.map_or(top, |(low, _)| low);
                let why = format!(
                    "has no old states, and shows slot {nonce} in no block down to {reached}"
                );
                Err(if reached == 0 { Miss::Contradicted(why) } else { Miss::Unknown(why) })
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

fn not_counted(counted: u64, nonce: u64) -> String {
    format!("counts {counted}, so slot {nonce} is unused for it")
}

pub(super) async fn read(
    router: &Router,
    member: &PoolMember,
    number: u64,
) -> Result<FullBlockJson, String> {
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

/// Notes the account's transactions in a block, each as shown by one endpoint.
pub(super) fn note(of: Address, block: &FullBlockJson, shown: &mut BTreeMap<u64, Occupant>) {
    for tx in block.transactions.iter().filter(|tx| tx.from.is_some_and(|from| from.0 == of)) {
        let Some(Ok(nonce)) = tx.nonce.map(|nonce| Nonce::new(nonce.0)) else { continue };
        let (block_number, block_hash) = (block.number.0, block.hash.0);
        let (tx_hash, support) = (tx.hash.0, OccupantSupport::Single);
        let occupant = Occupant { nonce, tx_hash, block_number, block_hash, support };
        shown.insert(nonce.get(), occupant);
    }
}
