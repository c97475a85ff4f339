//! A running server.
//!
//! A thread of its own starts it and waits for its end. The server dies with the thread that started it, so
//! that must not be one that a runtime ends when it is idle.

use std::process::Stdio;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rustix::process::{Pid, Signal, kill_process};

use super::Settings;
use super::directory::ServerDirectory;
use super::programs::Programs;

/// The detail of a server's log (WAL).
#[derive(Clone, Copy, Default)]
pub(super) enum Log {
    /// Enough for the server itself.
    #[default]
    Minimal,
    /// Enough for a standby.
    Streamed,
}

/// A server's process; ended when it is dropped.
pub(super) struct ServerProcess {
    pid: Pid,
    waiter: Option<JoinHandle<()>>,
}

impl ServerProcess {
    /// Starts the server in the foreground; it may not answer yet.
    pub(super) fn start(
        programs: &Programs,
        directory: &ServerDirectory,
        port: u16,
        settings: &Settings,
    ) -> Self {
        let (wal_level, senders) = match settings.log {
            Log::Minimal => ("wal_level=minimal", "max_wal_senders=0"),
            Log::Streamed => ("wal_level=replica", "max_wal_senders=4"),
        };
        let mut command = programs.command("postgres");
        command.arg("-D").arg(directory.data());
        for setting in [
            &format!("port={port}"),
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=100",
            "shared_buffers=32MB",
            // What makes commits durable stays on: that is what is tested.
            "fsync=on",
            "synchronous_commit=on",
            wal_level,
            senders,
            // In the data directory, so that it goes away with it.
            "dynamic_shared_memory_type=mmap",
        ] {
            command.args(["-c", setting]);
        }
        for setting in &settings.further {
            command.args(["-c", setting]);
        }
        command.stdin(Stdio::null()).stdout(directory.log_file()).stderr(directory.log_file());
        let (started, pid) = mpsc::channel();
        let waiter = thread::spawn(move || {
            let mut child = command.spawn().expect("PostgreSQL can be started");
            started.send(child.id()).unwrap();
            child.wait().unwrap();
        });
        let pid = i32::try_from(pid.recv().unwrap()).unwrap();
        Self { pid: Pid::from_raw(pid).unwrap(), waiter: Some(waiter) }
    }

    pub(super) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    pub(super) fn has_ended(&self) -> bool {
        self.waiter.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends it at once (SIGQUIT is what `pg_ctl -m immediate` sends) and waits for that.
    pub(super) fn end(mut self) {
        self.stop(Signal::QUIT);
    }

    /// Has it end its sessions and write down what it has (SIGINT), and waits for that.
    pub(super) fn shut_down(mut self) {
        self.stop(Signal::INT);
    }

    fn stop(&mut self, how: Signal) {
        if let Some(waiter) = self.waiter.take() {
            // Not yet waited for, so the number is still this process's; it may have ended.
            if !waiter.is_finished() {
                let _ = kill_process(self.pid, how);
            }
            let _ = waiter.join();
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.stop(Signal::QUIT);
    }
}
