//! Several nodes on one database: any of them takes any request.

mod callers;
mod failover;
mod forwarding;
mod frozen;
mod restarts;
mod seats;
mod stage;
mod straight;
