//! The HTTP interface over the real engine and store, and a fake chain; and the real binary.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod accounts;
mod actions;
mod backup;
mod bad_actions;
mod bad_input;
mod bench;
mod browsers;
mod calls;
mod chains;
mod chaos;
mod cli;
mod cli_https;
mod cluster;
mod connections;
mod contract;
mod demo;
mod dev;
mod dev_site;
mod document;
mod kill;
mod nonces;
mod operate;
mod packaging;
mod planted_secrets;
mod private;
mod program;
mod readme;
mod results;
mod retention;
mod secrets;
mod service_manager;
mod serving;
mod set_code;
mod signed;
mod site;
mod smoke;
mod start;
mod terms;
mod tls;
mod trouble;
mod views;
mod waits;
