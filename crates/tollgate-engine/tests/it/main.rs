//! The engine on the real SQLite store and a small fake chain: from intent to finality.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod blocks;
mod deaths;
mod life;
mod rig;
mod signed;
mod takeover;
