//! The fake chain as the engine sees it.

use async_trait::async_trait;
use tollgate_devchain::chain::GWEI;
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for, combined};
use tollgate_model::diagnose::EndpointReport;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{
    AccountCounts, Block, BlockReceipts, BlockRef, BlockTag, Call, CallEstimate, Chain,
    ChainLimits, ChainUnavailable, FeeQuote, OccupantSearch, PastCount, SendAnswer, SlotSearch,
    Speed, TxLocation,
};
use tollgate_model::receipt_support::ReceiptSupport;
use tollgate_model::reconcile::ReceiptLookup;
use tollgate_model::{Address, Bytes, ChainId, Nonce, Route, Text, TxHash, Wei};

use super::state::{Endpoint, State};
use super::tx::{CHAIN_ID, decode};
use super::{FakeChain, Query};
use crate::chain_answers::{self, answer, nonce};

impl State {
    fn receipt(&self, hash: TxHash) -> Option<TxReceipt> {
        chain_answers::receipt(&self.view(0), &hash)
    }

    fn looked(&self, endpoint: Endpoint, slot: (Address, Nonce), attempt: TxHash) -> ReceiptLookup {
        if endpoint.is_silent {
            return ReceiptLookup::NoAnswer;
        }
        let view = self.view(endpoint.lags_by);
        let receipt = chain_answers::receipt(&view, &attempt);
        let receipt = receipt.filter(|_| !self.script.loses_receipts);
        match chain_answers::lookup(&view, slot, receipt.as_ref()) {
            ReceiptLookup::NotThere if endpoint.counts_nothing => ReceiptLookup::Behind,
            answer => answer,
        }
    }

    fn report(&self, endpoint: Endpoint, of: Address, attempts: &[TxHash]) -> EndpointReport {
        if endpoint.is_silent {
            return EndpointReport::default();
        }
        let report = chain_answers::pool_report(&self.view(endpoint.lags_by), of, attempts);
        EndpointReport { pool: report.pool.filter(|_| !self.script.hides_pools), ..report }
    }
}

#[async_trait]
impl Chain for FakeChain {
    fn chain_id(&self) -> ChainId {
        ChainId::new(CHAIN_ID).unwrap()
    }

    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable> {
        self.faults.set().heads_asked += 1;
        let mut changes = self.moved.subscribe();
        loop {
            changes.mark_unchanged();
            let announced = {
                let state = self.lock();
                let head = chain_answers::block(&state.view(state.script.hidden), BlockTag::Latest);
                let head = head.unwrap().at;
                BlockRef { number: head.number + state.script.announced_ahead, ..head }
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
        let is_final = matches!(tag, BlockTag::Safe | BlockTag::Finalized);
        if is_final && state.script.lacks_tags {
            return Ok(None);
        }
        let tag = state.script.tag.filter(|_| is_final).map_or(tag, BlockTag::Number);
        let block = chain_answers::block(&state.view(state.script.hidden), tag);
        Ok(block.map(|mut block| {
            block.at.hash = self.faults.wrong_hash(block.at.number).unwrap_or(block.at.hash);
            block
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
                revert_reason: receipt.revert_reason.filter(|_| !state.script.hangs_reasons),
                ..receipt
            }));
        }
        read
    }

    fn has_several_endpoints(&self) -> bool {
        self.lock().script.support.is_some()
    }

    async fn receipt_support(&self, receipts: &[TxReceipt]) -> Vec<ReceiptSupport> {
        let support = self.lock().script.support.clone();
        vec![support.unwrap_or(ReceiptSupport::Confirmed); receipts.len()]
    }

    async fn revert_reason(&self, of: &TxReceipt) -> Option<Text<2000>> {
        if self.lock().script.hangs_reasons {
            return std::future::pending().await;
        }
        self.lock().receipt(of.tx_hash)?.revert_reason
    }

    fn has_private_endpoints(&self) -> bool {
        self.lock().script.has_private
    }

    async fn receipt(
        &self,
        of: TxHash,
        route: Route,
    ) -> Result<Option<TxReceipt>, ChainUnavailable> {
        self.faults.pass_hash().await;
        self.faults.check(Query::Receipts)?;
        self.faults.check(Query::Receipt(of))?;
        let mut state = self.lock();
        state.disclose(of, route);
        Ok(state.receipt(of).filter(|_| !state.script.loses_receipts))
    }

    async fn sighting(
        &self,
        of: TxHash,
        route: Route,
    ) -> Result<Option<TxLocation>, ChainUnavailable> {
        self.faults.pass_hash().await;
        self.lock().disclose(of, route);
        Ok(chain_answers::location(&self.lock().view(0), &of))
    }

    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable> {
        self.faults.set().counts_asked += 1;
        self.faults.pass(of).await;
        self.faults.check(Query::Counts(of))?;
        if let Some(scripted) = self.faults.scripted(of) {
            return Ok(scripted);
        }
        let state = self.lock();
        let lag = state.script.counts_lag;
        let mined = chain_answers::mined_count(&state.view(lag), of);
        // An endpoint that lags may have what is mined elsewhere in its pool.
        let pending = if lag > 0 { mined } else { state.view(0).pending_nonce(of) };
        let truth = AccountCounts::confirmed(nonce(mined), nonce(pending));
        let claimed = self.faults.claimed(of).map(nonce);
        Ok(claimed.map_or(truth, |pending| AccountCounts { pending, ..truth }))
    }

    fn prove_count(&self, _of: Address, _lookback: u64) {
        self.faults.set().proofs_wanted += 1;
    }

    async fn count_at(&self, of: Address, block: u64) -> Result<PastCount, ChainUnavailable> {
        self.faults.check(Query::AccountsFeesAndCalls)?;
        chain_answers::count_at(&self.lock().view(0), of, block)
    }

    async fn search(&self, of: Address, nonce: Nonce, attempts: &[TxHash]) -> SlotSearch {
        self.faults.pass_search().await;
        let mut state = self.lock();
        attempts.iter().for_each(|hash| state.disclose(*hash, Route::Public));
        let is_heard = self.faults.check(Query::Receipts).is_ok();
        let look = |attempt: &TxHash| {
            let is_heard = is_heard && self.faults.check(Query::Receipt(*attempt)).is_ok();
            let answer_of = |endpoint: &Endpoint| match is_heard {
                true => state.looked(*endpoint, (of, nonce), *attempt),
                false => ReceiptLookup::NoAnswer,
            };
            let mut answers: Vec<_> = state.script.endpoints.iter().map(answer_of).collect();
            if state.script.orphaned_receipts.contains_key(attempt) {
                answers[0] = ReceiptLookup::Found;
            }
            answers
        };
        let looked = attempts.iter().map(look).collect();
        chain_answers::slot_search(attempts, looked, |attempt| {
            let orphaned = state.script.orphaned_receipts.get(attempt).cloned();
            orphaned.or_else(|| state.receipt(*attempt))
        })
    }

    async fn pools(&self, of: Address, attempts: &[TxHash]) -> Vec<EndpointReport> {
        let mut state = self.lock();
        attempts.iter().for_each(|hash| state.disclose(*hash, Route::Public));
        state.script.endpoints.iter().map(|at| state.report(*at, of, attempts)).collect()
    }

    async fn occupants(&self, of: Address, slots: &[Nonce], _lookback: u64) -> OccupantSearch {
        self.faults.pass_search().await;
        if let Err(error) = self.faults.check(Query::Occupants) {
            return OccupantSearch { seen: Vec::new(), problem: Some(error.to_string()) };
        }
        let state = self.lock();
        let heard = state.script.endpoints.iter().filter(|endpoint| !endpoint.is_silent);
        let witnesses: Vec<_> = heard.map(|endpoint| state.view(endpoint.lags_by)).collect();
        chain_answers::occupants(&state.view(0), &witnesses, of, slots)
    }

    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable> {
        self.faults.check(Query::Balances)?;
        self.faults.set().balance_reads += 1;
        Ok(Wei(self.lock().core.accounts().now(of).balance))
    }

    fn limits(&self) -> ChainLimits {
        let block_gas = self.lock().script.block_gas;
        ChainLimits { block_gas, has_calldata_floor: false, is_confirmed: true }
    }

    async fn fee_quote(&self, _speed: Speed) -> Result<FeeQuote, ChainUnavailable> {
        self.faults.check(Query::Fees)?;
        let state = self.lock();
        let tip_wei = state.script.tip.unwrap_or(u128::from(GWEI));
        Ok(chain_answers::fee_quote(state.core.next_base_fee(), tip_wei))
    }

    async fn estimate_call(
        &self,
        call: &Call,
        route: Route,
    ) -> Result<CallEstimate, ChainUnavailable> {
        self.faults.check(Query::Calls)?;
        if route == Route::Public {
            self.lock().script.public_calls.push(call.clone());
        }
        if self.faults.set().reverts_all_calls {
            return Ok(CallEstimate::Reverts(Text::lossy("no")));
        }
        self.faults.pass_call(call).await;
        let state = self.lock();
        Ok(match (chain_answers::estimate(&state.view(0), call), state.script.estimate) {
            (CallEstimate::Gas(_), Some(gas)) => CallEstimate::Gas(gas),
            (estimate, _) => estimate,
        })
    }

    async fn send(&self, raw: &Bytes, route: Route) -> SendAnswer {
        if let Some(tx) = decode(raw) {
            self.faults.pass(tx.from).await;
        }
        answer(self.lock().send(raw, route))
    }

    /// Sends several in one call, as the real client does, and then one by one those whose answer does
    /// not show that a node has them. The answers of the batch count, too.
    async fn send_in_order(&self, raws: &[Bytes], route: Route) -> Vec<SendAnswer> {
        let mut heard = vec![Vec::new(); raws.len()];
        if raws.len() > 1 {
            for tx in raws.iter().filter_map(decode) {
                self.faults.pass(tx.from).await;
            }
            let mut state = self.lock();
            let is_lost = state.script.lose_batches > 0;
            state.script.lose_batches = state.script.lose_batches.saturating_sub(1);
            for (raw, heard) in raws.iter().zip(&mut heard) {
                let class = state.send(raw, route);
                heard.push(if is_lost { AnswerClass::Unknown } else { class });
            }
        }
        let mut answers = Vec::with_capacity(raws.len());
        for (raw, mut heard) in raws.iter().zip(heard) {
            if !heard.iter().any(|class| action_for(*class) == AnswerAction::Track) {
                heard.push(self.send(raw, route).await.class);
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
