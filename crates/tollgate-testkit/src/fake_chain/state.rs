//! The state of the fake chain: the dev chain's core, and the script of what tests change about it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use tollgate_devchain::chain::{
    BaseFee, Chain, ChainConfig, FinalityDistances, GWEI, MAIN_POOL, PoolLimits, Tx, View,
};
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::TxReceipt;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::chain::Call;
use tollgate_model::receipt_support::ReceiptSupport;
use tollgate_model::{Address, Bytes, GasPrice, Route, TxHash, U256};

use super::tx::{CHAIN_ID, FakeTx, decode_tx, encode, hash_of};
use crate::chain_answers;

/// The gas of an outsider's transaction.
const OUTSIDERS_GAS: u64 = 30_000;
/// The recipient of an outsider's transaction.
const OUTSIDERS_FRIEND: Address = Address::repeat_byte(0xf0);

/// A set of transactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxMatch {
    /// All of them.
    Any,
    /// Those with this nonce, from any account.
    Nonce(u64),
    /// Those that pay this much.
    Value(u64),
    /// Calls of this address.
    To(Address),
    /// This very one.
    Hash(TxHash),
}

impl TxMatch {
    fn matches(self, tx: &Tx) -> bool {
        use alloy_consensus::Transaction as _;
        match self {
            Self::Any => true,
            Self::Nonce(nonce) => tx.nonce() == nonce,
            Self::Value(value) => tx.envelope.value() == U256::from(value),
            Self::To(to) => tx.envelope.to() == Some(to),
            Self::Hash(known) => tx.hash == known,
        }
    }
}

/// An answer that is given instead of the true one.
pub(super) struct ScriptedAnswer {
    pub(super) matching: TxMatch,
    pub(super) class: AnswerClass,
    pub(super) left: usize,
}

/// One of several endpoints.
#[derive(Clone, Copy, Default)]
pub(super) struct Endpoint {
    pub(super) lags_by: u64,
    pub(super) is_silent: bool,
    /// The endpoint counts no transaction of any account.
    pub(super) counts_nothing: bool,
}

/// The changes that tests make to what is shown of the core.
#[derive(Default)]
pub(super) struct Script {
    pub(super) lose_answers: usize,
    pub(super) lose_batches: usize,
    pub(super) sends: HashMap<TxHash, usize>,
    /// There are private endpoints.
    pub(super) has_private: bool,
    /// Private endpoints accept transactions and do nothing with them.
    pub(super) swallows_private: bool,
    /// Private endpoints can't be reached.
    pub(super) private_down: bool,
    /// Sends to private endpoints.
    pub(super) private_sends: usize,
    /// Hashes that public endpoints were sent or asked about before a block had them.
    pub(super) public_hashes: HashSet<TxHash>,
    /// Calls that public endpoints estimated.
    pub(super) public_calls: Vec<Call>,
    /// The gas of a block, if it is known.
    pub(super) block_gas: Option<u64>,
    /// The tip that is quoted instead of the usual one, in wei.
    pub(super) tip: Option<u128>,
    pub(super) answers: Vec<ScriptedAnswer>,
    pub(super) held: Vec<TxMatch>,
    pub(super) endpoints: Vec<Endpoint>,
    pub(super) hides_pools: bool,
    pub(super) loses_receipts: bool,
    pub(super) hangs_reasons: bool,
    /// The answer of several endpoints about every receipt; `None` if there is one endpoint.
    pub(super) support: Option<ReceiptSupport>,
    outsiders: u64,
    /// The gas that every call is estimated to use, instead of its own.
    pub(super) estimate: Option<u64>,
    /// The distance of the announced head above the true one.
    pub(super) announced_ahead: u64,
    /// Newest blocks that are neither announced nor shown.
    pub(super) hidden: u64,
    /// Newest blocks that counts do not know yet.
    pub(super) counts_lag: u64,
    /// There is no safe and no finalized block.
    pub(super) lacks_tags: bool,
    /// The block that is safe and finalized, where it is not the head.
    pub(super) tag: Option<u64>,
    /// Receipts in blocks that were replaced, which the first endpoint still shows in searches.
    pub(super) orphaned_receipts: HashMap<TxHash, TxReceipt>,
}

pub(super) struct State {
    pub(super) core: Chain,
    pub(super) script: Script,
}

impl State {
    pub(super) fn new() -> Self {
        let pool = PoolLimits {
            total: usize::MAX,
            per_sender: usize::MAX,
            min_tip_wei: 0,
            fee_cap_wei: None,
            tx_bytes: usize::MAX,
            keep_unpayable: true,
            ..PoolLimits::default()
        };
        let core = Chain::new(ChainConfig {
            chain_id: CHAIN_ID,
            base_fee: BaseFee::Absent,
            block_gas_limit: u64::MAX,
            pool,
            finality: FinalityDistances { safe: 0, finalized: 0 },
            default_balance: U256::MAX,
            ..ChainConfig::default()
        });
        let script = Script { endpoints: vec![Endpoint::default()], ..Script::default() };
        Self { core, script }
    }

    /// The chain as an endpoint sees it that is so many blocks behind.
    pub(super) fn view(&self, lag: u64) -> View<'_> {
        self.core.view(MAIN_POOL, lag)
    }

    /// Mines a block with everything that can go in.
    pub(super) fn mine(&mut self) {
        let held = &self.script.held;
        self.core.mine_only(0, |tx| !held.iter().any(|matching| matching.matches(tx)));
    }

    /// Notes that the endpoints of a route learn of a hash. What a block has is no secret.
    pub(super) fn disclose(&mut self, hash: TxHash, route: Route) {
        if route == Route::Public && chain_answers::receipt(&self.view(0), &hash).is_none() {
            self.script.public_hashes.insert(hash);
        }
    }

    pub(super) fn send(&mut self, raw: &Bytes, route: Route) -> AnswerClass {
        *self.script.sends.entry(hash_of(raw)).or_default() += 1;
        self.disclose(hash_of(raw), route);
        if route == Route::Private {
            self.script.private_sends += 1;
            match (self.script.private_down, self.script.swallows_private) {
                (true, _) => return AnswerClass::Transient,
                (false, true) => return AnswerClass::Accepted,
                (false, false) => {}
            }
        }
        let Some(tx) = decode_tx(raw) else { return AnswerClass::Invalid };
        let mut answers = self.script.answers.iter_mut();
        if let Some(scripted) =
            answers.find(|scripted| scripted.left > 0 && scripted.matching.matches(&tx))
        {
            scripted.left -= 1;
            return scripted.class;
        }
        match self.admit(&tx) {
            AnswerClass::Accepted if self.script.lose_answers > 0 => {
                self.script.lose_answers -= 1;
                AnswerClass::Unknown
            }
            class => class,
        }
    }

    /// The pool's answer to a transaction, which it keeps if it accepts it.
    pub(super) fn admit(&mut self, tx: &Arc<Tx>) -> AnswerClass {
        match self.core.submit(MAIN_POOL, tx, 0) {
            Ok(_) => AnswerClass::Accepted,
            Err(rejection) => chain_answers::rejection_class(&rejection),
        }
    }

    /// A transaction of an outsider with the same key; another one each time.
    pub(super) fn outsiders_tx(&mut self, from: Address, nonce: u64, max_fee_wei: u128) -> Arc<Tx> {
        self.script.outsiders += 1;
        let max_fee = GasPrice::from_wei(max_fee_wei).unwrap();
        let fees = Fees { gas_limit: OUTSIDERS_GAS, max_fee, max_priority_fee: None };
        let data = Bytes::from(self.script.outsiders.to_be_bytes());
        let to = Some(OUTSIDERS_FRIEND);
        decode_tx(&encode(&FakeTx { from, nonce, value: U256::ZERO, to, data, fees })).unwrap()
    }

    /// A price at which the next block takes a transaction, in wei.
    pub(super) fn outsiders_price(&self) -> u128 {
        u128::from(self.core.next_base_fee().unwrap_or(0).max(GWEI))
    }
}
