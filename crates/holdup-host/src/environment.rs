//! The environment variables that holdup goes by, all in one place.
//!
//! Nothing else in holdup's host layer reads the environment; a plan's `${NAME}` is the plan's own affair.

/// An environment variable that changes what holdup does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    pub name: &'static str,
    /// What it does, one line.
    pub summary: &'static str,
}

/// Where holdup keeps its own files, such as the undo journal.
pub const STATE_DIR: Variable = Variable {
    name: "HOLDUP_STATE_DIR",
    summary: "the folder for holdup's own files, such as the undo journal (an absolute path)",
};

/// The base of the state folder for an ordinary user.
pub const XDG_STATE_HOME: Variable = Variable {
    name: "XDG_STATE_HOME",
    summary: "for an ordinary user the state folder is `holdup` in here (an absolute path; default ~/.local/state)",
};

/// The runtime folder of an ordinary user.
pub const XDG_RUNTIME_DIR: Variable = Variable {
    name: "XDG_RUNTIME_DIR",
    summary: "for an ordinary user the lock of the host is in `holdup` in here (default /run/user/UID)",
};

/// The home folder of the user.
pub const HOME: Variable = Variable { name: "HOME", summary: "the home folder, for ~/.local/state/holdup" };

/// The program that connects to other hosts.
pub const SSH: Variable = Variable {
    name: "HOLDUP_SSH",
    summary: "the ssh program with options of yours, split at spaces (default ssh): `ssh -F FILE`",
};

/// Every variable.
pub const ALL: &[Variable] = &[STATE_DIR, XDG_STATE_HOME, XDG_RUNTIME_DIR, HOME, SSH];

impl Variable {
    /// Its value; `None` when it is not set, empty, or not UTF-8, and for a home that is not there: nothing makes one.
    pub fn get(&self) -> Option<String> {
        let value = std::env::var(self.name).ok().filter(|value| !value.is_empty());
        value.filter(|value| *self != HOME || std::path::Path::new(value).is_dir())
    }
}
