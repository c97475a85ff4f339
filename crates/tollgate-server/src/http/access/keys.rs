//! The API keys that a node knows: all of them, in memory, read again every [`REFRESH_EVERY`].
//!
//! A revoked key is refused by every node within five seconds: the interval, and the time of a query. An id that is
//! not known may be that of a new key, so the changes are read at once, for all requests that wait for them
//! together and at most every [`LOOK_PAUSE`]: ids that are made up can't load the database.
//!
//! While the database can't be read, known keys are accepted for [`TRUSTED_FOR`]; then every call is refused with
//! `store_unavailable`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tollgate_api::ErrorCode;
use tollgate_model::Timestamp;
use tollgate_model::access::{ApiKey, KeyId, KeyRefusal, KeySecret, Rights};
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{Store, StoreError, StoredApiKey};
use tracing::{info, warn};

use super::rate::{Counted, KeyLimiter};
use crate::http::problem::Problem;

/// The interval in which changes of keys are read.
const REFRESH_EVERY: Duration = Duration::from_secs(2);
/// The longest time for reading them (I13).
const READ_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause between two looks for an id that is not known (I13).
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// The time for which keys are accepted that could not be read again.
const TRUSTED_FOR: Duration = Duration::from_secs(60);
/// Keys in one read.
const PAGE: u32 = 500;
/// The interval in which the time of a key's last use is written.
const TOUCH_EVERY: Duration = Duration::from_secs(60);
/// Times of use that are written in one round (I13).
const TOUCHES_MAX: usize = 50;

/// The keys of all callers.
pub(crate) struct ApiKeys {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    known: RwLock<Known>,
    /// When the last read began. Held while a read runs.
    reading: Mutex<Option<Instant>>,
}

#[derive(Default)]
struct Known {
    by_id: HashMap<KeyId, Arc<KnownKey>>,
    /// The last change that was read.
    revision: u64,
    /// When the last complete read began.
    read_at: Option<Instant>,
}

/// A key, and its uses at this node.
pub(crate) struct KnownKey {
    key: ApiKey,
    limiter: Option<Arc<KeyLimiter>>,
    /// When it was last used and when that was last written, in microseconds since 1970; zero for never.
    used_at: AtomicI64,
    written_at: AtomicI64,
}

impl KnownKey {
    pub(crate) const fn key(&self) -> &ApiKey {
        &self.key
    }

    pub(crate) const fn id(&self) -> &KeyId {
        &self.key.id
    }

    /// Counts a request against the key's rate, if it has one.
    pub(crate) fn count(&self) -> Counted {
        Counted::by(self.limiter.as_deref())
    }

    /// Counts the items of a batch against the key's rate, but for the first.
    pub(crate) fn count_batch(&self, items: usize) -> Result<Counted, Problem> {
        Counted::batch_by(self.limiter.as_deref(), items)
    }

    pub(crate) const fn has_rate(&self) -> bool {
        self.limiter.is_some()
    }

    /// The key as it was read again: its uses stay.
    fn succeed(key: ApiKey, before: Option<&Self>) -> Self {
        let kept = before.and_then(|before| before.limiter.clone());
        let limiter = key.rate.map(|rate| match kept {
            Some(kept) if kept.limit == rate => kept,
            Some(_) | None => Arc::new(KeyLimiter::new(rate)),
        });
        let time = |of: fn(&Self) -> &AtomicI64| {
            AtomicI64::new(before.map_or(0, |before| of(before).load(Ordering::Relaxed)))
        };
        let (used_at, written_at) = (time(|key| &key.used_at), time(|key| &key.written_at));
        Self { key, limiter, used_at, written_at }
    }
}

impl ApiKeys {
    /// Reads keys from a store, from now on and until the value is dropped.
    pub(crate) fn start(store: Arc<dyn Store>, clock: Arc<dyn Clock>) -> Arc<Self> {
        let (known, reading) = (RwLock::default(), Mutex::default());
        let keys = Arc::new(Self { store, clock, known, reading });
        tokio::spawn(keep_reading(Arc::downgrade(&keys)));
        keys
    }

    /// The time by which keys expire.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// The key with this secret, if it may be used. Callers without the secret learn nothing of a key.
    pub(crate) async fn authenticate(&self, secret: &str) -> Result<Arc<KnownKey>, Problem> {
        let refused = |why: &str| Problem::new(ErrorCode::Unauthenticated, why);
        let secret = KeySecret::parse(secret).map_err(|error| refused(&error.problem))?;
        let Some(known) = self.find(secret.id()).await? else {
            return Err(refused("there is no such API key"));
        };
        self.check(&known, |key, now| key.check(&secret, now))?;
        Ok(known)
    }

    /// The key with this id, which another node has checked, if it may be used.
    pub(crate) async fn known(&self, id: &KeyId) -> Result<Arc<KnownKey>, Problem> {
        let unknown = || Problem::new(ErrorCode::Unauthenticated, "there is no such API key");
        let known = self.find(id).await?.ok_or_else(unknown)?;
        self.check(&known, ApiKey::check_usable)?;
        Ok(known)
    }

    fn check(
        &self,
        known: &KnownKey,
        check: impl FnOnce(&ApiKey, Timestamp) -> Result<(), KeyRefusal>,
    ) -> Result<(), Problem> {
        let now = self.clock.now();
        check(&known.key, now).map_err(|refusal| {
            let why = match refusal {
                KeyRefusal::WrongSecret => "there is no such API key",
                KeyRefusal::Revoked => "the API key was revoked",
                KeyRefusal::Expired => "the API key has expired",
            };
            Problem::new(ErrorCode::Unauthenticated, why)
        })?;
        known.used_at.store(now.unix_micros(), Ordering::Relaxed);
        Ok(())
    }

    async fn find(&self, id: &KeyId) -> Result<Option<Arc<KnownKey>>, Problem> {
        let asked = Instant::now();
        if let Some(found) = self.get(id) {
            return self.trusted(asked).map(|()| Some(found));
        }
        if let Err(error) = self.read_since(asked).await {
            self.trusted(asked)?;
            return Err(error.into());
        }
        Ok(self.get(id))
    }

    /// The rights of a key, usable or not. The store knows those that ended long ago.
    pub(crate) async fn rights_of(&self, id: &KeyId) -> Result<Option<Rights>, StoreError> {
        if let Some(known) = self.get(id) {
            return Ok(Some(known.key.rights.clone()));
        }
        Ok(self.store.api_key(id).await?.map(|stored| stored.key.rights))
    }

    fn get(&self, id: &KeyId) -> Option<Arc<KnownKey>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).by_id.get(id).cloned()
    }

    /// Refuses to go on with keys that were read too long ago.
    fn trusted(&self, now: Instant) -> Result<(), Problem> {
        let read_at = self.known.read().unwrap_or_else(PoisonError::into_inner).read_at;
        if read_at.is_some_and(|at| now.saturating_duration_since(at) < TRUSTED_FOR) {
            return Ok(());
        }
        let detail =
            format!("the API keys could not be read from the database for {TRUSTED_FOR:?}");
        Err(Problem::new(ErrorCode::StoreUnavailable, detail))
    }

    /// Reads the changes, unless a read has begun since `asked`.
    async fn read_since(&self, asked: Instant) -> Result<(), StoreError> {
        let mut last = self.reading.lock().await;
        if let Some(begun) = *last {
            if begun >= asked {
                return Ok(());
            }
            sleep_until(begun + LOOK_PAUSE).await;
        }
        let begun = Instant::now();
        *last = Some(begun);
        let unavailable =
            || StoreError::Unavailable("the API keys were not read in time".to_owned().into());
        timeout(READ_TIMEOUT, self.read_changes(begun)).await.map_err(|_| unavailable())?
    }

    async fn read_changes(&self, begun: Instant) -> Result<(), StoreError> {
        loop {
            let after = self.known.read().unwrap_or_else(PoisonError::into_inner).revision;
            let changed = self.store.api_keys_after(after, PAGE).await?;
            let is_last = changed.len() < PAGE as usize;
            let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
            for StoredApiKey { key, revision } in changed {
                known.revision = known.revision.max(revision);
                let before = known.by_id.get(&key.id);
                if before.is_some_and(|old| old.key.revoked_at.is_none())
                    && key.revoked_at.is_some()
                {
                    info!(key_id = key.id.as_str(), "API key revoked");
                }
                let next = KnownKey::succeed(key, before.map(AsRef::as_ref));
                known.by_id.insert(next.key.id.clone(), Arc::new(next));
            }
            let now = self.clock.now();
            known.by_id.retain(|_, known| !known.key.is_forgotten(now));
            if is_last {
                known.read_at = Some(begun);
                return Ok(());
            }
        }
    }

    /// Writes the times of last use that are due.
    async fn write_uses(&self) -> Result<(), StoreError> {
        let is_due = |key: &&Arc<KnownKey>| {
            let (used, written) = (&key.used_at, &key.written_at);
            let (used, written) = (used.load(Ordering::Relaxed), written.load(Ordering::Relaxed));
            let pause = i64::try_from(TOUCH_EVERY.as_micros()).unwrap_or(i64::MAX);
            used > written && used.saturating_sub(written) >= pause
        };
        let due: Vec<Arc<KnownKey>> = {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            known.by_id.values().filter(is_due).take(TOUCHES_MAX).cloned().collect()
        };
        for key in due {
            let used = key.used_at.load(Ordering::Relaxed);
            self.store.touch_api_key(&key.key.id, Timestamp::from_unix_micros(used)).await?;
            key.written_at.store(used, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// Reads changes and writes uses until the keys are dropped.
async fn keep_reading(keys: Weak<ApiKeys>) {
    let mut ticks = interval(REFRESH_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut is_failing = false;
    loop {
        ticks.tick().await;
        let Some(keys) = keys.upgrade() else { return };
        let done = match keys.read_since(Instant::now()).await {
            Ok(()) => timeout(READ_TIMEOUT, keys.write_uses()).await.unwrap_or(Ok(())),
            Err(error) => Err(error),
        };
        match done {
            Err(error) if !is_failing => {
                warn!(%error, "API keys can't be read again; known ones are accepted for 60 s");
                is_failing = true;
            }
            Err(_) => {}
            Ok(()) => is_failing = false,
        }
    }
}
