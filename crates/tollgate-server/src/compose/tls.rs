//! The certificates of a node: of its listeners, and for connections to other nodes. Read again when their files
//! change.

use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tollgate_server::{PeerTls, ServerTls, log_reload};
use tracing::{info, warn};

use crate::config::Settings;
use crate::failure::Failure;

/// The interval between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// The certificates of a node, as far as there are any.
#[derive(Clone, Default)]
pub(crate) struct NodeTls {
    /// Of the API's listener.
    pub(crate) api: Option<ServerTls>,
    /// Of the operators' listener.
    pub(crate) operators: Option<ServerTls>,
    /// For connections to other nodes.
    pub(crate) peers: Option<PeerTls>,
}

/// Keeps SIGHUP from ending the process, from here to its end: a service manager sends it to ask for a reload, also
/// before the node listens and on a node without TLS. Each is logged.
pub(crate) fn survive_hangups() {
    let mut hangups = match signal(SignalKind::hangup()) {
        Ok(hangups) => hangups,
        Err(error) => return warn!(%error, "SIGHUP would end the process"),
    };
    tokio::spawn(async move {
        while hangups.recv().await.is_some() {
            info!("SIGHUP: changed TLS files are read again; other settings need a restart");
        }
    });
}

impl NodeTls {
    pub(super) fn open(settings: &Settings) -> Result<Self, Failure> {
        let api = settings.tls.files().map(ServerTls::open).transpose()?;
        let operators = settings.operators.files(&settings.tls);
        let operators = operators.filter(|_| settings.operators.listen.is_some());
        let operators = operators.map(ServerTls::open).transpose()?;
        let files = settings.cluster.files();
        let has_files = files.paths().next().is_some();
        let peers = has_files.then(|| PeerTls::open(files)).transpose()?;
        Ok(Self { api, operators, peers })
    }

    /// Looks at the files every few seconds, and at SIGHUP. Never ends.
    pub(crate) async fn keep_reloading(self) {
        if self.api.is_none() && self.operators.is_none() && self.peers.is_none() {
            return std::future::pending().await;
        }
        let mut ticks = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut hangup = match signal(SignalKind::hangup()) {
            Ok(hangup) => Some(hangup),
            Err(error) => {
                warn!(%error, "SIGHUP can't be waited for");
                None
            }
        };
        loop {
            let told = async {
                match &mut hangup {
                    Some(hangup) => hangup.recv().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = ticks.tick() => {}
                _ = told => {}
            }
            let all = self.clone();
            // A disk may be slow; requests don't wait for it.
            let _ = tokio::task::spawn_blocking(move || all.reload()).await;
        }
    }

    fn reload(&self) {
        for (what, tls) in [("tls", &self.api), ("operators", &self.operators)] {
            if let Some(tls) = tls {
                log_reload(what, tls.reload());
            }
        }
        if let Some(tls) = &self.peers {
            log_reload("cluster", tls.reload());
        }
    }
}
