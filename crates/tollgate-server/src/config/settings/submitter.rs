//! Settings of submitters: their keys, nonces, leases and reservations.

use std::path::PathBuf;
use std::time::Duration;

use tollgate_model::nonce::{Mode, StrictAdvance};
use tollgate_model::{Address, Nonce};

use crate::config::table::settings;
use crate::config::types::Secret;
use crate::config::value::Sourced;

settings! {
    /// Private keys.
    struct KeySettings {
        /// Files with one private key in hex per line, each a submitter. Blank lines and lines that
        /// start with `#` are ignored.
        private_key_files: Vec<Sourced<PathBuf>>, flag = "private-key-file",
            variable = "TOLLGATE_PRIVATE_KEYS_FILE", example = "[\"/run/secrets/tollgate_keys\"]";
        /// Private keys in hex. Prefer a variable or `keys.private_key_files` to the configuration
        /// file.
        private_keys: Vec<Sourced<Secret>>, variable = "TOLLGATE_PRIVATE_KEYS", example = "[\"0x…\"]";
        /// Folder of encrypted keys (keystore JSON). Decrypting takes about a second per key.
        keystore: Option<Sourced<PathBuf>>, flag = "keystore", example = "\"keystore\"";
        /// Password of all keys in `keys.keystore`.
        keystore_password: Option<Secret>, variable = "TOLLGATE_KEYSTORE_PASSWORD",
            has_file = true, file_flag = "keystore-password-file", example = "\"…\"";
        /// Folder of keys that `file:NAME` refers to, for accounts that are opened while the node runs. One
        /// key in hex per file.
        folder: Option<PathBuf>, example = "\"/etc/tollgate/keys\"";
        /// Mnemonic (BIP-39, English) whose accounts `hd:N` refers to, for accounts that are opened while the
        /// node runs.
        mnemonic: Option<Secret>, variable = "TOLLGATE_MNEMONIC", has_file = true, example = "\"…\"";
    }

    /// Submitters.
    struct SubmitterSettings {
        /// Mode of new accounts: many nonces in flight at once (`pipelined`), or one at a time
        /// (`strict`). An account keeps the mode that it was first registered with; `tollgate
        /// submitter mode` changes it.
        mode: Mode = "pipelined", flag = "mode";
        /// Accounts that are registered as strict, regardless of `submitter.mode`.
        strict: Vec<Address>, example = "[\"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\"]";
        /// Slots of a pipelined submitter that may be open and not mined at once. Further
        /// transactions wait in the queue.
        window: u32 = "64", range = (1, 100_000), flag = "window";
        /// Slots of a pipelined submitter that may be open and not final at once, mined ones
        /// included. Further transactions wait in the queue.
        unfinal_max: u32 = "10000", range = (1, 1_000_000);
        /// Transactions that may wait in the queue of one submitter. Above it creates are refused
        /// with 429.
        max_queued: usize = "10000", range = (1, 1_000_000);
        /// Accounts without a key here whose transactions arrive signed (`rawTx`). Accounts with a
        /// key accept signed transactions too.
        presigned: Vec<Address>, example = "[\"0x70997970C51812dc3A010C7d01b50e0d17dc79C8\"]";
    }

    /// Nonces.
    struct NonceSettings {
        /// The nonce that the cursor of a newly registered submitter starts at.
        start_from: Nonce = "0", flag = "nonce-start-from";
        /// The longest use of a nonce count that was read from the chain; then it is read again.
        state_timeout: Duration = "5m", min = "1ms";
    }

    /// Strict submitters.
    struct StrictSettings {
        /// When a strict submitter opens its next slot: after the previous transaction is final, or
        /// after it is mined.
        advance: StrictAdvance = "final", flag = "strict-advance";
    }

    /// Leases.
    struct LeaseSettings {
        /// Length of a lease after it was acquired or renewed. Only its owner may write for a
        /// submitter.
        duration: Duration = "10s", min = "100ms", flag = "lease-duration";
        /// Interval at which the owner renews a lease, and a node writes its heartbeat. Must be
        /// below half of `lease.duration`, so that a lease survives one lost renewal.
        renew_interval: Duration = "3s", min = "10ms", flag = "lease-renew-interval";
        /// Wait of other nodes after a lease has expired before they take over. Must be below
        /// `lease.duration`; if it is not set, it is at most half of that.
        clock_skew_allowance: Duration = "1s";
        /// Time for which a node keeps the lease of a submitter without work.
        idle_timeout: Duration = "1m", min = "100ms";
    }

    /// Writes.
    struct WriterSettings {
        /// The most operations in one database transaction. Further operations go into the next one.
        batch_max: usize = "500", range = (1, 5_000);
    }

    /// Nonces reserved for callers that send by themselves.
    struct ReservationSettings {
        /// Let callers reserve nonces and send by themselves.
        enabled: bool = "false";
        /// Time for which a caller may hold a nonce if it names no time.
        hold: Duration = "1m", min = "100ms", needs = "reservations.enabled";
        /// The longest time that a caller may ask for. Must not be below `reservations.hold`.
        hold_max: Duration = "1h", min = "100ms", needs = "reservations.enabled";
        /// Nonces of one submitter that may be reserved at once. Above it reservations are refused.
        max_outstanding: u32 = "64", range = (1, 100_000), needs = "reservations.enabled";
    }
}
