//! A wire between a store and its server that can be cut at the worst moment.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_postgres::config::Host;

/// Passes bytes on, both ways, until it is told otherwise.
pub struct Wire {
    url: String,
    state: Arc<watch::Sender<State>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct State {
    mood: Mood,
    /// How often it was cut: what was open before the last time is over, mended or not.
    cuts: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mood {
    Fine,
    /// Bytes wait on the way, in both directions.
    Held,
    /// What the server says is swallowed.
    Deaf,
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
        let state = Arc::new(watch::Sender::new(State { mood: Mood::Fine, cuts: 0 }));
        tokio::spawn(serve(listener, server, state.clone()));
        Self { url: format!("{scheme}://{user}@{here}/{path}"), state }
    }

    /// The database's URL through this wire.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// From now on the server hears everything, and nobody hears the server.
    pub fn go_deaf(&self) {
        self.state.send_modify(|state| state.mood = Mood::Deaf);
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
}

async fn serve(listener: TcpListener, server: (String, u16), state: Arc<watch::Sender<State>>) {
    while let Ok((client, _)) = listener.accept().await {
        let server = (server.0.clone(), server.1);
        let state = state.subscribe();
        tokio::spawn(async move {
            if let Ok(server) = TcpStream::connect(server).await {
                join(client, server, state).await;
            }
        });
    }
}

/// Ends, and closes both ends with it, when either closes or the wire is cut.
async fn join(client: TcpStream, server: TcpStream, mut state: watch::Receiver<State>) {
    let cuts = state.borrow().cuts;
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let (mut hears, mut speaks) = (state.clone(), state.clone());
    let there = async {
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
            let_go(&mut speaks).await;
            if to_server.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
    };
    let back = async {
        let mut bytes = vec![0; 16 * 1024];
        while let Ok(count @ 1..) = from_server.read(&mut bytes).await {
            let_go(&mut hears).await;
            let swallowed = hears.borrow().mood != Mood::Fine;
            if !swallowed && to_client.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
        _ = state.wait_for(|state| state.mood == Mood::Cut || state.cuts != cuts) => {}
    }
}

/// Waits while bytes are held.
async fn let_go(state: &mut watch::Receiver<State>) {
    // Without a wire there is nobody left to hold them.
    let _ = state.wait_for(|state| state.mood != Mood::Held).await;
}
