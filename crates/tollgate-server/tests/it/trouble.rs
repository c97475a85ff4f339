//! Trouble with the database and with the chain, seen from outside: real nodes under load. Whoever
//! asks meanwhile is told when to come back, nothing that was accepted is lost or doubled, and work
//! goes on by itself.

mod cuts;
mod duo;
mod full;
mod outage;
mod rpc;
mod server;
