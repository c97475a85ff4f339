//! The HTTP interface over the real engine and store, and a fake chain.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod bad_input;
mod bench;
mod calls;
mod contract;
mod dev;
mod document;
mod kill;
mod moody;
mod readme;
mod signed;
mod site;
mod views;
