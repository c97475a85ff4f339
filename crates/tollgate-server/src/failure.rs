//! Errors as people read them.

use std::io::ErrorKind;

/// An error that ends a command.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// The reason of an I/O error, without the number of the system.
pub(crate) fn io_reason(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "there is no such file or folder".to_owned(),
        ErrorKind::PermissionDenied => "may not be read or written".to_owned(),
        ErrorKind::IsADirectory => "is a folder, not a file".to_owned(),
        ErrorKind::NotADirectory => "is a file, not a folder".to_owned(),
        ErrorKind::InvalidData => "is not UTF-8 text".to_owned(),
        _ => error.to_string(),
    }
}
