//! Runs a program one instruction at a time (ptrace(2)).
#![allow(dead_code, unreachable_pub, reason = "each of the tests uses what it needs")]

use holdup_sections::lookup::Registers;
use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};

/// A program that stops behind every instruction.
pub struct Traced {
    child: Child,
    memory: File,
}

impl Traced {
    /// Starts a program, and stops it before its first instruction.
    pub fn start(mut command: Command) -> std::io::Result<Self> {
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(|| match libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            });
        }
        let child = command.spawn()?;
        let memory = File::options().read(true).write(true).open(format!("/proc/{}/mem", child.id()))?;
        let traced = Traced { child, memory };
        assert!(traced.stopped(), "it stops when it is executed");
        Ok(traced)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the next stop; false when the program ended.
    fn stopped(&self) -> bool {
        let mut status = 0;
        // SAFETY: the child is ours, and `status` outlives the call.
        let got = unsafe { libc::waitpid(self.child.id() as libc::pid_t, &raw mut status, 0) };
        got > 0 && libc::WIFSTOPPED(status)
    }

    /// Executes one instruction; false when the program ended.
    pub fn step(&self) -> bool {
        // SAFETY: the child is ours and stopped.
        unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.child.id() as libc::pid_t, 0, 0) };
        self.stopped()
    }

    /// Continues to the next breakpoint; false when the program ended.
    pub fn go_on(&self) -> bool {
        // SAFETY: the child is ours and stopped.
        unsafe { libc::ptrace(libc::PTRACE_CONT, self.child.id() as libc::pid_t, 0, 0) };
        self.stopped()
    }

    /// The instruction pointer and the registers.
    pub fn registers(&self) -> (u64, Registers) {
        // SAFETY: all-zero bytes are a value of this structure of integers.
        let mut all: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the child is stopped, and `all` is as large as the call writes.
        unsafe { libc::ptrace(libc::PTRACE_GETREGS, self.child.id() as libc::pid_t, 0, &raw mut all) };
        let mut general = [0; 32];
        general[..16].copy_from_slice(&[
            all.rax, all.rcx, all.rdx, all.rbx, all.rsp, all.rbp, all.rsi, all.rdi, all.r8, all.r9, all.r10, all.r11,
            all.r12, all.r13, all.r14, all.r15,
        ]);
        (all.rip, Registers { general, flags: all.eflags })
    }

    /// Continues to an address; false when the program ended before.
    pub fn go_to(&self, at: u64) -> bool {
        let Some(code) = self.read(at) else { return false };
        self.write(at, &[0xcc]);
        let reached = self.go_on() && self.registers().0 == at + 1;
        if reached {
            self.write(at, &code.to_le_bytes()[..1]);
            self.set_ip(at);
        }
        reached
    }

    /// Sets the instruction pointer.
    pub fn set_ip(&self, ip: u64) {
        // SAFETY: as in `registers`.
        unsafe {
            let mut all: libc::user_regs_struct = std::mem::zeroed();
            libc::ptrace(libc::PTRACE_GETREGS, self.child.id() as libc::pid_t, 0, &raw mut all);
            all.rip = ip;
            libc::ptrace(libc::PTRACE_SETREGS, self.child.id() as libc::pid_t, 0, &raw const all);
        }
    }

    pub fn read(&self, at: u64) -> Option<u64> {
        let mut eight = [0; 8];
        self.memory.read_exact_at(&mut eight, at).ok()?;
        Some(u64::from_le_bytes(eight))
    }

    /// The instruction at an address.
    pub fn instruction(&self, ip: u64) -> Instruction {
        let code = [self.read(ip), self.read(ip + 8)].map(|eight| eight.unwrap_or(0).to_le_bytes());
        Decoder::with_ip(64, code.as_flattened(), ip, DecoderOptions::NONE).decode()
    }

    pub fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("its memory can be written");
    }

    /// Where a file is mapped: the address of its first byte.
    pub fn base(&self, file: &str) -> Option<u64> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id())).ok()?;
        let line = maps.lines().find(|line| line.ends_with(file))?;
        u64::from_str_radix(line.split('-').next()?, 16).ok()
    }

    /// The C library that it uses: path and base.
    pub fn c_library(&self) -> Option<(String, u64)> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id())).ok()?;
        let path = maps.lines().find(|line| line.ends_with("libc.so.6"))?.split_whitespace().last()?.to_owned();
        let base = self.base(&path)?;
        Some((path, base))
    }
}

/// Where an instruction's operand in memory lies, if it has one.
pub fn address(instruction: &Instruction, registers: &Registers) -> Option<u64> {
    let operand = (0..instruction.op_count()).find(|operand| instruction.op_kind(*operand) == OpKind::Memory)?;
    instruction.virtual_address(operand, 0, |register, _, _| {
        Some(if register.is_gpr() { registers.general[register.full_register().number()] } else { 0 })
    })
}

impl Drop for Traced {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
