//! The limit on open files: raised as far as the system allows, and kept in mind.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_server::ConnectionLimits;
use tracing::warn;

/// Files that are not connections of callers: the database, endpoints of the chain, other nodes.
const OTHER_FILES: u64 = 512;

/// Raises the soft limit on open files to the hard one, and lowers the number of connections if
/// they would not fit below it.
pub(super) fn within_file_limit(limits: ConnectionLimits) -> ConnectionLimits {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            warn!(%error, "the limit on open files stays as it is");
            current
        }
    };
    let fitting = fitting(raised);
    if limits.max <= fitting {
        return limits;
    }
    warn!(
        open_files_max = raised,
        wanted = limits.max,
        max_connections = fitting,
        "http.max_connections is lowered to what the limit on open files allows"
    );
    ConnectionLimits { max: fitting, ..limits }
}

/// Connections for which there are files. `None` is no limit.
fn fitting(open_files_max: Option<u64>) -> usize {
    let Some(files) = open_files_max else { return usize::MAX };
    let left = files.saturating_sub(OTHER_FILES).max(files / 2);
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    left.saturating_sub(ConnectionLimits::RESERVE).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_room_for_other_files() {
        assert_eq!(fitting(None), usize::MAX);
        assert_eq!(fitting(Some(1_048_576)), 1_048_032);
        assert_eq!(fitting(Some(1_024)), 480);
        assert_eq!(fitting(Some(256)), 96);
        assert_eq!(fitting(Some(0)), 1);
    }
}
