//! Tells the service manager (systemd with `Type=notify`) that the node serves, stops, and is alive.
//!
//! The protocol is one datagram per message to the socket that `NOTIFY_SOCKET` names; without that variable
//! nothing is sent. A message that can't be sent is lost: a service manager must not stop a node from
//! serving.

use std::env;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};
use tracing::warn;

/// The connection to the service manager, if the process was started by one.
pub(crate) struct ServiceManager {
    socket: Option<UnixDatagram>,
}

impl ServiceManager {
    /// Reads `NOTIFY_SOCKET`: a path, or the name of an abstract socket after `@`.
    pub(crate) fn from_env() -> Self {
        let Some(name) = env::var_os("NOTIFY_SOCKET").filter(|name| !name.is_empty()) else {
            return Self { socket: None };
        };
        let connected = || {
            let address = match name.as_bytes().strip_prefix(b"@") {
                Some(name) => SocketAddr::from_abstract_name(name)?,
                None => SocketAddr::from_pathname(&name)?,
            };
            let socket = UnixDatagram::unbound()?;
            // A full queue must not stop the runtime.
            socket.set_nonblocking(true)?;
            socket.connect_addr(&address)?;
            Ok::<_, std::io::Error>(socket)
        };
        let socket = connected().inspect_err(|error| {
            warn!(%error, "NOTIFY_SOCKET is set, and the service manager can't be reached");
        });
        Self { socket: socket.ok() }
    }

    /// The node listens and takes requests.
    pub(crate) fn ready(&self, status: &str) {
        self.send(&format!("READY=1\nSTATUS={status}"));
    }

    /// The node has begun to stop.
    pub(crate) fn stopping(&self) {
        self.send("STOPPING=1\nSTATUS=draining");
    }

    /// Sends a sign of life at half of the interval that `WATCHDOG_USEC` gives, until the task is aborted.
    /// Each sign follows a task that the runtime has run meanwhile: a runtime whose threads are all blocked
    /// sends none. The database and the chain are not asked: a restart repairs neither.
    pub(crate) fn keep_alive(&self) -> Option<JoinHandle<()>> {
        let socket = self.socket.as_ref()?.try_clone().ok()?;
        let every = watchdog_interval(
            env::var("WATCHDOG_USEC").ok().as_deref(),
            env::var("WATCHDOG_PID").ok().as_deref(),
            std::process::id(),
        )?;
        let manager = Self { socket: Some(socket) };
        Some(tokio::spawn(async move {
            let mut ticks = interval(every / 2);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if tokio::spawn(std::future::ready(())).await.is_ok() {
                    manager.send("WATCHDOG=1");
                }
            }
        }))
    }

    fn send(&self, message: &str) {
        let Some(socket) = &self.socket else { return };
        if let Err(error) = socket.send(message.as_bytes()) {
            warn!(%error, error = message, "not sent to the service manager");
        }
    }
}

/// The interval within which the service manager wants signs of life from this process.
fn watchdog_interval(micros: Option<&str>, of: Option<&str>, own_id: u32) -> Option<Duration> {
    let micros: u64 = micros?.parse().ok().filter(|micros| *micros > 0)?;
    let is_own = of.is_none_or(|id| id.parse() == Ok(own_id));
    is_own.then(|| Duration::from_micros(micros))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn watchdog_of_another_process_or_without_an_interval_is_not_served() {
        let asked = |micros, of| watchdog_interval(micros, of, 7);
        assert_eq!(asked(Some("2000000"), None), Some(Duration::from_secs(2)));
        assert_eq!(asked(Some("2000000"), Some("7")), Some(Duration::from_secs(2)));
        for (micros, of) in
            [(None, None), (Some("0"), None), (Some("soon"), None), (Some("2000000"), Some("8"))]
        {
            assert_eq!(asked(micros, of), None, "{micros:?} {of:?}");
        }
    }
}
