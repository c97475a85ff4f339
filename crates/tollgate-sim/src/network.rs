//! The network and the process of one node: every call of it goes through here.
//!
//! A crashed node never gets an answer again. A paused one gets it after the pause, and continues.
//! Calls that left before a crash may still arrive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tollgate_model::Timestamp;
use tollgate_model::port::clock::Clock;

use crate::world::World;

/// The time limit of a call.
const CALL_LIMIT: Duration = Duration::from_millis(CALL_LIMIT_MILLIS);
const CALL_LIMIT_MILLIS: u64 = 4_000;

/// The called side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Peer {
    Store,
    Chain,
}

/// There is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost;

/// One node's process and connections.
pub(crate) struct Network {
    world: Weak<World>,
    pub(crate) name: String,
    state: Mutex<State>,
    died: Notify,
}

struct State {
    is_dead: bool,
    paused_until: Instant,
    store_cut_until: Instant,
    chain_cut_until: Instant,
    clock_ahead_micros: i64,
}

impl Network {
    pub(crate) fn new(world: &Arc<World>, name: String) -> Self {
        let now = Instant::now();
        let state = State {
            is_dead: false,
            paused_until: now,
            store_cut_until: now,
            chain_cut_until: now,
            clock_ahead_micros: 0,
        };
        let world = Arc::downgrade(world);
        Self { world, name, state: Mutex::new(state), died: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.lock().is_dead
    }

    /// Crashes the node: no call of it returns any more.
    pub(crate) fn kill(&self) {
        self.lock().is_dead = true;
        self.died.notify_waiters();
    }

    /// Waits for its crash.
    pub(crate) async fn crash(&self) {
        loop {
            let died = self.died.notified();
            if self.is_dead() {
                return;
            }
            died.await;
        }
    }

    pub(crate) fn pause(&self, length: Duration) {
        self.lock().paused_until = Instant::now() + length;
    }

    pub(crate) fn cut(&self, from: Peer, length: Duration) {
        let until = Instant::now() + length;
        match from {
            Peer::Store => self.lock().store_cut_until = until,
            Peer::Chain => self.lock().chain_cut_until = until,
        }
    }

    pub(crate) fn set_clock_ahead(&self, micros: i64) {
        self.lock().clock_ahead_micros = micros;
    }

    /// Ends pauses, cuts and wrong clocks.
    pub(crate) fn heal(&self) {
        let now = Instant::now();
        let mut state = self.lock();
        state.store_cut_until = now;
        state.chain_cut_until = now;
        state.clock_ahead_micros = 0;
    }

    /// Waits until the node runs; for ever if it has crashed.
    pub(crate) async fn until_running(&self) {
        loop {
            let (is_dead, until) = {
                let state = self.lock();
                (state.is_dead, state.paused_until)
            };
            if is_dead {
                std::future::pending::<()>().await;
            }
            if until <= Instant::now() {
                return;
            }
            sleep_until(until).await;
        }
    }

    async fn may_crash(&self, world: &World, what: &'static str) {
        if world.strikes(|faults| faults.crash_at_call) {
            world.note(format_args!("{} dies at {what}", self.name));
            self.kill();
            std::future::pending::<()>().await;
        }
    }

    fn is_cut(&self, from: Peer) -> bool {
        let state = self.lock();
        let until = match from {
            Peer::Store => state.store_cut_until,
            Peer::Chain => state.chain_cut_until,
        };
        until > Instant::now()
    }

    /// Sends a call: how long it travels, unless it is lost.
    pub(crate) async fn depart(&self, to: Peer, what: &'static str) -> Result<Duration, Lost> {
        self.until_running().await;
        let Some(world) = self.world.upgrade() else { return std::future::pending().await };
        self.may_crash(&world, what).await;
        let is_lost = self.is_cut(to)
            || world.strikes(|faults| match to {
                Peer::Store => faults.lose_store,
                Peer::Chain => faults.lose_chain,
            });
        if is_lost {
            world.note(format_args!("{} {what}: lost", self.name));
            sleep(CALL_LIMIT).await;
            self.until_running().await;
            return Err(Lost);
        }
        Ok(world.travel_time())
    }

    /// Receives an answer.
    pub(crate) async fn arrive(&self, what: &'static str) {
        let Some(world) = self.world.upgrade() else { return std::future::pending().await };
        sleep(world.short_time()).await;
        self.until_running().await;
        self.may_crash(&world, what).await;
    }

    /// Waits for an answer that is lost: the connection breaks at once, or the time limit passes.
    pub(crate) async fn arrive_lost(&self, what: &'static str) {
        let Some(world) = self.world.upgrade() else { return std::future::pending().await };
        sleep(world.between(20, CALL_LIMIT_MILLIS)).await;
        drop(world);
        self.arrive(what).await;
    }
}

impl Clock for Network {
    fn now(&self) -> Timestamp {
        let ahead = self.lock().clock_ahead_micros;
        let now = self.world.upgrade().map_or(Timestamp::EPOCH, |world| world.now());
        Timestamp::from_unix_micros(now.unix_micros().saturating_add(ahead))
    }
}
