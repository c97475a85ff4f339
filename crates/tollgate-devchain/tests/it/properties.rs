//! Whatever is sent, mined, reorganised and thrown out, in any order: the books balance.

use std::collections::{BTreeMap, BTreeSet};

use alloy_primitives::{Address, B256, U256};
use proptest::prelude::*;
use tollgate_devchain::chain::{Behaviour, Beyond, Chain, DroppedTxs, Found, MAIN_POOL, Reorg};

use crate::support::{NOBODY, account, assert_linked, chain, gwei, tx};

const SENDERS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Send { from: usize, ahead: u64, tip: u64, pool: usize },
    Mine,
    Reorg { depth: u64, replacements: u64, dropped_txs: DroppedTxs },
    Evict { pool: usize, probability: f64 },
    Behave { reverts: bool },
}

fn steps() -> impl Strategy<Value = Step> {
    let fates = prop_oneof![
        Just(DroppedTxs::Kept),
        Just(DroppedTxs::Moved),
        Just(DroppedTxs::Returned),
        Just(DroppedTxs::Dropped)
    ];
    prop_oneof![
        8 => (0..SENDERS, 0_u64..4, 1_u64..9, 0_usize..2)
            .prop_map(|(from, ahead, tip, pool)| Step::Send { from, ahead, tip, pool }),
        3 => Just(Step::Mine),
        2 => (0_u64..5, 0_u64..6, fates)
            .prop_map(|(depth, replacements, dropped_txs)| Step::Reorg { depth, replacements, dropped_txs }),
        1 => (0_usize..2, 0.0_f64..=1.0)
            .prop_map(|(pool, probability)| Step::Evict { pool, probability }),
        1 => any::<bool>().prop_map(|reverts| Step::Behave { reverts }),
    ]
}

fn take(chain: &mut Chain, step: &Step) {
    match step {
        Step::Send { from, ahead, tip, pool } => {
            let nonce = chain.view(*pool, 0).pending_nonce(account(*from).address) + ahead;
            let sent = tx(*from, nonce.saturating_sub(1), |tx| {
                tx.gas_limit = 30_000;
                tx.max_fee_per_gas = gwei(100 + 20 * tip);
                tx.max_priority_fee_per_gas = gwei(*tip);
                tx.value = U256::from(1_000 * tip);
            });
            // Refused is as good as taken here.
            let _ = chain.submit(*pool, &sent, 0);
        }
        Step::Mine => drop(chain.mine(0)),
        Step::Reorg { depth, replacements, dropped_txs } => {
            let reorg = Reorg {
                depth: *depth,
                replacements: *replacements,
                dropped_txs: *dropped_txs,
                beyond: Beyond::Finalized,
            };
            let _ = chain.reorg(reorg, 0);
        }
        Step::Evict { pool, probability } => drop(chain.evict(*pool, *probability)),
        Step::Behave { reverts: true } => {
            chain.set_behaviour(NOBODY, Behaviour::Revert("no".into()));
        }
        Step::Behave { reverts: false } => chain.set_behaviour(NOBODY, Behaviour::Succeed),
    }
}

fn supply(chain: &Chain) -> U256 {
    chain.accounts().all().map(|(_, account)| account.balance).fold(U256::ZERO, |a, b| a + b)
}

fn assert_sound(chain: &Chain, funded: U256) {
    let mut next: BTreeMap<Address, u64> = BTreeMap::new();
    let mut seen: BTreeSet<B256> = BTreeSet::new();
    let mut burnt = U256::ZERO;
    for block in chain.blocks() {
        burnt += block.burnt();
        assert_eq!(block.txs.len(), block.receipts.len());
        for (index, tx) in block.txs.iter().enumerate() {
            let expected = next.entry(tx.sender).or_default();
            assert_eq!(tx.nonce(), *expected, "chain nonces are contiguous");
            *expected += 1;
            assert!(seen.insert(tx.hash), "no transaction is mined twice");
            let found = chain.view(MAIN_POOL, 0).tx(&tx.hash);
            let Some(Found::Mined(at, place)) = found else { panic!("a mined one has a receipt") };
            assert_eq!((at.hash, place), (block.hash, index));
        }
    }
    assert_eq!(supply(chain) + burnt, funded, "what is not burnt is still there");
    for index in 0..SENDERS {
        let address = account(index).address;
        let nonce = chain.accounts().now(address).nonce;
        assert_eq!(nonce, next.get(&address).copied().unwrap_or(0));
        for pool in 0..chain.pools() {
            let held: Vec<u64> = chain.pool(pool).of(address).map(|p| p.tx.nonce()).collect();
            assert!(held.iter().all(|held| *held >= nonce), "pools hold no used nonce");
            let run = (nonce..).take_while(|wanted| held.contains(wanted)).count() as u64;
            assert_eq!(chain.view(pool, 0).pending_nonce(address), nonce + run);
        }
    }
    assert_linked(chain);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn no_order_of_events_breaks_the_books(steps in prop::collection::vec(steps(), 1..50)) {
        let mut chain = chain(|options| {
            options.chain.block_gas_limit = 100_000;
            options.chain.pool.total = 20;
        });
        let second = chain.add_pool();
        chain.pool_mut(second).gossip_delay_ms = None;
        let funded = supply(&chain);
        for step in &steps {
            take(&mut chain, step);
            assert_sound(&chain, funded);
        }
    }
}
