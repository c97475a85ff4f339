//! Compares the blocks of a chain with the outcomes of a run. Pure: does no I/O.

use std::collections::HashMap;

use tollgate_model::{Address, U256};

use crate::plan::Plan;
use crate::record::IntentOutcome;

/// A transaction in a block.
#[derive(Clone, Debug)]
pub(crate) struct MinedTx {
    pub(crate) from: Address,
    pub(crate) to: Option<Address>,
    pub(crate) nonce: u64,
    pub(crate) value: U256,
}

/// The run's transactions in the blocks since it began.
pub(crate) struct Ledger<'a> {
    plan: &'a Plan,
    /// For each submitter: its next nonce when the run began, and its nonces in the blocks.
    accounts: HashMap<Address, (u64, Vec<u64>)>,
    /// The number of times that each intent was mined.
    mined: HashMap<u64, u32>,
    foreign: u64,
}

/// The result of the comparison.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Verdict {
    /// Blocks read.
    pub(crate) blocks: u64,
    /// Intents of this run in them.
    pub(crate) mined: u64,
    /// Unused nonces below a mined one.
    pub(crate) gaps: u64,
    /// Nonces used more than once.
    pub(crate) nonces_twice: u64,
    /// Intents mined more than once.
    pub(crate) intents_twice: u64,
    /// Accepted intents that were not mined.
    pub(crate) missing: u64,
    /// Transactions of these submitters that this run did not request.
    pub(crate) foreign: u64,
}

impl Verdict {
    pub(crate) const fn is_good(&self) -> bool {
        self.gaps == 0
            && self.nonces_twice == 0
            && self.intents_twice == 0
            && self.missing == 0
            && self.foreign == 0
    }
}

impl<'a> Ledger<'a> {
    /// `next_nonces` are the submitters' when the run began, in the plan's order.
    pub(crate) fn new(plan: &'a Plan, next_nonces: &[u64]) -> Self {
        let accounts = plan.submitters.iter().zip(next_nonces);
        let accounts = accounts.map(|(address, next)| (*address, (*next, Vec::new()))).collect();
        Self { plan, accounts, mined: HashMap::new(), foreign: 0 }
    }

    /// Adds a block's transactions; those of other accounts are ignored.
    pub(crate) fn enter(&mut self, transactions: &[MinedTx]) {
        for tx in transactions {
            let Some((_, nonces)) = self.accounts.get_mut(&tx.from) else { continue };
            nonces.push(tx.nonce);
            match self.plan.number_of(tx.from, tx.to, tx.value) {
                Some(number) => *self.mined.entry(number).or_default() += 1,
                None => self.foreign += 1,
            }
        }
    }

    /// Compares with the outcomes that the nodes answered.
    pub(crate) fn judge(
        self,
        blocks: u64,
        outcomes: impl Iterator<Item = IntentOutcome>,
    ) -> Verdict {
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
        for (number, outcome) in outcomes.enumerate() {
            made = number as u64 + 1;
            let times = self.mined.get(&(number as u64)).copied().unwrap_or(0);
            verdict.intents_twice += u64::from(times > 1);
            match outcome {
                IntentOutcome::Accepted => verdict.missing += u64::from(times == 0),
                IntentOutcome::Refused => verdict.foreign += u64::from(times > 0),
                // May have been accepted, or was mined before this run.
                IntentOutcome::Unclear | IntentOutcome::Known => {}
            }
        }
        verdict.foreign += self.mined.keys().filter(|number| **number >= made).count() as u64;
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::RECIPIENT;
    use crate::plan::tests::plan;

    /// The transfer that carries out an intent.
    fn tx(plan: &Plan, number: u64, nonce: u64) -> MinedTx {
        let from = plan.submitter(number);
        let value = U256::from(plan.value(number));
        MinedTx { from, to: Some(RECIPIENT), nonce, value }
    }

    fn judged(plan: &Plan, blocks: &[Vec<MinedTx>], outcomes: &[IntentOutcome]) -> Verdict {
        let mut ledger = Ledger::new(plan, &vec![5; plan.submitters.len()]);
        blocks.iter().for_each(|block| ledger.enter(block));
        ledger.judge(blocks.len() as u64, outcomes.iter().copied())
    }

    const ACCEPTED: [IntentOutcome; 3] = [IntentOutcome::Accepted; 3];

    #[test]
    fn every_accepted_intent_mined_once_without_gaps_is_good() {
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
    fn nonce_gap_is_found_also_before_the_first_nonce() {
        let plan = plan(1, 1, 3);
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 1, 6), tx(&plan, 2, 9)]];
        let verdict = judged(&plan, &blocks, &ACCEPTED);
        assert_eq!((verdict.gaps, verdict.is_good()), (2, false));
        let late = [vec![tx(&plan, 0, 6), tx(&plan, 1, 7), tx(&plan, 2, 8)]];
        assert_eq!(judged(&plan, &late, &ACCEPTED).gaps, 1);
    }

    #[test]
    fn nonce_used_twice_is_found() {
        let plan = plan(1, 1, 3);
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 1, 5)], vec![tx(&plan, 2, 6)]];
        let verdict = judged(&plan, &blocks, &ACCEPTED);
        assert_eq!((verdict.nonces_twice, verdict.gaps, verdict.is_good()), (1, 0, false));
    }

    #[test]
    fn intent_mined_twice_is_found() {
        let plan = plan(1, 1, 3);
        let txs = vec![tx(&plan, 0, 5), tx(&plan, 1, 6), tx(&plan, 2, 7), tx(&plan, 1, 8)];
        let verdict = judged(&plan, &[txs], &ACCEPTED);
        assert_eq!((verdict.intents_twice, verdict.missing, verdict.is_good()), (1, 0, false));
    }

    #[test]
    fn accepted_intent_that_is_not_mined_is_missing() {
        let plan = plan(1, 1, 3);
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 2, 6)]];
        let verdict = judged(&plan, &blocks, &ACCEPTED);
        assert_eq!((verdict.missing, verdict.is_good()), (1, false));
    }

    #[test]
    fn transaction_that_was_not_requested_is_foreign() {
        let plan = plan(1, 1, 9);
        let mut strange = tx(&plan, 1, 6);
        strange.value += U256::from(1_000);
        let blocks = [vec![tx(&plan, 0, 5), strange]];
        assert_eq!(judged(&plan, &blocks, &[IntentOutcome::Accepted]).foreign, 1);
        // Of this run, but never made.
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 7, 6)]];
        assert_eq!(judged(&plan, &blocks, &[IntentOutcome::Accepted]).foreign, 1);
    }

    #[test]
    fn refused_intent_must_not_be_mined_and_an_unclear_one_may() {
        let plan = plan(1, 1, 3);
        let blocks = [vec![tx(&plan, 0, 5), tx(&plan, 1, 6)]];
        let outcomes = [IntentOutcome::Unclear, IntentOutcome::Refused, IntentOutcome::Known];
        let verdict = judged(&plan, &blocks, &outcomes);
        assert_eq!((verdict.foreign, verdict.missing), (1, 0));
        assert!(judged(&plan, &[vec![]], &outcomes).is_good());
    }
}
