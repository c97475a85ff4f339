//! The answers of the engine's chain port, read from one view of the dev chain's core. Pure: faults,
//! time and the choice of an endpoint belong to the callers (the fake chain, the simulation).

use tollgate_devchain::chain::{
    Block as CoreBlock, BlockId, Call as CoreCall, CallRefused, Found, Pooled, Rejection, View,
};
use tollgate_model::answer::AnswerClass;
use tollgate_model::diagnose::{EndpointReport, PoolContent};
use tollgate_model::port::chain::{
    Block, BlockRef, BlockTag, Call, CallEstimate, ChainUnavailable, FeeQuote, Occupant,
    OccupantSearch, OccupantSupport, PastCount, SendAnswer, SlotSearch, TxLocation,
};
use tollgate_model::port::{ReceiptDetails, TxReceipt};
use tollgate_model::reconcile::ReceiptLookup;
use tollgate_model::{Address, GasPrice, Nonce, Text, Timestamp, TxHash};

/// The highest nonce for a count that is too large.
pub fn nonce(count: u64) -> Nonce {
    Nonce::new(count).unwrap_or(Nonce::MAX)
}

fn price(wei: u128) -> GasPrice {
    GasPrice::from_wei(wei).unwrap_or_default()
}

pub fn answer(class: AnswerClass) -> SendAnswer {
    SendAnswer { class, said: class.name().to_owned() }
}

pub fn block_ref(block: &CoreBlock) -> BlockRef {
    BlockRef { number: block.number(), hash: block.hash, parent: block.header.parent_hash }
}

pub fn block(view: &View<'_>, tag: BlockTag) -> Option<Block> {
    let id = match tag {
        BlockTag::Latest => BlockId::Latest,
        BlockTag::Safe => BlockId::Safe,
        BlockTag::Finalized => BlockId::Finalized,
        BlockTag::Number(number) => BlockId::Number(number),
    };
    view.block(id).map(|block| Block {
        at: block_ref(block),
        transactions: block.txs.iter().map(|tx| tx.hash).collect(),
        time: Some(time_of(block)),
    })
}

pub fn receipt(view: &View<'_>, hash: &TxHash) -> Option<TxReceipt> {
    let Some(Found::Mined(block, at)) = view.tx(hash) else { return None };
    let receipt = &block.receipts[at];
    let reason = view.revert_reason(&block.txs[at]).filter(|_| !receipt.is_success);
    Some(TxReceipt {
        tx_hash: *hash,
        block_number: block.number(),
        block_hash: block.hash,
        gas_used: receipt.gas_used,
        succeeded: receipt.is_success,
        revert_reason: reason.map(Text::lossy),
        details: ReceiptDetails {
            transaction_index: u32::try_from(at).ok(),
            effective_gas_price: GasPrice::from_wei(receipt.effective_gas_price).ok(),
            l1_fee: None,
            contract_address: receipt.contract_address,
            block_time: Some(time_of(&block)),
        },
    })
}

fn time_of(block: &CoreBlock) -> Timestamp {
    let seconds = i64::try_from(block.header.timestamp).unwrap_or(0);
    Timestamp::from_unix_micros(seconds.saturating_mul(1_000_000))
}

pub fn location(view: &View<'_>, hash: &TxHash) -> Option<TxLocation> {
    Some(match view.tx(hash)? {
        Found::Mined(block, _) => TxLocation::InBlock { number: block.number(), hash: block.hash },
        Found::Pooled(_) => TxLocation::Pending,
    })
}

pub fn mined_count(view: &View<'_>, of: Address) -> u64 {
    view.account(of, BlockId::Latest).unwrap_or_default().nonce
}

/// # Errors
/// The view does not have the block.
pub fn count_at(view: &View<'_>, of: Address, block: u64) -> Result<PastCount, ChainUnavailable> {
    let account = view.account(of, BlockId::Number(block));
    let account = account.ok_or_else(|| ChainUnavailable(format!("no block {block} yet")))?;
    Ok(PastCount::undisputed(nonce(account.nonce)))
}

/// An endpoint's answer about one attempt in a slot, with the receipt that it shows.
pub fn lookup(
    view: &View<'_>,
    (of, slot): (Address, Nonce),
    receipt: Option<&TxReceipt>,
) -> ReceiptLookup {
    match receipt {
        Some(_) => ReceiptLookup::Found,
        None if mined_count(view, of) > slot.get() => ReceiptLookup::NotThere,
        None => ReceiptLookup::Behind,
    }
}

/// The endpoints' answers about each attempt, and the receipt of the first one that was found.
pub fn slot_search(
    attempts: &[TxHash],
    looked: Vec<Vec<ReceiptLookup>>,
    receipt: impl Fn(&TxHash) -> Option<TxReceipt>,
) -> SlotSearch {
    let mut answers = attempts.iter().zip(&looked);
    let found = answers.find(|(_, answers)| answers.contains(&ReceiptLookup::Found));
    SlotSearch { found: found.and_then(|(attempt, _)| receipt(attempt)), looked }
}

pub fn pool_report(view: &View<'_>, of: Address, attempts: &[TxHash]) -> EndpointReport {
    let (pending, queued) = view.pooled(of);
    let entry = |pooled: &Pooled| (nonce(pooled.tx.nonce()), pooled.tx.hash);
    let content = PoolContent {
        pending: pending.into_iter().map(entry).collect(),
        queued: queued.into_iter().map(entry).collect(),
    };
    let knows_it = attempts.iter().any(|hash| view.tx(hash).is_some());
    EndpointReport { pool: Some(content), knows_it: Some(knows_it) }
}

/// The transactions that a view shows in slots. They are corroborated if two of the `witnesses` show them.
pub fn occupants(
    view: &View<'_>,
    witnesses: &[View<'_>],
    of: Address,
    slots: &[Nonce],
) -> OccupantSearch {
    let shows = |witness: &&View<'_>, hash: &TxHash, block: &CoreBlock| {
        let found = witness.tx(hash);
        matches!(found, Some(Found::Mined(in_block, _)) if in_block.hash == block.hash)
    };
    let support = |hash: &TxHash, block: &CoreBlock| {
        let count = witnesses.iter().filter(|witness| shows(witness, hash, block)).count();
        match count {
            0 | 1 => OccupantSupport::Single,
            _ => OccupantSupport::Corroborated,
        }
    };
    let txs = view.blocks().flat_map(|block| block.txs.iter().map(move |tx| (block, tx)));
    let in_slots = txs.filter(|(_, tx)| tx.sender == of && slots.contains(&nonce(tx.nonce())));
    let seen: Vec<Occupant> = in_slots
        .map(|(block, tx)| Occupant {
            nonce: nonce(tx.nonce()),
            tx_hash: tx.hash,
            block_number: block.number(),
            block_hash: block.hash,
            support: support(&tx.hash, block),
        })
        .collect();
    let is_short = seen.len() < slots.len();
    OccupantSearch { seen, problem: is_short.then(|| "no block shows it".to_owned()) }
}

/// The tip on top of twice the base fee, or as the gas price of a chain without one.
pub fn fee_quote(base_fee: Option<u64>, tip_wei: u128) -> FeeQuote {
    let base_fee = base_fee.map(u128::from);
    FeeQuote {
        base_fee: base_fee.map(price),
        max_fee: price(base_fee.unwrap_or(0) * 2 + tip_wei),
        max_priority_fee: base_fee.map(|_| price(tip_wei)),
    }
}

pub fn estimate(view: &View<'_>, call: &Call) -> CallEstimate {
    let Call { from, to, value, data } = call.clone();
    let call = CoreCall { from: Some(from), to, value: value.0, data, gas: None };
    match view.call(&call, BlockId::Latest) {
        Ok(gas) => CallEstimate::Gas(gas),
        Err(CallRefused::Reverted(reason)) => CallEstimate::Reverts(Text::lossy(&reason)),
        Err(CallRefused::GasAboveAllowance(_)) => {
            CallEstimate::Refused(answer(AnswerClass::GasLimit))
        }
        Err(CallRefused::InsufficientFunds { .. }) => {
            CallEstimate::Refused(answer(AnswerClass::InsufficientFunds))
        }
    }
}

/// The class that the real client gives a rejection in any dialect.
pub fn rejection_class(rejection: &Rejection) -> AnswerClass {
    match rejection {
        Rejection::Undecodable
        | Rejection::TypeNotSupported(_)
        | Rejection::BadSignature
        | Rejection::Unprotected
        | Rejection::WrongChainId { .. }
        | Rejection::Oversized { .. }
        | Rejection::TipAboveFeeCap { .. }
        | Rejection::NonceMax => AnswerClass::Invalid,
        Rejection::GasAboveBlock { .. }
        | Rejection::IntrinsicGas { .. }
        | Rejection::FloorGas { .. } => AnswerClass::GasLimit,
        Rejection::FeeAboveCap { .. } => AnswerClass::FeeTooHigh,
        Rejection::TipTooLow { .. } | Rejection::BelowBaseFee { .. } => AnswerClass::FeeTooLow,
        Rejection::NonceTooLow { .. } => AnswerClass::NonceTooLow,
        Rejection::NonceTooHigh { .. } => AnswerClass::NonceTooHigh,
        Rejection::InsufficientFunds { .. } => AnswerClass::InsufficientFunds,
        Rejection::AlreadyKnown(_) => AnswerClass::AlreadyKnown,
        Rejection::ReplacementUnderpriced(_) => AnswerClass::ReplacementUnderpriced,
        Rejection::Underpriced => AnswerClass::Underpriced,
        Rejection::PoolFull | Rejection::SenderLimit { .. } => AnswerClass::PoolFull,
    }
}
