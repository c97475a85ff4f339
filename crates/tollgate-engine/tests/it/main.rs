//! The engine from intent to finality: on the SQLite store and a small fake chain, where every
//! moment can be chosen; and on real stores over real chains (`pipeline`).

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod counts;
mod deaths;
mod govern;
mod life;
mod limits;
mod modes;
mod outages;
mod ownership;
mod pipeline;
mod repeats;
mod resends;
mod reservations;
mod rig;
mod screening;
mod signed;
mod signing;
mod sizes;
mod takeover;
mod tracking;
mod unwritable;
