//! Settings of the audit log.

use crate::config::table::settings;
use crate::config::types::Age;

settings! {
    /// The audit log, see [access](access.md).
    struct AuditSettings {
        /// Age from which entries of the audit log are deleted.
        keep: Age = "365d", min = "1h";
    }
}
