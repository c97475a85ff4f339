//! Chooses the endpoints for each call.
//!
//! Owns the chain's endpoints, the canonical head and the history of sends. A read goes to the
//! healthiest endpoint that has what is asked for, and on to the next one within the deadline. An
//! endpoint that rests or lags comes last; one of another chain is never used.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tollgate_model::port::chain::{BlockRef, ChainUnavailable};
use tollgate_model::{B256, ChainId, Route};

use super::block_proof::BlockEvidence;
use super::config::ChainConfig;
use super::disagreements::{Basis, Claim, Disagreements, LASTING, Subject};
use super::head_selection::{HeadReport, HeadSelection};
use super::in_turn::InTurn;
use super::lead::Lead;
use super::pool_member::{ChainCheck, PoolMember};
use super::send_history::SendHistory;
use crate::endpoint::RpcError;

/// A resting endpoint has this share of the time of the others where all are asked.
const RESTING_SHARE: u32 = 4;
/// The time of a read while all endpoints rest: enough for one that has recovered.
const ALL_RESTING_PATIENCE: Duration = Duration::from_millis(500);

/// Proven blocks that are remembered (I13): a receipt is asked about several times.
const EVIDENCE_MAX: usize = 16;

pub(super) struct Router {
    pub(super) members: Vec<Arc<PoolMember>>,
    pub(super) config: ChainConfig,
    pub(super) disagreements: Disagreements,
    selection: Mutex<HeadSelection>,
    send_history: Mutex<SendHistory>,
    /// Blocks that were proven with their receipts, by hash.
    evidence: Mutex<VecDeque<(B256, Arc<BlockEvidence>)>>,
    head: watch::Sender<Option<BlockRef>>,
    pub(super) followed_since: Instant,
}

/// The requirement of a read on an endpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Needs {
    /// About the state of the head.
    Head,
    /// The block of this number.
    Block(u64),
}

impl Router {
    pub(super) fn new(
        chain_id: ChainId,
        members: Vec<Arc<PoolMember>>,
        config: ChainConfig,
    ) -> Self {
        let (head, _) = watch::channel(None);
        Self {
            members,
            config,
            disagreements: Disagreements::of_chain(chain_id),
            selection: Mutex::default(),
            send_history: Mutex::default(),
            evidence: Mutex::default(),
            head,
            followed_since: Instant::now(),
        }
    }

    /// A block that was proven with its receipts lately.
    pub(super) fn known_evidence(&self, hash: B256) -> Option<Arc<BlockEvidence>> {
        let evidence = self.evidence.lock().unwrap_or_else(PoisonError::into_inner);
        evidence.iter().find(|(of, _)| *of == hash).map(|(_, evidence)| evidence.clone())
    }

    pub(super) fn keep_evidence(&self, hash: B256, proven: Arc<BlockEvidence>) {
        let mut evidence = self.evidence.lock().unwrap_or_else(PoisonError::into_inner);
        evidence.push_back((hash, proven));
        while evidence.len() > EVIDENCE_MAX {
            evidence.pop_front();
        }
    }

    /// The canonical head, as it changes.
    pub(super) fn heads(&self) -> watch::Receiver<Option<BlockRef>> {
        self.head.subscribe()
    }

    pub(super) fn head(&self) -> Option<BlockRef> {
        *self.head.borrow()
    }

    pub(super) fn with_send_history<T>(&self, act: impl FnOnce(&mut SendHistory) -> T) -> T {
        act(&mut self.send_history.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Selects the canonical head anew.
    pub(super) fn select_head(&self, now: Instant) {
        let healthy = |member: &&Arc<PoolMember>| {
            member.reads() && member.is_on_chain() && !member.endpoint.health().is_resting(now)
        };
        let mut heard: Vec<_> = self.members.iter().filter(healthy).collect();
        if heard.iter().any(|member| !member.is_doubted() && member.head().is_some()) {
            heard.retain(|member| !member.is_doubted());
        }
        let heads = heard.iter().filter_map(|member| member.head());
        let reports: Vec<_> =
            heads.map(|head| HeadReport { head: head.at, peak: head.peak }).collect();
        // Selected and published under one lock, so that an older choice never follows a newer one.
        let mut selection = self.selection.lock().unwrap_or_else(PoisonError::into_inner);
        let head = selection.update(&reports, now, self.config.head_hold);
        self.head.send_if_modified(|published| {
            let changed = *published != head;
            *published = head;
            changed
        });
        drop(selection);
        self.compare_heads(head, now);
    }

    /// Notes which healthy endpoints lag, announce blocks that they do not deliver, or have another block
    /// at the height of the canonical head.
    fn compare_heads(&self, head: Option<BlockRef>, now: Instant) {
        let Some(head) = head else { return };
        let name = |at: BlockRef| format!("{} {}", at.number, at.hash);
        let mut claims = Vec::new();
        for member in self.members.iter().filter(|member| member.reads() && member.is_on_chain()) {
            let Some(seen) = member.head().filter(|_| !member.endpoint.health().is_resting(now))
            else {
                continue;
            };
            let is_elsewhere = seen.at.number == head.number && seen.at.hash != head.hash;
            let differs = is_elsewhere || member.is_doubted() || self.lags(member, now);
            let claimed = name(if differs { seen.at } else { head });
            claims.push(Claim::new(member.endpoint.name(), claimed));
        }
        let subject = Subject { what: "head", of: "" };
        self.disagreements.note(subject, name(head), &claims, (Basis::Evidence, LASTING));
    }

    /// Returns whether an endpoint lacks a block that the others have had for `lag_grace`.
    fn lags(&self, member: &PoolMember, now: Instant) -> bool {
        let selection = self.selection.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = selection.expected(now, self.config.lag_grace);
        drop(selection);
        let number = member.head().map(|head| head.at.number);
        expected.is_some_and(|expected| number.is_none_or(|number| number < expected))
    }

    /// Returns whether an endpoint answers, and is neither behind the others nor doubted.
    pub(super) fn is_reliable(&self, member: &PoolMember, now: Instant) -> bool {
        !member.endpoint.health().is_resting(now) && !member.is_doubted() && !self.lags(member, now)
    }

    /// Returns the number of endpoints that are configured for reads, whether they answer now or not.
    pub(super) fn readers_configured(&self) -> usize {
        let is_refused =
            |member: &PoolMember| matches!(member.chain_check(), ChainCheck::Failed(_));
        self.members.iter().filter(|member| member.reads() && !is_refused(member)).count()
    }

    /// The highest number that two endpoints have reached.
    pub(super) fn common_height(&self) -> Option<u64> {
        let readers = self.members.iter().filter(|member| member.reads() && member.is_on_chain());
        let heads = readers.filter_map(|member| member.head());
        let mut numbers: Vec<_> = heads.map(|head| head.at.number).collect();
        numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        numbers.get(1).copied()
    }

    /// The heads of the other healthy endpoints.
    fn other_heads(&self, member: &PoolMember, now: Instant) -> Vec<BlockRef> {
        let others = self.members.iter().filter(|other| other.place != member.place);
        let healthy = others.filter(|other| {
            other.reads() && other.is_on_chain() && !other.endpoint.health().is_resting(now)
        });
        healthy.filter_map(|other| other.head()).map(|head| head.at).collect()
    }

    /// The lead of an endpoint over all others, if it has lasted so long that the others would lag and
    /// the endpoint may be asked for its block now.
    pub(super) fn lasting_lead(&self, member: &PoolMember, now: Instant) -> Option<Lead> {
        let others = self.other_heads(member, now);
        let highest = others.iter().map(|head| head.number).max()?;
        let lead = member.compare_head(highest, now)?;
        let selection = self.selection.lock().unwrap_or_else(PoisonError::into_inner);
        // A node without a view waits for nothing: a false head would keep it from its first block.
        let grace = if selection.has_delivered() { self.config.lag_grace } else { Duration::ZERO };
        let lasts = now.saturating_duration_since(lead.since) >= grace;
        (lasts && member.is_lead_check_due(now)).then_some(lead)
    }

    /// Notes that an endpoint has delivered a block.
    pub(super) fn note_delivered(&self, block: BlockRef) {
        self.selection.lock().unwrap_or_else(PoisonError::into_inner).note_delivered(block);
    }

    /// Asks an endpoint that leads all others for the block by which it leads. The others lag only if it
    /// delivers that block (I16); one that does not is doubted. Two others that are behind outweigh it:
    /// then nobody lags.
    pub(super) async fn check_lead(&self, member: &PoolMember) {
        let now = Instant::now();
        let Some(lead) = self.lasting_lead(member, now) else { return };
        // A lost answer proves nothing.
        let Ok(block) = member.read_block_at(lead.number).await else { return };
        member.note_lead(block.is_some(), now);
        if block.is_none() {
            return;
        }
        let others = self.other_heads(member, now);
        let [other] = &others[..] else { return };
        // It is further on the same chain, and not on another one.
        if matches!(member.read_block_at(other.number).await, Ok(Some(at)) if at.hash == other.hash)
        {
            let mut selection = self.selection.lock().unwrap_or_else(PoisonError::into_inner);
            selection.back(lead.number, lead.since);
        }
    }

    /// Endpoints to read from, best first.
    pub(super) fn readers(&self, needs: Needs, now: Instant) -> Vec<Arc<PoolMember>> {
        let has = |member: &&Arc<PoolMember>| match needs {
            Needs::Head => true,
            Needs::Block(number) => member.head().is_some_and(|head| head.at.number >= number),
        };
        let mut readers: Vec<_> = self
            .members
            .iter()
            .filter(|member| member.reads() && member.is_on_chain())
            .filter(has)
            .cloned()
            .collect();
        readers.sort_by_cached_key(|member| self.rank(member, now));
        readers
    }

    /// The order of reads; the lowest comes first.
    fn rank(&self, member: &PoolMember, now: Instant) -> (bool, bool, bool, Duration) {
        let (head, health) = (self.head(), member.endpoint.health());
        // An endpoint that reports the canonical head is on the same branch.
        let elsewhere = head.is_some() && member.head().map(|seen| seen.at) != head;
        let is_off = member.is_doubted() || self.lags(member, now);
        (health.is_resting(now), is_off, elsewhere, health.expected())
    }

    /// All endpoints for reads that may be on this chain, best first, for a question to all of them.
    /// Resting ones are included, and those that have not been checked yet: the latter count as
    /// endpoints without an answer, and must not be asked.
    pub(super) fn all_readers(&self, now: Instant) -> Vec<(Arc<PoolMember>, ChainCheck)> {
        let readers = self.members.iter().filter(|member| member.reads());
        let mut all: Vec<_> =
            readers.map(|member| (member.clone(), member.chain_check())).collect();
        all.retain(|(_, chain_check)| !matches!(chain_check, ChainCheck::Failed(_)));
        all.sort_by_cached_key(|(member, chain_check)| {
            (*chain_check != ChainCheck::Passed, self.rank(member, now))
        });
        all
    }

    /// The deadline of one endpoint where all are asked: a resting one must not delay the others for
    /// long.
    pub(super) fn deadline_for(&self, member: &PoolMember, now: Instant) -> Instant {
        let whole = self.config.read_deadline;
        let is_resting = member.endpoint.health().is_resting(now);
        now + if is_resting { whole / RESTING_SHARE } else { whole }
    }

    /// Endpoints whose answers count as votes: healthy, not lagging and not doubted. If there are none,
    /// the best of the others alone.
    pub(super) fn voters(&self, needs: Needs, most: usize, now: Instant) -> Vec<Arc<PoolMember>> {
        let mut readers = self.readers(needs, now);
        let counts = |member: &Arc<PoolMember>| {
            let is_off = member.is_doubted() || self.lags(member, now);
            !member.endpoint.health().is_resting(now) && !is_off
        };
        let good = readers.iter().take_while(|member| counts(member)).count();
        readers.truncate(good.clamp(1, most));
        readers
    }

    /// Endpoints for a value that two have to report: the voters, and where there is only one also the best of
    /// those that lag. One that rests is not waited for, unless it is the best one.
    pub(super) fn witnesses(
        &self,
        needs: Needs,
        most: usize,
        now: Instant,
    ) -> Vec<Arc<PoolMember>> {
        let voters = self.voters(needs, most, now).len();
        let best = self.readers(needs, now).into_iter().take(voters.max(2).min(most)).enumerate();
        let is_awake = |member: &PoolMember| !member.endpoint.health().is_resting(now);
        best.filter(|(place, it)| *place == 0 || is_awake(it)).map(|(_, it)| it).collect()
    }

    /// Healthy endpoints that announce blocks which they do not deliver.
    pub(super) fn doubted(&self, now: Instant) -> Vec<Arc<PoolMember>> {
        let is_awake = |member: &Arc<PoolMember>| !member.endpoint.health().is_resting(now);
        let readers = self.readers(Needs::Head, now).into_iter();
        readers.filter(|member| member.is_doubted() && is_awake(member)).collect()
    }

    /// Endpoints that may be asked about a transaction of a route that is not mined, best first.
    pub(super) fn readers_on(&self, route: Route, now: Instant) -> Vec<Arc<PoolMember>> {
        match route {
            Route::Public => self.readers(Needs::Head, now),
            Route::Private => self.senders(route, now),
        }
    }

    /// Returns whether there are endpoints for private transactions, whether they answer now or not.
    pub(super) fn has_private(&self) -> bool {
        self.members.iter().any(|member| member.sends(Route::Private))
    }

    /// Endpoints to send transactions of a route to, best first.
    pub(super) fn senders(&self, route: Route, now: Instant) -> Vec<Arc<PoolMember>> {
        let mut senders: Vec<_> = self
            .members
            .iter()
            .filter(|member| member.sends(route) && member.is_on_chain())
            .cloned()
            .collect();
        senders.sort_by_cached_key(|member| {
            let health = member.endpoint.health();
            let lags = member.reads() && self.lags(member, now);
            (health.is_resting(now), health.leaves_sends(now), lags, health.expected())
        });
        senders
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.config.read_deadline
    }

    /// The deadline of a read. It is short while all endpoints rest (I14): their watchers notice when
    /// one has recovered.
    pub(super) fn read_deadline_for(&self, readers: &[Arc<PoolMember>]) -> Instant {
        let now = Instant::now();
        let all_rest = readers.iter().all(|member| member.endpoint.health().is_resting(now));
        let whole = self.config.read_deadline;
        now + if all_rest { whole.min(ALL_RESTING_PATIENCE) } else { whole }
    }

    /// The endpoints one after the other, each with its share of the time.
    pub(super) fn in_turn<'a>(&self, readers: &'a [Arc<PoolMember>]) -> InTurn<'a> {
        InTurn::new(readers, self.read_deadline_for(readers))
    }

    /// Asks one endpoint after the other until `accept` takes an answer.
    ///
    /// # Errors
    /// The answers of all endpoints, if none was accepted.
    pub(super) async fn read<T: DeserializeOwned, U>(
        &self,
        readers: &[Arc<PoolMember>],
        method: &'static str,
        params: Value,
        mut accept: impl FnMut(&Arc<PoolMember>, Result<T, RpcError>) -> Result<U, String>,
    ) -> Result<U, ChainUnavailable> {
        let mut refusals = Vec::new();
        for (member, until) in self.in_turn(readers) {
            let answer = member.endpoint.call_until(method, params.clone(), until).await;
            match accept(member, answer) {
                Ok(value) => return Ok(value),
                Err(why) => refusals.push(format!("{}: {why}", member.endpoint.name())),
            }
        }
        Err(unavailable(method, &refusals))
    }
}

/// The error if no endpoint could answer.
pub(super) fn unavailable(method: &str, refusals: &[String]) -> ChainUnavailable {
    let why = match refusals {
        [] => "no endpoint can be asked".to_owned(),
        some => some.join("; "),
    };
    ChainUnavailable(format!("{method}: {why}"))
}
