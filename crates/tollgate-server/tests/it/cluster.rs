//! Several nodes on one database: any of them takes any request.

mod access;
pub(crate) mod callers;
mod chains;
mod different_keys;
mod failover;
mod forwarding;
mod frozen;
mod node_signatures;
mod peer_answers;
mod pools;
mod pulse;
mod restarts;
mod seats;
pub(crate) mod stage;
mod straight;
mod stub_peer;
mod tls;
