//! Runs a program for AArch64 one instruction at a time: QEMU executes it, and is given orders as a debugger gives them (GDB's
//! remote serial protocol).
#![allow(dead_code, unreachable_pub, reason = "each of the tests uses what it needs")]

use crate::world::Stepped;
use holdup_sections::lookup::Registers;
use holdup_testkit::ignore;
use object::{Object, ObjectSymbol};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A program that stops behind every instruction, or every loop of exclusive load and store: QEMU ends the reservation of an
/// exclusive load when it stops.
pub struct Emulated {
    child: RefCell<Child>,
    line: RefCell<UnixStream>,
    /// Code that was read.
    code: RefCell<BTreeMap<u64, u32>>,
    /// What is asked again and again while it stands.
    stopped: RefCell<Option<(u64, Registers)>>,
    /// The code of libgcc's helpers for atomic operations.
    helpers: Vec<Range<u64>>,
}

/// Instructions between an exclusive load and its store, at most.
const MOST_BETWEEN: u64 = 8;

impl Emulated {
    /// Starts a program on a CPU of a name that QEMU knows, and stops it before its first instruction.
    pub fn start(program: &Path, cpu: &str) -> Self {
        let socket = program.with_extension("gdb");
        let _ = std::fs::remove_file(&socket);
        let mut command = Command::new("qemu-aarch64");
        command.args(["-cpu", cpu, "-g"]).arg(&socket).arg(program).stdout(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|why| ignore(format!("qemu-aarch64 cannot be run: {why}")));
        let line = loop {
            match UnixStream::connect(&socket) {
                Ok(line) => break line,
                Err(why) => assert!(child.try_wait().expect("it is ours").is_none(), "QEMU has ended: {why}"),
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let elf = std::fs::read(program).expect("readable");
        let file = object::File::parse(&*elf).expect("an ELF file");
        let of_libgcc = file.symbols().filter(|symbol| symbol.name().is_ok_and(|name| name.starts_with("__aarch64_")));
        let helpers = of_libgcc.map(|symbol| symbol.address()..symbol.address() + symbol.size().max(48)).collect();
        let (child, line) = (RefCell::new(child), RefCell::new(line));
        Emulated { child, line, code: RefCell::default(), stopped: RefCell::default(), helpers }
    }

    /// Sends an order and gives the answer.
    fn ask(&self, order: &str) -> String {
        let mut line = self.line.borrow_mut();
        let sum = order.bytes().fold(0u8, u8::wrapping_add);
        line.write_all(format!("${order}#{sum:02x}").as_bytes()).expect("it listens");
        let mut byte = [0];
        let mut answer = Vec::new();
        // A confirmation stands before the answer, and another is to be sent behind it.
        while byte != *b"$" {
            line.read_exact(&mut byte).expect("it answers");
        }
        loop {
            line.read_exact(&mut byte).expect("it answers");
            if byte == *b"#" {
                break;
            }
            answer.push(byte[0]);
        }
        line.read_exact(&mut [0; 2]).expect("a sum");
        line.write_all(b"+").expect("it listens");
        String::from_utf8(answer).expect("text")
    }

    /// Continues to one of these addresses; false when the program ended.
    fn go_to_one_of(&self, places: &[u64]) -> bool {
        self.stopped.take();
        for at in places {
            assert_eq!(self.ask(&format!("Z0,{at:x},4")), "OK");
        }
        let alive = self.ask("c").starts_with('T');
        if alive {
            for at in places {
                assert_eq!(self.ask(&format!("z0,{at:x},4")), "OK");
            }
        }
        alive
    }

    /// Continues to an address.
    pub fn go_to(&self, at: u64) {
        assert!(self.go_to_one_of(&[at]), "it ends before {at:#x}");
    }

    fn instruction(&self, ip: u64) -> u32 {
        let read = || self.read(ip).unwrap_or(0) as u32;
        *self.code.borrow_mut().entry(ip).or_insert_with(read)
    }

    /// Where control can go from an exclusive load without stopping before its store.
    fn behind_pair(&self, load: u64) -> Vec<u64> {
        let mut places = Vec::new();
        for at in (1..=MOST_BETWEEN).map(|number| load + 4 * number) {
            let word = self.instruction(at);
            let is_branch = word & 0xff00_0010 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000;
            if is_branch {
                let by = i64::from(((word << 8) as i32) >> 13 << 2);
                places.push(at.wrapping_add_signed(by));
            }
            if is_exclusive(word) && word & 0x0040_0000 == 0 {
                places.push(at + 4);
                break;
            }
        }
        places
    }
}

/// `ldxr` and `stxr` with their relatives (Arm ARM, C4.1.93: load/store exclusive register).
fn is_exclusive(word: u32) -> bool {
    word & 0x3fa0_7c00 == 0x0800_7c00
}

impl Stepped for Emulated {
    fn registers(&self) -> (u64, Registers) {
        if let Some(known) = *self.stopped.borrow() {
            return known;
        }
        let all = self.ask("g");
        let number = |at: usize, bytes: usize| {
            let hexadecimal = &all[2 * at..2 * (at + bytes)];
            u64::from_str_radix(hexadecimal, 16).expect("a number").swap_bytes() >> (64 - 8 * bytes)
        };
        let mut registers = Registers::default();
        for (place, value) in registers.general.iter_mut().enumerate() {
            *value = number(8 * place, 8);
        }
        registers.flags = number(8 * 33, 4);
        *self.stopped.borrow_mut() = Some((number(8 * 32, 8), registers));
        (number(8 * 32, 8), registers)
    }

    fn read(&self, at: u64) -> Option<u64> {
        let answer = self.ask(&format!("m{at:x},8"));
        u64::from_str_radix(&answer, 16).ok().filter(|_| answer.len() == 16).map(u64::swap_bytes)
    }

    fn read_all(&self, places: &[u64]) -> Vec<u64> {
        let (first, last) = (places.iter().min().copied().unwrap_or(0), places.iter().max().copied().unwrap_or(0));
        let answer = self.ask(&format!("m{first:x},{:x}", last + 8 - first));
        let value = |at: &u64| {
            let begin = 2 * (at - first) as usize;
            u64::from_str_radix(&answer[begin..begin + 16], 16).map_or(0, u64::swap_bytes)
        };
        places.iter().map(value).collect()
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        let hexadecimal: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(self.ask(&format!("M{at:x},{:x}:{hexadecimal}", bytes.len())), "OK");
    }

    fn step(&self) -> bool {
        let (ip, _) = self.registers();
        let word = self.instruction(ip);
        if is_exclusive(word) && word & 0x0040_0000 != 0 {
            return self.go_to_one_of(&self.behind_pair(ip));
        }
        self.stopped.take();
        self.ask("s").starts_with('T')
    }

    fn asked_by(&self, ip: u64, registers: &Registers) -> u64 {
        let is_helper = self.helpers.iter().any(|helper| helper.contains(&ip));
        if is_helper { registers.general[30] - 4 } else { ip }
    }

    fn atomic(&self, ip: u64, registers: &Registers) -> Option<u64> {
        let word = self.instruction(ip);
        // One instruction that loads and stores, compare and swap, and an exclusive load.
        let is_atomic = word & 0x3f20_0c00 == 0x3820_0000
            || word & 0x3fa0_7c00 == 0x08a0_7c00
            || is_exclusive(word) && word & 0x0040_0000 != 0;
        is_atomic.then(|| registers.general[word as usize >> 5 & 31])
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        let child = self.child.get_mut();
        let _ = child.kill();
        let _ = child.wait();
    }
}
