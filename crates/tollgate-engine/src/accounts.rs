//! The accounts that this node serves on its chain, and their own settings.
//!
//! Owns the served set. Accounts of the node's settings are served from the start; those that are opened
//! while nodes run are read from the store every [`INTERVAL`] and served by each node that has their key.
//! A removed account is served until nothing of it is open, so that nothing is left behind.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError, RwLock, Weak};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, sleep};
use tollgate_model::account::{Account, AccountSettings, KeyRef};
use tollgate_model::fees::FeeCaps;
use tollgate_model::nonce::{Mode, NonceRules};
use tollgate_model::port::{
    KeyUnavailable, Keys, ServedSet, Store, StoreError, StoredAccount, SubmitterSetup,
};
use tollgate_model::refusal::Refusal;
use tollgate_model::{Address, ChainId, Intent, Nonce, Submitter};
use tracing::{info, warn};

use crate::context::Context;

/// The pause between two reads of changes by other nodes.
const INTERVAL: Duration = Duration::from_secs(1);
/// The pause before a key that could not be opened is tried again.
const RETRY_INTERVAL: Duration = Duration::from_secs(30);
/// Changes that are read at once.
const PAGE: u32 = 500;
/// Tries of a change that others interrupt.
const TRIES_MAX: usize = 50;

/// An account to open.
#[derive(Clone, Debug)]
pub struct NewAccount {
    /// The reference to its key.
    pub key: KeyRef,
    /// Needed if the caller signs; otherwise it must be the key's, if it is given.
    pub address: Option<Address>,
    /// The mode, if it was never registered before.
    pub mode: Mode,
    /// The first nonce, likewise.
    pub start_from: Nonce,
    /// The account's own settings.
    pub settings: AccountSettings,
}

/// An account after it was opened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenedAccount {
    /// The account.
    pub submitter: Submitter,
    /// The account was open before, with the same key and settings.
    pub is_known: bool,
}

/// The reason why an account was not opened or changed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum AccountError {
    /// This node can't open the key.
    #[error(transparent)]
    Key(#[from] KeyUnavailable),
    /// The address is missing, or not that of the key.
    #[error("{0}")]
    Address(String),
    /// The account is open already, with another key or other settings.
    #[error("the account {0} is open already; change its settings instead")]
    Exists(Address),
    /// The account was registered before in another mode, which changes only by a call of its own.
    #[error("the account {account} is registered as {}", mode.name())]
    OtherMode {
        /// The account.
        account: Address,
        /// The mode that it was registered with.
        mode: Mode,
    },
    /// No account has this address.
    #[error("there is no such account")]
    Unknown,
    /// The key is in the settings of nodes, not a reference.
    #[error("the account's key is in the settings of its nodes: remove it there")]
    Configured,
    /// Something of it is open.
    #[error("the account has open transactions or reserved nonces")]
    Busy,
    /// The database can't be asked now.
    #[error("temporarily unavailable: {0}")]
    Store(#[from] StoreError),
    /// Others change it all the time.
    #[error("the account is being changed by others; try again")]
    Contended,
}

/// The accounts of a node on one chain.
pub struct Accounts {
    chain_id: ChainId,
    store: Arc<dyn Store>,
    keys: Arc<dyn Keys>,
    /// The accounts of the node's settings.
    configured: BTreeSet<Address>,
    own: RwLock<HashMap<Address, AccountSettings>>,
    served: watch::Sender<Arc<ServedSet>>,
    /// The stored accounts were read once.
    is_loaded: watch::Sender<bool>,
    progress: Mutex<Progress>,
}

/// Follows the changes of other nodes until the engine is gone.
pub(crate) async fn follow(context: Weak<Context>) {
    while let Some(context) = context.upgrade() {
        if let Err(error) = context.accounts.refresh().await {
            warn!(%error, "accounts not read; they are read again");
        }
        drop(context);
        sleep(INTERVAL).await;
    }
}

/// The progress in following the stored accounts.
#[derive(Default)]
struct Progress {
    revision: u64,
    /// Served by reference.
    opened: BTreeMap<Address, KeyRef>,
    /// Their keys could not be opened, and when to try again.
    unopened: BTreeMap<Address, (Account, Instant)>,
    /// Removed, and something of them is open.
    leaving: BTreeSet<Address>,
}

impl Accounts {
    pub(crate) fn new(
        chain_id: ChainId,
        store: Arc<dyn Store>,
        keys: Arc<dyn Keys>,
        configured: &ServedSet,
    ) -> Self {
        let (served, _) = watch::channel(Arc::new(configured.clone()));
        let (own, progress) = (RwLock::default(), Mutex::default());
        let configured = configured.accounts().collect();
        let (is_loaded, _) = watch::channel(false);
        Self { chain_id, store, keys, configured, own, served, is_loaded, progress }
    }

    /// The accounts that are served, as they change.
    pub fn served(&self) -> watch::Receiver<Arc<ServedSet>> {
        self.served.subscribe()
    }

    /// The settings of an account's own.
    pub fn settings(&self, of: Address) -> AccountSettings {
        self.own
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&of)
            .cloned()
            .unwrap_or_default()
    }

    /// The nonce rules of an account on a chain with these.
    pub(crate) fn nonce_rules(&self, of: Address, chain: NonceRules) -> NonceRules {
        let window = self.with(of, |own| own.window).unwrap_or(chain.window);
        NonceRules { window, ..chain }
    }

    /// The caps on fees of an account on a chain with these.
    pub(crate) fn fee_caps(&self, of: Address, chain: FeeCaps) -> FeeCaps {
        self.with(of, |own| Some(own.caps(chain))).unwrap_or(chain)
    }

    /// Judges a whole intent by the account's own rules.
    pub(crate) fn judge(&self, of: Address, intent: &Intent) -> Result<(), Refusal> {
        self.settings(of).spending.judge(intent)
    }

    pub(crate) fn is_disabled(&self, of: Address) -> bool {
        self.with(of, |own| Some(own.is_disabled)).unwrap_or(false)
    }

    fn with<T>(&self, of: Address, read: impl FnOnce(&AccountSettings) -> Option<T>) -> Option<T> {
        self.own.read().unwrap_or_else(PoisonError::into_inner).get(&of).and_then(read)
    }

    /// Reads what has changed since the last time.
    async fn refresh(&self) -> Result<(), StoreError> {
        let progress = &mut *self.progress.lock().await;
        loop {
            let page = self.store.accounts_after(self.chain_id, progress.revision, PAGE).await?;
            let is_last = page.len() < PAGE as usize;
            for StoredAccount { account, revision } in page {
                self.apply(progress, account).await?;
                progress.revision = revision;
            }
            if is_last {
                break;
            }
        }
        let now = Instant::now();
        let due = progress.unopened.values().filter(|(_, at)| *at <= now);
        for account in due.map(|(account, _)| account.clone()).collect::<Vec<_>>() {
            self.apply(progress, account).await?;
        }
        for address in progress.leaving.clone() {
            self.leave(progress, address).await?;
        }
        self.publish(progress);
        self.is_loaded.send_if_modified(|is_loaded| !std::mem::replace(is_loaded, true));
        Ok(())
    }

    pub(crate) fn is_loaded(&self) -> bool {
        *self.is_loaded.borrow()
    }

    /// Waits until the stored accounts were read once: an account's own caps and its switch count from the
    /// first transaction on (I16).
    pub(crate) async fn loaded(&self) {
        if !self.is_loaded() {
            // The sender is in `self`, so this ends with the first read.
            let _ = self.is_loaded.subscribe().wait_for(|is_loaded| *is_loaded).await;
        }
    }

    async fn apply(&self, progress: &mut Progress, account: Account) -> Result<(), StoreError> {
        let Account { submitter, key, settings, is_removed } = account.clone();
        let address = submitter.address;
        progress.unopened.remove(&address);
        progress.leaving.remove(&address);
        let settings = match is_removed {
            true => AccountSettings { is_disabled: true, ..settings },
            false => settings,
        };
        self.own.write().unwrap_or_else(PoisonError::into_inner).insert(address, settings);
        let Some(key) = key else { return Ok(()) };
        // A removed account may have open work, which a node that starts now must finish.
        if is_removed && !self.store.has_open_work(submitter).await? {
            return self.leave(progress, address).await;
        }
        if !progress.opened.contains_key(&address) && !self.configured.contains(&address) {
            match self.open(&key, address).await {
                Ok(_) => {
                    progress.opened.insert(address, key.clone());
                    info!(account = %address, %key, "account opened");
                }
                Err(error) => {
                    warn!(account = %address, %error, "account not served here");
                    progress.unopened.insert(address, (account, Instant::now() + RETRY_INTERVAL));
                }
            }
        }
        if is_removed {
            progress.leaving.insert(address);
        }
        Ok(())
    }

    /// Stops serving a removed account once nothing of it is open.
    async fn leave(&self, progress: &mut Progress, address: Address) -> Result<(), StoreError> {
        let submitter = Submitter::new(self.chain_id, address);
        if self.store.has_open_work(submitter).await? {
            return Ok(());
        }
        progress.leaving.remove(&address);
        progress.unopened.remove(&address);
        if let Some(key) = progress.opened.remove(&address) {
            if key != KeyRef::Caller {
                self.keys.close(address);
            }
            info!(account = %address, "account removed");
        }
        Ok(())
    }

    fn publish(&self, progress: &Progress) {
        let served = self.configured.iter().chain(progress.opened.keys()).copied();
        let served = ServedSet::new(served);
        self.served.send_if_modified(|known| {
            let is_new = known.digest() != served.digest();
            if is_new {
                *known = Arc::new(served);
            }
            is_new
        });
    }

    /// Opens the key of an account.
    async fn open(&self, key: &KeyRef, of: Address) -> Result<(), AccountError> {
        if self.address_of(key, Some(of)).await? == of && *key != KeyRef::Caller {
            self.keys.open(key).await?;
        }
        Ok(())
    }

    /// The address of a key, which must be the given one.
    async fn address_of(
        &self,
        key: &KeyRef,
        given: Option<Address>,
    ) -> Result<Address, AccountError> {
        if *key == KeyRef::Caller {
            let missing = "the address is missing; no key tells it, because the caller signs";
            return given.ok_or_else(|| AccountError::Address(missing.to_owned()));
        }
        let address = self.keys.address(key).await?;
        match given.filter(|given| *given != address) {
            None => Ok(address),
            Some(given) => {
                let what = format!("the key {key} is that of {address}, not {given}");
                Err(AccountError::Address(what))
            }
        }
    }

    /// Opens an account. Done again with the same key and settings it changes nothing.
    ///
    /// # Errors
    /// [`AccountError`]; nothing is written then.
    pub async fn create(&self, new: NewAccount) -> Result<OpenedAccount, AccountError> {
        let address = self.address_of(&new.key, new.address).await?;
        for _ in 0..TRIES_MAX {
            match self.try_create(&new, address).await {
                // Somebody else opens it at the same time; most likely it is the same request.
                Err(AccountError::Contended) => {}
                outcome => return outcome,
            }
        }
        Err(AccountError::Contended)
    }

    async fn try_create(
        &self,
        new: &NewAccount,
        address: Address,
    ) -> Result<OpenedAccount, AccountError> {
        let NewAccount { key, mode, start_from, settings, .. } = new.clone();
        let submitter = Submitter::new(self.chain_id, address);
        let account = Account { submitter, key: Some(key), settings, is_removed: false };
        let stored = self.store.account(submitter).await?;
        let is_known = stored.as_ref().is_some_and(|stored| stored.account == account);
        if let Some(stored) = &stored
            && !is_known
            && !stored.account.is_removed
            && stored.account.key.is_some()
        {
            return Err(AccountError::Exists(address));
        }
        if self.configured.contains(&address) {
            return Err(AccountError::Exists(address));
        }
        let registered = self.store.modes(&[submitter]).await?.first().copied().flatten();
        if let Some(registered) = registered.filter(|registered| *registered != mode) {
            return Err(AccountError::OtherMode { account: address, mode: registered });
        }
        if !is_known {
            let setup = SubmitterSetup { submitter, mode, start_from };
            self.store.register_submitters(&[setup]).await?;
            let revision = stored.map(|stored| stored.revision);
            if self.store.put_account(&account, revision).await?.is_none() {
                return Err(AccountError::Contended);
            }
        }
        self.refresh().await?;
        Ok(OpenedAccount { submitter, is_known })
    }

    /// Changes the settings of an account.
    ///
    /// # Errors
    /// [`AccountError`]; nothing is written then.
    pub async fn change(
        &self,
        submitter: Submitter,
        change: impl Fn(AccountSettings) -> AccountSettings,
    ) -> Result<AccountSettings, AccountError> {
        for _ in 0..TRIES_MAX {
            let stored = self.store.account(submitter).await?;
            if stored.is_none() && self.store.submitter(submitter).await?.is_none() {
                return Err(AccountError::Unknown);
            }
            let revision = stored.as_ref().map(|stored| stored.revision);
            let account = stored.map_or_else(
                || Account {
                    submitter,
                    key: None,
                    settings: AccountSettings::default(),
                    is_removed: false,
                },
                |stored| stored.account,
            );
            if account.is_removed {
                return Err(AccountError::Unknown);
            }
            let settings = change(account.settings.clone());
            let account = Account { settings: settings.clone(), ..account };
            if self.store.put_account(&account, revision).await?.is_some() {
                self.refresh().await?;
                return Ok(settings);
            }
        }
        Err(AccountError::Contended)
    }

    /// Removes an account of which nothing is open.
    ///
    /// # Errors
    /// [`AccountError`]; nothing is written then.
    pub async fn remove(&self, submitter: Submitter) -> Result<(), AccountError> {
        for _ in 0..TRIES_MAX {
            let Some(StoredAccount { account, revision }) = self.store.account(submitter).await?
            else {
                return Err(match self.store.submitter(submitter).await? {
                    Some(_) => AccountError::Configured,
                    None => AccountError::Unknown,
                });
            };
            if account.is_removed {
                return Err(AccountError::Unknown);
            }
            if account.key.is_none() {
                return Err(AccountError::Configured);
            }
            if self.store.has_open_work(submitter).await? {
                return Err(AccountError::Busy);
            }
            let account = Account { is_removed: true, ..account };
            if self.store.put_account(&account, Some(revision)).await?.is_some() {
                self.refresh().await?;
                return Ok(());
            }
        }
        Err(AccountError::Contended)
    }
}
