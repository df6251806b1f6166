//! Files in places that other users can write.
//!
//! Start at [`Folder`]: an open folder, beneath which files are read, created, replaced and removed through its
//! descriptor, without following links (openat(2) with O_NOFOLLOW for every component of a path, O_EXCL for new files).
//! [`open_input`] and [`read_input`] open what the user named, [`Output`] writes it, [`DraftFile`] has it written by name. Everything that is opened for
//! reading is a regular file of bounded size: a FIFO is not waited for and a device is not opened.
//!
//! Not here: what is under /proc and /sys (`holdup-host`), and what a file means.

mod draft;
mod folder;
mod input;
mod output;
mod private;

pub use draft::DraftFile;
pub use folder::{Entry, Folder};
pub use input::{MOST_BYTES_OF_TEXT, open_input, read_bounded, read_input, read_text_input, reopen_regular};
pub use output::{Output, write_output};
pub use private::{Owner, check_ancestors, is_private, private_folder, random_name, sweep_private_folders};

use std::io;

/// An error of ours, with the reason in words.
pub(crate) fn refused(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, why.into())
}
