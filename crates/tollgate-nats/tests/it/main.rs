//! The publisher against a real `nats-server`.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod credentials;
mod publishing;
