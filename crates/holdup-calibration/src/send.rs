//! Putting a message into a socket.

use super::{Cost, sockets};

pub(super) const COST: Cost = Cost {
    name: "send_ns",
    docs: "write(2) of 64 bytes to a connected Unix stream socket on which no thread waits, less syscall_ns, 60 pieces of 16; \
           TCP takes more",
    measure: |context| sockets::measure(context, |times| times.send_ns),
};
