//! Transactions over the network: the commit that may or may not have happened.

use async_trait::async_trait;
use tollgate_model::nonce::Mode;
use tollgate_model::port::clock::Clock;
use tollgate_model::port::{
    Attempt, ChainRegistration, Confirmations, FencedBatch, HistoryEntry, KnownRequest, Lease,
    LineHead, ListFilter, OpenTx, Page, SectionOutcome, Settled, StoreError, SubmitterEntry,
    SubmitterOverview, SubmitterRecord, SubmitterSetup, SubmitterWait, TxRecord, TxStore,
};
use tollgate_model::{Address, ChainId, NodeId, Nonce, RequestId, Submitter, TxHash, TxId};

use super::NodeStore;
use crate::planted::{self, Bug};

/// What becomes of a commit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Told,
    KeptUntold,
    UndoneUntold,
}

impl NodeStore {
    async fn commit_whole(&self, batch: &FencedBatch) -> Result<Vec<SectionOutcome>, StoreError> {
        let fate = match self.world.strikes(|faults| faults.lose_commit) {
            false => Fate::Told,
            true if self.world.flips() => Fate::KeptUntold,
            true => Fate::UndoneUntold,
        };
        let batch = planted::renamed(&self.world, &self.line.name, batch.clone());
        let batch = planted::under_new_names(&self.world, batch).await;
        let batch = planted::unresumed(&self.world, batch);
        let answer = self.write("commit", move |world, name| async move {
            if fate == Fate::UndoneUntold {
                world.note(format_args!("{name} commit undone, untold"));
                return Ok(Vec::new());
            }
            let answer = world.store.commit(&batch).await;
            world.committed(&name, &batch, answer.as_ref().ok(), fate == Fate::Told).await;
            answer
        });
        let answer = answer.await?;
        if fate == Fate::Told {
            self.line.arrive("commit").await;
            return answer;
        }
        self.line.arrive_lost("commit").await;
        Err(StoreError::CommitUnknown("the answer was lost".into()))
    }
}

#[async_trait]
impl TxStore for NodeStore {
    async fn register_chain(&self, chain: &ChainRegistration) -> Result<(), StoreError> {
        self.read("register_chain", |store| async move { store.register_chain(chain).await }).await
    }

    async fn register_submitters(&self, setups: &[SubmitterSetup]) -> Result<(), StoreError> {
        self.read("register", |store| async move { store.register_submitters(setups).await }).await
    }

    async fn commit(&self, batch: &FencedBatch) -> Result<Vec<SectionOutcome>, StoreError> {
        planted::send_first(&self.world, &self.chain, batch).await;
        planted::forget_older(&self.world, batch).await;
        if let Some(outcomes) = planted::answer_first(&self.world, batch, self.line.now()) {
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
        let answer = self.write("settle", move |world, name| async move {
            world.note(format_args!("{name} settle"));
            world.store.settle(&node, lease, &tx_ids).await
        });
        let answer = answer.await?;
        self.line.arrive("settle").await;
        answer
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
            .read("known", |store| async move { store.known_requests(&requests).await })
            .await?;
        Ok(planted::forgotten(&self.world, known))
    }

    async fn tx(&self, tx_id: TxId) -> Result<Option<TxRecord>, StoreError> {
        self.read("tx", |store| async move { store.tx(tx_id).await }).await
    }

    async fn tx_by_request(
        &self,
        submitter: Submitter,
        request_id: &RequestId,
    ) -> Result<Option<TxRecord>, StoreError> {
        self.read(
            "by_request",
            |store| async move { store.tx_by_request(submitter, request_id).await },
        )
        .await
    }

    async fn tx_ids_by_hash(&self, hashes: &[TxHash]) -> Result<Vec<(TxHash, TxId)>, StoreError> {
        self.read("by_hash", |store| async move { store.tx_ids_by_hash(hashes).await }).await
    }

    async fn list(
        &self,
        filter: &ListFilter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<TxRecord>, StoreError> {
        self.read("list", |store| async move { store.list(filter, after, page).await }).await
    }

    async fn attempts(&self, tx_id: TxId) -> Result<Vec<Attempt>, StoreError> {
        self.read("attempts", |store| async move { store.attempts(tx_id).await }).await
    }

    async fn history(
        &self,
        tx_id: TxId,
        after_version: u32,
        page: Page,
    ) -> Result<Vec<HistoryEntry>, StoreError> {
        self.read("history", |store| async move { store.history(tx_id, after_version, page).await })
            .await
    }

    async fn submitter_history(
        &self,
        submitter: Submitter,
        after_number: u64,
        page: Page,
    ) -> Result<Vec<SubmitterEntry>, StoreError> {
        self.read("submitter_history", |store| async move {
            store.submitter_history(submitter, after_number, page).await
        })
        .await
    }

    async fn confirmations(&self, tx_id: TxId) -> Result<Option<Confirmations>, StoreError> {
        self.read("confirmations", |store| async move { store.confirmations(tx_id).await }).await
    }

    async fn open_work(
        &self,
        submitter: Submitter,
        after: Option<TxId>,
        page: Page,
    ) -> Result<Vec<OpenTx>, StoreError> {
        let read =
            self.read(
                "open_work",
                |store| async move { store.open_work(submitter, after, page).await },
            );
        read.await.map(|work| planted::left_out(&self.world, after, work))
    }

    async fn slots_from(
        &self,
        submitter: Submitter,
        from: Nonce,
        page: Page,
    ) -> Result<Vec<Nonce>, StoreError> {
        self.read(
            "slots_from",
            |store| async move { store.slots_from(submitter, from, page).await },
        )
        .await
    }

    async fn line_head(&self, submitter: Submitter) -> Result<Option<LineHead>, StoreError> {
        self.read("line_head", |store| async move { store.line_head(submitter).await }).await
    }

    async fn submitters(
        &self,
        chain_id: ChainId,
        after: Option<Address>,
        page: Page,
    ) -> Result<Vec<SubmitterOverview>, StoreError> {
        self.read(
            "submitters",
            |store| async move { store.submitters(chain_id, after, page).await },
        )
        .await
    }

    async fn modes(&self, submitters: &[Submitter]) -> Result<Vec<Option<Mode>>, StoreError> {
        self.read("modes", |store| async move { store.modes(submitters).await }).await
    }

    async fn waits(&self, submitter: Submitter) -> Result<Vec<SubmitterWait>, StoreError> {
        self.read("waits", |store| async move { store.waits(submitter).await }).await
    }

    async fn submitter(&self, submitter: Submitter) -> Result<Option<SubmitterRecord>, StoreError> {
        self.read("submitter", |store| async move { store.submitter(submitter).await }).await
    }
}
