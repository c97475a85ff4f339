//! Delivers the log of events to one receiver.
//!
//! One node of all delivers at a time, by a claim in the database (I11). It reads ahead of what the receiver has
//! taken by a bounded window. The events of a transaction wait for each other, others don't. The database keeps
//! the number up to which everything was taken or put aside: after a crash the rest is sent again, under the same
//! ids.

mod window;

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tollgate_model::event::EventKinds;
use tollgate_model::event::delivery::{AfterFailure, DeliveryRules, after_failure};
use tollgate_model::port::{DeadLetter, Page, SinkClaim, Store, StoreError};
use tollgate_model::{NodeId, Seq};
use tracing::{info, warn};

use super::sink::{EventSink, NotTaken};
use window::{Delivery, Window};

/// The term of the claim. A node that dies is replaced after it.
const TERM: Duration = Duration::from_secs(30);
/// The interval at which progress is written and the claim extended, and at which another node looks whether it
/// is free.
const RENEW_EVERY: Duration = Duration::from_secs(5);
/// The interval at which the log is read.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The pause after a failure of the database.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest time for deliveries that have begun when the node stops.
const STOP_WAIT: Duration = Duration::from_secs(5);
/// Dead letters that are sent again at a time (I13).
const LETTERS: u32 = 16;

/// The events that are delivered, and the limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct DispatcherOptions {
    pub(super) kinds: EventKinds,
    /// Deliveries at a time.
    pub(super) concurrency: usize,
    pub(super) rules: DeliveryRules,
}

pub(super) struct Dispatcher {
    pub(super) store: Arc<dyn Store>,
    pub(super) node: NodeId,
    pub(super) sink: Arc<dyn EventSink>,
    pub(super) options: DispatcherOptions,
    pub(super) stop: watch::Receiver<bool>,
}

type Outcome = (Delivery, Result<(), NotTaken>);

/// The reason why a node delivers no longer.
enum Ended {
    Stopped,
    /// Another node has the claim, or an operator has set the sink back.
    ClaimLost,
}

impl Dispatcher {
    pub(super) async fn run(self) {
        let mut stop = self.stop.clone();
        while !*stop.borrow() {
            let pause = match self.deliver_while_claimed().await {
                Ok(true) => Duration::ZERO,
                Ok(false) => RENEW_EVERY,
                Err(error) => {
                    warn!(sink = self.sink.name(), %error, "events can't be delivered; retrying");
                    PAUSE
                }
            };
            tokio::select! {
                () = stopped(&mut stop) => {}
                () = sleep(pause) => {}
            }
        }
    }

    /// Delivers for as long as this node has the claim; false if another node has it.
    async fn deliver_while_claimed(&self) -> Result<bool, StoreError> {
        let name = self.sink.name();
        let Some(claim) = self.store.claim_sink(name, &self.node, TERM).await? else {
            return Ok(false);
        };
        info!(sink = name, after = claim.acknowledged.get(), "delivery of events begins");
        let mut run = Run::new(self, claim);
        match run.deliver().await? {
            Ended::ClaimLost => {
                info!(sink = name, "delivery of events ends: the claim is lost");
            }
            Ended::Stopped => {
                // Another node goes on at once.
                let _ = timeout(STOP_WAIT, run.finish()).await;
                run.acknowledge(Duration::ZERO).await?;
            }
        }
        Ok(true)
    }
}

/// The time of one claim.
struct Run<'a> {
    dispatcher: &'a Dispatcher,
    claim: SinkClaim,
    window: Window,
    in_flight: FuturesUnordered<BoxFuture<'a, Outcome>>,
    /// Events that the receiver has taken.
    taken: u64,
    /// Failures since it last took one.
    failures_in_a_row: usize,
    next_look: Instant,
    next_renewal: Instant,
}

impl<'a> Run<'a> {
    fn new(dispatcher: &'a Dispatcher, claim: SinkClaim) -> Self {
        let now = Instant::now();
        Self {
            dispatcher,
            claim,
            window: Window::new(claim.acknowledged),
            in_flight: FuturesUnordered::new(),
            taken: 0,
            failures_in_a_row: 0,
            next_look: now,
            next_renewal: now + RENEW_EVERY,
        }
    }

    async fn deliver(&mut self) -> Result<Ended, StoreError> {
        let mut stop = self.dispatcher.stop.clone();
        self.read_letters().await?;
        loop {
            if self.next_renewal <= Instant::now() {
                if !self.acknowledge(TERM).await? {
                    return Ok(Ended::ClaimLost);
                }
                self.read_letters().await?;
                self.next_renewal = Instant::now() + RENEW_EVERY;
            }
            if self.next_look <= Instant::now() && self.window.has_room() {
                let is_end = self.read().await?;
                self.next_look = Instant::now() + if is_end { LOOK_EVERY } else { Duration::ZERO };
            }
            self.begin_deliveries();
            let wake = self.wake();
            tokio::select! {
                biased;
                () = stopped(&mut stop) => return Ok(Ended::Stopped),
                Some((delivery, outcome)) = self.in_flight.next() => {
                    self.record(delivery, outcome).await?;
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// The next time at which there is something to do.
    fn wake(&self) -> Instant {
        let look = if self.window.has_room() { self.next_look } else { self.next_renewal };
        let retry = match self.in_flight.len() < self.places() {
            true => self.window.next_retry(),
            false => None,
        };
        retry.unwrap_or(look).min(look).min(self.next_renewal)
    }

    /// Reads on; true at the end of the log.
    async fn read(&mut self) -> Result<bool, StoreError> {
        let store = &self.dispatcher.store;
        let page = Page::new(Page::MAX)?;
        store.number_events(page).await?;
        let after = self.window.read_through();
        let found = store.events(after, self.window.room()).await?;
        if after < found.removed_through {
            let (from, through) = (after.get() + 1, found.removed_through.get());
            let sink = self.dispatcher.sink.name();
            warn!(sink, from, through, "events were removed before they were delivered");
        }
        let kinds = self.dispatcher.options.kinds;
        let wanted = found.items.into_iter().filter(|event| kinds.contains(event.event.kind));
        self.window.add(wanted, found.next);
        Ok(found.next >= found.end)
    }

    /// Reads the dead letters that an operator wants to be sent again.
    async fn read_letters(&mut self) -> Result<(), StoreError> {
        let (store, sink) = (&self.dispatcher.store, self.dispatcher.sink.name());
        let letters = store.dead_letters(sink, Seq::MIN, true, Page::new(LETTERS)?).await?;
        self.window.add_letters(letters);
        Ok(())
    }

    /// The receiver takes nothing at present.
    const fn is_down(&self) -> bool {
        self.failures_in_a_row >= self.dispatcher.options.concurrency
    }

    /// Deliveries at a time.
    const fn places(&self) -> usize {
        if self.is_down() { 1 } else { self.dispatcher.options.concurrency }
    }

    fn begin_deliveries(&mut self) {
        while self.in_flight.len() < self.places() {
            let Some(mut delivery) = self.window.take_due(Instant::now(), self.is_down()) else {
                return;
            };
            delivery.taken_at_start = self.taken;
            let sink = self.dispatcher.sink.clone();
            self.in_flight.push(Box::pin(async move {
                let outcome = sink.deliver(&delivery.event).await;
                (delivery, outcome)
            }));
        }
    }

    async fn record(
        &mut self,
        mut delivery: Delivery,
        outcome: Result<(), NotTaken>,
    ) -> Result<(), StoreError> {
        let Dispatcher { store, sink, options, .. } = self.dispatcher;
        let seq = delivery.event.seq;
        let Err(NotTaken { why, retry_after }) = outcome else {
            (self.taken, self.failures_in_a_row) = (self.taken + 1, 0);
            if delivery.letter.is_some() {
                store.delete_dead_letter(sink.name(), seq).await?;
            }
            self.window.done(&delivery);
            return Ok(());
        };
        self.failures_in_a_row += 1;
        let failures = delivery.failures.and_one(delivery.taken_at_start, self.taken);
        delivery.failures = failures;
        let random = spread(seq.get(), failures.total);
        let (sink, id) = (sink.name(), delivery.event.id());
        let earlier = delivery.letter.unwrap_or_default();
        match after_failure(&options.rules, failures, retry_after, random) {
            AfterFailure::RetryIn(pause) if delivery.letter.is_none() => {
                if failures.total == 1 {
                    warn!(sink, id, error = why, "event not taken; retrying");
                }
                self.window.retry_at(delivery, Instant::now() + pause);
            }
            // A dead letter has one further try each time that an operator asks for it.
            AfterFailure::RetryIn(_) | AfterFailure::Bury => {
                warn!(
                    sink,
                    id,
                    error = why,
                    attempts = failures.total,
                    "event became a dead letter"
                );
                let letter = DeadLetter {
                    event: delivery.event.clone(),
                    attempts: earlier + failures.total,
                    last_error: why,
                    is_due: false,
                };
                store.put_dead_letter(sink, &letter).await?;
                self.window.done(&delivery);
            }
        }
        Ok(())
    }

    /// Writes how far the receiver has got; false if the claim is lost.
    async fn acknowledge(&mut self, term: Duration) -> Result<bool, StoreError> {
        let (store, sink) = (&self.dispatcher.store, self.dispatcher.sink.name());
        store.acknowledge_events(sink, self.claim.token, self.window.acknowledged(), term).await
    }

    /// Waits for the deliveries that have begun.
    async fn finish(&mut self) -> Result<(), StoreError> {
        while let Some((delivery, outcome)) = self.in_flight.next().await {
            self.record(delivery, outcome).await?;
        }
        Ok(())
    }
}

/// Waits until the node stops.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // An error: nobody is left who could say so, and there is nothing to wait for.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// A number that looks random (the finaliser of SplitMix64).
fn spread(seq: u64, tries: u32) -> u64 {
    let mut mixed = seq.wrapping_mul(31).wrapping_add(u64::from(tries));
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests;
