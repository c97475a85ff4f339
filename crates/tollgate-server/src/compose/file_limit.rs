//! The limit on open files: raised as far as the system allows. Connections are limited to fit.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tollgate_server::ConnectionLimits;
use tracing::warn;

/// Files reserved for the database, the endpoints of the chain and other nodes.
const OTHER_FILES: u64 = 512;

/// Raises the soft limit on open files to the hard one, and lowers the number of connections if
/// they would exceed it.
pub(super) fn fit_connections(limits: ConnectionLimits) -> ConnectionLimits {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = match setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        Ok(()) => maximum,
        Err(error) => {
            warn!(%error, "the limit on open files was not raised");
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

/// The most connections for a limit on open files. `None`: there is no limit.
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
    fn connection_limit_leaves_room_for_other_files() {
        assert_eq!(fitting(None), usize::MAX);
        assert_eq!(fitting(Some(1_048_576)), 1_048_032);
        assert_eq!(fitting(Some(1_024)), 480);
        assert_eq!(fitting(Some(256)), 96);
        assert_eq!(fitting(Some(0)), 1);
    }
}
