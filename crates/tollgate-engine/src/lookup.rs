//! Finds the transactions of requests that were accepted before (I7).
//!
//! Every create with a request id is looked up before anything else is done with it, so that a repeat
//! is answered whatever the chain, the queue and the owner are like. Requests that arrive while a read
//! runs share the next one: a busy node pays for reads by their duration, not by the number of creates.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;
use tollgate_model::port::{KnownRequest, Store, StoreError};
use tollgate_model::{RequestId, Submitter};

use crate::supervisor::{ActorGroup, supervise};

/// Requests that may wait for a read (I13); beyond that callers wait.
const WAITING_MAX: usize = 4_096;
/// A read that failed sooner than this is repeated once.
const REREAD_WITHIN: Duration = Duration::from_secs(1);
/// Requests in one read (I13).
const READ_MAX: usize = 500;

/// A request and where its transaction is reported.
struct RequestJob {
    request: (Submitter, RequestId),
    reply: oneshot::Sender<Result<Option<KnownRequest>, StoreError>>,
}

/// Looks requests up in the store, many in one read.
#[derive(Clone)]
pub(crate) struct RequestLookup {
    jobs: mpsc::Sender<RequestJob>,
}

impl RequestLookup {
    /// Starts the reader; it ends when the last handle is gone.
    pub(crate) fn start(store: &Arc<dyn Store>, actors: &ActorGroup) -> Self {
        let (jobs, inbox) = mpsc::channel(WAITING_MAX);
        let (store, inbox) = (store.clone(), Arc::new(Mutex::new(inbox)));
        supervise(actors, "request lookup", move || run(store.clone(), inbox.clone()));
        Self { jobs }
    }

    /// The transaction of a request, if the store has one.
    ///
    /// # Errors
    /// The store can't be read.
    pub(crate) async fn find(
        &self,
        submitter: Submitter,
        request_id: RequestId,
    ) -> Result<Option<KnownRequest>, StoreError> {
        let stopped = || StoreError::Unavailable("the request lookup has stopped".into());
        let (reply, found) = oneshot::channel();
        let job = RequestJob { request: (submitter, request_id), reply };
        self.jobs.send(job).await.map_err(|_| stopped())?;
        found.await.map_err(|_| stopped())?
    }
}

/// Reads once more where a connection broke: the pool may have kept one that the server had closed. A
/// read that took long is not repeated, so that callers of a silent store are answered in time.
async fn read_again_once<T, F>(read: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let began = Instant::now();
    match read().await {
        Err(StoreError::Unavailable(_)) if began.elapsed() < REREAD_WITHIN => read().await,
        done => done,
    }
}

async fn run(store: Arc<dyn Store>, inbox: Arc<Mutex<mpsc::Receiver<RequestJob>>>) {
    let mut inbox = inbox.lock().await;
    let mut jobs = Vec::new();
    while inbox.recv_many(&mut jobs, READ_MAX).await > 0 {
        // Nobody waits for an answer that the caller has given up.
        jobs.retain(|job| !job.reply.is_closed());
        let (requests, replies): (Vec<_>, Vec<_>) =
            jobs.drain(..).map(|job| (job.request, job.reply)).unzip();
        if requests.is_empty() {
            continue;
        }
        match read_again_once(|| store.known_requests(&requests)).await {
            Ok(found) => {
                for (reply, known) in replies.into_iter().zip(found) {
                    let _ = reply.send(Ok(known));
                }
            }
            Err(why) => {
                for reply in replies {
                    let _ = reply.send(Err(why.clone()));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Reads whose answers were given before, each after a time; how many were asked for.
    async fn read(
        answers: &[(Duration, Result<u8, StoreError>)],
    ) -> (Result<u8, StoreError>, usize) {
        let left = RefCell::new(answers.iter().cloned());
        let read = || {
            let next = left.borrow_mut().next();
            let (after, answer) = next.expect("no further read");
            async move {
                tokio::time::sleep(after).await;
                answer
            }
        };
        let answer = read_again_once(read).await;
        (answer, answers.len() - left.borrow().len())
    }

    fn broken() -> Result<u8, StoreError> {
        Err(StoreError::Unavailable("connection closed".into()))
    }

    #[tokio::test(start_paused = true)]
    async fn read_over_a_broken_connection_is_repeated_once() {
        let at_once = Duration::ZERO;
        assert_eq!(read(&[(at_once, Ok(1))]).await, (Ok(1), 1));
        assert_eq!(read(&[(at_once, broken()), (at_once, Ok(1))]).await, (Ok(1), 2));
        let twice = [(at_once, broken()), (at_once, broken()), (at_once, Ok(1))];
        assert_eq!(read(&twice).await, (broken(), 2), "not a third time");
    }

    #[tokio::test(start_paused = true)]
    async fn read_that_took_long_or_failed_otherwise_is_not_repeated() {
        let at_once = Duration::ZERO;
        assert_eq!(read(&[(REREAD_WITHIN, broken()), (at_once, Ok(1))]).await, (broken(), 1));
        let defect = Err(StoreError::Defect("a row that can't be read".into()));
        assert_eq!(read(&[(at_once, defect.clone()), (at_once, Ok(1))]).await, (defect, 1));
    }
}
