//! Builders for what tests write: submitters, intents, attempts, sections.
//!
//! Whatever must be unique is unique by itself: ids, hashes, signed bytes. Payloads are equal if
//! their text is.

use std::time::Duration;

use tollgate_model::port::signer::{TxDraft, TxKind};
use tollgate_model::port::{
    AttemptKind, ChainRegistration, Confirmations, CursorMove, Fees, Lease, LeaseTerms, NewAttempt,
    NewTx, Page, Payload, ReceiptDetails, Reserve, RowVersion, Section, Slot, SubmitterSetup,
    TxReceipt, TxUpdate,
};
use tollgate_model::{
    Address, B256, Bytes, ChainId, GasPrice, NodeId, Nonce, RequestId, Seq, Submitter, Text, TxId,
    U256, Wei,
};
use tollgate_model::{TxEvent, nonce::Mode};
use uuid::Uuid;

/// The chain that most tests work on.
pub const CHAIN: u64 = 31_337;

/// The chain of [`submitter`], as nodes register it.
pub fn chain() -> ChainRegistration {
    ChainRegistration { chain_id: chain_id(CHAIN), genesis: B256::repeat_byte(7) }
}

/// Another chain in the same database.
pub fn other_chain() -> ChainRegistration {
    ChainRegistration { chain_id: chain_id(5), genesis: B256::repeat_byte(5) }
}

/// The account of [`submitter`] on [`other_chain`].
pub fn on_other_chain(n: u64) -> Submitter {
    Submitter::new(other_chain().chain_id, address(n))
}

pub fn chain_id(id: u64) -> ChainId {
    ChainId::new(id).unwrap()
}

/// The `n`th account on [`CHAIN`]; a higher `n` is a higher address.
pub fn submitter(n: u64) -> Submitter {
    Submitter::new(chain_id(CHAIN), address(n))
}

pub fn address(n: u64) -> Address {
    let mut bytes = [0x5a; 20];
    bytes[12..].copy_from_slice(&n.to_be_bytes());
    Address::from(bytes)
}

/// A pipelined submitter whose cursor starts at 0.
pub fn setup(submitter: Submitter) -> SubmitterSetup {
    SubmitterSetup { submitter, mode: Mode::Pipelined, start_from: nonce(0) }
}

/// A new start of the node with this name.
pub fn node_id(name: &str) -> NodeId {
    NodeId::new(name, Uuid::new_v4()).unwrap()
}

pub fn nonce(n: u64) -> Nonce {
    Nonce::new(n).unwrap()
}

pub fn seq(n: u64) -> Seq {
    Seq::new(n).unwrap()
}

pub fn page(limit: u32) -> Page {
    Page::new(limit).unwrap()
}

pub fn full_page() -> Page {
    page(Page::MAX)
}

pub fn request(text: &str) -> RequestId {
    RequestId::new(text).unwrap()
}

pub fn text<const MAX: usize>(text: &str) -> Text<MAX> {
    Text::new("text", text).unwrap()
}

/// An intent; equal texts are equal intents.
pub fn payload(text: &str) -> Payload {
    Payload::new(Bytes::copy_from_slice(text.as_bytes())).unwrap()
}

/// A transaction's id, higher than the ones made before.
pub fn tx_id() -> TxId {
    TxId::from_uuid(Uuid::now_v7())
}

/// A hash that nothing else has.
pub fn hash() -> B256 {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(Uuid::new_v4().as_bytes());
    bytes[16..].copy_from_slice(Uuid::new_v4().as_bytes());
    B256::from(bytes)
}

/// A signed form of an intent, with a hash of its own.
pub fn attempt() -> NewAttempt {
    attempt_of(AttemptKind::Intent)
}

/// A signed form for some purpose, with a hash of its own.
pub fn attempt_of(kind: AttemptKind) -> NewAttempt {
    let tx_hash = hash();
    let gwei = |n: u128| GasPrice::from_wei(n * 1_000_000_000).unwrap();
    let fees = Fees { gas_limit: 21_000, max_fee: gwei(30), max_priority_fee: Some(gwei(2)) };
    NewAttempt { tx_hash, raw: Bytes::copy_from_slice(tx_hash.as_slice()), kind, fees }
}

/// An unsigned transfer, legacy if its fees have no tip.
pub fn draft(from: Submitter, nonce: Nonce, value: u64, fees: Fees) -> TxDraft {
    TxDraft {
        chain_id: from.chain_id,
        from: from.address,
        nonce,
        to: Some(Address::repeat_byte(0xee)),
        value: Wei(U256::from(value)),
        data: Bytes::new(),
        access_list: Vec::new(),
        authorizations: Vec::new(),
        fees,
        kind: if fees.max_priority_fee.is_some() { TxKind::DynamicFee } else { TxKind::Legacy },
    }
}

/// A new intent of its own, with no slot and no name.
pub fn intent() -> NewTx {
    let tx_id = tx_id();
    NewTx {
        tx_id,
        request_id: None,
        payload: payload(&tx_id.to_string()),
        slot: None,
        held: false,
        valid_until: None,
        author: None,
        trace: None,
    }
}

pub trait IntentExt: Sized {
    /// With a slot at the cursor.
    fn at(self, nonce: u64) -> Self;
    /// With a slot from the pool.
    fn recycling(self, nonce: u64) -> Self;
    /// With the caller's name for it.
    fn named(self, request_id: &str) -> Self;
    fn paying(self, text: &str) -> Self;
    /// With a trace that a header names.
    fn traced(self, traceparent: &str) -> Self;
}

impl IntentExt for NewTx {
    fn at(self, n: u64) -> Self {
        let slot = Slot { nonce: nonce(n), recycled: false, attempt: attempt() };
        Self { slot: Some(slot), ..self }
    }

    fn recycling(self, n: u64) -> Self {
        let slot = Slot { nonce: nonce(n), recycled: true, attempt: attempt() };
        Self { slot: Some(slot), ..self }
    }

    fn named(self, request_id: &str) -> Self {
        Self { request_id: Some(request(request_id)), ..self }
    }

    fn paying(self, text: &str) -> Self {
        Self { payload: payload(text), ..self }
    }

    fn traced(self, traceparent: &str) -> Self {
        Self { trace: Some(traceparent.parse().unwrap()), ..self }
    }
}

pub trait SectionExt: Sized {
    fn cursor(self, from: u64, to: u64) -> Self;
    fn create(self, tx: NewTx) -> Self;
    fn creates(self, txs: impl IntoIterator<Item = NewTx>) -> Self;
    fn change(self, update: TxUpdate) -> Self;
}

impl SectionExt for Section {
    fn cursor(mut self, from: u64, to: u64) -> Self {
        self.cursor = Some(CursorMove { from: nonce(from), to: nonce(to) });
        self
    }

    fn create(self, tx: NewTx) -> Self {
        self.creates([tx])
    }

    fn creates(mut self, txs: impl IntoIterator<Item = NewTx>) -> Self {
        self.creates.extend(txs);
        self
    }

    fn change(mut self, update: TxUpdate) -> Self {
        self.updates.push(update);
        self
    }
}

pub const fn section(lease: Lease) -> Section {
    Section::new(lease)
}

/// A section that puts one new transaction into the slot at `n` and moves the cursor past it.
pub fn one_slot(lease: Lease, n: u64) -> Section {
    section(lease).cursor(n, n + 1).create(intent().at(n))
}

pub fn moved(tx_id: TxId, row: RowVersion, event: TxEvent) -> TxUpdate {
    TxUpdate::moved(tx_id, row, event).unwrap()
}

/// The block that holds an attempt's receipt.
pub fn mined_in(tx_hash: B256, block_number: u64) -> TxReceipt {
    TxReceipt {
        tx_hash,
        block_number,
        block_hash: hash(),
        gas_used: 21_000,
        succeeded: true,
        revert_reason: None,
        details: ReceiptDetails {
            transaction_index: Some(3),
            effective_gas_price: Some(GasPrice::from_wei(1_234_567).unwrap()),
            ..ReceiptDetails::default()
        },
    }
}

pub fn confirmations(first_block: u64, length: usize) -> Confirmations {
    let hashes = std::iter::repeat_with(hash).take(length).collect();
    Confirmations { first_block, hashes, new_fork: false }
}

/// A request for a nonce, under a token of its own, that outlasts any test.
pub fn reserve(lease: Lease) -> Reserve {
    Reserve {
        lease,
        owner_token: Uuid::new_v4(),
        hold: Duration::from_secs(600),
        floor: nonce(0),
        outstanding_max: 100,
    }
}

/// Leases that outlast any test, and are taken over as soon as their time is over.
pub fn long_terms() -> LeaseTerms {
    terms(Duration::from_secs(600))
}

/// Leases of this length without an allowance for clock skew.
pub fn terms(duration: Duration) -> LeaseTerms {
    LeaseTerms::new(duration, duration / 4, Duration::ZERO).unwrap()
}
