//! A TCP proxy between a store and PostgreSQL that fails on demand: connections are cut, stalled or
//! lose their answers, at any time or at a chosen statement.

mod protocol;
mod statement_trigger;

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_postgres::config::Host;

use crate::pause_points::Paused;
use protocol::ClientMessages;
use statement_trigger::{Action, Side, StatementTrigger};

const CHUNK: usize = 16 * 1024;
/// The server's message at the end of a transaction: ready for query, idle.
const TRANSACTION_OVER: &[u8] = b"Z\0\0\0\x05I";

/// Forwards bytes in both directions unless a fault is set.
pub struct PgProxy {
    url: String,
    state: Arc<watch::Sender<State>>,
    trigger: Arc<StatementTrigger>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    mode: Mode,
    /// Number of cuts. Connections from before the last one are closed, even after a restore.
    cuts: u64,
    /// Number of black holes. Connections of that time stay silent, even after a restore.
    black_holes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Forwards,
    /// Bytes are delayed, in both directions.
    Stalled,
    /// Answers of the server are discarded.
    LosesAnswers,
    /// Everything is discarded, and connections stay open.
    BlackHole,
    /// Connections are closed.
    Cut,
}

impl PgProxy {
    pub async fn to(url: &str) -> Self {
        let config: tokio_postgres::Config = url.parse().unwrap();
        let Some(Host::Tcp(host)) = config.get_hosts().first() else {
            panic!("the server is not reached by TCP")
        };
        let server = (host.clone(), config.get_ports().first().copied().unwrap_or(5432));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let here = format!("127.0.0.1:{}", listener.local_addr().unwrap().port());
        let (scheme, rest) = url.split_once("://").unwrap();
        let (authority, path) = rest.split_once('/').unwrap();
        let user = authority.rsplit_once('@').map_or("", |(user, _)| user);
        let state =
            Arc::new(watch::Sender::new(State { mode: Mode::Forwards, cuts: 0, black_holes: 0 }));
        let trigger = Arc::new(StatementTrigger::default());
        tokio::spawn(serve(listener, server, state.clone(), trigger.clone()));
        // The proxy reads the statements, so they must not be encrypted.
        let and = if path.contains('?') { '&' } else { '?' };
        let url = format!("{scheme}://{user}@{here}/{path}{and}sslmode=disable");
        Self { url, state, trigger }
    }

    /// The database's URL through this proxy.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Forwards requests and discards answers.
    pub fn lose_answers(&self) {
        self.state.send_modify(|state| state.mode = Mode::LosesAnswers);
    }

    /// Discards everything. Connections stay open and new ones are accepted. Those of that time stay
    /// silent after [`Self::restore`], too.
    pub fn black_hole(&self) {
        self.state.send_modify(|state| {
            state.mode = Mode::BlackHole;
            state.black_holes += 1;
        });
    }

    /// Delays all bytes until [`Self::restore`]; connections stay open.
    pub fn stall(&self) {
        self.state.send_modify(|state| state.mode = Mode::Stalled);
    }

    /// Closes all connections and accepts none.
    pub fn cut(&self) {
        self.state.send_modify(|state| {
            state.mode = Mode::Cut;
            state.cuts += 1;
        });
    }

    /// Accepts connections again, and forwards what was stalled.
    pub fn restore(&self) {
        self.state.send_modify(|state| state.mode = Mode::Forwards);
    }

    /// Closes each of the next `times` connections whose client has sent all these parts of
    /// statements in one transaction and in this order, before the last of them is forwarded.
    pub fn cut_before(&self, statements: &[&str], times: usize) {
        self.trigger.arm_cut(Side::Before, statements, times);
    }

    /// The same, once the server has ended the transaction. The answers to the last of these
    /// statements and to later ones are discarded.
    pub fn cut_after(&self, statements: &[&str], times: usize) {
        self.trigger.arm_cut(Side::After, statements, times);
    }

    /// Pauses the next connection whose client has sent all these parts of statements in one
    /// transaction and in this order, before the last of them is forwarded.
    pub fn pause_before(&self, statements: &[&str]) -> Paused {
        self.trigger.arm_pause(statements)
    }

    /// The number of connections that were closed at a statement.
    pub fn statement_cuts(&self) -> usize {
        self.trigger.cuts_done()
    }
}

async fn serve(
    listener: TcpListener,
    server: (String, u16),
    state: Arc<watch::Sender<State>>,
    trigger: Arc<StatementTrigger>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let (server, trigger) = ((server.0.clone(), server.1), trigger.clone());
        let state = state.subscribe();
        tokio::spawn(async move {
            if state.borrow().mode == Mode::BlackHole {
                return discard(client).await;
            }
            if let Ok(server) = TcpStream::connect(server).await {
                join(client, server, state, &trigger).await;
            }
        });
    }
}

/// Reads until the client disconnects, without an answer.
async fn discard(mut client: TcpStream) {
    let mut bytes = vec![0; CHUNK];
    while let Ok(1..) = client.read(&mut bytes).await {}
}

/// Forwards until either end closes or the proxy is cut, then closes both.
async fn join(
    client: TcpStream,
    server: TcpStream,
    mut state: watch::Receiver<State>,
    trigger: &StatementTrigger,
) {
    let State { cuts, black_holes, .. } = *state.borrow();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let now = state.clone();
    let is_silent = || now.borrow().black_holes != black_holes;
    let is_cut = || now.borrow().cuts != cuts;
    let loses_answers = || is_silent() || now.borrow().mode != Mode::Forwards;
    // The client has sent the statement whose answer is to be discarded.
    let cut_after = Notify::new();
    let there = to_server_until_cut(
        from_client,
        to_server,
        state.clone(),
        trigger,
        &cut_after,
        is_silent,
        is_cut,
    );
    let back = to_client_until_cut(
        from_server,
        to_client,
        state.clone(),
        &cut_after,
        is_silent,
        loses_answers,
    );
    tokio::select! {
        () = there => {}
        () = back => {}
        _ = state.wait_for(|state| state.mode == Mode::Cut || state.cuts != cuts) => {}
    }
}

/// Forwards what the client sends, until it disconnects or a trigger cuts it.
async fn to_server_until_cut(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    trigger: &StatementTrigger,
    cut_after: &Notify,
    is_silent: impl Fn() -> bool,
    is_cut: impl Fn() -> bool,
) {
    let (mut messages, mut transaction, mut cut) = (ClientMessages::default(), Vec::new(), None);
    let mut bytes = vec![0; CHUNK];
    while let Ok(count @ 1..) = client.read(&mut bytes).await {
        while_stalled(&mut state).await;
        if is_silent() {
            continue;
        }
        messages.push(&bytes[..count]);
        let mut whole = Vec::new();
        while let Some(message) = messages.next().filter(|_| cut != Some(Side::Before)) {
            if cut.is_none() {
                let so_far = note(&mut transaction, message.sql);
                match so_far.and_then(|so_far| trigger.fire(&so_far)) {
                    Some(Action::Cut(side)) => cut = Some(side),
                    Some(Action::Pause(here)) => {
                        here.wait().await;
                        // Cut during the pause: the statement is not forwarded.
                        if is_cut() {
                            return;
                        }
                    }
                    None => {}
                }
            }
            if cut != Some(Side::Before) {
                whole.extend(message.bytes);
            }
        }
        if cut == Some(Side::After) {
            cut_after.notify_one();
        }
        // A cut after the statement is made by the other direction.
        if server.write_all(&whole).await.is_err() || cut == Some(Side::Before) {
            break;
        }
    }
    if is_silent() {
        // The server does not learn that the client has gone.
        std::future::pending().await
    }
}

/// Records a statement; returns all statements of its transaction so far.
fn note(transaction: &mut Vec<String>, sql: String) -> Option<Vec<String>> {
    if sql.is_empty() {
        return None;
    }
    if sql.starts_with("begin") {
        transaction.clear();
    }
    let begun = sql.starts_with("begin") || !transaction.is_empty();
    let ends = sql.starts_with("commit") || sql.starts_with("rollback");
    transaction.push(sql);
    let so_far = transaction.clone();
    if !begun || ends {
        transaction.clear();
    }
    Some(so_far)
}

/// Forwards what the server sends, until it disconnects or has answered the statement to cut after.
async fn to_client_until_cut(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    cut_after: &Notify,
    is_silent: impl Fn() -> bool,
    loses_answers: impl Fn() -> bool,
) {
    let (mut bytes, mut discarded) = (vec![0; CHUNK], None::<Vec<u8>>);
    loop {
        let count = tokio::select! {
            biased;
            () = cut_after.notified() => {
                discarded.get_or_insert_default();
                continue;
            }
            read = server.read(&mut bytes) => match read {
                Ok(count @ 1..) => count,
                Ok(_) | Err(_) => break,
            },
        };
        while_stalled(&mut state).await;
        if let Some(answers) = &mut discarded {
            answers.extend_from_slice(&bytes[..count]);
            if answers.windows(TRANSACTION_OVER.len()).any(|part| part == TRANSACTION_OVER) {
                return;
            }
        } else if !loses_answers() && client.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    if is_silent() {
        std::future::pending().await
    }
}

async fn while_stalled(state: &mut watch::Receiver<State>) {
    // An error means that the proxy was dropped.
    let _ = state.wait_for(|state| state.mode != Mode::Stalled).await;
}
