//! Sends a batch's columns: statements that do not need each other's answers leave together.

use futures_util::try_join;
use tokio_postgres::{Row, Statement};
use tollgate_model::port::StoreError;

use super::Failure;
use super::columns::{Columns, Completions, Ended, Updates};
use super::write::{Rows, expect_rows};
use crate::PgStore;
use crate::connection::Connection;
use crate::db::Tx;
use crate::queries;

/// The statements of a batch, prepared on its connection.
pub(super) struct Flight<'t> {
    client: &'t Connection,
    update: Statement,
    transactions: Statement,
    attempts: Statement,
    history: Statement,
    events: Statement,
    cursors: Statement,
    taken: Statement,
    freed: Statement,
    confirmed: Statement,
    diagnosed: Statement,
    receipts: Statement,
    patience: Statement,
    unproven: Statement,
    forget_patience: Statement,
    forget_unproven: Statement,
    completions: Statement,
}

impl<'t> Flight<'t> {
    pub(super) async fn prepare(store: &PgStore, tx: &'t Tx) -> Result<Self, StoreError> {
        Ok(Self {
            client: tx.client()?,
            update: tx.prepared(queries::TX_UPDATE).await?,
            transactions: tx.prepared(queries::TX_INSERT).await?,
            attempts: tx.prepared(queries::ATTEMPT_INSERT).await?,
            history: tx.prepared(queries::HISTORY_INSERT).await?,
            events: tx.prepared(queries::OUTBOX_INSERT).await?,
            cursors: tx.prepared(queries::CURSOR_MOVE).await?,
            taken: tx.prepared(queries::RECYCLABLE_TAKE).await?,
            freed: tx.prepared(queries::SLOT_FREE).await?,
            confirmed: tx.prepared(queries::CONFIRMATION_PUT).await?,
            diagnosed: tx.prepared(queries::DIAGNOSIS_PUT).await?,
            receipts: tx.prepared(queries::RECEIPT_PUT).await?,
            patience: tx.prepared(queries::PATIENCE_PUT).await?,
            unproven: tx.prepared(queries::UNPROVEN_PUT).await?,
            forget_patience: tx.prepared(queries::PATIENCE_DELETE).await?,
            forget_unproven: tx.prepared(queries::UNPROVEN_DELETE).await?,
            completions: tx.prepared(store.completion_sql()).await?,
        })
    }

    /// Changes the rows that are still what their writers saw; returns those that were.
    pub(super) async fn update(&self, updates: &Updates<'_>) -> Result<Vec<Row>, Failure> {
        if updates.rows() == 0 {
            return Ok(Vec::new());
        }
        self.client.query(&self.update, &updates.parameters()).await.map_err(Failure::statement)
    }

    /// Writes everything but the feed.
    pub(super) async fn insert(&self, rows: &Rows<'_>) -> Result<(), Failure> {
        try_join!(
            self.send("managed_tx", &self.transactions, &rows.transactions),
            self.send("tx_attempt", &self.attempts, &rows.attempts),
            self.send("tx_history", &self.history, &rows.history),
            self.send("outbox", &self.events, &rows.events),
            self.send("submitter_cursor", &self.cursors, &rows.cursors),
            self.send("nonce_reservation", &self.taken, &rows.taken),
            self.send("nonce_reservation", &self.freed, &rows.freed),
            self.send("confirmation", &self.confirmed, &rows.confirmed),
            self.send("tx_diagnosis", &self.diagnosed, &rows.diagnosed),
            self.send("tx_receipt", &self.receipts, &rows.receipts),
            self.send("tx_patience", &self.patience, &rows.patience),
            self.send("tx_unproven", &self.unproven, &rows.unproven),
            self.delete(&self.forget_patience, &rows.ended),
            self.delete(&self.forget_unproven, &rows.ended),
        )?;
        Ok(())
    }

    /// Deletes what there is of these; most have nothing.
    async fn delete(&self, statement: &Statement, of: &Ended) -> Result<(), Failure> {
        if of.rows() == 0 {
            return Ok(());
        }
        let deleted = self.client.execute(statement, &of.parameters()).await;
        deleted.map(drop).map_err(Failure::statement)
    }

    /// Gives the outcomes their places in the feed.
    pub(super) async fn number(&self, completions: &Completions<'_>) -> Result<(), Failure> {
        self.send("tx_completion", &self.completions, completions).await
    }

    /// Sends one statement unless it has nothing to write; every row must be written.
    async fn send(
        &self,
        table: &str,
        statement: &Statement,
        columns: &(impl Columns + Sync),
    ) -> Result<(), Failure> {
        if columns.rows() == 0 {
            return Ok(());
        }
        let parameters = columns.parameters();
        let written =
            self.client.execute(statement, &parameters).await.map_err(Failure::statement)?;
        expect_rows(table, written, columns.rows())
    }
}
