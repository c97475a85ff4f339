//! Makes, lists, revokes and rotates API keys, for the command line and for administrators over HTTP.
//!
//! Whoever changes a key must have all rights of it: an administrator with a scope or a tenant can't reach beyond.

use std::time::Duration;

use thiserror::Error;
use tollgate_model::access::room::{KeyLimit, NewKeyUse, check_room};
use tollgate_model::access::{ApiKey, KeyId, KeySecret, RateLimit, Rights};
use tollgate_model::audit::{AuditAuthor, AuditEntry, AuditedAction};
use tollgate_model::port::{Store, StoreError, StoredApiKey};
use tollgate_model::{Text, Timestamp};
use zeroize::Zeroizing;

/// The time for which a rotated key stays valid, unless asked otherwise.
pub const GRACE_DEFAULT: Duration = Duration::from_secs(24 * 3_600);
/// The longest time for which a rotated key stays valid.
pub const GRACE_MAX: Duration = Duration::from_secs(30 * 24 * 3_600);
/// The longest time that a key may be given.
pub const EXPIRY_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3_600);
/// Keys in one read.
const PAGE: u32 = 500;
/// Attempts at a change that others make at the same time.
const TRIES_MAX: u32 = 5;

/// The wish for a key.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// For people: who uses it, and what for.
    pub name: Text<100>,
    /// The rights of the key.
    pub rights: Rights,
    /// Its rate limit, if it has one.
    pub rate: Option<RateLimit>,
    /// When it ends; `None` is never.
    pub expires_at: Option<Timestamp>,
}

/// A key that was just made, with its secret, which is kept nowhere.
pub struct MadeKey {
    /// The key.
    pub key: ApiKey,
    /// To be shown once.
    pub secret: Zeroizing<String>,
}

/// The reason why a key was not made or changed.
#[derive(Debug, Error)]
pub enum KeyError {
    /// There is no such key, or the maker may not know of it.
    #[error("there is no such API key")]
    Unknown,
    /// The maker lacks a right.
    #[error("{0}")]
    Forbidden(&'static str),
    /// The key is revoked or expired.
    #[error("the API key is not valid any more: make a new one")]
    Ended,
    /// A limit of keys is reached.
    #[error("{0}")]
    Full(KeyLimit),
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    NoRandom,
    /// Others keep changing the key.
    #[error("the API key is being changed by somebody else; try again")]
    Contended,
    /// The store can't be asked.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Whoever administers keys.
pub struct KeyAdmin<'a> {
    store: &'a dyn Store,
    now: Timestamp,
    author: AuditAuthor,
    /// For the audit log.
    reason: Option<Text<500>>,
    rights: Rights,
    expires_at: Option<Timestamp>,
}

impl<'a> KeyAdmin<'a> {
    /// Somebody with access to the database: it may do everything.
    pub fn of_database(store: &'a dyn Store, now: Timestamp) -> Self {
        let (author, rights) = (AuditAuthor::command_line(), Rights::all());
        Self { store, now, author, reason: None, rights, expires_at: None }
    }

    /// An administrator with this key.
    pub fn with_key(
        store: &'a dyn Store,
        now: Timestamp,
        key: &ApiKey,
        author: AuditAuthor,
    ) -> Self {
        let (rights, expires_at) = (key.rights.clone(), key.expires_at);
        Self { store, now, author, reason: None, rights, expires_at }
    }

    /// With a reason for what it does, for the audit log.
    pub fn because(self, reason: Option<Text<500>>) -> Self {
        Self { reason, ..self }
    }

    /// Records a change right before it is made.
    async fn record(&self, action: AuditedAction, id: &KeyId) -> Result<(), StoreError> {
        let (author, reason) = (self.author.clone(), self.reason.clone());
        let subject = Text::lossy(id.as_str());
        self.store.record_audit(&AuditEntry { author, action, subject, reason }).await
    }

    /// All keys that the administrator may see, after a change, in the order of their changes. `next` continues.
    pub async fn page(
        &self,
        after: u64,
        limit: u32,
    ) -> Result<(Vec<ApiKey>, Option<u64>), StoreError> {
        let found = self.store.api_keys_after(after, limit).await?;
        let last = found.last().map(|stored| stored.revision);
        let next = last.filter(|_| found.len() == limit as usize);
        let keys = found.into_iter().map(|stored| stored.key);
        Ok((keys.filter(|key| self.rights.cover(&key.rights)).collect(), next))
    }

    /// All keys that the administrator may see.
    pub async fn all(&self) -> Result<Vec<ApiKey>, StoreError> {
        let (mut keys, mut after) = (Vec::new(), 0);
        loop {
            let (found, next) = self.page(after, PAGE).await?;
            keys.extend(found);
            match next {
                Some(next) => after = next,
                None => return Ok(keys),
            }
        }
    }

    /// Makes a key.
    pub async fn make(&self, new: NewKey) -> Result<MadeKey, KeyError> {
        let secret = self.prepare(&new, NewKeyUse::Additional).await?;
        self.record(AuditedAction::MakeApiKey, secret.id()).await?;
        self.put(new, secret).await
    }

    /// Checks whether the key may be made; its secret.
    async fn prepare(&self, new: &NewKey, to: NewKeyUse) -> Result<KeySecret, KeyError> {
        self.check(new)?;
        let all = Self::of_database(self.store, self.now).all().await?;
        check_room(&all, &self.rights, to, self.now).map_err(KeyError::Full)?;
        random_secret()
    }

    async fn put(&self, new: NewKey, secret: KeySecret) -> Result<MadeKey, KeyError> {
        let NewKey { name, rights, rate, expires_at } = new;
        let created_by = self.author.key_id.as_ref().map_or("cli", KeyId::as_str);
        let key = ApiKey {
            id: secret.id().clone(),
            name,
            hash: secret.hash(),
            rights,
            rate,
            created_at: self.now,
            created_by: Text::lossy(created_by),
            expires_at,
            revoked_at: None,
            last_used_at: None,
        };
        // An id of 60 random bits that is taken already is tried again by whoever asked.
        let put = self.store.put_api_key(&key, None).await?;
        put.ok_or(KeyError::Contended)?;
        Ok(MadeKey { key, secret: Zeroizing::new(secret.reveal().to_owned()) })
    }

    fn check(&self, new: &NewKey) -> Result<(), KeyError> {
        if !self.rights.cover(&new.rights) {
            let why = "a key can't be given roles, chains, accounts or a tenant that its maker's key does not have";
            return Err(KeyError::Forbidden(why));
        }
        let outlives = |end: Timestamp| new.expires_at.is_none_or(|expiry| expiry > end);
        if self.expires_at.is_some_and(outlives) {
            return Err(KeyError::Forbidden(
                "a key can't be valid for longer than its maker's key",
            ));
        }
        Ok(())
    }

    /// Revokes a key. A key that is revoked stays as it is.
    pub async fn revoke(&self, id: &KeyId) -> Result<ApiKey, KeyError> {
        self.find(id).await?;
        self.record(AuditedAction::RevokeApiKey, id).await?;
        let revoked_at = |key: &ApiKey| key.revoked_at.or(Some(self.now));
        self.change(id, |key| Ok(ApiKey { revoked_at: revoked_at(&key), ..key })).await
    }

    /// Makes a new key with the rights of another one, which ends after `grace`.
    pub async fn rotate(&self, id: &KeyId, grace: Duration) -> Result<MadeKey, KeyError> {
        let StoredApiKey { key, .. } = self.find(id).await?;
        key.check_usable(self.now).map_err(|_| KeyError::Ended)?;
        // The new key is valid for as long as the old one was made for.
        let lifetime = key.expires_at.map(|end| end.since(key.created_at));
        let new = NewKey {
            name: key.name.clone(),
            rights: key.rights.clone(),
            rate: key.rate,
            expires_at: lifetime.map(|lifetime| self.now.after(lifetime)),
        };
        let secret = self.prepare(&new, NewKeyUse::Rotation).await?;
        self.record(AuditedAction::RotateApiKey, id).await?;
        let made = self.put(new, secret).await?;
        let end = self.now.after(grace);
        let earlier = |key: &ApiKey| Some(key.expires_at.map_or(end, |expiry| expiry.min(end)));
        self.change(id, |key| Ok(ApiKey { expires_at: earlier(&key), ..key })).await?;
        Ok(made)
    }

    async fn find(&self, id: &KeyId) -> Result<StoredApiKey, KeyError> {
        let found = self.store.api_key(id).await?;
        found.filter(|stored| self.rights.cover(&stored.key.rights)).ok_or(KeyError::Unknown)
    }

    async fn change(
        &self,
        id: &KeyId,
        change: impl Fn(ApiKey) -> Result<ApiKey, KeyError>,
    ) -> Result<ApiKey, KeyError> {
        for _ in 0..TRIES_MAX {
            let StoredApiKey { key, revision } = self.find(id).await?;
            let changed = change(key.clone())?;
            if changed == key || self.store.put_api_key(&changed, Some(revision)).await?.is_some() {
                return Ok(changed);
            }
        }
        Err(KeyError::Contended)
    }
}

fn random_secret() -> Result<KeySecret, KeyError> {
    let (mut id, mut bytes) = ([0; 12], Zeroizing::new([0; 32]));
    let random = rustls::crypto::ring::default_provider().secure_random;
    random.fill(&mut id).map_err(|_| KeyError::NoRandom)?;
    random.fill(&mut *bytes).map_err(|_| KeyError::NoRandom)?;
    Ok(KeySecret::from_random(KeyId::from_random(id), *bytes))
}
