//! Runs a caller's own send with a nonce that Tollgate reserved for it.
//!
//! For programs that sign and send by themselves, with an account that Tollgate also works for.
//! [`Client::with_nonce`] reserves a nonce, runs a closure with it, and takes care of what becomes of
//! the nonce, whatever happens:
//!
//! - before anything is signed, a closure that fails gives the nonce back at once, and a program that
//!   dies lets it expire: somebody else gets it;
//! - [`Slot::sign`] signs *and tells Tollgate the hash* before it hands the bytes out, so from the
//!   moment at which they could be sent nobody else gets the nonce, even if the program dies.
//!
//! `examples/transfer.rs` shows it; `docs/reservations.md` tells the whole story.
//!
//! Never sends anything itself, and never decides a fee: that is the caller's business here.

mod client;
mod error;
mod reservation;
mod slot;
mod tx;

pub use client::Client;
pub use error::{ClientError, SlotError, WithNonceError};
pub use reservation::Reservation;
pub use slot::{Slot, SlotSigner};
pub use tollgate_client::{BadUrl, Patience};
pub use tx::Tx;
