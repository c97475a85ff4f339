//! The chain as one node sees it, over a network, through two endpoints that may disagree.
//!
//! Keeps what the port promises: counts never fall below what this node has seen, unless the chain
//! itself went back, and the head is the highest that an endpoint has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tollgate_devchain::chain::{BlockId, GWEI, MAIN_POOL};
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::diagnose::EndpointReport;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::chain::{
    AccountCounts, Block, BlockReceipts, BlockRef, BlockTag, Call, CallEstimate, Chain,
    ChainUnavailable, FeeQuote, OccupantSearch, PastCount, SendAnswer, SlotSearch, Speed,
    TxLocation,
};
use tollgate_model::reconcile::ReceiptLookup;
use tollgate_model::{Address, Bytes, ChainId, Nonce, Route, TxHash, Wei};
use tollgate_testkit::chain_answers::{self, answer, nonce};

use super::{SECOND, State};
use crate::network::{Network, Peer};
use crate::plan::Lie;
use crate::planted::Bug;
use crate::world::World;

/// The second endpoint never has one in so many receipts.
const RECEIPTS_LACKED_ONE_IN: u64 = 8;
/// The share of reads from the second endpoint where it has a steady fault.
const SECOND_SHARE: f64 = 0.3;

/// One node's chain port.
pub(crate) struct NodeChain {
    pub(crate) world: Arc<World>,
    pub(crate) network: Arc<Network>,
    pub(crate) marks: Mutex<BTreeMap<Address, u64>>,
    /// [`Bug::GivesUpOnErrors`]: no endpoint is asked any more.
    pub(crate) gave_up: Mutex<bool>,
}

/// The receipt as an endpoint has it: one of the two never has some of them, and old ones may be
/// gone.
fn receipt_at(state: &State<'_>, endpoint: usize, hash: &TxHash) -> Option<TxReceipt> {
    let view = state.view(endpoint);
    let is_second = endpoint == SECOND;
    let (one_in, own) = match state.steady.lie.filter(|_| is_second) {
        Some(Lie::LacksReceipts(one_in)) => (one_in, None),
        Some(Lie::PrunesReceipts(kept)) => (RECEIPTS_LACKED_ONE_IN, Some(kept)),
        _ => (RECEIPTS_LACKED_ONE_IN, None),
    };
    let lacks = is_second && u64::from(hash[31]).is_multiple_of(one_in);
    let kept = own.or(state.steady.receipts_kept);
    let is_pruned =
        |mined: &TxReceipt| kept.is_some_and(|kept| mined.block_number + kept < view.head());
    chain_answers::receipt(&view, hash).filter(|mined| !lacks && !is_pruned(mined))
}

impl NodeChain {
    fn endpoint(&self) -> usize {
        let is_wrong = self.world.plan.steady.lie.is_some();
        let steadily = is_wrong && self.world.chance(SECOND_SHARE);
        usize::from(steadily || self.world.strikes(|faults| faults.other_endpoint))
    }

    /// Draws a steady error. A client that gave an endpoint up after one would soon ask none.
    fn fails(&self) -> bool {
        let fails = self.world.steadily(self.world.plan.steady.errors);
        if self.world.has(Bug::GivesUpOnErrors) {
            let mut gave_up = self.gave_up.lock().unwrap_or_else(PoisonError::into_inner);
            *gave_up |= fails;
            return *gave_up;
        }
        fails
    }

    async fn ask<T: Send>(
        &self,
        what: &'static str,
        ask: impl FnOnce(&State<'_>, usize) -> T + Send,
    ) -> Result<T, ChainUnavailable> {
        let lost = |_| ChainUnavailable(format!("{what}: the network"));
        sleep(self.network.depart(Peer::Chain, what).await.map_err(lost)?).await;
        if self.fails() {
            self.network.arrive(what).await;
            return Err(ChainUnavailable(format!("{what}: 503")));
        }
        let endpoint = self.endpoint();
        let answer = ask(&self.world.chain.lock(), endpoint);
        self.world.note(format_args!("{} {what} at {endpoint}", self.network.name));
        self.network.arrive(what).await;
        Ok(answer)
    }

    /// Takes a reading, which may lag, and never falls below what is known.
    fn marked(&self, of: Address, reading: u64, truth: u64) -> u64 {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mark = marks.entry(of).or_default();
        *mark = reading.max((*mark).min(truth));
        *mark
    }

    fn looked(
        &self,
        state: &State<'_>,
        endpoint: usize,
        slot: (Address, Nonce),
        of: &TxHash,
    ) -> ReceiptLookup {
        let word = match self.world.strikes(|faults| faults.lose_chain) {
            true => ReceiptLookup::NoAnswer,
            false => {
                let receipt = receipt_at(state, endpoint, of);
                chain_answers::lookup(&state.view(endpoint), slot, receipt.as_ref())
            }
        };
        match word {
            ReceiptLookup::NoAnswer | ReceiptLookup::Behind if self.world.has(Bug::SilenceIsNo) => {
                ReceiptLookup::NotThere
            }
            _ => word,
        }
    }
}

#[async_trait]
impl Chain for NodeChain {
    fn chain_id(&self) -> ChainId {
        self.world.chain_id()
    }

    async fn head_after(&self, known: Option<BlockRef>) -> Result<BlockRef, ChainUnavailable> {
        let lost = |_| ChainUnavailable("head: the network".to_owned());
        sleep(self.network.depart(Peer::Chain, "head").await.map_err(lost)?).await;
        loop {
            // Made before the look, so that nothing moves in between.
            let moved = self.world.chain.moves.notified();
            let head = self.world.chain.head();
            if Some(head) != known {
                self.network.arrive("head").await;
                return Ok(head);
            }
            moved.await;
        }
    }

    async fn block(&self, tag: BlockTag) -> Result<Option<Block>, ChainUnavailable> {
        self.ask("block", |state, at| {
            let view = state.view(at);
            let lacks = |number: u64| match state.steady.lie {
                Some(Lie::LacksBlocks(one_in)) if at == SECOND && number < view.head() => {
                    number.is_multiple_of(one_in)
                }
                _ => false,
            };
            chain_answers::block(&view, tag).filter(|block| !lacks(block.at.number))
        })
        .await
    }

    async fn receipts(&self, block: &BlockRef, of: &[TxHash]) -> BlockReceipts {
        let read = self.ask("receipts", |state, at| {
            let mut read = BlockReceipts::default();
            for hash in of {
                // This endpoint may lag, or never have it: the next answer may be another's.
                let receipt = receipt_at(state, at, hash);
                read.found.extend(receipt.filter(|receipt| receipt.block_hash == block.hash));
            }
            read
        });
        read.await.unwrap_or_else(|error| BlockReceipts::unreadable(error.to_string()))
    }

    fn has_private_endpoints(&self) -> bool {
        self.world.plan.private
    }

    async fn receipt(
        &self,
        of: TxHash,
        _route: Route,
    ) -> Result<Option<TxReceipt>, ChainUnavailable> {
        self.ask("receipt", |state, at| receipt_at(state, at, &of)).await
    }

    async fn sighting(
        &self,
        of: TxHash,
        _route: Route,
    ) -> Result<Option<TxLocation>, ChainUnavailable> {
        self.ask("sighting", |state, at| {
            let location = chain_answers::location(&state.view(at), &of)?;
            // An endpoint without the receipt does not find the block by the hash either.
            let is_known = location == TxLocation::Pending || receipt_at(state, at, &of).is_some();
            is_known.then_some(location)
        })
        .await
    }

    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable> {
        let read = |state: &State<'_>, at: usize| {
            let view = state.view(at);
            (chain_answers::mined_count(&view, of), view.pending_nonce(of), state.count(of))
        };
        let (mined, pending, truth) = self.ask("counts", read).await?;
        let mined = self.marked(of, mined, truth);
        Ok(AccountCounts::confirmed(nonce(mined), nonce(pending.max(mined))))
    }

    async fn count_at(&self, of: Address, block: u64) -> Result<PastCount, ChainUnavailable> {
        let believes_late = self.world.has(Bug::LateCountsBelieved);
        self.ask("count_at", |state, at| {
            let view = state.view(at);
            let block = if believes_late { block.min(view.head()) } else { block };
            chain_answers::count_at(&view, of, block)
        })
        .await?
    }

    async fn search(&self, of: Address, slot: Nonce, attempts: &[TxHash]) -> SlotSearch {
        let search = |state: &State<'_>, _: usize| {
            let look = |attempt: &TxHash| {
                let endpoints = 0..self.world.plan.endpoints;
                endpoints.map(|at| self.looked(state, at, (of, slot), attempt)).collect()
            };
            let looked = attempts.iter().map(look).collect();
            let view = state.view(MAIN_POOL);
            chain_answers::slot_search(attempts, looked, |hash| chain_answers::receipt(&view, hash))
        };
        self.ask("search", search).await.unwrap_or_else(|_| SlotSearch {
            looked: vec![vec![ReceiptLookup::NoAnswer; self.world.plan.endpoints]; attempts.len()],
            found: None,
        })
    }

    async fn pools(&self, of: Address, attempts: &[TxHash]) -> Vec<EndpointReport> {
        let words = self.ask("pools", |state, _| {
            let views = (0..self.world.plan.endpoints).map(|at| state.view(at));
            views.map(|view| chain_answers::pool_report(&view, of, attempts)).collect()
        });
        words.await.unwrap_or_else(|_| vec![EndpointReport::default(); self.world.plan.endpoints])
    }

    async fn occupants(&self, of: Address, slots: &[Nonce], _lookback: u64) -> OccupantSearch {
        let guesses = self.world.has(Bug::AbsenceIsProof);
        let look = |state: &State<'_>, at: usize| {
            let endpoints = 0..self.world.plan.endpoints;
            let witnesses: Vec<_> = endpoints.map(|at| state.view(at)).collect();
            let mut search = chain_answers::occupants(&state.view(at), &witnesses, of, slots);
            // The bug takes a transaction without a receipt for an outsider's.
            for seen in search.seen.iter_mut().filter(|_| guesses) {
                if receipt_at(state, at, &seen.tx_hash).is_none() {
                    seen.tx_hash = TxHash::repeat_byte(1);
                }
            }
            search
        };
        let unread = |error: ChainUnavailable| OccupantSearch {
            problem: Some(error.to_string()),
            ..OccupantSearch::default()
        };
        let mut search = self.ask("occupants", look).await.unwrap_or_else(unread);
        if self.world.has(Bug::SilenceIsNo) {
            crate::planted::made_up(&self.world, slots, &mut search.seen);
        }
        search
    }

    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable> {
        self.ask("balance", |state, at| {
            Wei(state.view(at).account(of, BlockId::Latest).unwrap_or_default().balance)
        })
        .await
    }

    async fn fee_quote(&self, _speed: Speed) -> Result<FeeQuote, ChainUnavailable> {
        let base = self.ask("fees", |state, at| state.view(at).next_base_fee()).await?;
        Ok(chain_answers::fee_quote(base.or(Some(GWEI)), u128::from(GWEI)))
    }

    async fn estimate_call(
        &self,
        call: &Call,
        _route: Route,
    ) -> Result<CallEstimate, ChainUnavailable> {
        let tried = self.ask("try", |state, at| {
            let tried = chain_answers::estimate(&state.view(at), call);
            match (state.steady.lie, &tried) {
                (Some(Lie::Estimates(gas)), CallEstimate::Gas(_)) if at == SECOND => {
                    CallEstimate::Gas(gas)
                }
                _ => tried,
            }
        });
        let tried = tried.await?;
        Ok(crate::planted::guessed_gas(&self.world).unwrap_or(tried))
    }

    async fn send(&self, raw: &Bytes, route: Route) -> SendAnswer {
        let mut answers = self.send_in_order(std::slice::from_ref(raw), route).await;
        answers.pop().unwrap_or_else(|| answer(AnswerClass::Unknown))
    }

    /// All of them in one call, as the real client sends: an endpoint takes each by itself, and an
    /// answer that is lost is lost for all of them.
    async fn send_in_order(&self, raws: &[Bytes], route: Route) -> Vec<SendAnswer> {
        // Checked as it leaves the node: nothing may leave that is not durable (I5).
        if self.network.is_dead() {
            return std::future::pending().await;
        }
        for raw in raws {
            self.world.leaves(&self.network.name, raw, route).await;
        }
        let classes = self.hand_over(raws, route).await;
        for (at, raw) in raws.iter().enumerate() {
            let class = classes.get(at).copied().unwrap_or(AnswerClass::Unknown);
            self.world.answered(&self.network.name, raw, class);
        }
        classes.into_iter().map(answer).collect()
    }
}

impl NodeChain {
    /// Hands bytes to an endpoint; the answers up to the first that is not clear.
    async fn hand_over(&self, raws: &[Bytes], route: Route) -> Vec<AnswerClass> {
        let Ok(travels) = self.network.depart(Peer::Chain, "send").await else {
            return vec![AnswerClass::Transient];
        };
        if self.fails() {
            self.network.arrive("send").await;
            return vec![AnswerClass::Transient];
        }
        let untold = self.world.strikes(|faults| faults.lose_send);
        let (reply, replied) = oneshot::channel();
        let (world, name, raws) = (self.world.clone(), self.network.name.clone(), raws.to_vec());
        let endpoint = match route {
            Route::Public => self.endpoint(),
            Route::Private => MAIN_POOL,
        };
        tokio::spawn(async move {
            sleep(travels).await;
            let take = |raw: &Bytes| {
                let class = world.chain.submit(raw, endpoint);
                world.reached_a_node(&name, raw, endpoint, class);
                class
            };
            let _ = reply.send(raws.iter().map(take).collect::<Vec<_>>());
        });
        let mut classes = replied.await.unwrap_or_default();
        if untold {
            self.network.arrive_lost("send").await;
            return vec![AnswerClass::Unknown];
        }
        self.network.arrive("send").await;
        let is_unclear = |class: &AnswerClass| action_for(*class) == AnswerAction::ResendSame;
        if let Some(first) = classes.iter().position(is_unclear) {
            classes.truncate(first + 1);
        }
        classes
    }
}
