//! Sinks against local servers that check what the real receivers check, delivery over a real store, and the rules
//! for Prometheus.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod delivery;
mod formats;
mod prometheus;
mod receiver;
mod secrets;
mod support;
