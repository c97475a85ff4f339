//! A thread with a connection of its own, and the queue in front of it.
//!
//! The thread lives as long as somebody can still give it work. A job that panics ends alone: its
//! transaction is rolled back, its caller hears of a defect, the thread goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tollgate_model::port::StoreError;

use crate::error::Fault;

/// Jobs that may wait for one thread; callers beyond that wait to queue (I13).
const QUEUE_MAX: usize = 256;

pub(crate) type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// The way to have work done on a connection.
#[derive(Clone)]
pub(crate) enum Worker {
    /// By a thread.
    Thread(mpsc::Sender<Job>),
    /// Here and now: for simulations, where nothing runs beside the caller.
    Here(Arc<Mutex<Connection>>),
}

impl Worker {
    /// Works on the callers' own thread.
    pub(crate) fn here(conn: Connection) -> Self {
        Self::Here(Arc::new(Mutex::new(conn)))
    }

    /// Starts a thread on the connection that `open` makes there.
    pub(crate) async fn start(
        name: &str,
        open: impl FnOnce() -> Result<Connection, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel(QUEUE_MAX);
        let (ready, opened) = oneshot::channel();
        let body = move || match unpanicked(open) {
            Ok(conn) => {
                if ready.send(Ok(())).is_ok() {
                    serve(conn, inbox);
                }
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)
            .map_err(|error| StoreError::Unavailable(format!("no thread: {error}")))?;
        opened.await.map_err(|_| ended())??;
        Ok(Self::Thread(jobs))
    }

    /// Runs `work`, on a thread after what was queued before it. If the caller has gone when its
    /// turn comes, nothing is done.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, StoreError> {
        let jobs = match self {
            Self::Thread(jobs) => jobs,
            Self::Here(conn) => {
                let mut conn = conn.lock().unwrap_or_else(PoisonError::into_inner);
                let result = unpanicked(|| work(&mut conn).map_err(StoreError::from));
                leave_no_transaction(&conn);
                return result;
            }
        };
        let (answer, answered) = oneshot::channel();
        let job = move |conn: &mut Connection| {
            if answer.is_closed() {
                return;
            }
            let result = unpanicked(|| work(conn).map_err(StoreError::from));
            leave_no_transaction(conn);
            // A caller that has gone meanwhile does not want to know.
            drop(answer.send(result));
        };
        jobs.send(Box::new(job)).await.map_err(|_| ended())?;
        // The thread can't end with a job in its hands; if it did, nobody knows how far it came.
        answered
            .await
            .map_err(|_| StoreError::CommitUnknown("the store's thread ended".to_owned()))?
    }
}

fn serve(mut conn: Connection, mut inbox: mpsc::Receiver<Job>) {
    while let Some(job) = inbox.blocking_recv() {
        job(&mut conn);
    }
}

/// A job that failed or panicked must not leave its transaction to the next one.
fn leave_no_transaction(conn: &Connection) {
    if !conn.is_autocommit()
        && let Err(error) = conn.execute_batch("rollback")
    {
        tracing::error!(%error, "rollback failed");
    }
}

fn unpanicked<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic_text(panic.as_ref());
        tracing::error!(message, "store job panicked");
        Err(StoreError::Defect(format!("panic: {message}")))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn ended() -> StoreError {
    StoreError::Unavailable("the store's thread ended".to_owned())
}
