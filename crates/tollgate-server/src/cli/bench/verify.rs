//! The verdict: what the blocks of a chain say about a run. Pure; knows no node and no chain.

use std::collections::HashMap;

use tollgate_model::{Address, U256};

use super::plan::Plan;
use super::record::Fate;

/// A transaction in a block.
#[derive(Clone, Debug)]
pub(super) struct MinedTx {
    pub(super) from: Address,
    pub(super) to: Option<Address>,
    pub(super) nonce: u64,
    pub(super) value: U256,
}

/// What was found in the blocks since a run began.
pub(super) struct Ledger<'a> {
    plan: &'a Plan,
    /// For each submitter: its next nonce when the run began, and the nonces that blocks hold.
    accounts: HashMap<Address, (u64, Vec<u64>)>,
    /// How often each intent was mined.
    mined: HashMap<u64, u32>,
    foreign: u64,
}

/// What the chain says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Verdict {
    /// Blocks that were read.
    pub(super) blocks: u64,
    /// Intents of this run in them.
    pub(super) mined: u64,
    /// Nonces that were left out below a mined one.
    pub(super) gaps: u64,
    /// Nonces that were used more than once.
    pub(super) nonces_twice: u64,
    /// Intents that were mined more than once.
    pub(super) intents_twice: u64,
    /// Accepted intents that were not mined.
    pub(super) missing: u64,
    /// Transactions of these submitters that nobody asked for in this run.
    pub(super) foreign: u64,
}

impl Verdict {
    pub(super) const fn is_good(&self) -> bool {
        self.gaps == 0
            && self.nonces_twice == 0
            && self.intents_twice == 0
            && self.missing == 0
            && self.foreign == 0
    }
}

impl<'a> Ledger<'a> {
    /// `next_nonces` are the submitters' when the run began, in the plan's order.
    pub(super) fn new(plan: &'a Plan, next_nonces: &[u64]) -> Self {
        let accounts = plan.submitters.iter().zip(next_nonces);
        let accounts = accounts.map(|(address, next)| (*address, (*next, Vec::new()))).collect();
        Self { plan, accounts, mined: HashMap::new(), foreign: 0 }
    }

    /// Enters a block's transactions; those of other accounts are none of our business.
    pub(super) fn enter(&mut self, transactions: &[MinedTx]) {
        for tx in transactions {
            let Some((_, nonces)) = self.accounts.get_mut(&tx.from) else { continue };
            nonces.push(tx.nonce);
            match self.plan.number_of(tx.from, tx.to, tx.value) {
                Some(number) => *self.mined.entry(number).or_default() += 1,
                None => self.foreign += 1,
            }
        }
    }

    /// Compares with what the nodes answered.
    pub(super) fn judge(self, blocks: u64, fates: impl Iterator<Item = Fate>) -> Verdict {
        let mined = self.mined.len() as u64;
        let mut verdict = Verdict { blocks, mined, foreign: self.foreign, ..Verdict::default() };
        for (next, mut nonces) in self.accounts.into_values() {
            nonces.sort_unstable();
            let mut expected = next;
            for nonce in nonces {
                if nonce < expected {
                    verdict.nonces_twice += 1;
                    continue;
                }
                verdict.gaps += nonce - expected;
                expected = nonce + 1;
            }
        }
        let mut made = 0;
        for (number, fate) in fates.enumerate() {
            made = number as u64 + 1;
            let times = self.mined.get(&(number as u64)).copied().unwrap_or(0);
            verdict.intents_twice += u64::from(times > 1);
            match fate {
                Fate::Accepted => verdict.missing += u64::from(times == 0),
                Fate::Refused => verdict.foreign += u64::from(times > 0),
                // May have got through, or has been mined long ago.
                Fate::Unclear | Fate::Known => {}
            }
        }
        verdict.foreign += self.mined.keys().filter(|number| **number >= made).count() as u64;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::super::plan::RECIPIENT;
    use super::super::plan::tests::plan;
    use super::*;

    /// The transfer that carries out an intent.
    fn tx(plan: &Plan, number: u64, nonce: u64) -> MinedTx {
        let from = plan.submitter(number);
        let value = U256::from(plan.value(number));
        MinedTx { from, to: Some(RECIPIENT), nonce, value }
    }

    fn judged(plan: &Plan, blocks: &[Vec<MinedTx>], fates: &[Fate]) -> Verdict {
        let mut ledger = Ledger::new(plan, &vec![5; plan.submitters.len()]);
        blocks.iter().for_each(|block| ledger.enter(block));
        ledger.judge(blocks.len() as u64, fates.iter().copied())
    }

    const ACCEPTED: [Fate; 3] = [Fate::Accepted; 3];

    #[test]
    fn each_accepted_intent_once_and_nonces_without_a_gap_are_good() {
        let plan = plan(2, 1, 4);
        let mut other = tx(&plan, 0, 99);
        other.from = Address::repeat_byte(0x77);
        // Numbers 0 and 2 are the first submitter's; order within a block does not matter.
        let blocks = [vec![tx(&plan, 2, 6), tx(&plan, 0, 5), other], vec![tx(&plan, 1, 5)]];
        let verdict = judged(&plan, &blocks, &ACCEPTED);
        assert_eq!(verdict, Verdict { blocks: 2, mined: 3, ..Verdict::default() });
        assert!(verdict.is_good());
    }

    #[test]
    fn a_gap_is_found_also_before_the_first_nonce() {
        let plan = plan(1, 1, 3);
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 1, 6), tx(&plan, 2, 9)]];
        let verdict = judged(&plan, &blocks, &ACCEPTED);
        assert_eq!((verdict.gaps, verdict.is_good()), (2, false));
        let late = [vec![tx(&plan, 0, 6), tx(&plan, 1, 7), tx(&plan, 2, 8)]];
        assert_eq!(judged(&plan, &late, &ACCEPTED).gaps, 1);
    }

    #[test]
    fn a_nonce_that_is_used_twice_is_found() {
        let plan = plan(1, 1, 3);
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 1, 5)], vec![tx(&plan, 2, 6)]];
        let verdict = judged(&plan, &blocks, &ACCEPTED);
        assert_eq!((verdict.nonces_twice, verdict.gaps, verdict.is_good()), (1, 0, false));
    }

    #[test]
    fn an_intent_that_is_mined_twice_is_found() {
        let plan = plan(1, 1, 3);
        let txs = vec![tx(&plan, 0, 5), tx(&plan, 1, 6), tx(&plan, 2, 7), tx(&plan, 1, 8)];
        let verdict = judged(&plan, &[txs], &ACCEPTED);
        assert_eq!((verdict.intents_twice, verdict.missing, verdict.is_good()), (1, 0, false));
    }

    #[test]
    fn an_accepted_intent_that_is_not_mined_is_missing() {
        let plan = plan(1, 1, 3);
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 2, 6)]];
        let verdict = judged(&plan, &blocks, &ACCEPTED);
        assert_eq!((verdict.missing, verdict.is_good()), (1, false));
    }

    #[test]
    fn what_nobody_asked_for_is_foreign() {
        let plan = plan(1, 1, 9);
        let mut strange = tx(&plan, 1, 6);
        strange.value += U256::from(1_000);
        let blocks = [vec![tx(&plan, 0, 5), strange]];
        assert_eq!(judged(&plan, &blocks, &[Fate::Accepted]).foreign, 1);
        // Of this run, but never made.
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 7, 6)]];
        assert_eq!(judged(&plan, &blocks, &[Fate::Accepted]).foreign, 1);
    }

    #[test]
    fn a_refused_intent_must_not_be_mined_and_an_unclear_one_may() {
        let plan = plan(1, 1, 3);
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 1, 6)]];
        let fates = [Fate::Unclear, Fate::Refused, Fate::Known];
        let verdict = judged(&plan, &blocks, &fates);
        assert_eq!((verdict.foreign, verdict.missing), (1, 0));
        assert!(judged(&plan, &[vec![]], &fates).is_good());
    }
}
