//! Short forms for what the tests on the fake chain write.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_engine::{
    ActError, Acted, Action, CreateError, Created, Engine, EngineOptions, SignedIntent, Unserved,
};
use tollgate_model::finality::FinalityRule;
use tollgate_model::nonce::{Mode, NonceRules};
use tollgate_model::port::LeaseTerms;
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{
    Address, Bytes, ChainId, Intent, RequestId, Submitter, Text, Tracking, TxHash, TxId, TxState,
    U256,
};
use tollgate_testkit::fake_chain::FakeSigner;
use tollgate_testkit::wait;

pub(crate) use tollgate_testkit::cluster::{FakeCluster as Cluster, account};

/// An intent that differs from all others by its value.
pub(crate) fn transfer(value: u64) -> Intent {
    Intent::transfer(Address::repeat_byte(0xee), U256::from(value))
}

pub(crate) fn request(text: &str) -> Option<RequestId> {
    Some(RequestId::new(text).unwrap())
}

pub(crate) fn id(created: Created) -> TxId {
    created.tx_id()
}

/// Creates at a node that may not own the account yet, until it does.
pub(crate) async fn create_when_owned(
    engine: &Engine,
    from: Submitter,
    request: Option<RequestId>,
    intent: Intent,
) -> TxId {
    wait::until("a create to be taken", || async {
        match engine.create(from, request.clone(), intent.clone()).await {
            Ok(created) => Some(created.tx_id()),
            Err(CreateError::Unserved(Unserved::NotOwner(_) | Unserved::Unavailable(_))) => None,
            Err(error) => panic!("{error}"),
        }
    })
    .await
}

/// Creates a transaction that the caller has signed.
pub(crate) async fn create_signed(
    engine: &Engine,
    from: Submitter,
    request: Option<RequestId>,
    signed: SignedIntent,
) -> Result<Created, CreateError> {
    let prepared = engine.prepare_signed(from, request, signed).await?;
    engine.submit(prepared).decided().await
}

/// Short times, but leases that outlast a test: nobody loses one because the machine is busy.
pub(crate) fn options() -> EngineOptions {
    let millis = Duration::from_millis;
    EngineOptions {
        lease: LeaseTerms::new(millis(600_000), millis(200), Duration::ZERO).unwrap(),
        finality: FinalityRule::Confirmations(3),
        resubmit: ResubmitRules { interval: millis(400), ..ResubmitRules::default() },
        ..EngineOptions::default()
    }
}

/// Leases that end soon after their owner.
pub(crate) fn hasty() -> EngineOptions {
    let millis = Duration::from_millis;
    let lease = LeaseTerms::new(millis(900), millis(200), Duration::ZERO).unwrap();
    EngineOptions { lease, ..options() }
}

pub(crate) const PENDING: TxState = TxState::Tracking(Tracking::Pending);
pub(crate) const MINED: TxState = TxState::Tracking(Tracking::Mined);

/// Nothing is sent again unless a test wants it.
pub(crate) fn patient() -> EngineOptions {
    let resubmit = ResubmitRules { interval: Duration::from_secs(3_600), ..options().resubmit };
    EngineOptions { resubmit, ..options() }
}

pub(crate) fn strict() -> EngineOptions {
    let nonces = NonceRules { mode: Mode::Strict, ..options().nonces };
    EngineOptions { nonces, ..options() }
}

pub(crate) fn window(slots: u32) -> EngineOptions {
    let nonces = NonceRules { window: slots, ..options().nonces };
    EngineOptions { nonces, ..patient() }
}

pub(crate) fn reason(words: &str) -> Text<500> {
    Text::lossy(words)
}

/// As many transfers of the first account, by their values.
pub(crate) async fn transfers(engine: &Engine, values: impl IntoIterator<Item = u64>) -> Vec<TxId> {
    let mut ids = Vec::new();
    for value in values {
        ids.push(id(engine.create(account(1), None, transfer(value)).await.unwrap()));
    }
    ids
}

/// Has a further attempt signed, and waits until a node was handed it.
pub(crate) async fn sign(cluster: &Cluster, engine: &Engine, tx: TxId, action: Action) -> TxHash {
    let acted = act(engine, tx, action).await;
    let Ok(Acted::Signed(hash)) = acted else { panic!("not signed: {acted:?}") };
    cluster.eventually("it is handed over", async || cluster.chain.sends(hash) > 0).await;
    hash
}

pub(crate) async fn act(engine: &Engine, tx: TxId, action: Action) -> Result<Acted, ActError> {
    engine.operator().act(tx, action, reason("a test wants it")).await
}

/// Mines so many blocks.
pub(crate) fn mine_blocks(cluster: &Cluster, blocks: usize) {
    for _ in 0..blocks {
        cluster.chain.mine();
    }
}

/// Transfers of the first account, each with a node.
pub(crate) async fn pending(
    cluster: &Cluster,
    engine: &Engine,
    values: impl IntoIterator<Item = u64>,
) -> Vec<TxId> {
    let ids = transfers(engine, values).await;
    until_pending(cluster, &ids).await;
    ids
}

/// Waits until each of these is with a node.
pub(crate) async fn until_pending(cluster: &Cluster, ids: &[TxId]) {
    for id in ids {
        cluster.until(*id, "was with a node", |tx| tx.row.state == PENDING).await;
    }
}

/// A signer that fails for some values.
pub(crate) struct FaultySigner {
    signer: FakeSigner,
    fails_for: Mutex<HashSet<U256>>,
    always: AtomicBool,
    /// Signs nothing at all, which no store takes, instead of refusing.
    signs_nothing: bool,
}

impl FaultySigner {
    fn new(values: impl IntoIterator<Item = u64>, signs_nothing: bool) -> Arc<Self> {
        let signer = FakeSigner([1, 2, 3].map(|n| account(n).address).to_vec());
        let fails_for = Mutex::new(values.into_iter().map(U256::from).collect());
        Arc::new(Self { signer, fails_for, always: AtomicBool::new(false), signs_nothing })
    }

    pub(crate) fn refusing(values: impl IntoIterator<Item = u64>) -> Arc<Self> {
        Self::new(values, false)
    }

    pub(crate) fn signing_nothing_for(values: impl IntoIterator<Item = u64>) -> Arc<Self> {
        Self::new(values, true)
    }

    pub(crate) fn refuse_nothing(&self) {
        self.fails_for.lock().unwrap().clear();
    }

    /// Sets whether it fails for everything.
    pub(crate) fn fail_always(&self, always: bool) {
        self.always.store(always, Ordering::SeqCst);
    }
}

#[async_trait]
impl Signer for FaultySigner {
    fn accounts(&self) -> Vec<Address> {
        self.signer.accounts()
    }

    fn read(&self, chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError> {
        self.signer.read(chain_id, raw)
    }

    async fn sign(&self, drafts: Vec<TxDraft>) -> Vec<Result<SignedTx, SignError>> {
        let values: Vec<U256> = drafts.iter().map(|draft| draft.value.0).collect();
        let signed = self.signer.sign(drafts).await;
        let (fails_for, always) =
            (self.fails_for.lock().unwrap(), self.always.load(Ordering::SeqCst));
        let faulty = |signed: SignedTx| match self.signs_nothing {
            true => Ok(SignedTx { raw: Bytes::new(), ..signed }),
            false => Err(SignError::Unavailable("the key is in another castle".to_owned())),
        };
        let fails = |value| always || fails_for.contains(value);
        let signed = values.iter().zip(signed);
        signed.map(|(value, one)| if fails(value) { one.and_then(faulty) } else { one }).collect()
    }
}
