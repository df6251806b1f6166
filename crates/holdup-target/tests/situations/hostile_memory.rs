//! Programs that look like a server of PostgreSQL, and have in its variables what no server has.

use crate::situations::programs::{Ending, started};
use crate::situations::sources::built;
use crate::situations::{QUIET, Situation, answer, needs_account, record};
use std::process::Command;
use std::time::Duration;

static SITUATION: Situation = Situation { name: "variables that no server has", ..QUIET };

static NAMELESS: Situation = Situation {
    name: "wait event that no server has",
    first: &["other-wait"],
    says: "Wait events without a known name: sessions spend",
    never: &["heavyweight-lock", "lightweight-lock", "replication", "wal"],
    ..QUIET
};

/// `program HOW`: the pointer to the wait event leads nowhere, or to what is none, in seven processes that sleep.
const SOURCE: &str = r#"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>

static uint32_t local;
uint32_t *my_wait_event_info = &local;
int MyBackendType = 3;
const char version[] = "postgres (PostgreSQL) 15.18\n";

int main(int argc, char **argv)
{
	char *how = argv[1];
	uint32_t *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 6; i++)
		if (!fork()) {
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			break;
		}
	my_wait_event_info = page;
	if (!strcmp(how, "null"))
		my_wait_event_info = 0;
	if (!strcmp(how, "kernel"))
		my_wait_event_info = (void *)0xffffffff81000000;
	if (!strcmp(how, "no address"))
		my_wait_event_info = (void *)0x8000000000000000;
	if (!strcmp(how, "protected"))
		mprotect(page, 4096, PROT_NONE);
	if (!strcmp(how, "no event"))
		*page = 0x7f000001;
	for (unsigned n = getpid();; n = n * 1664525 + 1013904223) {
		if (!strcmp(how, "random"))
			*page = n | 0x80000000, MyBackendType = n >> 8;
		usleep(2000);
	}
}
"#;

pub(crate) fn memory_of_no_server() {
    needs_account();
    let folder = built(("p.c", SOURCE), &["cc", "-O1", "-rdynamic"]);
    for how in ["null", "kernel", "no address", "protected", "random", "no event"] {
        let program: Ending = started(Command::new(folder.path().join("program")).arg(how));
        std::thread::sleep(Duration::from_millis(300));
        let situation = if how == "no event" { &NAMELESS } else { &SITUATION };
        println!("{how}:");
        answer(situation, &record::of(&[program.0.id()], record::USUAL));
    }
}
