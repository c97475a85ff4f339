//! The hook against a real HTTP server that does as it is told.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod answers;
mod documented;
mod questions;
mod receiver;
mod support;
mod troubles;
mod webhooks;
