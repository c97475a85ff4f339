//! Short forms for what the tests on the fake chain write.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tollgate_engine::{CreateError, Created, Engine, EngineOptions, Unserved};
use tollgate_model::finality::FinalityRule;
use tollgate_model::port::LeaseTerms;
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Address, Bytes, ChainId, Intent, RequestId, Submitter, TxId, U256};
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

/// A signer that fails for some values.
pub(crate) struct FaultySigner {
    signer: FakeSigner,
    fails_for: Mutex<HashSet<U256>>,
    always: AtomicBool,
    /// It signs nothing at all, which no store takes, instead of refusing.
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

    /// Whether it fails for everything.
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
