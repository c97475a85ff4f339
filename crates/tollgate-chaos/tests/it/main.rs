//! The program as a whole, without a node: how it ends when it is told to.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod signals;
