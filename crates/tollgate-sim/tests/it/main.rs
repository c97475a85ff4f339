//! Worlds from seeds: none breaks a promise, each is one run, and planted mistakes are noticed.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod planted;
mod repeats;
mod seeds;
