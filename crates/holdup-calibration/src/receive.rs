//! Taking a message out of a socket.

use super::{Cost, sockets};

pub(super) const COST: Cost = Cost {
    name: "receive_ns",
    docs: "read(2) of 64 bytes that wait in a Unix stream socket, less syscall_ns, 60 pieces of 16; TCP takes more",
    measure: |context| sockets::measure(context, |times| times.receive_ns),
};
