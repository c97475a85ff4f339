//! A thread with a connection of its own, and the queue in front of it.
//!
//! The thread ends when the last handle is dropped. A job that panics fails alone: its transaction is
//! rolled back, its caller gets a defect, the thread goes on.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};
use tollgate_model::port::{Cause, StoreError};

use crate::error::QueryError;

/// Jobs that may wait for one thread; callers beyond that wait to queue (I13).
const QUEUE_MAX: usize = 256;

pub(crate) type Job = Box<dyn FnOnce(&mut Connection) + Send>;

/// Runs jobs on a connection.
#[derive(Clone)]
pub(crate) enum Worker {
    /// On a thread of its own.
    Thread(mpsc::Sender<Job>),
    /// On the caller's thread, for simulations, where nothing runs beside the caller.
    Caller(Arc<Mutex<Connection>>),
}

impl Worker {
    /// Runs jobs on their callers' threads.
    pub(crate) fn on_callers_thread(conn: Connection) -> Self {
        Self::Caller(Arc::new(Mutex::new(conn)))
    }

    /// Starts a thread on the connection that `open` makes there.
    pub(crate) async fn start(
        name: &str,
        open: impl FnOnce() -> Result<Connection, StoreError> + Send + 'static,
    ) -> Result<Self, StoreError> {
        let (jobs, inbox) = mpsc::channel(QUEUE_MAX);
        let (ready, opened) = oneshot::channel();
        let body = move || match catch_panic(open) {
            Ok(conn) => {
                if ready.send(Ok(())).is_ok() {
                    serve(conn, inbox);
                }
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        thread::Builder::new().name(name.to_owned()).spawn(body).map_err(|error| {
            StoreError::Unavailable(Cause::new(format!("no thread: {error}"), error))
        })?;
        opened.await.map_err(|_| ended())??;
        Ok(Self::Thread(jobs))
    }

    /// Runs `work`, on a thread after what was queued before it. A job whose caller is gone by then is
    /// skipped.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Result<T, QueryError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let jobs = match self {
            Self::Thread(jobs) => jobs,
            Self::Caller(conn) => {
                return run(&mut conn.lock().unwrap_or_else(PoisonError::into_inner), work);
            }
        };
        let (answer, answered) = oneshot::channel();
        let job = move |conn: &mut Connection| {
            if answer.is_closed() {
                return;
            }
            // The caller may be gone by now.
            drop(answer.send(run(conn, work)));
        };
        jobs.send(Box::new(job)).await.map_err(|_| ended())?;
        // The thread does not end during a job; if it did, the job's outcome would be unknown.
        answered.await.map_err(|_| StoreError::CommitUnknown("the store's thread ended".into()))?
    }
}

fn serve(mut conn: Connection, mut inbox: mpsc::Receiver<Job>) {
    while let Some(job) = inbox.blocking_recv() {
        job(&mut conn);
    }
}

/// Runs a job. One that failed or panicked must not leave its transaction to the next one.
fn run<T>(
    conn: &mut Connection,
    work: impl FnOnce(&mut Connection) -> Result<T, QueryError>,
) -> Result<T, StoreError> {
    let result = catch_panic(|| work(conn).map_err(StoreError::from));
    if !conn.is_autocommit()
        && let Err(error) = conn.execute_batch("rollback")
    {
        tracing::error!(%error, "rollback failed");
    }
    result
}

fn catch_panic<T>(work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let message = panic_text(panic.as_ref());
        tracing::error!(error = message, "store job panicked");
        Err(StoreError::Defect(format!("panic: {message}").into()))
    })
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn ended() -> StoreError {
    StoreError::Unavailable("the store's thread ended".into())
}
