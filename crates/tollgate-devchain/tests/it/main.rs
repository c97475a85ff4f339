//! The chain that can be broken: its rules, its reorgs, and every way it can fail.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod against_anvil;
mod base_fee;
mod blocks;
mod chain_faults;
mod dialects;
mod documented;
mod endpoint_faults;
mod mempool;
mod methods;
mod past;
mod planned_faults;
mod properties;
mod reorgs;
mod set_code;
mod support;
mod untruths;
mod views;
mod web_socket;
