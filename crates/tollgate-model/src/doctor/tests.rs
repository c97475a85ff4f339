//! The diagnosis of accounts in every kind of trouble.

use super::*;

const GWEI: u128 = 1_000_000_000;

fn endpoint(name: &str, mined: u64, pending: u64, pool: &[PoolTx]) -> EndpointFacts {
    EndpointFacts {
        name: name.to_owned(),
        chain_id: Some(1),
        head: Some(100),
        base_fee: Some(10 * GWEI),
        tip: Some(GWEI),
        mined: Some(mined),
        pending: Some(pending),
        balance: Some(U256::from(10).pow(U256::from(18))),
        pool: Some(pool.to_vec()),
        error: None,
    }
}

fn tx(nonce: u64, max_fee: u128, tip: u128) -> PoolTx {
    let hash = format!("0x{nonce:02x}");
    PoolTx { nonce, hash, max_fee, tip: Some(tip), gas: 21_000, value: U256::from(1) }
}

fn judged(endpoints: &[EndpointFacts]) -> (AccountHealth, Vec<Finding>) {
    let Diagnosis { health, findings, .. } = diagnose(endpoints);
    (health, findings)
}

#[test]
fn account_without_waiting_transactions_is_healthy() {
    let next = Finding::NothingWaits { next: 5 };
    assert_eq!(judged(&[endpoint("a", 5, 5, &[])]), (AccountHealth::Healthy, vec![next]));
}

#[test]
fn account_without_funds_and_without_waiting_transactions_is_healthy_and_says_so() {
    let poor = EndpointFacts { balance: Some(U256::ZERO), ..endpoint("a", 5, 5, &[]) };
    let findings = vec![Finding::NothingWaits { next: 5 }, Finding::NoFunds];
    assert_eq!(judged(&[poor]), (AccountHealth::Healthy, findings));
}

#[test]
fn gap_is_found_although_no_count_shows_it_and_the_remedy_fills_its_first_nonce() {
    let waits = [tx(7, 30 * GWEI, GWEI), tx(8, 30 * GWEI, GWEI)];
    let diagnosis = diagnose(&[endpoint("a", 5, 5, &waits)]);
    assert_eq!(diagnosis.health, AccountHealth::Stuck);
    assert_eq!(diagnosis.findings, [Finding::Hole { first: 5, last: 6, waiting: 2 }]);
    let remedy = diagnosis.remedy.unwrap();
    assert_eq!((remedy.kind, remedy.nonce), (RemedyKind::Fill, 5));
    assert_eq!((remedy.max_fee, remedy.tip), (21 * GWEI, GWEI));
}

#[test]
fn price_below_the_base_fee_needs_a_replacement_that_pools_take() {
    let diagnosis = diagnose(&[endpoint("a", 5, 6, &[tx(5, 9 * GWEI, 3 * GWEI)])]);
    assert_eq!(diagnosis.health, AccountHealth::Stuck);
    assert!(matches!(diagnosis.findings[0], Finding::BelowBaseFee { nonce: 5, .. }));
    let remedy = diagnosis.remedy.unwrap();
    assert_eq!((remedy.kind, remedy.nonce), (RemedyKind::Replace, 5));
    assert!(remedy.tip * 100 > 3 * GWEI * 110 && remedy.max_fee * 100 > 9 * GWEI * 110);
    assert!(remedy.max_fee >= 10 * GWEI + remedy.tip, "{remedy:?}");
}

#[test]
fn replacement_of_an_expensive_transaction_offers_ten_percent_more() {
    let market = Market { base_fee: 0, tip: 0 };
    for (max_fee, tip) in [(100, 10), (1, 0), (u128::MAX, u128::MAX), (99, 99)] {
        let (new_fee, new_tip) = market.replacement(&tx(0, max_fee, tip));
        assert!(new_fee >= max_fee.saturating_add(max_fee / 10), "{max_fee}");
        assert!(new_tip >= tip.saturating_add(tip / 10) && new_fee >= new_tip);
    }
}

#[test]
fn missing_funds_come_before_prices() {
    let poor = EndpointFacts {
        balance: Some(U256::from(5)),
        ..endpoint("a", 5, 6, &[tx(5, 9 * GWEI, 0)])
    };
    let (health, findings) = judged(&[poor]);
    assert_eq!(health, AccountHealth::Stuck);
    assert!(matches!(findings[0], Finding::Funds { nonce: 5, .. }), "{findings:?}");
}

#[test]
fn transaction_without_a_tip_is_told_from_one_that_can_be_included() {
    let (health, findings) = judged(&[endpoint("a", 5, 6, &[tx(5, 30 * GWEI, 0)])]);
    assert_eq!(health, AccountHealth::Stuck);
    assert!(matches!(findings[0], Finding::NoTip { .. }));
    let (health, findings) = judged(&[endpoint("a", 5, 6, &[tx(5, 30 * GWEI, GWEI)])]);
    assert_eq!(health, AccountHealth::Healthy);
    assert!(matches!(findings[0], Finding::Includable { waiting: 1, .. }));
}

#[test]
fn pool_that_nobody_shows_leaves_the_answer_open() {
    let hidden = |pending| EndpointFacts { pool: None, ..endpoint("a", 5, pending, &[]) };
    let diagnosis = diagnose(&[hidden(7)]);
    assert_eq!(diagnosis.health, AccountHealth::Unknown);
    assert_eq!(diagnosis.findings, [Finding::PendingUnseen { mined: 5, pending: 7 }]);
    assert_eq!(diagnosis.remedy.map(|remedy| remedy.nonce), Some(5));
    let hidden = judged(&[hidden(5)]);
    assert_eq!(hidden, (AccountHealth::Unknown, vec![Finding::PoolHidden { next: 5 }]));
}

#[test]
fn endpoints_that_disagree_are_named_and_leave_the_answer_open() {
    let other = EndpointFacts { chain_id: Some(2), ..endpoint("b", 0, 0, &[]) };
    let (health, findings) = judged(&[endpoint("a", 5, 5, &[]), other]);
    assert_eq!(health, AccountHealth::Unknown);
    assert_eq!(findings, [Finding::ChainsDiffer { chains: vec![1, 2] }]);

    let (health, findings) = judged(&[endpoint("a", 5, 5, &[]), endpoint("b", 4, 4, &[])]);
    assert_eq!(health, AccountHealth::Unknown);
    assert_eq!(findings[0], Finding::CountsDiffer { lowest: 4, highest: 5 });

    // Of two, either may be wrong.
    let behind = EndpointFacts { head: Some(50), ..endpoint("b", 2, 2, &[]) };
    let (health, findings) = judged(&[endpoint("a", 5, 5, &[]), behind.clone()]);
    assert_eq!(health, AccountHealth::Unknown);
    assert_eq!(findings[0], Finding::HeadsDiffer { lowest: 50, highest: 100 });

    // Of three, one that is behind or far ahead is named, and does not count.
    let honest = [endpoint("a", 5, 5, &[]), endpoint("c", 5, 5, &[])];
    let (health, findings) = judged(&[&honest[..], &[behind]].concat());
    assert_eq!(health, AccountHealth::Healthy);
    assert_eq!(findings[0], Finding::Lagging { endpoint: "b".to_owned(), behind: 50 });
    let liar = EndpointFacts { head: Some(600), ..endpoint("b", 9, 9, &[]) };
    let (health, findings) = judged(&[&honest[..], &[liar]].concat());
    assert_eq!(health, AccountHealth::Healthy);
    let expected = [
        Finding::Ahead { endpoint: "b".to_owned(), ahead: 500 },
        Finding::NothingWaits { next: 5 },
    ];
    assert_eq!(findings, expected);
}

#[test]
fn endpoint_that_fails_is_named_and_the_others_decide() {
    let failed = |name: &str| EndpointFacts {
        name: name.to_owned(),
        error: Some("connection refused".to_owned()),
        ..EndpointFacts::default()
    };
    let (health, findings) = judged(&[failed("a"), endpoint("b", 5, 5, &[])]);
    assert_eq!(health, AccountHealth::Healthy);
    assert!(matches!(findings[0], Finding::EndpointFailed { .. }));
    let (health, findings) = judged(&[failed("a")]);
    assert_eq!((health, findings.last()), (AccountHealth::Unknown, Some(&Finding::NoCount)));
    assert_eq!(judged(&[]), (AccountHealth::Unknown, vec![Finding::NoCount]));
}

#[test]
fn transaction_in_one_pool_of_two_is_found() {
    let pools = [endpoint("a", 5, 5, &[]), endpoint("b", 5, 6, &[tx(5, 30 * GWEI, GWEI)])];
    assert!(matches!(judged(&pools).1[0], Finding::Includable { nonce: 5, .. }));
}

#[test]
fn prices_are_shown_in_gwei() {
    let shown = [0, 1, GWEI, 1_500_000_000, 12 * GWEI + 10].map(|wei| Gwei(wei).to_string());
    assert_eq!(shown, ["0 gwei", "0.000000001 gwei", "1 gwei", "1.5 gwei", "12.00000001 gwei"]);
}
