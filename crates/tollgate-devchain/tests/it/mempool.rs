//! Admission to the pool, and eviction when it is full.

use alloy_consensus::TxLegacy;
use alloy_primitives::{Bytes, TxKind, U256};
use tollgate_devchain::chain::{Chain, Rejection, Tx};
use tollgate_devchain::sign;

use crate::support::{CHAIN_ID, NOBODY, account, chain, gwei, mine_all, plain, raw, send, tx};

#[test]
fn nonces_without_a_gap_are_pending_and_the_rest_is_queued_until_it_closes() {
    let mut chain = chain(|_| {});
    for nonce in [0, 1, 3, 4] {
        send(&mut chain, &plain(0, nonce)).unwrap();
    }
    assert_eq!(chain.pool(0).counts(), (2, 2));
    assert_eq!(chain.view(0, 0).pending_nonce(account(0).address), 2);
    send(&mut chain, &plain(0, 2)).unwrap();
    assert_eq!(chain.pool(0).counts(), (5, 0));
    assert_eq!(chain.view(0, 0).pending_nonce(account(0).address), 5);
}

#[test]
fn a_dropped_transaction_leaves_a_gap_behind() {
    let mut chain = chain(|_| {});
    let middle = plain(0, 1);
    for tx in [plain(0, 0), middle.clone(), plain(0, 2)] {
        send(&mut chain, &tx).unwrap();
    }
    assert!(chain.drop_pooled(0, &middle.hash));
    assert!(!chain.drop_pooled(0, &middle.hash));
    assert_eq!(chain.pool(0).counts(), (1, 1));
    assert_eq!(chain.mine(0).txs.len(), 1);
    assert_eq!(chain.mine(0).txs.len(), 0);
    send(&mut chain, &middle).unwrap();
    assert_eq!(chain.mine(0).txs.len(), 2);
}

#[test]
fn a_replacement_must_pay_ten_percent_more_on_both_fees() {
    let mut chain = chain(|_| {});
    let fees = |fee_cap: u128, tip: u128| {
        tx(0, 0, |tx| (tx.max_fee_per_gas, tx.max_priority_fee_per_gas) = (fee_cap, tip))
    };
    let first = fees(1_000_000_000_000, 1_000);
    send(&mut chain, &first).unwrap();
    for (fee_cap, tip) in [
        (1_099_999_999_999, 1_100),
        (1_100_000_000_000, 1_099),
        (1_000_000_000_000, 1_100),
        (2_000_000_000_000, 1_000),
    ] {
        let refused = fees(fee_cap, tip);
        let expected = Err(Rejection::ReplacementUnderpriced(refused.hash));
        assert_eq!(send(&mut chain, &refused), expected, "{fee_cap} {tip}");
    }
    send(&mut chain, &plain(0, 1)).unwrap();
    let enough = fees(1_100_000_000_000, 1_100);
    assert_eq!(send(&mut chain, &enough).unwrap().replaced, Some(first.hash));
    // The successor stays pending, and the replaced one is gone.
    assert_eq!(chain.pool(0).counts(), (2, 0));
    assert!(chain.pool(0).get(&first.hash).is_none());
    assert_eq!(chain.mine(0).txs.len(), 2);
}

#[test]
fn a_mined_nonce_is_too_low_even_for_the_transaction_that_used_it() {
    let mut chain = chain(|_| {});
    let mined = plain(0, 0);
    mine_all(&mut chain, std::slice::from_ref(&mined));
    assert_eq!(send(&mut chain, &mined), Err(Rejection::NonceTooLow { next: 1, nonce: 0 }));
}

#[test]
fn a_full_pool_gives_up_its_cheapest_for_a_better_one() {
    let mut chain = chain(|options| options.chain.pool.total = 3);
    let tip = |from: usize, nonce: u64, gwei_tip: u64| {
        tx(from, nonce, |tx| tx.max_priority_fee_per_gas = gwei(gwei_tip))
    };
    let cheapest = tip(0, 0, 2);
    for tx in [cheapest.clone(), tip(1, 0, 3), tip(2, 0, 4)] {
        send(&mut chain, &tx).unwrap();
    }
    assert_eq!(send(&mut chain, &tip(3, 0, 1)), Err(Rejection::Underpriced));
    assert_eq!(send(&mut chain, &tip(3, 5, 9)), Err(Rejection::PoolFull));
    assert_eq!(send(&mut chain, &tip(3, 0, 5)).unwrap().evicted, Some(cheapest.hash));
    assert_eq!(chain.pool(0).len(), 3);
}

#[test]
fn limits_of_one_sender_and_of_nonce_gaps_hold() {
    let mut chain = chain(|options| {
        options.chain.pool.per_sender = 2;
        options.chain.pool.nonce_gap = Some(3);
    });
    assert_eq!(send(&mut chain, &plain(0, 4)), Err(Rejection::NonceTooHigh { next: 0, nonce: 4 }));
    send(&mut chain, &plain(0, 3)).unwrap();
    send(&mut chain, &plain(0, 0)).unwrap();
    let sender = account(0).address;
    assert_eq!(send(&mut chain, &plain(0, 1)), Err(Rejection::SenderLimit { sender, pooled: 2 }));
    // A replacement takes no further place.
    send(
        &mut chain,
        &tx(0, 0, |tx| {
            (tx.max_fee_per_gas, tx.max_priority_fee_per_gas) = (gwei(200), gwei(2));
        }),
    )
    .unwrap();
}

#[test]
fn sender_must_afford_all_its_pooled_transactions() {
    let mut chain = chain(|_| {});
    let sender = account(0).address;
    let cost = plain(0, 0).cost();
    chain.set_balance(sender, cost * U256::from(2));
    send(&mut chain, &plain(0, 0)).unwrap();
    send(&mut chain, &plain(0, 1)).unwrap();
    let balance = cost * U256::from(2);
    assert_eq!(
        send(&mut chain, &plain(0, 2)),
        Err(Rejection::InsufficientFunds { balance, queued: balance, cost })
    );
    // When the money goes, so does what it was to pay for.
    chain.set_balance(sender, U256::ZERO);
    assert_eq!(chain.mine(0).txs.len(), 0);
    assert!(chain.pool(0).is_empty());
}

#[test]
fn eviction_follows_from_the_seed() {
    let run = |seed: u64| {
        let mut chain = chain(|options| options.chain.seed = seed);
        for nonce in 0..100 {
            send(&mut chain, &plain(0, nonce)).unwrap();
        }
        chain.evict(0, 0.5)
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
    assert!((20..80).contains(&run(7).len()));
    let mut chain = chain(|_| {});
    send(&mut chain, &plain(0, 0)).unwrap();
    assert_eq!(chain.evict(0, 1.0).len(), 1);
    assert!(chain.pool(0).is_empty());
}

/// A rejection and a transaction that gets it, on a default chain where account 1 has mined one.
pub(crate) fn rejected() -> Vec<(Rejection, Chain, Bytes)> {
    use Rejection::*;
    let fresh = || {
        let mut chain = chain(|_| {});
        mine_all(&mut chain, &[plain(1, 0)]);
        chain
    };
    let with = |change: &dyn Fn(&mut Chain)| {
        let mut chain = fresh();
        change(&mut chain);
        chain
    };
    let legacy = |chain_id| {
        let tx = TxLegacy {
            chain_id,
            gas_price: gwei(2),
            gas_limit: 21_000,
            to: TxKind::Call(NOBODY),
            ..TxLegacy::default()
        };
        sign::sign(tx, &account(0).private_key).unwrap()
    };
    let held = plain(0, 0);
    let holding = with(&|chain| {
        send(chain, &plain(0, 0)).unwrap();
    });
    let full = with(&|chain| {
        chain.pool_mut(0).limits.total = 1;
        send(chain, &plain(2, 0)).unwrap();
    });
    let cheaper = raw(0, 0, |tx| tx.value = U256::from(5));
    let poor = with(&|chain| chain.set_balance(account(0).address, U256::from(7)));
    let cost = plain(0, 0).cost();
    let data = |tx: &mut alloy_consensus::TxEip1559, gas| {
        tx.input = vec![1; 100].into();
        tx.gas_limit = gas;
    };
    let mut high_s = raw(0, 0, |_| {}).to_vec();
    let last = high_s.len() - 32;
    high_s[last] |= 0x80;
    let limited = |change: &dyn Fn(&mut tollgate_devchain::chain::PoolLimits)| {
        with(&|chain| change(&mut chain.pool_mut(0).limits))
    };
    vec![
        (Undecodable, fresh(), Bytes::from_static(&[2, 0xc1])),
        (TypeNotSupported(3), fresh(), Bytes::from_static(&[3, 0xc0])),
        (Undecodable, fresh(), Bytes::from_static(&[4, 0xc0])),
        (BadSignature, fresh(), high_s.into()),
        (Unprotected, fresh(), legacy(None)),
        (WrongChainId { have: 5, want: CHAIN_ID }, fresh(), legacy(Some(5))),
        (
            Oversized { size: raw(0, 0, |_| {}).len(), limit: 100 },
            limited(&|limits| limits.tx_bytes = 100),
            raw(0, 0, |_| {}),
        ),
        (
            GasAboveBlock { gas: 60_000_001, limit: 60_000_000 },
            fresh(),
            raw(0, 0, |tx| tx.gas_limit = 60_000_001),
        ),
        (
            TipAboveFeeCap { tip: gwei(101), fee_cap: gwei(100) },
            fresh(),
            raw(0, 0, |tx| tx.max_priority_fee_per_gas = gwei(101)),
        ),
        (
            IntrinsicGas { gas: 20_999, need: 21_000 },
            fresh(),
            raw(0, 0, |tx| tx.gas_limit = 20_999),
        ),
        (FloorGas { gas: 24_000, need: 25_000 }, fresh(), raw(0, 0, |tx| data(tx, 24_000))),
        (
            FeeAboveCap {
                fee_wei: U256::from(21_000) * U256::from(gwei(100_000)),
                cap_wei: U256::from(10_u64.pow(18)),
            },
            fresh(),
            raw(0, 0, |tx| tx.max_fee_per_gas = gwei(100_000)),
        ),
        (TipTooLow { tip: 0, min: 1 }, fresh(), raw(0, 0, |tx| tx.max_priority_fee_per_gas = 0)),
        (
            BelowBaseFee { fee_cap: 9, base_fee: 765_701_563 },
            limited(&|limits| limits.refuse_below_base_fee = true),
            raw(0, 0, |tx| (tx.max_fee_per_gas, tx.max_priority_fee_per_gas) = (9, 9)),
        ),
        (NonceTooLow { next: 1, nonce: 0 }, fresh(), raw(1, 0, |_| {})),
        (
            NonceTooHigh { next: 1, nonce: 9 },
            limited(&|limits| limits.nonce_gap = Some(2)),
            raw(1, 9, |_| {}),
        ),
        (NonceMax, fresh(), raw(0, u64::MAX, |_| {})),
        (
            InsufficientFunds { balance: U256::from(7), queued: U256::ZERO, cost },
            poor,
            raw(0, 0, |_| {}),
        ),
        (AlreadyKnown(held.hash), holding.clone(), held.raw.clone()),
        (ReplacementUnderpriced(Tx::decode(cheaper.clone()).unwrap().hash), holding, cheaper),
        (Underpriced, full.clone(), raw(0, 0, |tx| tx.max_priority_fee_per_gas = 1)),
        (PoolFull, full, raw(0, 8, |tx| tx.max_priority_fee_per_gas = gwei(2))),
        (
            SenderLimit { sender: account(0).address, pooled: 0 },
            limited(&|limits| limits.per_sender = 0),
            raw(0, 0, |_| {}),
        ),
    ]
}

#[test]
fn each_rule_refuses_what_breaks_it_and_nothing_changes() {
    for (expected, mut chain, raw) in rejected() {
        let before = chain.clone();
        let refused = Tx::decode(raw).and_then(|tx| send(&mut chain, &tx));
        assert_eq!(refused, Err(expected));
        assert_eq!(chain, before);
    }
}
