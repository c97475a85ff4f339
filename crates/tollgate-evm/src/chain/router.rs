//! Whom to ask, and whom to ask next.
//!
//! Owns the members of a chain, the canonical head, and the memory of who was handed what. Reads go to the healthiest endpoint that has
//! what is asked for, and on to the next one within the deadline; an endpoint that rests or lags
//! comes last, one of another chain never.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tollgate_model::port::chain::{BlockRef, ChainUnavailable};

use super::config::ChainConfig;
use super::handed::Handed;
use super::heads::{Board, Report};
use super::member::{Lead, Member, Standing};
use crate::endpoint::RpcError;

/// An endpoint in trouble has this share of the time that the others have, when all are asked.
const RESTING_SHARE: u32 = 4;
/// How long a read may take where all are in trouble: enough for one that is back, and no more.
const ALL_RESTING_PATIENCE: Duration = Duration::from_millis(500);

pub(super) struct Router {
    pub(super) members: Vec<Arc<Member>>,
    pub(super) config: ChainConfig,
    board: Mutex<Board>,
    handed: Mutex<Handed>,
    head: watch::Sender<Option<BlockRef>>,
}

/// What an endpoint must have to be asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Needs {
    /// Nothing in particular: the state of the head, more or less.
    Head,
    /// The block of this number.
    Block(u64),
}

impl Router {
    pub(super) fn new(members: Vec<Arc<Member>>, config: ChainConfig) -> Self {
        let (head, _) = watch::channel(None);
        Self { members, config, board: Mutex::default(), handed: Mutex::default(), head }
    }

    /// The canonical head, as it changes.
    pub(super) fn heads(&self) -> watch::Receiver<Option<BlockRef>> {
        self.head.subscribe()
    }

    pub(super) fn head(&self) -> Option<BlockRef> {
        *self.head.borrow()
    }

    pub(super) fn with_handed<T>(&self, look: impl FnOnce(&mut Handed) -> T) -> T {
        look(&mut self.handed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Weighs all heads anew.
    pub(super) fn weigh_heads(&self, now: Instant) {
        let healthy = |member: &&Arc<Member>| {
            member.reads() && member.is_good() && !member.endpoint.health().is_resting(now)
        };
        let mut heard: Vec<_> = self.members.iter().filter(healthy).collect();
        if heard.iter().any(|member| !member.is_doubted() && member.head().is_some()) {
            heard.retain(|member| !member.is_doubted());
        }
        let heads = heard.iter().filter_map(|member| member.head());
        let reports: Vec<_> = heads.map(|head| Report { head: head.at, peak: head.peak }).collect();
        // Weighed and told under one lock, so that an older choice never follows a newer one.
        let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        let head = board.update(&reports, now, self.config.head_hold);
        self.head.send_if_modified(|told| {
            let changed = *told != head;
            *told = head;
            changed
        });
    }

    /// Whether an endpoint lacks what the others have had for a while.
    fn lags(&self, member: &Member, now: Instant) -> bool {
        let board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        let expected = board.expected(now, self.config.lag_grace);
        drop(board);
        let number = member.head().map(|head| head.at.number);
        expected.is_some_and(|expected| number.is_none_or(|number| number < expected))
    }

    /// How many endpoints of this chain are configured to be read from, whether they answer now or not.
    pub(super) fn readers_configured(&self) -> usize {
        let is_refused = |member: &Member| matches!(member.standing(), Standing::Refused(_));
        self.members.iter().filter(|member| member.reads() && !is_refused(member)).count()
    }

    /// The highest number that two endpoints have reached.
    pub(super) fn common_height(&self) -> Option<u64> {
        let readers = self.members.iter().filter(|member| member.reads() && member.is_good());
        let heads = readers.filter_map(|member| member.head());
        let mut numbers: Vec<_> = heads.map(|head| head.at.number).collect();
        numbers.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
        numbers.get(1).copied()
    }

    /// The heads of the healthy endpoints beside this one.
    fn heads_beside(&self, member: &Member, now: Instant) -> Vec<BlockRef> {
        let beside = self.members.iter().filter(|other| other.place != member.place);
        let healthy = beside.filter(|other| {
            other.reads() && other.is_good() && !other.endpoint.health().is_resting(now)
        });
        healthy.filter_map(|other| other.head()).map(|head| head.at).collect()
    }

    /// The lead of an endpoint over all others, if it has lasted so long that the others would lag and
    /// the endpoint may be asked for its block now.
    pub(super) fn lasting_lead(&self, member: &Member, now: Instant) -> Option<Lead> {
        let beside = self.heads_beside(member, now);
        let highest = beside.iter().map(|head| head.number).max()?;
        let lead = member.compare_head(highest, now)?;
        let board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
        // A node without a view waits for nothing: a false head would keep it from its first block.
        let grace = if board.has_delivered() { self.config.lag_grace } else { Duration::ZERO };
        let lasts = now.saturating_duration_since(lead.since) >= grace;
        (lasts && member.is_lead_check_due(now)).then_some(lead)
    }

    /// Notes that an endpoint has delivered a block.
    pub(super) fn note_delivered(&self, block: BlockRef) {
        self.board.lock().unwrap_or_else(PoisonError::into_inner).note_delivered(block);
    }

    /// Has an endpoint that leads all others for a while deliver the block by which it leads. Only then
    /// the others lag (I16); one that can't deliver it is neither voter nor head. Where two others are
    /// behind, their word is enough against it, and nobody lags.
    pub(super) async fn check_lead(&self, member: &Member) {
        let now = Instant::now();
        let Some(lead) = self.lasting_lead(member, now) else { return };
        // An answer that is lost proves nothing, either way.
        let Ok(block) = member.ask_block(lead.number).await else { return };
        if block.is_none() {
            if member.lead_not_delivered(now) {
                let (endpoint, announced) = (member.endpoint.name(), lead.number);
                tracing::warn!(
                    endpoint,
                    announced,
                    "endpoint announces a block that it does not deliver; its head, counts and votes \
                     are ignored until it delivers it"
                );
            }
            return;
        }
        member.lead_delivered(now);
        let beside = self.heads_beside(member, now);
        let [other] = &beside[..] else { return };
        // The same chain, further on, and not another one.
        if matches!(member.ask_block(other.number).await, Ok(Some(at)) if at.hash == other.hash) {
            let mut board = self.board.lock().unwrap_or_else(PoisonError::into_inner);
            board.back(lead.number, lead.since);
        }
    }

    /// Endpoints to read from, best first.
    pub(super) fn readers(&self, needs: Needs, now: Instant) -> Vec<Arc<Member>> {
        let has = |member: &&Arc<Member>| match needs {
            Needs::Head => true,
            Needs::Block(number) => member.head().is_some_and(|head| head.at.number >= number),
        };
        let mut readers: Vec<_> = self
            .members
            .iter()
            .filter(|member| member.reads() && member.is_good())
            .filter(has)
            .cloned()
            .collect();
        readers.sort_by_cached_key(|member| self.rank(member, now));
        readers
    }

    /// What comes first is asked first.
    fn rank(&self, member: &Member, now: Instant) -> (bool, bool, bool, Duration) {
        let (head, health) = (self.head(), member.endpoint.health());
        // Who has the very head is on the same branch.
        let elsewhere = head.is_some() && member.head().map(|seen| seen.at) != head;
        let is_off = member.is_doubted() || self.lags(member, now);
        (health.is_resting(now), is_off, elsewhere, health.expected())
    }

    /// Everybody who is read from and may be on this chain, best first, for a question that all are
    /// asked: those in trouble too, and those that have not told yet which chain they are on. The
    /// latter count, but must not be asked.
    pub(super) fn witnesses(&self, now: Instant) -> Vec<(Arc<Member>, Standing)> {
        let readers = self.members.iter().filter(|member| member.reads());
        let mut all: Vec<_> = readers.map(|member| (member.clone(), member.standing())).collect();
        all.retain(|(_, standing)| !matches!(standing, Standing::Refused(_)));
        all.sort_by_cached_key(|(member, standing)| {
            (*standing != Standing::Good, self.rank(member, now))
        });
        all
    }

    /// Until when one is waited for that is asked beside all others: one in trouble must not hold
    /// them up for long.
    pub(super) fn patience(&self, member: &Member, now: Instant) -> Instant {
        let whole = self.config.read_deadline;
        let is_resting = member.endpoint.health().is_resting(now);
        now + if is_resting { whole / RESTING_SHARE } else { whole }
    }

    /// Endpoints whose word counts: healthy, up to date, and on a chain whose blocks they deliver. If
    /// there are none, the best of the rest, alone.
    pub(super) fn voters(&self, needs: Needs, most: usize, now: Instant) -> Vec<Arc<Member>> {
        let mut readers = self.readers(needs, now);
        let counts = |member: &Arc<Member>| {
            let is_off = member.is_doubted() || self.lags(member, now);
            !member.endpoint.health().is_resting(now) && !is_off
        };
        let good = readers.iter().take_while(|member| counts(member)).count();
        readers.truncate(good.clamp(1, most));
        readers
    }

    /// Healthy endpoints that announce blocks which they do not deliver.
    pub(super) fn doubted(&self, now: Instant) -> Vec<Arc<Member>> {
        let is_awake = |member: &Arc<Member>| !member.endpoint.health().is_resting(now);
        let readers = self.readers(Needs::Head, now).into_iter();
        readers.filter(|member| member.is_doubted() && is_awake(member)).collect()
    }

    /// Endpoints to send to, best first.
    pub(super) fn senders(&self, now: Instant) -> Vec<Arc<Member>> {
        let mut senders: Vec<_> = self
            .members
            .iter()
            .filter(|member| member.sends() && member.is_good())
            .cloned()
            .collect();
        senders.sort_by_cached_key(|member| {
            let health = member.endpoint.health();
            (health.is_resting(now), member.reads() && self.lags(member, now), health.expected())
        });
        senders
    }

    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.config.read_deadline
    }

    /// The deadline of a read. Where all are in trouble nobody waits long for them (I14): it is their
    /// watchers that find out when one is back.
    pub(super) fn deadline_of(&self, readers: &[Arc<Member>]) -> Instant {
        let now = Instant::now();
        let all_rest = readers.iter().all(|member| member.endpoint.health().is_resting(now));
        let whole = self.config.read_deadline;
        now + if all_rest { whole.min(ALL_RESTING_PATIENCE) } else { whole }
    }

    /// Whom to ask one after the other, each with its share of the time.
    pub(super) fn in_turn<'a>(&self, readers: &'a [Arc<Member>]) -> InTurn<'a> {
        InTurn { left: readers, deadline: self.deadline_of(readers) }
    }

    /// Asks one after the other until one gives an answer that `accept` takes.
    ///
    /// # Errors
    /// What each of them said, once there is nobody left.
    pub(super) async fn read<T: DeserializeOwned, U>(
        &self,
        readers: &[Arc<Member>],
        method: &'static str,
        params: Value,
        mut accept: impl FnMut(&Arc<Member>, Result<T, RpcError>) -> Result<U, String>,
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

    /// Asks one after the other until one answers without an error.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        needs: Needs,
        method: &'static str,
        params: Value,
    ) -> Result<T, ChainUnavailable> {
        let readers = self.readers(needs, Instant::now());
        self.read(&readers, method, params, |_, answer| answer.map_err(|e| e.to_string())).await
    }
}

/// Endpoints one after the other, with the time until which each is waited for.
pub(super) struct InTurn<'a> {
    left: &'a [Arc<Member>],
    deadline: Instant,
}

impl<'a> Iterator for InTurn<'a> {
    type Item = (&'a Arc<Member>, Instant);

    fn next(&mut self) -> Option<Self::Item> {
        let now = Instant::now();
        let time = self.deadline.saturating_duration_since(now);
        let (member, behind) = self.left.split_first().filter(|_| !time.is_zero())?;
        // One that hangs must not use up the time of those behind it.
        let share = time / self.left.len() as u32;
        self.left = behind;
        Some((member, now + share))
    }
}

/// What is said when nobody could answer.
pub(super) fn unavailable(method: &str, refusals: &[String]) -> ChainUnavailable {
    let why = match refusals {
        [] => "no endpoint can be asked".to_owned(),
        some => some.join("; "),
    };
    ChainUnavailable(format!("{method}: {why}"))
}
