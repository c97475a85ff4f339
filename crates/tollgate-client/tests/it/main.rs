//! The client against nodes that say what a test wants them to.

#![allow(clippy::unwrap_used, reason = "a failed set-up is a failed test")]

mod straight;
