//! The HTTP interface over the real engine and store, and a fake chain; and the real binary.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod bad_input;
mod bench;
mod calls;
mod demo;
mod program;
mod site;
mod start;
