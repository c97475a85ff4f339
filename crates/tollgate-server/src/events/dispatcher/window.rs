//! The events between what a receiver has taken and what was read.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};

use tokio::time::Instant;
use tollgate_model::event::NumberedEvent;
use tollgate_model::event::delivery::Failures;
use tollgate_model::port::{DeadLetter, Page};
use tollgate_model::{Seq, Submitter, TxId};

/// Events that were read and are not done (I13).
pub(super) const WINDOW: usize = 1_000;

/// An event on its way to the receiver.
#[derive(Clone, Debug)]
pub(super) struct Delivery {
    pub(super) event: NumberedEvent,
    pub(super) failures: Failures,
    /// Events that the receiver had taken when this try began.
    pub(super) taken_at_start: u64,
    /// The tries before, if it is a dead letter.
    pub(super) letter: Option<u32>,
}

/// Events of one line wait for each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Line {
    Tx(TxId),
    Submitter(Submitter),
    Letter(Seq),
}

impl Delivery {
    fn line(&self) -> Line {
        match &self.event.event.tx {
            _ if self.letter.is_some() => Line::Letter(self.event.seq),
            Some(tx) => Line::Tx(tx.tx_id),
            None => Line::Submitter(self.event.event.submitter),
        }
    }
}

pub(super) struct Window {
    read_through: Seq,
    /// The numbers of events that are not done.
    open: BTreeSet<Seq>,
    /// Events that can begin, the oldest first; each of another line.
    ready: VecDeque<Delivery>,
    /// Events behind another one of their line that is not done. A line without one has an empty queue.
    lines: HashMap<Line, VecDeque<Delivery>>,
    /// Events that are tried again, by time.
    retries: BinaryHeap<Reverse<(Instant, Seq)>>,
    retrying: HashMap<Seq, Delivery>,
    letters: HashSet<Seq>,
}

impl Window {
    pub(super) fn new(acknowledged: Seq) -> Self {
        Self {
            read_through: acknowledged,
            open: BTreeSet::new(),
            ready: VecDeque::new(),
            lines: HashMap::new(),
            retries: BinaryHeap::new(),
            retrying: HashMap::new(),
            letters: HashSet::new(),
        }
    }

    pub(super) const fn read_through(&self) -> Seq {
        self.read_through
    }

    pub(super) fn has_room(&self) -> bool {
        self.open.len() < WINDOW
    }

    /// The number of events that may be read.
    pub(super) fn room(&self) -> Page {
        let room = WINDOW.saturating_sub(self.open.len()).max(1);
        let one = || Page::new(1).unwrap_or_else(|_| unreachable!("one row is a page"));
        u32::try_from(room).ok().and_then(|room| Page::new(room).ok()).unwrap_or_else(one)
    }

    /// The number up to which everything is done.
    pub(super) fn acknowledged(&self) -> Seq {
        let before = |seq: &Seq| Seq::new(seq.get().saturating_sub(1)).unwrap_or(Seq::MIN);
        self.open.first().map_or(self.read_through, before)
    }

    /// Adds the events up to a number.
    pub(super) fn add(&mut self, events: impl Iterator<Item = NumberedEvent>, through: Seq) {
        for event in events {
            self.open.insert(event.seq);
            let failures = Failures::default();
            self.line_up(Delivery { event, failures, taken_at_start: 0, letter: None });
        }
        self.read_through = through;
    }

    /// Adds dead letters, unless they are on their way.
    pub(super) fn add_letters(&mut self, letters: Vec<DeadLetter>) {
        for DeadLetter { event, attempts, .. } in letters {
            if self.letters.insert(event.seq) {
                let (failures, letter) = (Failures::default(), Some(attempts));
                self.line_up(Delivery { event, failures, taken_at_start: 0, letter });
            }
        }
    }

    fn line_up(&mut self, delivery: Delivery) {
        match self.lines.get_mut(&delivery.line()) {
            Some(behind) => behind.push_back(delivery),
            None => {
                self.lines.insert(delivery.line(), VecDeque::new());
                self.ready.push_back(delivery);
            }
        }
    }

    /// The next event that can begin: one whose pause is over, or a new one. While the receiver takes nothing
    /// (`is_down`) it is asked with those that have failed alone, and not with all events of the window.
    pub(super) fn take_due(&mut self, now: Instant, is_down: bool) -> Option<Delivery> {
        if let Some(Reverse((at, seq))) = self.retries.peek().copied()
            && at <= now
        {
            self.retries.pop();
            return self.retrying.remove(&seq);
        }
        if is_down && !self.retries.is_empty() { None } else { self.ready.pop_front() }
    }

    /// When the next pause is over.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.retries.peek().map(|Reverse((at, _))| *at)
    }

    pub(super) fn retry_at(&mut self, delivery: Delivery, at: Instant) {
        let seq = delivery.event.seq;
        self.retries.push(Reverse((at, seq)));
        self.retrying.insert(seq, delivery);
    }

    /// The event was taken or put aside: the next one of its line can begin.
    pub(super) fn done(&mut self, delivery: &Delivery) {
        let seq = delivery.event.seq;
        if delivery.letter.is_some() {
            self.letters.remove(&seq);
        } else {
            self.open.remove(&seq);
        }
        let line = delivery.line();
        match self.lines.get_mut(&line).and_then(VecDeque::pop_front) {
            Some(next) => self.ready.push_back(next),
            None => {
                self.lines.remove(&line);
            }
        }
    }
}
