//! What SQLite says, in the words of the port: by what the caller should do about it.

use rusqlite::ErrorCode;
use tollgate_model::ids::InvalidId;
use tollgate_model::port::StoreError;

/// Why a statement or a decoding failed, while the difference still matters: a constraint that
/// refuses one section of a batch is no reason to fail the others.
#[derive(Debug)]
pub(crate) enum Fault {
    /// SQLite, or a value that is not of the column's type.
    Sql(rusqlite::Error),
    /// Already in the caller's words.
    Store(StoreError),
}

impl Fault {
    /// Why a section can't be written although the database works: a constraint, by its name or
    /// its columns, or a row that makes no sense. Its neighbours can still be written.
    pub(crate) fn refusal(&self) -> Option<String> {
        match self {
            Self::Sql(error) => match code(error) {
                Some(
                    ErrorCode::ConstraintViolation | ErrorCode::TooBig | ErrorCode::TypeMismatch,
                )
                | None => Some(error.to_string()),
                Some(_) => None,
            },
            Self::Store(StoreError::Defect(problem)) => Some(problem.clone()),
            Self::Store(StoreError::Invalid(invalid)) => Some(invalid.to_string()),
            Self::Store(_) => None,
        }
    }

    /// A value from a caller that no column can hold.
    pub(crate) fn invalid(field: &'static str, problem: String) -> Self {
        Self::Store(StoreError::Invalid(InvalidId { field, problem }))
    }

    /// Something that this program can't have written, or should not have done.
    pub(crate) fn defect(problem: impl Into<String>) -> Self {
        Self::Store(StoreError::Defect(problem.into()))
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Ids are only made from rows here; callers' ids were checked when they were made.
impl From<InvalidId> for Fault {
    fn from(error: InvalidId) -> Self {
        Self::defect(format!("stored row: {error}"))
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Sql(error) => before_commit(&error),
            Fault::Store(error) => error,
        }
    }
}

/// An error before COMMIT was sent: nothing was written.
pub(crate) fn before_commit(error: &rusqlite::Error) -> StoreError {
    match code(error) {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::SystemIoFailure
            | ErrorCode::DiskFull
            | ErrorCode::CannotOpen
            | ErrorCode::ReadOnly
            | ErrorCode::OutOfMemory
            | ErrorCode::PermissionDenied
            | ErrorCode::OperationInterrupted
            | ErrorCode::FileLockingProtocolFailed,
        ) => StoreError::Unavailable(error.to_string()),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::Unsafe(error.to_string())
        }
        _ => StoreError::Defect(error.to_string()),
    }
}

/// An error as the answer to COMMIT. Only "busy" says that nothing was written; after anything
/// else the log may hold a commit that a recovery finds.
pub(crate) fn at_commit(error: &rusqlite::Error) -> StoreError {
    if is_busy(error) {
        StoreError::Unavailable(error.to_string())
    } else {
        StoreError::CommitUnknown(error.to_string())
    }
}

/// Somebody else has the lock.
pub(crate) fn is_busy(error: &rusqlite::Error) -> bool {
    matches!(code(error), Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked))
}

fn code(error: &rusqlite::Error) -> Option<ErrorCode> {
    error.sqlite_error_code()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn sqlite(code: std::ffi::c_int) -> rusqlite::Error {
        rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)
    }

    #[test]
    fn a_busy_database_wrote_nothing_and_a_broken_disk_at_commit_is_unknown() {
        let busy = sqlite(ffi::SQLITE_BUSY_SNAPSHOT);
        let broken = sqlite(ffi::SQLITE_IOERR_FSYNC);
        assert!(matches!(before_commit(&busy), StoreError::Unavailable(_)));
        assert!(matches!(at_commit(&busy), StoreError::Unavailable(_)));
        assert!(matches!(before_commit(&broken), StoreError::Unavailable(_)));
        assert!(matches!(at_commit(&broken), StoreError::CommitUnknown(_)));
    }

    #[test]
    fn a_damaged_file_is_not_to_be_worked_on() {
        assert!(matches!(before_commit(&sqlite(ffi::SQLITE_CORRUPT)), StoreError::Unsafe(_)));
        assert!(matches!(before_commit(&sqlite(ffi::SQLITE_NOTADB)), StoreError::Unsafe(_)));
    }
}
