//! The fake chain keeps the rules on which tests of the engine rest.

use tollgate_model::Route::Public;
use tollgate_model::answer::AnswerClass;
use tollgate_model::port::batch::Fees;
use tollgate_model::port::chain::{Call, CallEstimate, Chain, SlotSearch, Speed, TxLocation};
use tollgate_model::reconcile::{ReceiptLookup, Search, judge_search};
use tollgate_model::{Address, Bytes, GasPrice, Nonce, TxHash, U256, Wei};
use tollgate_testkit::fake_chain::{
    FakeChain, FakeTx, Query, Reorged, TxMatch, decode, encode, hash_of,
};

const FROM: Address = Address::repeat_byte(1);
const TO: Address = Address::repeat_byte(0xee);

fn price(wei: u128) -> GasPrice {
    GasPrice::from_wei(wei).unwrap()
}

fn nonce(nonce: u64) -> Nonce {
    Nonce::new(nonce).unwrap()
}

/// A transaction with a price and a tip.
fn tx(nonce: u64, max_fee: u128, tip: u128) -> Bytes {
    let max_priority_fee = Some(price(tip));
    let fees = Fees { gas_limit: 25_000, max_fee: price(max_fee), max_priority_fee };
    let (value, to, data) = (U256::from(nonce), Some(TO), Bytes::new());
    encode(&FakeTx { from: FROM, nonce, value, to, data, fees })
}

/// A chain that takes transactions with a tip.
fn chain(base_fee_wei: u128) -> FakeChain {
    let chain = FakeChain::new();
    chain.set_base_fee(base_fee_wei);
    chain
}

async fn send(chain: &FakeChain, raw: &Bytes) -> AnswerClass {
    chain.send(raw, Public).await.class
}

#[test]
fn encoded_transaction_is_decoded() {
    let raw = tx(3, 1_000, 10);
    let read = decode(&raw).unwrap();
    assert_eq!((read.nonce, read.fees.max_fee, read.to), (3, price(1_000), Some(TO)));
    assert_eq!(encode(&read), raw);
    let tipless = Fees { max_priority_fee: None, ..read.fees };
    let create = FakeTx { to: None, fees: tipless, ..read };
    assert_eq!(decode(&encode(&create)), Some(create));
    assert_eq!(decode(&Bytes::from_static(b"short")), None);
    assert_ne!(hash_of(&tx(3, 1_000, 10)), hash_of(&tx(3, 1_000, 11)));
}

#[tokio::test]
async fn a_replacement_pays_a_tenth_more_on_price_and_tip() {
    let chain = chain(1);
    assert_eq!(send(&chain, &tx(0, 1_000, 100)).await, AnswerClass::Accepted);
    assert_eq!(send(&chain, &tx(0, 1_000, 100)).await, AnswerClass::AlreadyKnown);
    for (max_fee, tip) in [(1_099, 110), (1_100, 109), (2_000, 100)] {
        let answer = send(&chain, &tx(0, max_fee, tip)).await;
        assert_eq!(answer, AnswerClass::ReplacementUnderpriced, "{max_fee} {tip}");
    }
    assert_eq!(send(&chain, &tx(0, 1_100, 110)).await, AnswerClass::Accepted);
    chain.mine();
    assert_eq!(chain.mined(FROM)[0].fees.max_fee, price(1_100));
    assert_eq!(chain.receipt(hash_of(&tx(0, 1_000, 100)), Public).await.unwrap(), None);
}

#[tokio::test]
async fn underpriced_transaction_stays_pooled_until_the_base_fee_falls() {
    let chain = chain(500);
    chain.set_tip(7);
    let quote = chain.fee_quote(Speed::Normal).await.unwrap();
    assert_eq!((quote.base_fee, quote.max_fee), (Some(price(500)), price(1_007)));
    assert_eq!(quote.max_priority_fee, Some(price(7)));
    send(&chain, &tx(0, 499, 1)).await;
    send(&chain, &tx(1, 900, 1)).await;
    chain.mine();
    assert_eq!(chain.pooled(), 2, "the cheap one holds back the one behind it");
    chain.set_base_fee(499);
    chain.mine();
    assert_eq!(chain.mined(FROM).len(), 2);
}

#[tokio::test]
async fn send_without_funds_is_refused_until_funded() {
    let chain = chain(990);
    let cost = |raw: &Bytes| decode(raw).unwrap().value + U256::from(25_000 * 1_000);
    let (first, second) = (tx(0, 1_000, 10), tx(1, 1_000, 10));
    // Enough for either, not for both.
    chain.set_balance(FROM, cost(&second));
    assert_eq!(send(&chain, &first).await, AnswerClass::Accepted);
    assert_eq!(send(&chain, &second).await, AnswerClass::InsufficientFunds);
    chain.set_balance(FROM, U256::ZERO);
    chain.mine();
    assert_eq!(chain.mined(FROM).len(), 0);
    let call = Call { from: FROM, to: Some(TO), value: Wei(U256::ONE), data: Bytes::new() };
    assert!(matches!(chain.estimate_call(&call, Public).await.unwrap(), CallEstimate::Refused(_)));
    chain.set_balance(FROM, cost(&first) + cost(&second));
    assert_eq!(send(&chain, &second).await, AnswerClass::Accepted);
    chain.mine();
    assert_eq!(chain.mined(FROM).len(), 2);
    let left = chain.balance(FROM).await.unwrap().0;
    assert_eq!(left, U256::from(2 * 4_000 * 1_000), "gas that was not used comes back");
    chain.reorg(1, Reorged::Dropped);
    assert_eq!(chain.balance(FROM).await.unwrap().0, cost(&first) + cost(&second));
}

#[tokio::test]
async fn scripted_answers_are_given_in_order_and_accept_nothing() {
    let chain = chain(1);
    chain.answer(TxMatch::Nonce(1), AnswerClass::PoolFull, 2);
    chain.answer_next(AnswerClass::Accepted);
    assert_eq!(send(&chain, &tx(1, 10, 1)).await, AnswerClass::PoolFull);
    assert_eq!(send(&chain, &tx(0, 10, 1)).await, AnswerClass::Accepted);
    assert_eq!(chain.pooled(), 0);
    assert_eq!(send(&chain, &tx(0, 10, 1)).await, AnswerClass::Accepted);
    assert_eq!(send(&chain, &tx(1, 10, 1)).await, AnswerClass::PoolFull);
    assert_eq!(send(&chain, &tx(1, 10, 1)).await, AnswerClass::Accepted);
    chain.reject_calls_to(TO);
    assert_eq!(send(&chain, &tx(2, 10, 1)).await, AnswerClass::Invalid);
    chain.answer_truly();
    assert_eq!(send(&chain, &tx(2, 10, 1)).await, AnswerClass::Accepted);
    assert_eq!(chain.pooled(), 3);
}

#[tokio::test]
async fn held_or_evicted_transaction_is_not_mined() {
    let chain = chain(1);
    let [first, second] = [tx(0, 10, 1), tx(1, 10, 1)];
    send(&chain, &first).await;
    send(&chain, &second).await;
    chain.hold(TxMatch::Hash(hash_of(&first)));
    chain.mine();
    assert_eq!(chain.mined(FROM).len(), 0);
    assert_eq!(chain.sighting(hash_of(&first), Public).await.unwrap(), Some(TxLocation::Pending));
    chain.release(TxMatch::Hash(hash_of(&first)));
    assert!(chain.evict(hash_of(&second)) && !chain.evict(hash_of(&second)));
    chain.mine();
    assert_eq!(chain.mined(FROM).len(), 1);
    assert_eq!(chain.sighting(hash_of(&second), Public).await.unwrap(), None);
    let seen = chain.sighting(hash_of(&first), Public).await.unwrap();
    assert!(matches!(seen, Some(TxLocation::InBlock { number: 2, .. })));
}

#[tokio::test]
async fn an_outsider_takes_a_slot_and_is_named() {
    let chain = chain(1);
    let ours = tx(0, 10, 1);
    send(&chain, &ours).await;
    let foreign = chain.outsider_mines(FROM);
    assert_eq!(chain.pooled(), 0, "what lost its slot is gone");
    assert_eq!(send(&chain, &ours).await, AnswerClass::NonceTooLow);
    chain.mine();
    let search = chain.occupants(FROM, &[nonce(0), nonce(1)], 0).await;
    assert_eq!(search.seen.len(), 1);
    assert_eq!((search.seen[0].nonce, search.seen[0].tx_hash), (nonce(0), foreign));
    assert!(search.problem.is_some(), "nothing is in slot 1");
    let counts = [
        chain.count_at(FROM, 0).await.unwrap().count,
        chain.count_at(FROM, 1).await.unwrap().count,
    ];
    assert_eq!(counts, [nonce(0), nonce(1)]);
    assert!(chain.count_at(FROM, 3).await.is_err(), "there is no such block yet");
    let (second, answer) = chain.outsider_sends(FROM, 1, 10);
    assert_eq!(answer, AnswerClass::Accepted);
    assert_ne!(second, foreign);
    assert_eq!(send(&chain, &tx(1, 10, 10)).await, AnswerClass::ReplacementUnderpriced);
}

#[tokio::test]
async fn each_endpoint_reports_the_blocks_that_it_has() {
    let chain = chain(1);
    chain.set_endpoints(3);
    let ours: [TxHash; 1] = [hash_of(&tx(0, 10, 1))];
    send(&chain, &tx(0, 10, 1)).await;
    let looked = chain.search(FROM, nonce(0), &ours).await.looked;
    assert_eq!(looked, [vec![ReceiptLookup::Behind; 3]]);
    chain.outsider_mines(FROM);
    chain.lag_endpoint(1, 1);
    chain.silence_endpoint(2, true);
    let search = chain.search(FROM, nonce(0), &ours).await;
    assert_eq!(
        search.looked,
        [[ReceiptLookup::NotThere, ReceiptLookup::Behind, ReceiptLookup::NoAnswer]]
    );
    let judge = |search: &SlotSearch| judge_search(&ours, &search.looked, None);
    assert_eq!(judge(&search), Search::InVain);
    chain.lag_endpoint(1, 0);
    let search = chain.search(FROM, nonce(0), &ours).await;
    assert_eq!(
        search.looked,
        [[ReceiptLookup::NotThere, ReceiptLookup::NotThere, ReceiptLookup::NoAnswer]]
    );
    assert_eq!((judge(&search), search.found), (Search::InVain, None), "I8: absence");
    chain.set_endpoints(2);
    chain.lag_endpoint(0, 1);
    send(&chain, &tx(1, 10, 1)).await;
    chain.mine();
    let both = [ours[0], hash_of(&tx(1, 10, 1))];
    let search = chain.search(FROM, nonce(1), &both).await;
    assert_eq!(search.looked[1], [ReceiptLookup::Behind, ReceiptLookup::Found]);
    assert_eq!(search.found.unwrap().tx_hash, both[1]);
}

#[tokio::test]
async fn pools_show_what_is_due_and_what_waits() {
    let chain = chain(1);
    chain.set_endpoints(2);
    chain.silence_endpoint(1, true);
    let (due, waits) = (tx(0, 10, 1), tx(2, 10, 1));
    send(&chain, &due).await;
    send(&chain, &waits).await;
    let reports = chain.pools(FROM, &[hash_of(&waits)]).await;
    let pool = reports[0].pool.as_ref().unwrap();
    assert_eq!(pool.pending.get(&nonce(0)), Some(&hash_of(&due)));
    assert_eq!(pool.queued.get(&nonce(2)), Some(&hash_of(&waits)));
    assert_eq!((pool.pending.len(), pool.queued.len()), (1, 1));
    assert_eq!(reports[0].knows_it, Some(true));
    assert_eq!(reports[1], Default::default());
    chain.hide_pools();
    let reports = chain.pools(FROM, &[TxHash::ZERO]).await;
    assert_eq!((&reports[0].pool, reports[0].knows_it), (&None, Some(false)));
}

#[tokio::test]
async fn queries_can_fail_and_accounts_can_be_stalled() {
    let chain = chain(1);
    let raw = tx(0, 1_000, 10);
    assert_eq!(send(&chain, &raw).await, AnswerClass::Accepted);
    chain.mine();
    chain.fail(Query::Receipts, true);
    chain.fail(Query::Counts(FROM), true);
    chain.receipt(hash_of(&raw), Public).await.unwrap_err();
    chain.counts(FROM).await.unwrap_err();
    chain.counts(TO).await.unwrap();
    let search = chain.search(FROM, nonce(0), &[hash_of(&raw)]).await;
    assert_eq!(search.looked, [[ReceiptLookup::NoAnswer]]);
    assert_eq!(chain.failed(), 3);
    chain.fail(Query::Receipts, false);
    assert!(chain.receipt(hash_of(&raw), Public).await.unwrap().is_some());

    chain.stall(FROM, true);
    let next = tx(1, 1_000, 10);
    let mut stalled = Box::pin(chain.send(&next, Public));
    assert!(futures_util::poll!(&mut stalled).is_pending());
    assert_eq!(chain.pooled(), 0);
    chain.stall(FROM, false);
    assert_eq!(stalled.await.class, AnswerClass::Accepted);
}
