//! An account's transaction counts, agreed between several endpoints.
//!
//! Owns the high-water marks, which rise and fall by the rule of [`tollgate_model::count_mark`].
//!
//! Endpoints that rest or lag don't vote. The caller decides how far to trust a count that one endpoint
//! alone reports: the **sure** count and the **highest** reported ones are returned beside the agreed
//! counts (I16). Time makes nothing sure: however long one endpoint alone reports a count, a second one,
//! a block or a person has to confirm it before a cursor moves far. The **support** of the mined count
//! says whether two endpoints report exactly this count, and whether there is more to wait for. On request
//! blocks decide about a claim ([`super::count_proofs`]): one that is shown raises the mark, one that is
//! contradicted is ignored. Endpoints that differ are named in a warning.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::{join, join_all};
use serde_json::json;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_model::count_mark::{CountMark, CountReading};
use tollgate_model::port::chain::{AccountCounts, ChainUnavailable, CountSupport};
use tollgate_model::{Address, Nonce};

use super::corroboration::SingleSource;
use super::count_proofs::{CountProof, LoneClaim, Verdict};
use super::disagreements::{Basis, Claim, LASTING, Subject};
use super::occupants::{BlockScans, prove_slot};
use super::router::{Needs, Router, unavailable};
use crate::endpoint::json::Quantity;
use crate::endpoint::{RpcError, RpcErrorKind};

/// Endpoints that are asked for a count.
const VOTERS_MAX: usize = 3;

/// The wait for a second endpoint before a count of the only one that answers is enough for the
/// next slot of an account, if it is not above what is known. A pause of an endpoint is mostly shorter. It
/// applies to the chain, so an endpoint that is gone does not delay each new account.
const SECOND_COUNT_PATIENCE: Duration = Duration::from_secs(30);

/// Searches for proofs that run at once (I13); the others are begun at a later request.
const PROOFS_AT_ONCE: usize = 4;

/// Accounts that are remembered (I13). A forgotten mark costs a safeguard, not correctness.
const ACCOUNTS_MAX: usize = 65_536;

/// The claim of the endpoint that reported a count.
const fn claim_of(reading: &CountReading) -> LoneClaim {
    LoneClaim { value: reading.value, place: reading.place }
}

/// One account's counts.
#[derive(Clone, Debug, Default)]
struct Account {
    /// The mined and the pending count.
    marks: [Option<CountMark>; 2],
    /// The highest count that more than one endpoint or a block confirms.
    sure: u64,
    proof: CountProof,
}

impl Account {
    fn mined(&self) -> u64 {
        self.marks[0].map_or(0, |mark| mark.value)
    }

    /// Updates the sure count after the marks have changed.
    fn update_sure(&mut self, is_only_reader: bool) {
        let [mined, pending] = self.marks;
        let mined_sure = mined.filter(|mark| mark.confirmed || is_only_reader);
        let pending_sure = pending.filter(|mark| mark.confirmed);
        let values = [mined_sure, pending_sure].into_iter().flatten().map(|mark| mark.value);
        self.sure = values.max().unwrap_or(self.sure);
    }

    /// The places of endpoints whose mined count their own blocks contradict.
    fn contradicted(&self, mined: &[CountReading], now: Instant) -> Vec<usize> {
        let is_wrong = |one: &&CountReading| self.proof.is_wrong(claim_of(one), now);
        mined.iter().filter(is_wrong).map(|one| one.place).collect()
    }

    /// Takes back what contradicted endpoints alone have reported: marks that nobody confirmed fall to the
    /// sure count, or are dropped where there is none, and the readings are lowered to the marks.
    fn ignore_contradicted(&mut self, readings: &mut [Vec<CountReading>; 2]) {
        let sure = self.sure;
        for (readings, mark) in readings.iter_mut().zip(&mut self.marks) {
            if let Some(unconfirmed) = mark.filter(|mark| !mark.confirmed) {
                let value = unconfirmed.value.min(sure);
                *mark = (sure > 0).then_some(CountMark { value, ..unconfirmed });
            }
            match mark {
                Some(mark) => {
                    readings.iter_mut().for_each(|one| one.value = one.value.min(mark.value));
                }
                None => readings.clear(),
            }
        }
    }

    /// The support of the mined count by the readings of `heard` endpoints that are not contradicted.
    /// `single` is the chain's.
    fn support(
        &mut self,
        believed: &[CountReading],
        heard: usize,
        single: &mut SingleSource,
        question: Question,
    ) -> CountSupport {
        let Question { readers, single_source_after, now, .. } = question;
        let value = self.mined();
        let patience = single_source_after.min(SECOND_COUNT_PATIENCE);
        let is_awaited = !single.is_enough(heard, readers, now, patience);
        let equal = believed.iter().filter(|one| one.value == value).count();
        let highest = believed.iter().max_by_key(|one| one.value).filter(|one| one.value >= value);
        if readers < 2 || equal >= 2 || highest.is_some_and(|one| self.proof.is_proven(one.value)) {
            self.proof.end();
            return CountSupport::Confirmed;
        }
        self.proof.claim = highest.map(claim_of);
        let is_overdue = match heard {
            0 | 1 if value <= self.sure => !is_awaited,
            0 | 1 => self.proof.is_claim_overdue(now, single_source_after),
            _ => believed.len() < heard || self.proof.is_overdue(now, single_source_after),
        };
        if is_overdue { CountSupport::Overdue } else { CountSupport::Open }
    }
}

/// The circumstances in which endpoints were asked for counts.
#[derive(Clone, Copy, Debug)]
struct Question {
    /// Endpoints that were asked.
    voters: usize,
    /// Endpoints that are configured for reads.
    readers: usize,
    /// [`ChainConfig::single_source_after`](super::ChainConfig::single_source_after).
    single_source_after: Duration,
    /// The canonical head after they have answered.
    head: u64,
    now: Instant,
}

#[derive(Debug)]
pub(super) struct HighWaterMarks {
    accounts: Mutex<HashMap<Address, Account>>,
    /// Since when only one endpoint has answered.
    single: Mutex<SingleSource>,
    /// The searches for proofs. Dropping the chain stops them.
    proofs: Mutex<JoinSet<()>>,
    permits: Arc<Semaphore>,
}

impl Default for HighWaterMarks {
    fn default() -> Self {
        Self {
            accounts: Mutex::default(),
            single: Mutex::default(),
            proofs: Mutex::default(),
            permits: Arc::new(Semaphore::new(PROOFS_AT_ONCE)),
        }
    }
}

/// The marks after readings, and what follows from them.
struct SettledMarks {
    marks: [Option<CountMark>; 2],
    sure: u64,
    /// The highest mined reading that is not contradicted.
    highest: u64,
    support: CountSupport,
    /// The places of endpoints whose mined count blocks show to be wrong.
    wrong: Vec<usize>,
}

impl HighWaterMarks {
    fn settle(
        &self,
        of: Address,
        mut readings: [Vec<CountReading>; 2],
        question: Question,
    ) -> SettledMarks {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        if accounts.len() >= ACCOUNTS_MAX && !accounts.contains_key(&of) {
            let any = accounts.keys().next().copied();
            any.and_then(|any| accounts.remove(&any));
        }
        let account = accounts.entry(of).or_default();
        let heard = readings[0].len();
        let mut wrong = account.contradicted(&readings[0], question.now);
        // With others that answer, one that reports too much is outvoted.
        if wrong.len() == heard {
            account.ignore_contradicted(&mut readings);
        }
        for (mark, readings) in account.marks.iter_mut().zip(&readings) {
            *mark = CountMark::next(*mark, readings, question.voters, question.head);
        }
        account.update_sure(question.readers < 2);
        let [mut believed, _] = readings;
        believed.retain(|one| !wrong.contains(&one.place));
        let highest = believed.iter().map(|one| one.value).max();
        let highest = highest.unwrap_or_default().max(account.mined());
        let mut single = self.single.lock().unwrap_or_else(PoisonError::into_inner);
        let support = account.support(&believed, heard, &mut single, question);
        let too_low = believed.iter().filter(|one| account.proof.is_below_proof(one.value));
        wrong.extend(too_low.map(|one| one.place));
        SettledMarks { marks: account.marks, sure: account.sure, highest, support, wrong }
    }

    /// Notes what blocks say about a claim. A count that is shown is a confirmed mark.
    fn note_verdict(&self, of: Address, claim: LoneClaim, verdict: Verdict, head: u64) {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(account) = accounts.get_mut(&of) else { return };
        account.proof.note(claim, verdict, Instant::now());
        if verdict == Verdict::Shown && claim.value >= account.mined() {
            account.marks[0] = Some(CountMark { value: claim.value, head, confirmed: true });
            account.update_sure(false);
        }
    }
}

/// Has the disputed count of an account proven or contradicted, in the background.
pub(super) fn prove(
    router: &Arc<Router>,
    marks: &Arc<HighWaterMarks>,
    scans: &Arc<BlockScans>,
    of: Address,
    lookback: u64,
) {
    let mut accounts = marks.accounts.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(account) = accounts.get_mut(&of) else { return };
    let Some(claim) = account.proof.want(Instant::now()) else { return };
    let Ok(permit) = marks.permits.clone().try_acquire_owned() else { return };
    let (router, scans, weak) = (router.clone(), scans.clone(), Arc::downgrade(marks));
    let mut proofs = marks.proofs.lock().unwrap_or_else(PoisonError::into_inner);
    while proofs.try_join_next().is_some() {}
    account.proof.set_task(proofs.spawn(async move {
        let verdict = prove_slot(&router, &scans, of, claim, lookback).await;
        let head = router.head().map_or(0, |head| head.number);
        if let Some(marks) = weak.upgrade() {
            marks.note_verdict(of, claim, verdict, head);
        }
        drop(permit);
    }));
}

/// Reads an account's counts.
pub(super) async fn counts(
    router: &Router,
    marks: &HighWaterMarks,
    of: Address,
) -> Result<AccountCounts, ChainUnavailable> {
    let voters = router.voters(Needs::Head, VOTERS_MAX, Instant::now());
    let deadline = router.read_deadline_for(&voters);
    let answers = join_all(voters.iter().map(async |member| {
        let head = member.head().map_or(0, |head| head.at.number);
        let ask = async |tag: &str| {
            let params = json!([of.to_string(), tag]);
            let call = member.endpoint.call_until("eth_getTransactionCount", params, deadline);
            let place = member.place;
            call.await.map(|count: Quantity<u64>| CountReading { value: count.0, head, place })
        };
        let (mined, pending) = join(ask("latest"), ask("pending")).await;
        (member.endpoint.name(), mined, pending)
    }))
    .await;
    let (mut mined, mut pending, mut refusals) = (Vec::new(), Vec::new(), Vec::new());
    let (mut may_have_a_pool, mut claims) = (false, Vec::new());
    for (name, of_head, of_pool) in answers {
        let claim = |read: &CountReading| (Claim::new(name, read.value), *read);
        claims.extend(of_head.as_ref().ok().map(claim));
        may_have_a_pool |= of_pool.as_ref().is_err_and(|error| error.kind != RpcErrorKind::Node);
        let mut keep =
            |answer: Result<CountReading, RpcError>, list: &mut Vec<CountReading>| match answer {
                Ok(reading) => list.push(reading),
                Err(error) => refusals.push(format!("{name}: {error}")),
            };
        keep(of_head, &mut mined);
        keep(of_pool, &mut pending);
    }
    // I3: a lost answer about the pool is not an empty pool. A node without a pool answers so.
    if mined.is_empty() || pending.is_empty() && may_have_a_pool {
        return Err(unavailable("eth_getTransactionCount", &refusals));
    }
    let highest_of = |readings: &[CountReading]| readings.iter().map(|reading| reading.value).max();
    let told = highest_of(&mined).max(highest_of(&pending)).unwrap_or_default();
    let question = Question {
        voters: voters.len(),
        readers: router.readers_configured(),
        single_source_after: router.config.single_source_after,
        head: router.head().map_or(0, |head| head.number),
        now: Instant::now(),
    };
    let SettledMarks { marks: [mined, pending], sure, highest, support, wrong } =
        marks.settle(of, [mined, pending], question);
    let Some(mined) = mined.map(|mark| mark.value) else {
        return Err(unavailable(
            "eth_getTransactionCount",
            &["its blocks contradict it".to_owned()],
        ));
    };
    // An endpoint whose head is older lags; that is no contradiction.
    let newest = claims.iter().map(|(_, read)| read.head).max();
    claims.retain(|(_, read)| Some(read.head) == newest);
    let is_wrong = |read: &CountReading| wrong.contains(&read.place);
    let basis = match claims.iter().any(|(_, read)| is_wrong(read)) {
        true => Basis::Evidence,
        false => Basis::Votes,
    };
    // Where blocks show who is wrong, the others are right, or ahead of the mark.
    claims.retain(|(_, read)| basis == Basis::Votes || is_wrong(read));
    let claims: Vec<_> = claims.into_iter().map(|(claim, _)| claim).collect();
    let subject = Subject { what: "mined count", of: &of.to_string() };
    router.disagreements.note(subject, mined, &claims, (basis, LASTING));
    // A mined transaction was pending; a node without a pool may report less.
    let pending = pending.map_or(mined, |mark| mark.value.max(mined));
    let nonce = |value| Nonce::new(value).map_err(|error| ChainUnavailable(error.to_string()));
    let told = told.max(highest).max(pending);
    Ok(AccountCounts {
        mined: nonce(mined)?,
        pending: nonce(pending)?,
        sure: nonce(sure)?,
        highest: nonce(highest)?,
        told: nonce(told)?,
        support,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(value: u64, head: u64) -> Option<CountMark> {
        Some(CountMark { value, head, confirmed: true })
    }

    #[test]
    fn count_that_one_of_several_endpoints_reports_is_never_sure() {
        let lone = |value| Some(CountMark { value, head: 10, confirmed: false });
        let mut account = Account { marks: [mark(5, 10), mark(5, 10)], ..Account::default() };
        account.update_sure(false);
        assert_eq!(account.sure, 5);
        account.marks = [lone(900), lone(950)];
        account.update_sure(false);
        assert_eq!(account.sure, 5, "I16: one endpoint alone, however long");
        account.marks = [mark(6, 10), mark(6, 10)];
        account.update_sure(false);
        assert_eq!(account.sure, 6, "two endpoints outvote it");
    }

    #[test]
    fn lone_count_that_blocks_contradict_falls_to_the_sure_count_or_is_dropped() {
        let lone = Some(CountMark { value: 8, head: 10, confirmed: false });
        let read = |value| vec![CountReading { value, head: 11, place: 0 }];
        for (sure, wanted) in [(5, Some(5)), (0, None)] {
            let mut account = Account { marks: [lone, lone], sure, ..Account::default() };
            let mut readings = [read(8), read(9)];
            account.ignore_contradicted(&mut readings);
            assert_eq!(account.marks.map(|mark| mark.map(|mark| mark.value)), [wanted; 2]);
            let left = readings.map(|readings| readings.first().map(|one| one.value));
            assert_eq!(left, [wanted; 2]);
        }
    }

    #[test]
    fn mined_count_of_the_only_endpoint_is_sure_and_its_pending_count_is_not() {
        let lone = |value| Some(CountMark { value, head: 10, confirmed: false });
        let mut account = Account { marks: [lone(7), lone(100_000)], ..Account::default() };
        account.update_sure(true);
        assert_eq!(account.sure, 7);
    }
}
