//! The events of a run with their times, as clients, the feed's reader and the faults saw them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::time::Duration;

use tokio::time::Instant;
use tollgate_api::Completion;

use crate::plan::Fault;

/// Something that must not be.
#[derive(Clone, Debug)]
pub struct Violation {
    /// When it was seen, after the start.
    pub at: Duration,
    /// A description.
    pub what: String,
}

/// A create that was taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Accepted {
    pub(crate) account: usize,
    pub(crate) value: u64,
    pub(crate) tx_id: String,
}

/// A reserved nonce that a caller has reported as used, and the value of what it sends there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Used {
    pub(crate) account: usize,
    pub(crate) nonce: u64,
    pub(crate) value: u64,
}

/// An entry of the feed, as its reader saw it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FeedEntry {
    pub(crate) seq: u64,
    pub(crate) tx_id: String,
    pub(crate) state: String,
}

impl From<Completion> for FeedEntry {
    fn from(entry: Completion) -> Self {
        Self { seq: entry.seq, tx_id: entry.tx_id, state: entry.state.into_owned() }
    }
}

impl FeedEntry {
    /// Returns whether it is an outcome; others are about transactions that were stuck for a while.
    pub(crate) fn is_final(&self) -> bool {
        self.state == "CONFIRMED" || self.state == "FAILED_FINAL"
    }
}

/// A fault that was carried out.
#[derive(Clone, Debug)]
pub(crate) struct Done {
    pub(crate) fault: Fault,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    /// The number of requests to the chain that it changed or refused; none if it is about something
    /// else.
    pub(crate) strikes: Option<u64>,
}

/// Events of a whole run.
#[derive(Clone, Default, Debug)]
pub(crate) struct Events {
    /// By request id.
    pub(crate) accepted: BTreeMap<String, Accepted>,
    pub(crate) accepted_at: Vec<Duration>,
    pub(crate) feed: Vec<FeedEntry>,
    pub(crate) final_at: Vec<Duration>,
    /// Answers and silences of creates, by status and code.
    pub(crate) answers: BTreeMap<String, u64>,
    /// Transactions that somebody asked to cancel, whatever came of it.
    pub(crate) cancels: BTreeSet<String>,
    pub(crate) done: Vec<Done>,
    /// Numbers of the blocks that each reorg replaced, at most.
    pub(crate) replaced: Vec<RangeInclusive<u64>>,
    /// Reserved nonces that callers have used.
    pub(crate) used: Vec<Used>,
    /// The number of reserved nonces.
    pub(crate) reserved: u64,
    /// Until when callers hold nonces that are neither used nor given back.
    held: BTreeMap<(usize, u64), std::time::Instant>,
    /// Nodes that ended though nobody told them to, and the last that they said.
    pub(crate) own_ends: Vec<Violation>,
    pub(crate) violations: Vec<Violation>,
    /// Accounts by transaction, so that what is open can be counted.
    account_of: HashMap<String, usize>,
    open: BTreeMap<usize, u64>,
}

/// Events that many tasks write.
pub(crate) struct EventLog {
    start: Instant,
    events: Mutex<Events>,
}

impl EventLog {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), events: Mutex::default() }
    }

    /// The time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// When the run began.
    pub(crate) fn start(&self) -> Instant {
        self.start
    }

    /// Events something that must not be.
    pub(crate) fn violation(&self, what: String) {
        self.tell(&format!("VIOLATION {what}"));
        let violation = Violation { at: self.now(), what };
        self.events.lock().unwrap().violations.push(violation);
    }

    /// Counts an answer, or its absence.
    pub(crate) fn answer(&self, what: String) {
        *self.events.lock().unwrap().answers.entry(what).or_default() += 1;
    }

    /// Somebody is about to ask for the end of a transaction.
    pub(crate) fn cancels(&self, tx_id: &str) {
        self.events.lock().unwrap().cancels.insert(tx_id.to_owned());
    }

    /// Returns true if a client has asked to cancel the transaction.
    pub(crate) fn may_be_cancelled(&self, tx_id: &str) -> bool {
        self.events.lock().unwrap().cancels.contains(tx_id)
    }

    /// The transaction of a request that was accepted.
    pub(crate) fn tx_of(&self, request_id: &str) -> Option<String> {
        self.events.lock().unwrap().accepted.get(request_id).map(|known| known.tx_id.clone())
    }

    /// A create was answered as taken.
    pub(crate) fn accept(&self, request_id: &str, accepted: Accepted) {
        let at = self.now();
        let mut events = self.events.lock().unwrap();
        match events.accepted.get(request_id) {
            None => {
                events.accepted_at.push(at);
                events.account_of.insert(accepted.tx_id.clone(), accepted.account);
                // Its end may have been in the feed before its beginning was heard of.
                let is_open = !events.feed.iter().rev().any(|entry| entry.tx_id == accepted.tx_id);
                *events.open.entry(accepted.account).or_default() += u64::from(is_open);
                events.accepted.insert(request_id.to_owned(), accepted);
            }
            Some(known) if *known == accepted => {}
            Some(known) => {
                let what = format!("{request_id} is {} and {}", known.tx_id, accepted.tx_id);
                drop(events);
                self.violation(what);
            }
        }
    }

    /// A caller was given a nonce, until a time. It must be nobody else's.
    pub(crate) fn reserved(&self, account: usize, nonce: u64, until: std::time::Instant) {
        let mut events = self.events.lock().unwrap();
        events.reserved += 1;
        let slot = (account, nonce);
        let earlier = events.held.insert(slot, until);
        let is_held = earlier.is_some_and(|earlier| earlier > std::time::Instant::now());
        let is_used = events.used.iter().any(|used| (used.account, used.nonce) == slot);
        drop(events);
        if is_held || is_used {
            self.violation(format!("nonce {nonce} of account {account} was handed out twice"));
        }
    }

    /// A caller is about to give a nonce back.
    pub(crate) fn returned(&self, account: usize, nonce: u64) {
        self.events.lock().unwrap().held.remove(&(account, nonce));
    }

    /// A caller was told that its nonce is used.
    pub(crate) fn used(&self, used: Used) {
        self.events.lock().unwrap().used.push(used);
    }

    /// The feed's reader saw these.
    pub(crate) fn read(&self, entries: Vec<FeedEntry>) {
        let at = self.now();
        let mut events = self.events.lock().unwrap();
        for entry in entries {
            if let Some(account) = events.account_of.get(&entry.tx_id).copied() {
                let open = events.open.entry(account).or_default();
                *open = open.saturating_sub(1);
            }
            events.feed.push(entry);
            events.final_at.push(at);
        }
    }

    /// The number of an account's creates that are accepted and not known to be final.
    pub(crate) fn open(&self, account: usize) -> u64 {
        self.events.lock().unwrap().open.get(&account).copied().unwrap_or_default()
    }

    /// The numbers of accepted and of final transactions.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let events = self.events.lock().unwrap();
        (events.accepted.len(), events.feed.len())
    }

    /// A fault was carried out.
    pub(crate) fn done(&self, done: Done) {
        self.events.lock().unwrap().done.push(done);
    }

    /// A reorg replaced these blocks.
    pub(crate) fn replaced(&self, blocks: RangeInclusive<u64>) {
        self.events.lock().unwrap().replaced.push(blocks);
    }

    /// A node ended though nobody told it to.
    pub(crate) fn own_end(&self, what: String) {
        self.tell(&what);
        self.events.lock().unwrap().own_ends.push(Violation { at: self.now(), what });
    }

    /// A copy of everything.
    pub(crate) fn events(&self) -> Events {
        self.events.lock().unwrap().clone()
    }

    /// One line of progress.
    pub(crate) fn tell(&self, what: &str) {
        let seconds = self.now().as_secs();
        let (accepted, settled) = self.counts();
        let clock = format!("{:02}:{:02}", seconds / 60, seconds % 60);
        eprintln!("{clock}  {what:<44} accepted {accepted:>5}  final {settled:>5}");
    }
}
