//! The chain as one node sees it, over a network, through two endpoints that may disagree.
//!
//! Keeps what the port promises: counts never fall below what this node has seen, unless the chain
//! itself went back, and the head is the highest that an endpoint has.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tollgate_devchain::chain::{Block as DevBlock, BlockId, Call as DevCall, CallRefused, Found};
use tollgate_devchain::chain::{GWEI, View};
use tollgate_model::answer::{AnswerAction, AnswerClass, action_for};
use tollgate_model::diagnose::{EndpointReport, PoolContent};
use tollgate_model::port::chain::{
    AccountCounts, Block, BlockReceipts, BlockRef, BlockTag, Call, CallEstimate, Chain,
    ChainUnavailable, FeeQuote, Occupant, OccupantSearch, PastCount, SendAnswer, SlotSearch, Speed,
    TxLocation,
};
use tollgate_model::port::{ReceiptDetails, TxReceipt};
use tollgate_model::reconcile::ReceiptLookup;
use tollgate_model::{Address, Bytes, ChainId, GasPrice, Nonce, Text, TxHash, Wei};

use super::{SECOND, State, answer};
use crate::network::{Network, Peer};
use crate::plan::Lie;
use crate::planted::Bug;
use crate::world::World;

/// The second endpoint never has one in so many receipts.
const RECEIPTS_LACKED_ONE_IN: u64 = 8;
/// How often the second endpoint is read from where something is wrong with it for good.
const SECOND_SHARE: f64 = 0.3;

/// One node's way to the chain.
pub(crate) struct NodeChain {
    pub(crate) world: Arc<World>,
    pub(crate) network: Arc<Network>,
    pub(crate) marks: Mutex<BTreeMap<Address, u64>>,
    /// [`Bug::GivesUpOnErrors`]: nobody is asked any more.
    pub(crate) gave_up: Mutex<bool>,
}

fn nonce(count: u64) -> Nonce {
    Nonce::new(count).unwrap_or(Nonce::MAX)
}

fn price(wei: u128) -> GasPrice {
    GasPrice::from_wei(wei).unwrap_or_default()
}

fn block_ref(block: &DevBlock) -> BlockRef {
    BlockRef { number: block.number(), hash: block.hash, parent: block.header.parent_hash }
}

fn receipt_in(block: &DevBlock, at: usize) -> TxReceipt {
    let receipt = &block.receipts[at];
    TxReceipt {
        tx_hash: block.txs[at].hash,
        block_number: block.number(),
        block_hash: block.hash,
        gas_used: receipt.gas_used,
        succeeded: receipt.is_success,
        revert_reason: (!receipt.is_success).then(|| Text::lossy("no")),
        details: ReceiptDetails {
            transaction_index: u32::try_from(at).ok(),
            effective_gas_price: GasPrice::from_wei(receipt.effective_gas_price).ok(),
            l1_fee: None,
            contract_address: receipt.contract_address,
        },
    }
}

fn mined(view: &View<'_>, hash: &TxHash) -> Option<TxReceipt> {
    match view.tx(hash) {
        Some(Found::Mined(block, at)) => Some(receipt_in(&block, at)),
        Some(Found::Pooled(_)) | None => None,
    }
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
    mined(&view, hash).filter(|mined| !lacks && !is_pruned(mined))
}

fn count_in(view: &View<'_>, of: Address) -> u64 {
    view.account(of, BlockId::Latest).unwrap_or_default().nonce
}

impl NodeChain {
    fn endpoint(&self) -> usize {
        let is_wrong = self.world.plan.steady.lie.is_some();
        let steadily = is_wrong && self.world.chance(SECOND_SHARE);
        usize::from(steadily || self.world.strikes(|faults| faults.other_endpoint))
    }

    /// Whether a call fails, as some do for ever. Whoever took that for the end of an endpoint would
    /// soon ask nobody.
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
        let view = state.view(endpoint);
        let is_silent = self.world.strikes(|faults| faults.lose_chain);
        let lookup = if is_silent {
            ReceiptLookup::NoAnswer
        } else if receipt_at(state, endpoint, of).is_some() {
            ReceiptLookup::Found
        } else if count_in(&view, slot.0) > slot.1.get() {
            ReceiptLookup::NotThere
        } else {
            ReceiptLookup::Behind
        };
        match lookup {
            ReceiptLookup::NoAnswer | ReceiptLookup::Behind if self.world.has(Bug::SilenceIsNo) => {
                ReceiptLookup::NotThere
            }
            ReceiptLookup::NoAnswer
            | ReceiptLookup::Behind
            | ReceiptLookup::Found
            | ReceiptLookup::NotThere => lookup,
        }
    }

    fn report(
        state: &State<'_>,
        endpoint: usize,
        of: Address,
        attempts: &[TxHash],
    ) -> EndpointReport {
        let view = state.view(endpoint);
        let (pending, queued) = view.pooled(of);
        let entry =
            |pooled: &tollgate_devchain::chain::Pooled| (nonce(pooled.tx.nonce()), pooled.tx.hash);
        let content = PoolContent {
            pending: pending.into_iter().map(entry).collect(),
            queued: queued.into_iter().map(entry).collect(),
        };
        let knows_it = attempts.iter().any(|hash| view.tx(hash).is_some());
        EndpointReport { pool: Some(content), knows_it: Some(knows_it) }
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
        let id = match tag {
            BlockTag::Latest => BlockId::Latest,
            BlockTag::Safe => BlockId::Safe,
            BlockTag::Finalized => BlockId::Finalized,
            BlockTag::Number(number) => BlockId::Number(number),
        };
        let block = |block: &Arc<DevBlock>| Block {
            at: block_ref(block),
            transactions: block.txs.iter().map(|tx| tx.hash).collect(),
        };
        self.ask("block", |state, at| {
            let view = state.view(at);
            let lacks = |number: u64| match state.steady.lie {
                Some(Lie::LacksBlocks(one_in)) if at == SECOND && number < view.head() => {
                    number.is_multiple_of(one_in)
                }
                _ => false,
            };
            view.block(id).filter(|block| !lacks(block.number())).map(block)
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

    async fn receipt(&self, of: TxHash) -> Result<Option<TxReceipt>, ChainUnavailable> {
        self.ask("receipt", |state, at| receipt_at(state, at, &of)).await
    }

    async fn sighting(&self, of: TxHash) -> Result<Option<TxLocation>, ChainUnavailable> {
        self.ask("sighting", |state, at| match state.view(at).tx(&of)? {
            Found::Mined(block, _) => {
                // Who has no receipt has no place for the hash either.
                receipt_at(state, at, &of)?;
                Some(TxLocation::InBlock { number: block.number(), hash: block.hash })
            }
            Found::Pooled(_) => Some(TxLocation::Pending),
        })
        .await
    }

    async fn counts(&self, of: Address) -> Result<AccountCounts, ChainUnavailable> {
        let read = |state: &State<'_>, at: usize| {
            let view = state.view(at);
            (count_in(&view, of), view.pending_nonce(of), state.count(of))
        };
        let (mined, pending, truth) = self.ask("counts", read).await?;
        let mined = self.marked(of, mined, truth);
        Ok(AccountCounts::confirmed(nonce(mined), nonce(pending.max(mined))))
    }

    async fn count_at(&self, of: Address, block: u64) -> Result<PastCount, ChainUnavailable> {
        let believes_late = self.world.has(Bug::LateCountsBelieved);
        let count = self.ask("count_at", |state, at| {
            let view = state.view(at);
            let newest = || view.account(of, BlockId::Latest).filter(|_| believes_late);
            let account = view.account(of, BlockId::Number(block)).or_else(newest);
            account.map(|account| account.nonce)
        });
        let missing = || ChainUnavailable(format!("no block {block} yet"));
        count.await?.map(nonce).map(PastCount::undisputed).ok_or_else(missing)
    }

    async fn search(&self, of: Address, slot: Nonce, attempts: &[TxHash]) -> SlotSearch {
        let search = |state: &State<'_>, _: usize| {
            let look = |attempt: &TxHash| {
                let endpoints = 0..self.world.plan.endpoints;
                endpoints.map(|at| self.looked(state, at, (of, slot), attempt)).collect()
            };
            let looked: Vec<Vec<ReceiptLookup>> = attempts.iter().map(look).collect();
            let mut words = attempts.iter().zip(&looked);
            let found = words.find(|(_, words)| words.contains(&ReceiptLookup::Found));
            let found = found.and_then(|(hash, _)| mined(&state.view(0), hash));
            SlotSearch { found, looked }
        };
        // Nobody could be asked: nobody's word.
        self.ask("search", search).await.unwrap_or_else(|_| SlotSearch {
            looked: vec![vec![ReceiptLookup::NoAnswer; self.world.plan.endpoints]; attempts.len()],
            found: None,
        })
    }

    async fn pools(&self, of: Address, attempts: &[TxHash]) -> Vec<EndpointReport> {
        let words = self.ask("pools", |state, _| {
            (0..self.world.plan.endpoints).map(|at| Self::report(state, at, of, attempts)).collect()
        });
        words.await.unwrap_or_else(|_| vec![EndpointReport::default(); self.world.plan.endpoints])
    }

    async fn occupants(&self, of: Address, slots: &[Nonce], _lookback: u64) -> OccupantSearch {
        let guesses = self.world.has(Bug::AbsenceIsProof);
        let look = |state: &State<'_>, at: usize| {
            let head = state.view(at).head();
            let blocks = state.chain.blocks().filter(|block| block.number() <= head);
            let txs = blocks.flat_map(|block| block.txs.iter().map(move |tx| (block, tx)));
            let its = txs.filter(|(_, tx)| tx.sender == of && slots.contains(&nonce(tx.nonce())));
            its.map(|(block, tx)| Occupant {
                nonce: nonce(tx.nonce()),
                // What has no receipt is taken for another's.
                tx_hash: match guesses && receipt_at(state, at, &tx.hash).is_none() {
                    true => TxHash::repeat_byte(1),
                    false => tx.hash,
                },
                block_number: block.number(),
                block_hash: block.hash,
            })
            .collect::<Vec<_>>()
        };
        let (mut seen, problem) = match self.ask("occupants", look).await {
            Ok(seen) if seen.len() == slots.len() => (seen, None),
            Ok(seen) => (seen, Some("no block shows it".to_owned())),
            Err(error) => (Vec::new(), Some(error.to_string())),
        };
        if self.world.has(Bug::SilenceIsNo) {
            crate::planted::made_up(&self.world, slots, &mut seen);
        }
        OccupantSearch { seen, problem }
    }

    async fn balance(&self, of: Address) -> Result<Wei, ChainUnavailable> {
        self.ask("balance", |state, at| {
            Wei(state.view(at).account(of, BlockId::Latest).unwrap_or_default().balance)
        })
        .await
    }

    async fn fee_quote(&self, _speed: Speed) -> Result<FeeQuote, ChainUnavailable> {
        let base = self.ask("fees", |state, at| state.view(at).next_base_fee()).await?;
        let (base, tip) = (u128::from(base.unwrap_or(GWEI)), u128::from(GWEI));
        Ok(FeeQuote {
            base_fee: Some(price(base)),
            max_fee: price(base * 2 + tip),
            max_priority_fee: Some(price(tip)),
        })
    }

    async fn estimate_call(&self, call: &Call) -> Result<CallEstimate, ChainUnavailable> {
        let Call { from, to, value, data } = call.clone();
        let call = DevCall { from: Some(from), to, value: value.0, data, gas: None };
        let tried = self.ask("try", |state, at| {
            let tried = state.view(at).call(&call, BlockId::Latest);
            match state.steady.lie {
                Some(Lie::Estimates(gas)) if at == SECOND => tried.map(|_| gas),
                _ => tried,
            }
        });
        let tried = tried.await?;
        if let Some(guessed) = crate::planted::guessed_gas(&self.world) {
            return Ok(guessed);
        }
        Ok(match tried {
            Ok(gas) => CallEstimate::Gas(gas),
            Err(CallRefused::Reverted(reason)) => CallEstimate::Reverts(Text::lossy(&reason)),
            Err(CallRefused::GasAboveAllowance(_)) => {
                CallEstimate::Refused(answer(AnswerClass::GasLimit))
            }
            Err(CallRefused::InsufficientFunds { .. }) => {
                CallEstimate::Refused(answer(AnswerClass::InsufficientFunds))
            }
        })
    }

    async fn send(&self, raw: &Bytes) -> SendAnswer {
        let mut answers = self.send_in_order(std::slice::from_ref(raw)).await;
        answers.pop().unwrap_or_else(|| answer(AnswerClass::Unknown))
    }

    /// All of them in one call, as the real client sends: an endpoint takes each by itself, and an
    /// answer that is lost is lost for all of them.
    async fn send_in_order(&self, raws: &[Bytes]) -> Vec<SendAnswer> {
        // ReceiptLookup at as it leaves the node: nothing may leave that is not durable (I5).
        if self.network.is_dead() {
            return std::future::pending().await;
        }
        for raw in raws {
            self.world.leaves(&self.network.name, raw).await;
        }
        let classes = self.hand_over(raws).await;
        for (at, raw) in raws.iter().enumerate() {
            let class = classes.get(at).copied().unwrap_or(AnswerClass::Unknown);
            self.world.answered(&self.network.name, raw, class);
        }
        classes.into_iter().map(answer).collect()
    }
}

impl NodeChain {
    /// Hands bytes to an endpoint; the answers up to the first that is not clear.
    async fn hand_over(&self, raws: &[Bytes]) -> Vec<AnswerClass> {
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
        let endpoint = self.endpoint();
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
