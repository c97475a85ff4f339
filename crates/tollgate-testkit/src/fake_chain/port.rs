//! The fake chain as the engine sees it.

use async_trait::async_trait;
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for, combined};
use tollgate_model::diagnose::{EndpointReport, PoolContent};
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{
    AccountCounts, Block, BlockReceipts, BlockRef, BlockTag, Call, CallEstimate, Chain,
    ChainLimits, ChainUnavailable, FeeQuote, Occupant, OccupantSearch, PastCount, SendAnswer,
    SlotSearch, Speed, TxLocation,
};
use tollgate_model::reconcile::ReceiptLookup;
use tollgate_model::{Address, Bytes, ChainId, Nonce, Text, TxHash, Wei};

use super::state::{Endpoint, State, count_in};
use super::tx::decode;
use super::{FakeChain, Query, price};

/// The price that is quoted where there is no base fee.
const LEGACY_PRICE_WEI: u128 = 1_000_000_000;

fn answer(class: AnswerClass) -> SendAnswer {
    SendAnswer { class, said: class.name().to_owned() }
}

fn nonce(count: u64) -> Nonce {
    Nonce::new(count).unwrap()
}

impl State {
    fn looked(
        &self,
        endpoint: Endpoint,
        of: Address,
        slot: Nonce,
        attempt: TxHash,
    ) -> ReceiptLookup {
        let blocks = self.seen_by(endpoint);
        if endpoint.is_silent {
            ReceiptLookup::NoAnswer
        } else if !self.loses_receipts && self.receipt_in(blocks, attempt).is_some() {
            ReceiptLookup::Found
        } else if count_in(blocks, of) > slot.get() {
            ReceiptLookup::NotThere
        } else {
            ReceiptLookup::Behind
        }
    }

    fn report(&self, endpoint: Endpoint, of: Address, attempts: &[TxHash]) -> EndpointReport {
        if endpoint.is_silent {
            return EndpointReport::default();
        }
        let mut content = PoolContent::default();
        let next = self.pending(of);
        for ((_, at), (hash, _)) in self.pool.range((of, 0)..=(of, u64::MAX)) {
            let part = if *at < next { &mut content.pending } else { &mut content.queued };
            part.insert(nonce(*at), *hash);
        }
        let blocks = self.seen_by(endpoint);
        let knows = |hash: &TxHash| {
            self.pool.values().any(|(held, _)| held == hash)
                || self.receipt_in(blocks, *hash).is_some()
        };
        EndpointReport {
            pool: (!self.hides_pools).then_some(content),
            knows_it: Some(attempts.iter().any(knows)),
        }
    }
}

#[async_trait]
impl Chain for FakeChain {
    fn chain_id(&self) -> ChainId {
        ChainId::new(7).unwrap()
    }

    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable> {
        self.faults.set().heads_asked += 1;
        let mut changes = self.head.subscribe();
        loop {
            changes.mark_unchanged();
            let announced = {
                let state = self.lock();
                let head = state.shown().last().unwrap().at;
                BlockRef { number: head.number + state.announced_ahead, ..head }
            };
            if Some(announced) != known {
                return Ok(announced);
            }
            let changed = changes.changed().await;
            changed.map_err(|error| ChainUnavailable(error.to_string()))?;
        }
    }

    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable> {
        self.faults.check(Query::Blocks)?;
        if let BlockTag::Number(number) = tag {
            self.faults.check_block(number).await?;
        }
        self.faults.check_block_share()?;
        let state = self.lock();
        let number = match tag {
            BlockTag::Number(number) => number,
            BlockTag::Safe | BlockTag::Finalized if state.lacks_tags => return Ok(None),
            BlockTag::Safe | BlockTag::Finalized if state.tag.is_some() => {
                state.tag.unwrap_or_default()
            }
            BlockTag::Latest | BlockTag::Safe | BlockTag::Finalized => {
                state.shown().last().unwrap().at.number
            }
        };
        let wrong = self.faults.wrong_hash(number);
        Ok(state.shown().get(number as usize).map(|block| Block {
            at: BlockRef { hash: wrong.unwrap_or(block.at.hash), ..block.at },
            transactions: block.txs.iter().map(|(hash, _)| *hash).collect(),
        }))
    }

    async fn receipts(&self, block: &BlockRef, of: &[TxHash]) -> BlockReceipts {
        if let Err(error) = self.faults.check(Query::Receipts) {
            return BlockReceipts::unreadable(error.to_string());
        }
        let mut read = BlockReceipts::default();
        for hash in of {
            if let Err(error) = self.faults.check(Query::Receipt(*hash)) {
                read.problem = Some(error.to_string());
                continue;
            }
            let state = self.lock();
            let receipt = state.receipt(*hash).filter(|receipt| receipt.block_hash == block.hash);
            read.found.extend(receipt.map(|receipt| TxReceipt {
                revert_reason: receipt.revert_reason.filter(|_| !state.hangs_reasons),
                ..receipt
            }));
        }
        read
    }

    async fn revert_reason(&self, of: &TxReceipt) -> Option<Text<2000>> {
        if self.lock().hangs_reasons {
            return std::future::pending().await;
        }
        self.lock().receipt(of.tx_hash)?.revert_reason
    }

    async fn receipt(&self, of: TxHash) -> Result<Option<TxReceipt>, ChainUnavailable> {
        self.faults.pass_hash().await;
        self.faults.check(Query::Receipts)?;
        self.faults.check(Query::Receipt(of))?;
        let state = self.lock();
        Ok(state.receipt(of).filter(|_| !state.loses_receipts))
    }

    async fn sighting(&self, of: TxHash) -> Result<Option<TxLocation>, ChainUnavailable> {
        self.faults.pass_hash().await;
        let state = self.lock();
        if let Some(TxReceipt { block_number: number, block_hash: hash, .. }) = state.receipt(of) {
            return Ok(Some(TxLocation::InBlock { number, hash }));
        }
        Ok(state.is_pooled(of).then_some(TxLocation::Pending))
    }

    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable> {
        self.faults.set().counts_asked += 1;
        self.faults.pass(of).await;
        self.faults.check(Query::Counts(of))?;
        let state = self.lock();
        let known = &state.blocks[..state.blocks.len().saturating_sub(state.counts_lag).max(1)];
        let mined = count_in(known, of);
        // An endpoint that lags may have what is mined elsewhere in its pool.
        let pending = if state.counts_lag > 0 { mined } else { state.pending(of) };
        let truth = AccountCounts::confirmed(nonce(mined), nonce(pending));
        let claimed = self.faults.claimed(of).map(nonce);
        Ok(claimed.map_or(truth, |pending| AccountCounts { pending, ..truth }))
    }

    async fn count_at(&self, of: Address, block: u64) -> Result<PastCount, ChainUnavailable> {
        self.faults.check(Query::AccountsFeesAndCalls)?;
        let state = self.lock();
        let blocks = state.blocks.get(..=block as usize);
        let blocks = blocks.ok_or_else(|| ChainUnavailable(format!("no block {block} yet")))?;
        Ok(PastCount::undisputed(nonce(count_in(blocks, of))))
    }

    async fn search(&self, of: Address, nonce: Nonce, attempts: &[TxHash]) -> SlotSearch {
        self.faults.pass_search().await;
        let state = self.lock();
        let is_heard = self.faults.check(Query::Receipts).is_ok();
        let look = |attempt: &TxHash| {
            let endpoints = state.endpoints.iter();
            let is_heard = is_heard && self.faults.check(Query::Receipt(*attempt)).is_ok();
            let lookup = |endpoint: &Endpoint| match is_heard {
                true => state.looked(*endpoint, of, nonce, *attempt),
                false => ReceiptLookup::NoAnswer,
            };
            endpoints.map(lookup).collect()
        };
        let mut looked: Vec<Vec<ReceiptLookup>> = attempts.iter().map(look).collect();
        for (attempt, words) in attempts.iter().zip(&mut looked) {
            let is_orphaned = state.orphaned_receipts.contains_key(attempt);
            if let Some(first) = words.first_mut().filter(|_| is_orphaned) {
                *first = ReceiptLookup::Found;
            }
        }
        let mut words = attempts.iter().zip(&looked);
        let found = words.find(|(_, words)| words.contains(&ReceiptLookup::Found)).map(|it| it.0);
        let orphaned = found.and_then(|attempt| state.orphaned_receipts.get(attempt).cloned());
        let found = orphaned.or_else(|| state.receipt(*found?));
        SlotSearch { found, looked }
    }

    async fn pools(&self, of: Address, attempts: &[TxHash]) -> Vec<EndpointReport> {
        let state = self.lock();
        state.endpoints.iter().map(|endpoint| state.report(*endpoint, of, attempts)).collect()
    }

    async fn occupants(&self, of: Address, slots: &[Nonce], _lookback: u64) -> OccupantSearch {
        self.faults.pass_search().await;
        if let Err(error) = self.faults.check(Query::Occupants) {
            return OccupantSearch { seen: Vec::new(), problem: Some(error.to_string()) };
        }
        let state = self.lock();
        let mut seen = Vec::new();
        for block in &state.blocks {
            for (tx_hash, tx) in block.txs.iter().filter(|(_, tx)| tx.from == of) {
                let (nonce, tx_hash) = (nonce(tx.nonce), *tx_hash);
                let BlockRef { number: block_number, hash: block_hash, .. } = block.at;
                if slots.contains(&nonce) {
                    seen.push(Occupant { nonce, tx_hash, block_number, block_hash });
                }
            }
        }
        let is_short = seen.len() < slots.len();
        OccupantSearch { seen, problem: is_short.then(|| "no block shows it".to_owned()) }
    }

    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable> {
        self.faults.check(Query::Balances)?;
        self.faults.set().balance_reads += 1;
        Ok(Wei(self.lock().balance(of)))
    }

    fn limits(&self) -> ChainLimits {
        ChainLimits { block_gas: self.lock().block_gas, has_calldata_floor: false }
    }

    async fn fee_quote(&self, _speed: Speed) -> Result<FeeQuote, ChainUnavailable> {
        self.faults.check(Query::Fees)?;
        let (base_fee, tip) = {
            let state = self.lock();
            (state.base_fee, state.tip)
        };
        Ok(match base_fee {
            None => FeeQuote { base_fee, max_fee: price(LEGACY_PRICE_WEI), max_priority_fee: None },
            Some(base) => FeeQuote {
                base_fee,
                max_fee: price(base.wei() * 2 + tip.wei()),
                max_priority_fee: Some(tip),
            },
        })
    }

    async fn estimate_call(&self, call: &Call) -> Result<CallEstimate, ChainUnavailable> {
        self.faults.check(Query::Calls)?;
        if self.faults.set().reverts_all_calls {
            return Ok(CallEstimate::Reverts(Text::lossy("no")));
        }
        self.faults.pass_call(call).await;
        if call.to.is_some_and(|to| self.lock().reverting.contains(&to)) {
            return Ok(CallEstimate::Reverts(Text::lossy("no")));
        }
        if call.value.0 > self.lock().balance(call.from) {
            return Ok(CallEstimate::Refused(answer(AnswerClass::InsufficientFunds)));
        }
        Ok(CallEstimate::Gas(self.lock().estimate))
    }

    async fn send(&self, raw: &Bytes) -> SendAnswer {
        if let Some(tx) = decode(raw) {
            self.faults.pass(tx.from).await;
        }
        answer(self.lock().send(raw))
    }

    /// As the real one does: several in one call, and one by one what that does not show to be with a
    /// node. The answers of the batch count with it.
    async fn send_in_order(&self, raws: &[Bytes]) -> Vec<SendAnswer> {
        let mut heard = vec![Vec::new(); raws.len()];
        if raws.len() > 1 {
            for tx in raws.iter().filter_map(decode) {
                self.faults.pass(tx.from).await;
            }
            let mut state = self.lock();
            let is_lost = state.lose_batches > 0;
            state.lose_batches = state.lose_batches.saturating_sub(1);
            for (raw, heard) in raws.iter().zip(&mut heard) {
                let class = state.send(raw);
                heard.push(if is_lost { AnswerClass::Unknown } else { class });
            }
        }
        let mut answers = Vec::with_capacity(raws.len());
        for (raw, mut heard) in raws.iter().zip(heard) {
            if !heard.iter().any(|class| action_for(*class) == AnswerAction::Track) {
                heard.push(self.send(raw).await.class);
            }
            let class = combined(heard);
            answers.push(answer(class));
            if action_for(class) == AnswerAction::ResendSame {
                break;
            }
        }
        answers
    }
}
