//! An account whose signatures take long, as those of a remote signer do, beside others. Keys of a node are in its
//! process, so this runs an engine in this one: on PostgreSQL, on a chain that costs nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tollgate_engine::{CreateError, Engine, EngineOptions};
use tollgate_model::nonce::Mode;
use tollgate_model::port::signer::{SignError, SignedTx, Signer, TxDraft};
use tollgate_model::{Address, Bytes, ChainId, Intent, Submitter, U256};
use tollgate_testkit::cluster::{FakeCluster, account};
use tollgate_testkit::fake_chain::FakeSigner;
use tollgate_testkit::{PgFixture, wait};

use crate::stats::median;

/// The time of one signature, and those that the signer makes at once.
const SIGNATURE: Duration = Duration::from_millis(200);
const AT_ONCE: usize = 64;
/// Creates of the slow account under way.
const CALLERS: usize = 256;
/// The pause between two creates of the other account.
const PAUSE: Duration = Duration::from_millis(5);

struct SlowSigner {
    signer: FakeSigner,
    slow: Address,
    places: Arc<Semaphore>,
    most: AtomicUsize,
}

#[async_trait]
impl Signer for SlowSigner {
    fn accounts(&self) -> Vec<Address> {
        self.signer.accounts()
    }

    fn read(&self, chain_id: ChainId, raw: &Bytes) -> Result<TxDraft, SignError> {
        self.signer.read(chain_id, raw)
    }

    async fn sign(&self, drafts: Vec<TxDraft>) -> Vec<Result<SignedTx, SignError>> {
        if drafts.first().is_some_and(|draft| draft.from == self.slow) {
            let mut calls = JoinSet::new();
            for _ in &drafts {
                let places = self.places.clone();
                calls.spawn(async move {
                    let _place = places.acquire().await;
                    tokio::time::sleep(SIGNATURE).await;
                });
            }
            while calls.join_next().await.is_some() {
                let signing = AT_ONCE - self.places.available_permits();
                self.most.fetch_max(signing, Ordering::Relaxed);
            }
        }
        self.signer.sign(drafts).await
    }
}

/// A table of the others' latency before and while the slow account is loaded, and its own rate.
pub(crate) async fn measure(span: Duration) -> String {
    let cluster = FakeCluster::on(Arc::new(PgFixture::crashable().await), Mode::Pipelined).await;
    let accounts = [1, 2].map(account);
    let signer = Arc::new(SlowSigner {
        signer: FakeSigner(accounts.map(|account| account.address).to_vec()),
        slow: accounts[0].address,
        places: Arc::new(Semaphore::new(AT_ONCE)),
        most: AtomicUsize::new(0),
    });
    let mut options = EngineOptions { queued_max: 1_000_000, ..EngineOptions::default() };
    options.nonces.window = 100_000;
    options.nonces.unfinal_max = 200_000;
    let engine = Arc::new(cluster.node_signing("a", options, signer.clone()));
    for account in accounts {
        wait::until("a create", || async { create(&engine, account).await.ok() }).await;
    }
    let alone = latencies(&engine, accounts[1], span).await;
    let mut callers = JoinSet::new();
    let created = Arc::new(AtomicUsize::new(0));
    for _ in 0..CALLERS {
        let (engine, created) = (engine.clone(), created.clone());
        callers.spawn(async move {
            loop {
                create(&engine, accounts[0]).await.unwrap();
                created.fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let (start, before) = (Instant::now(), created.load(Ordering::Relaxed));
    let beside = latencies(&engine, accounts[1], span).await;
    let rate = (created.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
    callers.shutdown().await;
    let most = signer.most.load(Ordering::Relaxed);
    eprintln!(
        "slow signer: {rate:.0}/s, {most} at once; others' p50 {alone:?} ms and {beside:?} ms"
    );
    let possible = AT_ONCE as f64 / SIGNATURE.as_secs_f64();
    format!(
        "### Others beside a slow signer\n\nOne account whose signatures take 200 ms each, 64 at once, with {CALLERS} \
         callers: {rate:.0} accepted/s of {possible:.0}/s that its signer can do, at most {most} signatures at once. \
         Another account creates every 5 ms, before and beside it. An engine in the process of the measurement. \
         Wanted: 64 in flight, others unchanged.\n\n| | p50, ms | p99, ms |\n|---|---:|---:|\n\
         | before | {:.1} | {:.1} |\n| beside it | {:.1} | {:.1} |\n",
        alone.0, alone.1, beside.0, beside.1
    )
}

/// Median and 99th percentile of an account's creates, one by one.
async fn latencies(engine: &Engine, of: Submitter, span: Duration) -> (f64, f64) {
    let (start, mut times) = (Instant::now(), Vec::new());
    while start.elapsed() < span {
        let begun = Instant::now();
        create(engine, of).await.unwrap();
        times.push(begun.elapsed().as_secs_f64() * 1e3);
        tokio::time::sleep(PAUSE).await;
    }
    times.sort_by(f64::total_cmp);
    let p99 = times[(times.len() * 99).div_ceil(100) - 1];
    (median(times).unwrap(), p99)
}

async fn create(engine: &Engine, from: Submitter) -> Result<(), CreateError> {
    let intent = Intent::transfer(Address::repeat_byte(0xbe), U256::from(1));
    engine.create(from, None, intent).await.map(drop)
}
