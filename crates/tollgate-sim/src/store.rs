//! The database as one node sees it: the real store, behind a network that loses and delays.
//!
//! A write that has left arrives whatever becomes of its node. The answer to a commit may be lost
//! with the commit kept or undone; either is settled before its node hears of it, as a database that
//! holds the rows' locks guarantees.

mod feed;
mod lease;
mod tx;

use std::future::Future;
use std::sync::Arc;

use tokio::sync::oneshot;
use tokio::time::sleep;
use tollgate_model::port::StoreError;
use tollgate_model::port::chain::Chain;
use tollgate_sqlite::SqliteStore;

use crate::line::{Far, Line, Lost};
use crate::world::World;

/// One node's way to the database.
#[derive(Clone)]
pub(crate) struct NodeStore {
    pub(crate) world: Arc<World>,
    pub(crate) line: Arc<Line>,
    /// For an engine that sends before it writes.
    pub(crate) chain: Arc<dyn Chain>,
}

fn unreachable_store(_: Lost) -> StoreError {
    StoreError::Unavailable("the network".into())
}

impl NodeStore {
    /// Asks without changing anything.
    async fn read<T, F>(
        &self,
        what: &'static str,
        ask: impl FnOnce(SqliteStore) -> F + Send,
    ) -> Result<T, StoreError>
    where
        T: Send,
        F: Future<Output = Result<T, StoreError>> + Send,
    {
        sleep(self.line.depart(Far::Store, what).await.map_err(unreachable_store)?).await;
        let answer = ask(self.world.store.clone()).await;
        self.world.note(format_args!("{} {what}", self.line.name));
        self.line.arrive(what).await;
        answer
    }

    /// Changes something. It arrives, or is lost on the way and `Err` here.
    async fn write<T, F>(
        &self,
        what: &'static str,
        change: impl FnOnce(Arc<World>, String) -> F + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: Future<Output = T> + Send + 'static,
    {
        let travels = self.line.depart(Far::Store, what).await.map_err(unreachable_store)?;
        let (answer, answered) = oneshot::channel();
        let (world, name) = (self.world.clone(), self.line.name.clone());
        tokio::spawn(async move {
            sleep(travels).await;
            // A node that has gone meanwhile hears nothing.
            let _ = answer.send(change(world, name).await);
        });
        let answer = answered.await;
        answer.map_err(|_| StoreError::Defect("the simulation ended".into()))
    }
}
