//! The virtual machine: QEMU's command line, its life and its end.
