//! Judges whether anything was lost, doubled or late: a pure function of what the chain, the feed and the
//! audit say.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use crate::audit::Findings;
use crate::cluster::{CONFIRMATIONS, ORPHANED, SECOND, STRICT};
use crate::event_log::{Accepted, FeedEntry, Used};

/// The codes of CONFIRMED and of FAILED_FINAL/CANCELLED in the database.
const CONFIRMED_CODE: i32 = 40;
const CANCELLED_CODE: i32 = 51;

/// A transaction in a block of the canonical chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Mined {
    /// The account that sent it; none if it is not one of the run's.
    pub(crate) account: Option<usize>,
    pub(crate) nonce: u64,
    pub(crate) value: u64,
    pub(crate) block: u64,
    /// The receipt says success.
    pub(crate) succeeded: bool,
}

/// All that there is to judge by.
#[derive(Default)]
pub(crate) struct Evidence {
    pub(crate) accepted: Vec<Accepted>,
    pub(crate) mined: Vec<Mined>,
    /// The next nonce of each account, the pool included.
    pub(crate) pending_counts: BTreeMap<usize, u64>,
    pub(crate) feed: Vec<FeedEntry>,
    /// Transactions that somebody asked to cancel.
    pub(crate) cancels: BTreeSet<String>,
    /// Reserved nonces that callers have used.
    pub(crate) used: Vec<Used>,
    /// Numbers of the blocks that each reorg replaced.
    pub(crate) replaced: Vec<RangeInclusive<u64>>,
    pub(crate) audit: Findings,
}

impl Evidence {
    /// Transactions that ended as cancelled, and that somebody asked to cancel.
    fn cancelled(&self) -> BTreeSet<&str> {
        let stored = self.audit.stored_feed.iter();
        let ended = stored.filter(|(_, _, state)| *state == CANCELLED_CODE);
        ended.map(|(_, tx_id, _)| tx_id.as_str()).filter(|id| self.cancels.contains(*id)).collect()
    }

    /// The number of the block that what is in this one was sent before. A reorg fills blocks that
    /// were there already with what waits in the pool: then it is the next one after all of those.
    fn sent_by(&self, block: u64) -> u64 {
        let later = self.replaced.iter().filter(|blocks| blocks.contains(&block));
        later.map(|blocks| blocks.end() + 1).max().unwrap_or(block)
    }
}

/// Numbers for the table, and all that is wrong.
#[derive(Clone, Default, Debug)]
pub struct Verdict {
    /// Creates that were answered as taken.
    pub accepted: usize,
    /// Of those, how many the chain carried out exactly once.
    pub once: usize,
    /// Of those, how many are of accounts that no node serves.
    pub orphans: usize,
    /// Of those, how many are on the second chain.
    pub second_chain: usize,
    /// Of those that were accepted, how many the chain never carried out.
    pub missing: usize,
    /// Of those, how many it did more than once.
    pub twice: usize,
    /// Of those, how many were cancelled as somebody had asked, and never carried out.
    pub cancelled: usize,
    /// Transactions that callers sent by themselves, each once in its reserved nonce.
    pub own: usize,
    /// Nonces that are left out.
    pub gaps: usize,
    /// Transactions that nobody asked for.
    pub foreign: usize,
    /// Critical writes under a token that was not in force.
    pub stale_writes: usize,
    /// Tokens that were granted.
    pub tokens_granted: u64,
    /// To so many submitters.
    pub submitters: u64,
    /// Tokens that were granted twice, or after a higher one.
    pub tokens_reused: usize,
    /// Entries of the feed, as its reader saw it.
    pub feed_entries: usize,
    /// All that is wrong, in words.
    pub wrong: Vec<String>,
}

/// Judges.
pub(crate) fn judge(evidence: &Evidence) -> Verdict {
    let mut verdict = Verdict {
        accepted: evidence.accepted.len(),
        feed_entries: evidence.feed.len(),
        ..Verdict::default()
    };
    judge_values(evidence, &mut verdict);
    judge_nonces(evidence, &mut verdict);
    judge_feed(evidence, &mut verdict);
    judge_audit(&evidence.audit, &mut verdict);
    verdict
}

/// Each accepted value is on the chain once, from its account, and nothing else is.
fn judge_values(evidence: &Evidence, verdict: &mut Verdict) {
    let mut found: BTreeMap<(usize, u64), Vec<&Mined>> = BTreeMap::new();
    for mined in &evidence.mined {
        if let Some(account) = mined.account {
            found.entry((account, mined.value)).or_default().push(mined);
        }
        if !mined.succeeded {
            verdict.wrong.push(format!("failed on the chain: {mined:?}"));
        }
    }
    let cancelled = evidence.cancelled();
    for accepted in &evidence.accepted {
        let Accepted { account, value, tx_id } = accepted;
        let is_cancelled = cancelled.contains(tx_id.as_str());
        match found.remove(&(*account, *value)).unwrap_or_default().as_slice() {
            [] if is_cancelled => verdict.cancelled += 1,
            [_] if is_cancelled => {
                let what = format!("cancelled, and carried out: {value} of {account} ({tx_id})");
                verdict.wrong.push(what);
            }
            [_] => {
                verdict.once += 1;
                verdict.orphans += usize::from(ORPHANED.contains(account));
                verdict.second_chain += usize::from(SECOND.contains(account));
            }
            [] => {
                verdict.missing += 1;
                verdict.wrong.push(format!("lost: {value} of account {account} ({tx_id})"));
            }
            many => {
                verdict.twice += 1;
                verdict.wrong.push(format!("doubled: {value} of account {account}: {many:?}"));
            }
        }
    }
    for used in &evidence.used {
        let mined = found.remove(&(used.account, used.value)).unwrap_or_default();
        match mined.as_slice() {
            [mined] if mined.nonce == used.nonce => verdict.own += 1,
            mined => verdict.wrong.push(format!("a caller used a nonce: {used:?}, {mined:?}")),
        }
    }
    // What closes the slot of a cancelled one pays nothing.
    let mut closing = cancelled.len();
    for mined in found.into_values().flatten() {
        if mined.value == 0 && closing > 0 {
            closing -= 1;
            continue;
        }
        verdict.foreign += 1;
        verdict.wrong.push(format!("nobody asked for it: {mined:?}"));
    }
}

/// The nonces of an account are 0, 1, 2, … in the order of blocks; a strict one's next is in a block
/// only after the last is final; and nothing more waits in the pool.
fn judge_nonces(evidence: &Evidence, verdict: &mut Verdict) {
    let mut accounts: BTreeMap<usize, Vec<&Mined>> = BTreeMap::new();
    for mined in &evidence.mined {
        if let Some(account) = mined.account {
            accounts.entry(account).or_default().push(mined);
        }
    }
    for (account, mined) in &accounts {
        for (expected, mined) in (0..).zip(mined) {
            if mined.nonce != expected {
                verdict.gaps += 1;
                let nonce = mined.nonce;
                verdict.wrong.push(format!("account {account}: nonce {nonce} is at {expected}"));
            }
        }
        let pairs = mined.windows(2).filter(|_| STRICT.contains(account));
        for pair in pairs {
            if evidence.sent_by(pair[1].block) < pair[0].block + CONFIRMATIONS {
                let [one, next] = [pair[0], pair[1]];
                verdict.wrong.push(format!("strict, but not one by one: {one:?}, {next:?}"));
            }
        }
    }
    for (account, pending) in &evidence.pending_counts {
        let mined = accounts.get(account).map_or(0, Vec::len) as u64;
        if *pending != mined {
            let what = format!("account {account}: {mined} in blocks, the pool counts {pending}");
            verdict.wrong.push(what);
        }
    }
}

/// The feed has the accepted ones and nothing else, and the reader saw what is stored.
fn judge_feed(evidence: &Evidence, verdict: &mut Verdict) {
    let accepted: BTreeSet<&str> = evidence.accepted.iter().map(|it| it.tx_id.as_str()).collect();
    let told: BTreeSet<&str> = evidence.feed.iter().map(|it| it.tx_id.as_str()).collect();
    if accepted.len() != evidence.accepted.len() {
        verdict.wrong.push("two requests have one transaction".to_owned());
    }
    for tx_id in accepted.difference(&told) {
        verdict.wrong.push(format!("not in the feed: {tx_id}"));
    }
    for tx_id in told.difference(&accepted) {
        verdict.wrong.push(format!("in the feed, and nobody asked for it: {tx_id}"));
    }
    let seen = evidence.feed.iter().map(|it| (it.seq, it.tx_id.as_str()));
    let stored = &evidence.audit.stored_feed;
    if !seen.eq(stored.iter().map(|(seq, tx_id, _)| (*seq, tx_id.as_str()))) {
        let what = format!(
            "the reader saw {} entries of the feed, {} are stored, and they are not the same",
            evidence.feed.len(),
            stored.len()
        );
        verdict.wrong.push(what);
    }
    let cancelled = evidence.cancelled();
    for (seq, tx_id, state) in stored {
        if *state != CONFIRMED_CODE && !cancelled.contains(tx_id.as_str()) {
            verdict.wrong.push(format!("completion {seq} ({tx_id}) is in state {state}"));
        }
    }
}

fn judge_audit(audit: &Findings, verdict: &mut Verdict) {
    verdict.stale_writes = audit.stale_writes.len();
    verdict.tokens_granted = audit.granted;
    verdict.submitters = audit.submitters;
    verdict.tokens_reused = audit.reused.len() + audit.falling.len();
    let stale = audit.stale_writes.iter().map(|what| format!("stale write: {what}"));
    verdict.wrong.extend(stale);
    verdict.wrong.extend(audit.reused.iter().chain(&audit.falling).cloned());
    verdict.wrong.extend(audit.open.iter().map(|what| format!("not final: {what}")));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::CONFIRMED;

    /// Two of a pipelined account and two of a strict one, as they should be.
    fn good() -> Evidence {
        let mut evidence = Evidence::default();
        for (account, value, nonce, block) in
            [(0, 10, 0, 5), (0, 11, 1, 5), (STRICT.start, 20, 0, 5), (STRICT.start, 21, 1, 9)]
        {
            let tx_id = format!("tx-{value}");
            let seq = evidence.feed.len() as u64 + 1;
            evidence.accepted.push(Accepted { account, value, tx_id: tx_id.clone() });
            let mined = Mined { account: Some(account), nonce, value, block, succeeded: true };
            evidence.mined.push(mined);
            let state = CONFIRMED.to_owned();
            evidence.feed.push(FeedEntry { seq, tx_id: tx_id.clone(), state });
            evidence.audit.stored_feed.push((seq, tx_id, CONFIRMED_CODE));
            evidence.pending_counts.insert(account, nonce + 1);
        }
        evidence
    }

    #[test]
    fn orphans_and_the_second_chain_are_counted_if_they_are_carried_out() {
        let mut evidence = good();
        for account in [ORPHANED.start, SECOND.start] {
            let tx_id = format!("tx of {account}");
            let mined =
                Mined { account: Some(account), nonce: 0, value: 5, block: 5, succeeded: true };
            let lost = judge(&evidence);
            evidence.accepted.push(Accepted { account, value: 5, tx_id });
            evidence.mined.push(mined);
            let found = judge(&evidence);
            let more = (found.orphans - lost.orphans, found.second_chain - lost.second_chain);
            assert_eq!(more, if account == SECOND.start { (0, 1) } else { (1, 0) });
        }
    }

    #[test]
    fn reserved_nonce_is_used_once_by_its_caller() {
        let used = Used { account: 0, nonce: 2, value: 77 };
        let mined = |nonce| Mined { account: Some(0), nonce, value: 77, block: 6, succeeded: true };
        let wrong = |mined: Vec<Mined>| {
            wrong_with(|it| {
                it.used.push(used.clone());
                it.pending_counts.insert(0, 2 + mined.len() as u64);
                it.mined.extend(mined);
            })
        };
        assert_eq!(wrong(vec![mined(2)]), [""; 0]);
        says(&wrong(vec![]), "a caller used a nonce");
        says(&wrong(vec![mined(2), mined(3)]), "a caller used a nonce");
        let taken = |it: &mut Evidence| {
            it.mined[1].nonce = 2;
            it.mined.push(mined(1));
            it.used.push(used.clone());
        };
        says(&wrong_with(taken), "a caller used a nonce");
    }

    fn wrong_with(change: impl FnOnce(&mut Evidence)) -> Vec<String> {
        let mut evidence = good();
        change(&mut evidence);
        judge(&evidence).wrong
    }

    fn says(wrong: &[String], what: &str) {
        assert!(wrong.iter().any(|it| it.contains(what)), "{what:?} is not in {wrong:?}");
    }

    #[test]
    fn good_run_has_no_violation() {
        let verdict = judge(&good());
        assert_eq!(verdict.wrong, [""; 0]);
        assert_eq!((verdict.accepted, verdict.once, verdict.feed_entries), (4, 4, 4));
    }

    #[test]
    fn accepted_value_missing_on_the_chain_is_lost() {
        says(&wrong_with(|it| it.mined.truncate(3)), "lost: 21");
    }

    #[test]
    fn value_on_the_chain_twice_is_doubled() {
        let again = |it: &mut Evidence| {
            let mined = Mined { nonce: 2, block: 6, ..it.mined[1].clone() };
            it.mined.insert(2, mined);
        };
        says(&wrong_with(again), "doubled: 11");
    }

    /// The second transaction of the pipelined account was cancelled.
    fn with_a_cancel(it: &mut Evidence) {
        it.cancels.insert("tx-11".to_owned());
        it.audit.stored_feed[1].2 = CANCELLED_CODE;
        it.mined[1].value = 0;
    }

    #[test]
    fn cancelled_transaction_is_good_if_it_was_asked_for_and_not_carried_out() {
        let mut evidence = good();
        with_a_cancel(&mut evidence);
        let verdict = judge(&evidence);
        assert_eq!(verdict.wrong, [""; 0]);
        assert_eq!((verdict.once, verdict.cancelled), (3, 1));
        let unasked = |it: &mut Evidence| {
            with_a_cancel(it);
            it.cancels.clear();
        };
        says(&wrong_with(unasked), "lost: 11");
        let carried_out = |it: &mut Evidence| {
            with_a_cancel(it);
            it.mined[1].value = 11;
        };
        says(&wrong_with(carried_out), "cancelled, and carried out");
        says(&wrong_with(|it| it.mined[0].value = 0), "nobody asked for it");
    }

    #[test]
    fn foreign_transaction_is_noticed() {
        let more = |it: &mut Evidence| {
            let mined = Mined { nonce: 2, value: 12, ..it.mined[1].clone() };
            it.mined.insert(2, mined);
        };
        says(&wrong_with(more), "nobody asked for it");
    }

    #[test]
    fn a_call_that_failed_is_noticed() {
        says(&wrong_with(|it| it.mined[0].succeeded = false), "failed on the chain");
    }

    #[test]
    fn a_gap_is_noticed() {
        says(&wrong_with(|it| it.mined[1].nonce = 2), "nonce 2 is at 1");
    }

    #[test]
    fn a_strict_account_that_hurries_is_noticed() {
        says(&wrong_with(|it| it.mined[3].block = 8), "not one by one");
        assert_eq!(wrong_with(|it| it.mined[1].block = 6), [""; 0], "others may");
    }

    #[test]
    fn reorg_that_moves_a_transaction_to_an_earlier_block_counts_as_sent_later() {
        let with = |replaced: RangeInclusive<u64>| {
            wrong_with(|it| {
                it.mined[3].block = 7;
                it.replaced.push(replaced);
            })
        };
        assert_eq!(with(7..=8), [""; 0], "block 9 was the next");
        says(&with(6..=7), "not one by one");
        says(&with(8..=9), "not one by one");
    }

    #[test]
    fn transaction_left_in_the_pool_is_noticed() {
        says(&wrong_with(|it| *it.pending_counts.get_mut(&0).unwrap() += 1), "the pool counts 3");
    }

    #[test]
    fn feed_that_differs_from_the_stored_one_is_noticed() {
        says(&wrong_with(|it| it.feed.truncate(3)), "not in the feed: tx-21");
        says(&wrong_with(|it| it.feed.swap(0, 1)), "not the same");
        says(&wrong_with(|it| it.feed[0].tx_id = "x".to_owned()), "nobody asked for it: x");
        says(&wrong_with(|it| it.audit.stored_feed[0].2 = 52), "in state 52");
    }

    #[test]
    fn transaction_of_two_requests_is_noticed() {
        says(&wrong_with(|it| it.accepted[0].tx_id = "tx-11".to_owned()), "one transaction");
    }

    #[test]
    fn findings_of_the_audit_are_reported() {
        let stale = wrong_with(|it| it.audit.stale_writes.push("late".to_owned()));
        says(&stale, "stale write: late");
        says(&wrong_with(|it| it.audit.reused.push("again".to_owned())), "again");
        says(&wrong_with(|it| it.audit.falling.push("back".to_owned())), "back");
        says(&wrong_with(|it| it.audit.open.push("tx".to_owned())), "not final: tx");
    }
}
