//! One node's life and its connections: every call of it goes through here.
//!
//! A node that is dead never gets an answer again. One that is paused gets it after the pause, and
//! then goes on with whatever it wanted to do. What was sent before a death may still arrive.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};
use tollgate_model::Timestamp;
use tollgate_model::port::clock::Clock;

use crate::world::World;

/// How long a caller waits for what never comes.
const PATIENCE: Duration = Duration::from_millis(PATIENCE_MILLIS);
const PATIENCE_MILLIS: u64 = 4_000;

/// Who is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Far {
    Store,
    Chain,
}

/// There is no answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lost;

/// A node's life.
pub(crate) struct Line {
    world: Weak<World>,
    pub(crate) name: String,
    life: Mutex<Life>,
    died: Notify,
}

struct Life {
    is_dead: bool,
    paused_until: Instant,
    store_cut_until: Instant,
    chain_cut_until: Instant,
    clock_ahead_micros: i64,
}

impl Line {
    pub(crate) fn new(world: &Arc<World>, name: String) -> Self {
        let now = Instant::now();
        let life = Life {
            is_dead: false,
            paused_until: now,
            store_cut_until: now,
            chain_cut_until: now,
            clock_ahead_micros: 0,
        };
        let world = Arc::downgrade(world);
        Self { world, name, life: Mutex::new(life), died: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Life> {
        self.life.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.lock().is_dead
    }

    /// From now on no call of it returns.
    pub(crate) fn kill(&self) {
        self.lock().is_dead = true;
        self.died.notify_waiters();
    }

    /// Waits for its death.
    pub(crate) async fn death(&self) {
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

    pub(crate) fn cut(&self, from: Far, length: Duration) {
        let until = Instant::now() + length;
        match from {
            Far::Store => self.lock().store_cut_until = until,
            Far::Chain => self.lock().chain_cut_until = until,
        }
    }

    pub(crate) fn set_clock_ahead(&self, micros: i64) {
        self.lock().clock_ahead_micros = micros;
    }

    /// Ends pauses, cuts and wrong clocks.
    pub(crate) fn heal(&self) {
        let now = Instant::now();
        let mut life = self.lock();
        life.store_cut_until = now;
        life.chain_cut_until = now;
        life.clock_ahead_micros = 0;
    }

    /// Waits until the node can do something; for ever if it is dead.
    pub(crate) async fn be_awake(&self) {
        loop {
            let (is_dead, until) = {
                let life = self.lock();
                (life.is_dead, life.paused_until)
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

    async fn may_die(&self, world: &World, what: &'static str) {
        if world.strikes(|faults| faults.crash_at_call) {
            world.note(format_args!("{} dies at {what}", self.name));
            self.kill();
            std::future::pending::<()>().await;
        }
    }

    fn is_cut(&self, from: Far) -> bool {
        let life = self.lock();
        let until = match from {
            Far::Store => life.store_cut_until,
            Far::Chain => life.chain_cut_until,
        };
        until > Instant::now()
    }

    /// The way there: how long the call travels, unless it is lost.
    pub(crate) async fn depart(&self, to: Far, what: &'static str) -> Result<Duration, Lost> {
        self.be_awake().await;
        let Some(world) = self.world.upgrade() else { return std::future::pending().await };
        self.may_die(&world, what).await;
        let is_lost = self.is_cut(to)
            || world.strikes(|faults| match to {
                Far::Store => faults.lose_store,
                Far::Chain => faults.lose_chain,
            });
        if is_lost {
            world.note(format_args!("{} {what}: lost", self.name));
            sleep(PATIENCE).await;
            self.be_awake().await;
            return Err(Lost);
        }
        Ok(world.travel_time())
    }

    /// The way back.
    pub(crate) async fn arrive(&self, what: &'static str) {
        let Some(world) = self.world.upgrade() else { return std::future::pending().await };
        sleep(world.short_time()).await;
        self.be_awake().await;
        self.may_die(&world, what).await;
    }

    /// The way back of an answer that gets lost: a connection breaks at once, or patience ends.
    pub(crate) async fn arrive_lost(&self, what: &'static str) {
        let Some(world) = self.world.upgrade() else { return std::future::pending().await };
        sleep(world.between(20, PATIENCE_MILLIS)).await;
        drop(world);
        self.arrive(what).await;
    }
}

impl Clock for Line {
    fn now(&self) -> Timestamp {
        let ahead = self.lock().clock_ahead_micros;
        let now = self.world.upgrade().map_or(Timestamp::EPOCH, |world| world.now());
        Timestamp::from_unix_micros(now.unix_micros().saturating_add(ahead))
    }
}
