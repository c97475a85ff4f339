//! Private transactions over real endpoints: two public ones and a private one, each behind a proxy that records what
//! it was sent.

use std::time::Duration;

use tollgate_engine::{Action, Engine, EngineOptions};
use tollgate_model::port::{LeaseTerms, TxRecord};
use tollgate_model::resubmit::ResubmitRules;
use tollgate_model::{Address, Bytes, Intent, PrivateRoute, StuckReason, TxId, TxState, U256};
use tollgate_testkit::rpc_proxy::RpcProxy;

use super::chains::ChainKind;
use super::support::{
    MINUTE, Pipeline, Sent, Setup, StoreKind, account, is_mined, is_pending, options, transfer,
};
use crate::support::{act, create_when_owned, id};

on_both_stores! {
    public_endpoints_never_see_a_private_transaction_before_it_is_mined,
    swallowed_private_transaction_falls_back_only_if_told_so,
    private_transaction_without_a_private_endpoint_that_answers_is_stuck_and_not_public,
    public_transactions_behind_a_private_one_wait_and_are_mined_after_it,
}

/// A call that no other transaction makes.
const DATA: &[u8] = b"a private call that nobody else makes";

/// The endpoints of a chain, and what each was sent.
struct Endpoints {
    public: [RpcProxy; 2],
    private: RpcProxy,
}

impl Endpoints {
    async fn of(pipeline: &Pipeline) -> Self {
        let public = [pipeline.chain.breakable().await, pipeline.chain.breakable().await];
        let private = pipeline.chain.breakable().await;
        public.iter().chain([&private]).for_each(RpcProxy::record);
        Self { public, private }
    }

    async fn node(&self, pipeline: &Pipeline, name: &str, options: EngineOptions) -> Engine {
        let private_urls = vec![self.private.url()];
        let urls = self.public.each_ref().map(RpcProxy::url);
        pipeline.node_over(name, Setup { private_urls, ..options.into() }, &urls).await
    }

    /// Counts the calls to public endpoints that contained the bytes, the hash or the data of an attempt.
    async fn public_calls(&self, pipeline: &Pipeline, of: TxId) -> usize {
        let attempts = pipeline.attempts(of).await;
        let texts = attempts.iter().flat_map(|it| [it.tx_hash.to_string(), it.raw.to_string()]);
        let texts: Vec<String> = texts.chain([Bytes::from_static(DATA).to_string()]).collect();
        let calls_with = |text: &String| -> usize {
            self.public.iter().map(|proxy| proxy.calls_with(&text[2..])).sum()
        };
        texts.iter().map(calls_with).sum()
    }
}

/// Private transactions are sent again soon.
fn hasty() -> EngineOptions {
    let millis = Duration::from_millis;
    let resubmit = ResubmitRules { private_interval: millis(200), ..options().resubmit };
    let lease = LeaseTerms::new(millis(900), millis(200), Duration::ZERO).unwrap();
    EngineOptions { resubmit, lease, diagnose: Some(millis(100)), ..options() }
}

fn private(value: u64, after: Option<Duration>) -> Intent {
    let to = Some(Address::repeat_byte(0xee));
    let private = Some(PrivateRoute::with_fallback(after));
    Intent { data: Bytes::from_static(DATA), private, ..Intent::call(to, U256::from(value)) }
}

fn is_resent(record: &TxRecord) -> bool {
    record.resubmits >= 2
}

async fn public_endpoints_never_see_a_private_transaction_before_it_is_mined(store: StoreKind) {
    let pipeline = Pipeline::on(store, ChainKind::Devchain).await;
    let endpoints = Endpoints::of(&pipeline).await;
    let from = account(0);
    let engine = endpoints.node(&pipeline, "a", hasty()).await;

    // Estimated, sent, sent again, and sped up.
    let first = id(engine.create(from, None, private(1, None)).await.unwrap());
    pipeline.until(first, "with a node", is_pending).await;
    pipeline.until(first, "sent again", is_resent).await;
    pipeline.sign(&engine, first, Action::SpeedUp).await;
    act(&engine, first, Action::Resubmit).await.unwrap();
    // A second one is cancelled.
    let second = id(engine.create(from, None, private(2, None)).await.unwrap());
    pipeline.until(second, "with a node", is_pending).await;
    pipeline.sign(&engine, second, Action::Cancel).await;
    assert_eq!(endpoints.public_calls(&pipeline, first).await, 0, "before the restart");

    // The node stops, and another one takes over and sends both again.
    engine.stop().await;
    let before = pipeline.record(first).await.resubmits;
    let engine = endpoints.node(&pipeline, "b", hasty()).await;
    let third = create_when_owned(&engine, from, None, private(3, None)).await;
    pipeline.until(first, "sent by the new owner", |tx| tx.resubmits > before + 1).await;
    pipeline.sign(&engine, first, Action::SpeedUp).await;
    for tx in [first, second, third] {
        let public = endpoints.public_calls(&pipeline, tx).await;
        assert_eq!(public, 0, "{tx} was shown to a public endpoint");
    }
    let data = Bytes::from_static(DATA).to_string();
    assert!(endpoints.private.calls_with("eth_estimateGas") > 0);
    assert!(endpoints.private.calls_with(&data[2..]) > 0, "the records hold what was sent");

    let sent = [Sent::new(first, 1), Sent::new(second, 2).cancelled(), Sent::new(third, 3)];
    pipeline.finish(from, &sent).await;
    for tx in [first, second, third] {
        for attempt in pipeline.attempts(tx).await {
            let raw = attempt.raw.to_string();
            let seen: usize = endpoints.public.iter().map(|it| it.calls_with(&raw[2..])).sum();
            assert_eq!(seen, 0, "its bytes are never sent to a public endpoint");
        }
    }
    let history = pipeline.history(first).await;
    let details: Vec<_> = history.iter().filter_map(|it| it.detail.as_ref()).collect();
    let names_endpoint = |text: &str| text.contains(&endpoints.private.url());
    assert!(details.iter().any(|it| names_endpoint(it.as_str())), "{details:?}");
}

async fn swallowed_private_transaction_falls_back_only_if_told_so(store: StoreKind) {
    let pipeline = Pipeline::on(store, ChainKind::Devchain).await;
    let endpoints = Endpoints::of(&pipeline).await;
    endpoints.private.change(|faults| faults.discarded_sends = 100);
    let engine = endpoints.node(&pipeline, "a", hasty()).await;
    let told = id(engine.create(account(0), None, private(1, Some(MINUTE))).await.unwrap());
    let untold = id(engine.create(account(1), None, private(2, None)).await.unwrap());
    for tx in [told, untold] {
        pipeline.until(tx, "sent again", is_resent).await;
        assert_eq!(endpoints.public_calls(&pipeline, tx).await, 0);
    }
    pipeline.clock.advance(MINUTE);
    pipeline.mine_until(told, "mined", is_mined).await;
    let before = pipeline.record(untold).await.resubmits;
    pipeline.until(untold, "sent again", |tx| tx.resubmits > before + 2).await;
    let hash = pipeline.record(untold).await.newest_hash.unwrap().to_string();
    assert!(endpoints.public.iter().all(|it| it.calls_with(&hash[2..]) == 0), "it was not told so");

    endpoints.private.change(|faults| faults.discarded_sends = 0);
    pipeline.mine_until_final(&[Sent::new(told, 1), Sent::new(untold, 2)]).await;
}

async fn private_transaction_without_a_private_endpoint_that_answers_is_stuck_and_not_public(
    store: StoreKind,
) {
    let pipeline = Pipeline::on(store, ChainKind::Devchain).await;
    let endpoints = Endpoints::of(&pipeline).await;
    let engine = endpoints.node(&pipeline, "a", hasty()).await;
    endpoints.private.change(|faults| faults.is_down = true);
    // Nobody may estimate it: its gas is given.
    let unestimated = engine.create(account(0), None, private(1, None)).await.unwrap_err();
    assert!(unestimated.to_string().contains("give payload.gas"), "{unestimated}");
    let intent = Intent { gas: Some(60_000), ..private(1, None) };
    let tx = id(engine.create(account(0), None, intent).await.unwrap());
    pipeline.until(tx, "sent in vain", |tx| tx.last_error.is_some()).await;
    pipeline.clock.advance(hasty().resubmit.grey_zone_timeout);
    let stuck = TxState::Stuck(StuckReason::GreyZone);
    pipeline.until(tx, "STUCK", |tx| tx.row.state == stuck).await;
    let error = pipeline.record(tx).await.last_error.unwrap();
    assert!(error.as_str().contains(&endpoints.private.url()), "the reason is shown: {error}");
    pipeline.mine_one().await;
    assert_eq!(endpoints.public_calls(&pipeline, tx).await, 0);

    endpoints.private.change(|faults| faults.is_down = false);
    pipeline.finish(account(0), &[Sent::new(tx, 1)]).await;
}

async fn public_transactions_behind_a_private_one_wait_and_are_mined_after_it(store: StoreKind) {
    let pipeline = Pipeline::on(store, ChainKind::Devchain).await;
    let endpoints = Endpoints::of(&pipeline).await;
    endpoints.private.change(|faults| faults.discarded_sends = 100);
    let engine = endpoints.node(&pipeline, "a", hasty()).await;
    let from = account(0);
    let first = id(engine.create(from, None, private(1, None)).await.unwrap());
    pipeline.until(first, "sent again", is_resent).await;
    let mut sent = vec![Sent::new(first, 1)];
    for value in 2..6 {
        let created = engine.create(from, None, transfer(value)).await.unwrap();
        sent.push(Sent::new(id(created), value));
    }
    for behind in &sent[1..] {
        pipeline
            .until(behind.id, "was sent", |tx| {
                tx.row.state != TxState::Queued(tollgate_model::Queued::Waiting)
                    && tx.newest_hash.is_some()
            })
            .await;
    }
    pipeline.mine_one().await;
    pipeline.mine_one().await;
    for tx in &sent {
        let state = pipeline.record(tx.id).await.row.state;
        assert!(!state.is_final() && !matches!(state, TxState::Stuck(_)), "{state}");
    }
    assert_eq!(endpoints.public_calls(&pipeline, first).await, 0);
    endpoints.private.change(|faults| faults.discarded_sends = 0);
    pipeline.finish(from, &sent).await;
}
