//! The unprivileged user that a server runs as: PostgreSQL refuses to run as root.

use holdup_host::Host;
use holdup_host::process::capabilities;
use holdup_model::Problem;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A user of this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunAs {
    pub name: String,
    /// Its user id.
    pub uid: u32,
    /// Its group id.
    pub gid: u32,
}

/// include/uapi/linux/capability.h
const CAP_CHOWN: u32 = 0;
const CAP_SETGID: u32 = 6;
const CAP_SETUID: u32 = 7;

/// In this order; the first that exists is taken.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

impl RunAs {
    /// Whom a server must run as: `None` means as this process does, because it is not root.
    ///
    /// # Errors
    /// For root without a user `postgres` or `nobody`, or without CAP_CHOWN, CAP_SETGID or CAP_SETUID.
    pub fn for_this_process(host: &Host) -> Result<Option<RunAs>, Problem> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let may_become_another =
            |held: u64| [CAP_CHOWN, CAP_SETGID, CAP_SETUID].iter().all(|cap| held & (1 << cap) != 0);
        if !capabilities(host).is_some_and(may_become_another) {
            let why = "PostgreSQL refuses to run as root, and this root may not become another user (CAP_CHOWN, CAP_SETGID, CAP_SETUID)";
            return Err(Problem::host("an unprivileged user for PostgreSQL", why)
                .hint("run holdup as an ordinary user, or give the container these capabilities"));
        }
        // Read here and not by getpwnam(3): a static glibc would have to load NSS modules for that.
        let passwd = host.read_text("/etc/passwd")?;
        CANDIDATES.iter().find_map(|name| find(&passwd, name)).map(Some).ok_or_else(|| {
            Problem::host(
                "an unprivileged user for PostgreSQL",
                format!("root was given, and /etc/passwd has neither {} nor {}", CANDIDATES[0], CANDIDATES[1]),
            )
            .hint("run holdup as an ordinary user")
        })
    }

    /// Whether this user may enter `folder` and all folders above it, judged by their modes.
    ///
    /// # Errors
    /// Names the first folder that keeps it out.
    pub fn may_enter(&self, folder: &Path) -> Result<(), Problem> {
        let ancestors: Vec<&Path> = folder.ancestors().collect();
        for place in ancestors.into_iter().rev() {
            let meta = std::fs::metadata(place)
                .map_err(|e| Problem::host(format!("folder {}", place.display()), e.to_string()))?;
            let enter = if meta.uid() == self.uid {
                0o100
            } else if meta.gid() == self.gid {
                0o010
            } else {
                0o001
            };
            if meta.mode() & enter == 0 {
                return Err(Problem::host(
                    format!("folder {}", folder.display()),
                    format!(
                        "the user {} that PostgreSQL runs as may not enter {} (mode {:04o})",
                        self.name,
                        place.display(),
                        meta.mode() & 0o7777
                    ),
                )
                .hint("let TMPDIR or the working directory be one that every user may enter, such as /tmp"));
            }
        }
        Ok(())
    }
}

fn find(passwd: &str, name: &str) -> Option<RunAs> {
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let (found, _password) = (fields.next()?, fields.next()?);
        let (uid, gid) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        (found == name && uid != 0).then(|| RunAs { name: name.to_owned(), uid, gid })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn users_are_found_by_their_whole_name() {
        let passwd = "root:x:0:0::/root:/bin/sh\nxpostgres:x:5:5::/:/\npostgres:x:101:104:,,,:/var/lib:/bin/bash\n\
                      bad\nnobody:x:0:1::/:/\n";
        let postgres = RunAs { name: "postgres".to_owned(), uid: 101, gid: 104 };
        assert_eq!(find(passwd, "postgres"), Some(postgres));
        assert_eq!(find(passwd, "nobody"), None, "a user with the id of root is not unprivileged");
        assert_eq!(find(passwd, "post"), None);
    }

    #[test]
    fn a_closed_folder_is_named() {
        let top = tempfile::tempdir().unwrap();
        let inner = top.path().join("closed/inner");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::set_permissions(top.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let stranger = RunAs { name: "stranger".to_owned(), uid: 54_321, gid: 54_321 };
        stranger.may_enter(&inner).unwrap();
        std::fs::set_permissions(inner.parent().unwrap(), PermissionsExt::from_mode(0o700)).unwrap();
        let refused = stranger.may_enter(&inner).unwrap_err();
        assert!(refused.why.contains("closed (mode 0700)"), "{refused}");
    }
}
