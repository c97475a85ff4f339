//! The database as one node sees it: the real store, behind a network that loses and delays calls.
//!
//! A write that has left arrives whatever happens to its node. The answer to a commit may be lost
//! with the commit kept or undone; either is settled before its node learns of it, as a database that
//! holds the rows' locks guarantees.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::oneshot;
use tokio::time::sleep;
use tollgate_model::access::{ApiKey, KeyId};
use tollgate_model::account::Account;
use tollgate_model::account_pool::{AccountPool, PoolMember, PoolName};
use tollgate_model::audit::{AuditEntry, StoredAuditEntry};
use tollgate_model::nonce::Mode;
use tollgate_model::port::chain::Chain;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{
    AccountPoolStore, AccountStore, Acquisition, AlertNotice, AlertPhase, AlertReport, AlertStore,
    ApiKeyStore, Attempt, AuditStore, ChainRegistration, Confirmations, DeadLetter, EventBounds,
    EventPage, EventStore, FeedFilter, FeedPage, FeedStore, FencedBatch, FinalSlot, FinishedRecord,
    FinishedTx, HistoryEntry, KnownRequest, Lease, LeaseStore, LeaseTerms, LineHead, ListFilter,
    LiveNode, NodeStore as Nodes, NoticeClaim, NoticeOutcome, OpenTx, OrphanPage, Owner, Page,
    PeerKey, RemovedTx, Reservation, ReservationStore, Reserve, RestoreOutcome, RestoreStore,
    RetentionStore, ReturnedNonces, RowVersion, SectionOutcome, ServedSet, Settled, SinkClaim,
    SlotState, StoreError, StoredAccount, StoredAlert, StoredApiKey, SubmitterEntry,
    SubmitterOverview, SubmitterRecord, SubmitterSetup, SubmitterWait, TxRecord, TxStore,
};
use tollgate_model::{
    Address, B256, ChainId, NodeId, Nonce, RequestId, Seq, Submitter, Text, Timestamp, TxHash, TxId,
};
use tollgate_sqlite::SqliteStore;
use uuid::Uuid;

use crate::network::{Lost, Network, Peer};
use crate::planted::{self, Bug};
use crate::world::World;

/// The limit of an orphan page under [`Bug::OrphansCutOff`].
const FEW_ORPHANS: u32 = 20;

/// One node's connection to the database.
#[derive(Clone)]
pub(crate) struct NodeStore {
    pub(crate) world: Arc<World>,
    pub(crate) network: Arc<Network>,
    /// For an engine that sends before it writes.
    pub(crate) chain: Arc<dyn Chain>,
}

/// The fault of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum CommitFault {
    None,
    AnswerLost,
    Undone,
}

fn unreachable_store(_: Lost) -> StoreError {
    StoreError::Unavailable("the network".into())
}

impl NodeStore {
    /// Calls the store while the node waits.
    async fn call<T, F>(
        &self,
        what: &'static str,
        ask: impl FnOnce(SqliteStore) -> F + Send,
    ) -> Result<T, StoreError>
    where
        T: Send,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        sleep(self.network.depart(Peer::Store, what).await.map_err(unreachable_store)?).await;
        let answer = ask(self.world.store.clone()).await;
        self.world.note(format_args!("{} {what}", self.network.name));
        self.network.arrive(what).await;
        answer
    }

    /// Calls the store in a task of its own, which a crash of the node does not stop; without the way
    /// back of the answer.
    async fn write<T, F>(
        &self,
        what: &'static str,
        change: impl FnOnce(Arc<World>, String) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let travels = self.network.depart(Peer::Store, what).await.map_err(unreachable_store)?;
        let (answer, answered) = oneshot::channel();
        let (world, name) = (self.world.clone(), self.network.name.clone());
        tokio::spawn(async move {
            sleep(travels).await;
            // An error means that the node has crashed meanwhile.
            let _ = answer.send(change(world, name).await);
        });
        let answer = answered.await;
        answer.map_err(|_| StoreError::Defect("the simulation ended".into()))
    }

    async fn commit_whole(&self, batch: &FencedBatch) -> Result<Vec<SectionOutcome>, StoreError> {
        let fault = match self.world.strikes(|faults| faults.lose_commit) {
            false => CommitFault::None,
            true if self.world.flips() => CommitFault::AnswerLost,
            true => CommitFault::Undone,
        };
        let batch = planted::renamed(&self.world, &self.network.name, batch.clone());
        let batch = planted::under_new_names(&self.world, batch).await;
        let batch = planted::unresumed(&self.world, batch);
        let answer = self.write("commit", move |world, name| async move {
            if fault == CommitFault::Undone {
                world.note(format_args!("{name} commit undone, not answered"));
                return Ok(Vec::new());
            }
            let answer = world.store.commit(&batch).await;
            let is_answered = fault == CommitFault::None;
            world.committed(&name, &batch, answer.as_ref().ok(), is_answered).await;
            answer
        });
        let answer = answer.await?;
        if fault == CommitFault::None {
            self.network.arrive("commit").await;
            return answer;
        }
        self.network.arrive_lost("commit").await;
        Err(StoreError::CommitUnknown("the answer was lost".into()))
    }

    /// The same, with the way back.
    async fn write_and_hear<T, F>(
        &self,
        what: &'static str,
        change: impl FnOnce(Arc<World>, String) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, StoreError>> + Send + 'static,
    {
        let answer = self.write(what, change).await?;
        self.network.arrive(what).await;
        answer
    }
}

/// Implements a port: the listed methods call the store's, the written ones follow.
macro_rules! over_network {
    (
        impl $port:ident {
            $($name:ident($($arg:ident: $type:ty),*) -> $answer:ty;)*
        }
        $($written:tt)*
    ) => {
        #[async_trait]
        impl $port for NodeStore {
            $(async fn $name(&self, $($arg: $type),*) -> Result<$answer, StoreError> {
                self.call(stringify!($name), |store| async move { store.$name($($arg),*).await })
                    .await
            })*

            $($written)*
        }
    };
}

over_network! {
    impl AccountStore {
        put_account(account: &Account, known: Option<u64>) -> Option<u64>;
        account(submitter: Submitter) -> Option<StoredAccount>;
        accounts_after(chain_id: ChainId, revision: u64, limit: u32) -> Vec<StoredAccount>;
        has_open_work(submitter: Submitter) -> bool;
    }
}

over_network! {
    impl AccountPoolStore {
        put_pool(chain_id: ChainId, pool: &AccountPool) -> ();
        remove_pool(chain_id: ChainId, name: &PoolName) -> bool;
        pool_members(chain_id: ChainId, name: &PoolName) -> Vec<PoolMember>;
        pools(chain_id: ChainId, after: Option<&PoolName>, page: Page) -> Vec<AccountPool>;
    }

    async fn assign_request(
        &self,
        chain_id: ChainId,
        pool: &PoolName,
        request_id: &RequestId,
        member: Address,
    ) -> Result<Address, StoreError> {
        if self.world.has(Bug::AssignmentForgotten) {
            return Ok(member);
        }
        self.call("assign_request", |store| async move {
            store.assign_request(chain_id, pool, request_id, member).await
        })
        .await
    }

    async fn assigned_member(
        &self,
        chain_id: ChainId,
        pool: &PoolName,
        request_id: &RequestId,
    ) -> Result<Option<Address>, StoreError> {
        self.call("assigned_member", |store| async move {
            store.assigned_member(chain_id, pool, request_id).await
        })
        .await
    }
}

over_network! {
    impl RetentionStore {
        claim_retention(node: &NodeId, term: Duration) -> bool;
        finished(after: Seq, age: Duration, page: Page) -> Vec<FinishedTx>;
        finished_records(tx_ids: &[TxId]) -> Vec<FinishedRecord>;
        remove_finished(tx_ids: &[TxId], age: Duration) -> u64;
        removed(tx_id: TxId) -> Option<RemovedTx>;
        removed_by_request(submitter: Submitter, request_id: &RequestId) -> Option<RemovedTx>;
        forget_removed(age: Duration, page: Page) -> u64;
    }
}

over_network! {
    impl ApiKeyStore {
        put_api_key(key: &ApiKey, known: Option<u64>) -> Option<u64>;
        api_key(id: &KeyId) -> Option<StoredApiKey>;
        api_keys_after(revision: u64, limit: u32) -> Vec<StoredApiKey>;
        touch_api_key(id: &KeyId, at: Timestamp) -> ();
    }
}

over_network! {
    impl AuditStore {
        record_audit(entry: &AuditEntry) -> ();
        audit_entries(before: Option<u64>, page: Page) -> Vec<StoredAuditEntry>;
        forget_audit(age: Duration, page: Page) -> u64;
    }
}

over_network! {
    impl EventStore {
        events(after: Seq, page: Page) -> EventPage;
        event_bounds() -> EventBounds;
        number_events(page: Page) -> u32;
        remove_events(age: Duration, keep: u64, page: Page) -> u32;
        claim_sink(sink: &str, node: &NodeId, term: Duration) -> Option<SinkClaim>;
        acknowledge_events(sink: &str, claim: i64, through: Seq, term: Duration) -> bool;
        rewind_sink(sink: &str, to: Seq) -> bool;
        put_dead_letter(sink: &str, letter: &DeadLetter) -> ();
        dead_letters(sink: &str, after: Seq, is_due: bool, page: Page) -> Vec<DeadLetter>;
        retry_dead_letters(sink: &str, from: Seq, through: Seq) -> u64;
        forget_dead_letters(keep: u32, page: Page) -> u64;
        delete_dead_letter(sink: &str, seq: Seq) -> ();
    }
}

over_network! {
    impl AlertStore {
        report_alert(report: &AlertReport, sinks: &[String]) -> bool;
        resolve_alert(alert_id: Uuid, seen_at: Timestamp) -> bool;
        alerts(is_open: bool, page: Page) -> Vec<StoredAlert>;
        claim_notices(node: &NodeId, sink: &str, claim: NoticeClaim) -> Vec<AlertNotice>;
        settle_notices(node: &NodeId, sink: &str, notices: &[(Uuid, AlertPhase)], outcome: &NoticeOutcome) -> ();
        forget_alerts(age: Duration, page: Page) -> u64;
        claim_alert_watch(node: &NodeId, term: Duration) -> bool;
        reserved_counts(of: &[Submitter]) -> Vec<u64>;
        database_time() -> Timestamp;
    }
}

over_network! {
    impl RestoreStore {
        mark_restored(by: &NodeId, reason: &Text<500>, live_within: Duration) -> RestoreOutcome;
    }
}

over_network! {
    impl TxStore {
        register_chain(chain: &ChainRegistration) -> ();
        register_submitters(setups: &[SubmitterSetup]) -> ();
        tx(tx_id: TxId) -> Option<TxRecord>;
        row_versions(tx_ids: &[TxId]) -> Vec<Option<RowVersion>>;
        tx_by_request(submitter: Submitter, request_id: &RequestId) -> Option<TxRecord>;
        tx_ids_by_hash(hashes: &[TxHash]) -> Vec<(TxHash, TxId)>;
        list(filter: &ListFilter, after: Option<TxId>, page: Page) -> Vec<TxRecord>;
        top_ups(from: Submitter, page: Page) -> Vec<TxRecord>;
        attempts(tx_id: TxId) -> Vec<Attempt>;
        history(tx_id: TxId, after_version: u32, page: Page) -> Vec<HistoryEntry>;
        submitter_history(of: Submitter, after: u64, page: Page) -> Vec<SubmitterEntry>;
        confirmations(tx_id: TxId) -> Option<Confirmations>;
        slots_from(submitter: Submitter, from: Nonce, page: Page) -> Vec<Nonce>;
        slot_states(submitter: Submitter, range: std::ops::Range<Nonce>, page: Page) -> Vec<SlotState>;
        final_slots(submitter: Submitter, page: Page) -> Vec<FinalSlot>;
        line_head(submitter: Submitter) -> Option<LineHead>;
        submitters(chain_id: ChainId, after: Option<Address>, page: Page) -> Vec<SubmitterOverview>;
        modes(submitters: &[Submitter]) -> Vec<Option<Mode>>;
        waits(submitter: Submitter) -> Vec<SubmitterWait>;
        submitter(submitter: Submitter) -> Option<SubmitterRecord>;
    }

    async fn commit(&self, batch: &FencedBatch) -> Result<Vec<SectionOutcome>, StoreError> {
        planted::send_first(&self.world, &self.chain, batch).await;
        planted::forget_older(&self.world, batch).await;
        if let Some(outcomes) = planted::answer_first(&self.world, batch, self.network.now()) {
            let (store, batch) = (self.clone(), batch.clone());
            tokio::spawn(async move { store.commit_whole(&batch).await });
            return Ok(outcomes);
        }
        let claimed = planted::unclaimed(&self.world, batch.clone());
        let outcomes = self.commit_whole(&claimed).await?;
        Ok(planted::with_claims(&self.world, batch, outcomes))
    }

    async fn settle(
        &self,
        node: &NodeId,
        lease: Lease,
        tx_ids: &[TxId],
    ) -> Result<Settled, StoreError> {
        let (node, tx_ids) = (node.clone(), tx_ids.to_vec());
        self.write_and_hear("settle", move |world, name| async move {
            world.note(format_args!("{name} settle"));
            world.store.settle(&node, lease, &tx_ids).await
        })
        .await
    }

    async fn known_requests(
        &self,
        requests: &[(Submitter, RequestId)],
    ) -> Result<Vec<Option<KnownRequest>>, StoreError> {
        if self.world.has(Bug::OwnNames) {
            return Ok(vec![None; requests.len()]);
        }
        let requests = planted::on_another_chain(&self.world, requests);
        let known = self
            .call("known_requests", |store| async move { store.known_requests(&requests).await })
            .await?;
        Ok(planted::forgotten(&self.world, known))
    }

    async fn open_work(
        &self,
        submitter: Submitter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<OpenTx>, StoreError> {
        let read = self.call("open_work", |store| async move {
            store.open_work(submitter, after, page).await
        });
        read.await.map(|work| planted::left_out(&self.world, after, work))
    }
}

over_network! {
    impl FeedStore {
        completions(of: FeedFilter, after: Seq, page: Page) -> FeedPage;
        feed_end(of: FeedFilter) -> Seq;
    }
}

over_network! {
    impl ReservationStore {
        reserve(node: &NodeId, ask: &Reserve) -> Option<Reservation>;
        reservation_recyclable(
            node: &NodeId, lease: Lease, nonce: Nonce, owner_token: Uuid, reason: &Text<500>
        ) -> Option<Reservation>;
        expire_reservations(node: &NodeId, lease: Lease) -> Vec<Nonce>;
        retire_passed(node: &NodeId, lease: Lease, mined: Nonce) -> Vec<Nonce>;
        adopt(node: &NodeId, lease: Lease, nonces: &[Nonce], reason: &Text<500>) -> Vec<Nonce>;
        return_nonces(node: &NodeId, lease: Lease, wanted: &ReturnedNonces) -> Vec<Nonce>;
        reservations(of: Submitter, after: Option<Nonce>, page: Page) -> Vec<Reservation>;
        used_for(submitter: Submitter, nonce: Nonce) -> Option<TxHash>;
        used_from(submitter: Submitter, from: Nonce, page: Page) -> Vec<Nonce>;
    }

    async fn reservation_used(
        &self,
        node: &NodeId,
        lease: Lease,
        nonce: Nonce,
        owner_token: Uuid,
        tx_hash: TxHash,
    ) -> Result<Option<Reservation>, StoreError> {
        let forgets = self.world.has(Bug::UsedForgotten);
        self.call("reservation_used", |store| async move {
            if forgets {
                let page = Page::new(Page::MAX)?;
                let out = store.reservations(lease.submitter, None, page).await?;
                let is_it = |it: &Reservation| (it.nonce, it.owner_token) == (nonce, owner_token);
                return Ok(out.into_iter().find(is_it));
            }
            store.reservation_used(node, lease, nonce, owner_token, tx_hash).await
        })
        .await
    }
}

over_network! {
    impl LeaseStore {
        owners(submitters: &[Submitter]) -> Vec<Option<Owner>>;
        mark_private(node: &NodeId, lease: Lease) -> ();
    }

    async fn acquire(
        &self,
        submitter: Submitter,
        node: &NodeId,
        terms: &LeaseTerms,
    ) -> Result<Acquisition, StoreError> {
        let (node, terms) = (node.clone(), *terms);
        let answer = self.write_and_hear("acquire", move |world, name| async move {
            let answer = world.store.acquire(submitter, &node, &terms).await;
            let Ok(Acquisition::Granted { lease, kind, .. }) = &answer else { return answer };
            world.note(format_args!("{name} lease of {submitter} {} {kind:?}", lease.token.get()));
            world.granted(*lease, &node).await;
            answer
        });
        answer.await.map(|granted| planted::unstrict(&self.world, granted))
    }

    async fn renew(
        &self,
        node: &NodeId,
        leases: &[Lease],
        terms: &LeaseTerms,
    ) -> Result<Vec<Lease>, StoreError> {
        let (node, leases, terms) = (node.clone(), leases.to_vec(), *terms);
        self.write_and_hear("renew", move |world, name| async move {
            world.note(format_args!("{name} renew {}", leases.len()));
            world.store.renew(&node, &leases, &terms).await
        })
        .await
    }

    async fn release(&self, node: &NodeId, leases: &[Lease]) -> Result<u64, StoreError> {
        let (node, leases) = (node.clone(), leases.to_vec());
        self.write_and_hear("release", move |world, name| async move {
            let released = world.store.release(&node, &leases).await;
            world.note(format_args!("{name} release {released:?}"));
            world.released(&leases).await;
            released
        })
        .await
    }

    async fn orphans(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        limit: u32,
    ) -> Result<OrphanPage, StoreError> {
        let sees_all = !self.world.has(Bug::OrphansCutOff);
        let limit = if sees_all { limit } else { FEW_ORPHANS };
        let read = self
            .call("orphans", |store| async move { store.orphans(chain_id, after, limit).await });
        read.await.map(|page| OrphanPage { next: page.next.filter(|_| sees_all), ..page })
    }
}

over_network! {
    impl Nodes {
        heartbeat(node: &LiveNode) -> ();
        live_nodes(chain_id: ChainId, within: Duration) -> Vec<LiveNode>;
        publish_served(set: &ServedSet) -> ();
        served_set(digest: B256) -> Option<ServedSet>;
        publish_peer_key(node: &NodeId, key: &PeerKey) -> ();
        peer_key(node: &NodeId, within: Duration) -> Option<PeerKey>;
        leave(node: &NodeId) -> ();
    }
}
