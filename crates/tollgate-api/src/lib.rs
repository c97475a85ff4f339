//! The wire of Tollgate's HTTP API: requests, answers, error codes, formats, headers and paths.

mod time;

pub use time::{format_time, parse_time};
