//! The facade against a real node over HTTP, on a dev chain.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod crashes;
mod example;
mod outcomes;
mod site;
