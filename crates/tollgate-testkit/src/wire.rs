//! A wire between a store and its server that can be cut at the worst moment.

mod snare;
mod talk;

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio_postgres::config::Host;

use snare::{Catch, Side, Snare};
use talk::Talk;

pub use snare::HeldStatement;

/// What is read at once.
const PIECE: usize = 16 * 1024;
/// What a server says when a transaction is over: ready, and idle.
const TRANSACTION_OVER: &[u8] = b"Z\0\0\0\x05I";

/// Passes bytes on, both ways, until it is told otherwise.
pub struct Wire {
    url: String,
    state: Arc<watch::Sender<State>>,
    snare: Arc<Snare>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    mood: Mood,
    /// How often it was cut: what was open before the last time is over, mended or not.
    cuts: u64,
    /// How often it went dark: what was open then, or came meanwhile, stays silent, mended or not.
    nights: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Fine,
    /// Bytes wait on the way, in both directions.
    Held,
    /// What the server says is swallowed.
    Deaf,
    /// All is swallowed, both ways, and neither end knows.
    Dark,
    /// Nothing passes any more, and both ends know.
    Cut,
}

impl Wire {
    /// A wire to the server of this URL.
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
        let state = Arc::new(watch::Sender::new(State { mood: Mood::Fine, cuts: 0, nights: 0 }));
        let snare = Arc::new(Snare::default());
        tokio::spawn(serve(listener, server, state.clone(), snare.clone()));
        Self { url: format!("{scheme}://{user}@{here}/{path}"), state, snare }
    }

    /// The database's URL through this wire.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on the server hears everything, and nobody hears the server.
    pub fn go_deaf(&self) {
        self.state.send_modify(|state| state.mood = Mood::Deaf);
    }

    /// From now on nothing passes either way, and nobody is told: connections stay open, new ones
    /// are taken in silence. Those of that time stay silent after [`Self::mend`], too.
    pub fn go_dark(&self) {
        self.state.send_modify(|state| {
            state.mood = Mood::Dark;
            state.nights += 1;
        });
    }

    /// From now on bytes wait on the way, until it is mended; no connection ends for it.
    pub fn hold(&self) {
        self.state.send_modify(|state| state.mood = Mood::Held);
    }

    /// Ends every connection.
    pub fn cut(&self) {
        self.state.send_modify(|state| {
            state.mood = Mood::Cut;
            state.cuts += 1;
        });
    }

    /// New connections pass again, and what was held goes on.
    pub fn mend(&self) {
        self.state.send_modify(|state| state.mood = Mood::Fine);
    }

    /// Ends each of the next `times` connections whose client has said all these words (parts of
    /// statements) in one transaction and in this order, before the last of them is passed on.
    pub fn cut_before(&self, words: &[&str], times: usize) {
        self.snare.lay(Side::Before, words, times);
    }

    /// The same, once the server has ended the transaction. Nobody hears its answer to the last of
    /// these words, or to what comes after it.
    pub fn cut_after(&self, words: &[&str], times: usize) {
        self.snare.lay(Side::After, words, times);
    }

    /// Stops the next connection whose client has said all these words (parts of statements) in
    /// one transaction and in this order, before the last of them is passed on, until it is
    /// released. Other connections and other transactions pass.
    pub fn hold_before(&self, words: &[&str]) -> HeldStatement {
        self.snare.lay_hold(words)
    }

    /// How many connections were ended for their words.
    pub fn caught(&self) -> usize {
        self.snare.sprung()
    }
}

async fn serve(
    listener: TcpListener,
    server: (String, u16),
    state: Arc<watch::Sender<State>>,
    snare: Arc<Snare>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let (server, snare) = ((server.0.clone(), server.1), snare.clone());
        let state = state.subscribe();
        tokio::spawn(async move {
            if state.borrow().mood == Mood::Dark {
                return swallow(client).await;
            }
            if let Ok(server) = TcpStream::connect(server).await {
                join(client, server, state, &snare).await;
            }
        });
    }
}

/// Listens until the client has gone, and says nothing.
async fn swallow(mut client: TcpStream) {
    let mut bytes = vec![0; PIECE];
    while let Ok(1..) = client.read(&mut bytes).await {}
}

/// Ends, and closes both ends with it, when either closes or the wire is cut.
async fn join(
    client: TcpStream,
    server: TcpStream,
    mut state: watch::Receiver<State>,
    snare: &Snare,
) {
    let State { cuts, nights, .. } = *state.borrow();
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let now = state.clone();
    let is_silent = || now.borrow().nights != nights;
    let is_cut = || now.borrow().cuts != cuts;
    let is_deaf = || is_silent() || now.borrow().mood != Mood::Fine;
    // The client has said words whose answer nobody may hear.
    let last_words = Notify::new();
    let there =
        pass_on(from_client, to_server, state.clone(), snare, &last_words, is_silent, is_cut);
    let back = pass_back(from_server, to_client, state.clone(), &last_words, is_silent, is_deaf);
    tokio::select! {
        () = there => {}
        () = back => {}
        _ = state.wait_for(|state| state.mood == Mood::Cut || state.cuts != cuts) => {}
    }
}

/// What the client says, until it has gone or must not go on.
async fn pass_on(
    mut client: OwnedReadHalf,
    mut server: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    snare: &Snare,
    last_words: &Notify,
    is_silent: impl Fn() -> bool,
    is_cut: impl Fn() -> bool,
) {
    let (mut talk, mut transaction, mut caught) = (Talk::default(), Vec::new(), None);
    let mut bytes = vec![0; PIECE];
    while let Ok(count @ 1..) = client.read(&mut bytes).await {
        let_go(&mut state).await;
        if is_silent() {
            continue;
        }
        talk.hear(&bytes[..count]);
        let mut whole = Vec::new();
        while let Some(message) = talk.next().filter(|_| caught != Some(Side::Before)) {
            if caught.is_none() {
                let said = note(&mut transaction, message.sql);
                match said.and_then(|said| snare.springs(&said)) {
                    Some(Catch::Cut(side)) => caught = Some(side),
                    Some(Catch::Hold(stop)) => {
                        stop.wait().await;
                        // Cut while it was held: it is not passed on.
                        if is_cut() {
                            return;
                        }
                    }
                    None => {}
                }
            }
            if caught != Some(Side::Before) {
                whole.extend(message.bytes);
            }
        }
        if caught == Some(Side::After) {
            last_words.notify_one();
        }
        // What was caught after its words is ended by the other direction, or by its client.
        if server.write_all(&whole).await.is_err() || caught == Some(Side::Before) {
            break;
        }
    }
    if is_silent() {
        // Nobody is told that it has gone.
        std::future::pending().await
    }
}

/// Notes a statement; returns those of its transaction so far, unless it is none.
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

/// What the server says, until it has gone or has answered the client's last words.
async fn pass_back(
    mut server: OwnedReadHalf,
    mut client: OwnedWriteHalf,
    mut state: watch::Receiver<State>,
    last_words: &Notify,
    is_silent: impl Fn() -> bool,
    is_deaf: impl Fn() -> bool,
) {
    let (mut bytes, mut last_answers) = (vec![0; PIECE], None::<Vec<u8>>);
    loop {
        let count = tokio::select! {
            biased;
            () = last_words.notified() => {
                last_answers.get_or_insert_default();
                continue;
            }
            read = server.read(&mut bytes) => match read {
                Ok(count @ 1..) => count,
                Ok(_) | Err(_) => break,
            },
        };
        let_go(&mut state).await;
        if let Some(answers) = &mut last_answers {
            answers.extend_from_slice(&bytes[..count]);
            if answers.windows(TRANSACTION_OVER.len()).any(|part| part == TRANSACTION_OVER) {
                return;
            }
        } else if !is_deaf() && client.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
    if is_silent() {
        std::future::pending().await
    }
}

/// Waits while bytes are held.
async fn let_go(state: &mut watch::Receiver<State>) {
    // Without a wire there is nobody left to hold them.
    let _ = state.wait_for(|state| state.mood != Mood::Held).await;
}
