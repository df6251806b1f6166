//! A few bytes of another process's memory.

use crate::{Host, HostError};
use std::io;
use std::os::unix::fs::FileExt as _;

impl Host {
    /// What a process has at an address now; it is not stopped for that (proc_pid_mem(5)).
    ///
    /// # Errors
    /// When there is no such process or nothing at that address, this process may not read it (CAP_SYS_PTRACE), or the host
    /// is a captured tree.
    pub fn read_memory<const N: usize>(&self, pid: u32, address: u64) -> Result<[u8; N], HostError> {
        let path = format!("/proc/{pid}/mem");
        let fault = |error: &io::Error| HostError::new("read", &path, error);
        if !self.is_live() {
            return Err(fault(&io::Error::new(io::ErrorKind::Unsupported, "only a running system has memory")));
        }
        let mut bytes = [0; N];
        let memory = std::fs::File::open(&path).map_err(|e| fault(&e))?;
        memory.read_exact_at(&mut bytes, address).map_err(|e| fault(&e))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::MemoryFs;

    #[test]
    fn what_is_there_is_read_and_what_is_not_is_an_error() {
        let here = 0x1234_5678_9abc_def0_u64;
        let address = std::ptr::from_ref(&here) as u64;
        let read: [u8; 8] = Host::real().read_memory(std::process::id(), address).expect("own memory");
        assert_eq!(u64::from_ne_bytes(read), here);
        assert!(Host::real().read_memory::<8>(std::process::id(), 0).is_err(), "nothing is at 0");
        assert!(MemoryFs::of(&[]).host().read_memory::<8>(1, address).is_err(), "a captured tree");
    }
}
