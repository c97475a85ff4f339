//! Worlds from seeds: none breaks a promise, each is one run, and planted mistakes are noticed.

mod planted;
mod repeats;
mod seeds;
