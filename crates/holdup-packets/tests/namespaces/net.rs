//! Two network namespaces, each with a TUN link whose packets this process reads and writes.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::{self, Timeout};
use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use std::ffi::{c_int, c_short, c_ulong};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::mem::size_of_val;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt as _;
use std::time::Duration;

/// How the links are made, and what `/proc/sys/net/ipv4` says on both sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wiring {
    pub(crate) is_v6: bool,
    pub(crate) mtu: u16,
    /// True if super-packets (TSO) come out of the links as they are, each behind a header of virtio.
    pub(crate) offload: bool,
    pub(crate) sysctls: &'static [(&'static str, &'static str)],
}

/// One side.
#[derive(Debug)]
pub(crate) struct Side {
    namespace: File,
    pub(crate) tun: File,
    address: IpAddr,
}

/// Both sides: the first one connects, the second one listens.
pub(crate) fn sides(wiring: &Wiring) -> io::Result<[Side; 2]> {
    Ok([Side::make(wiring, 1)?, Side::make(wiring, 2)?])
}

/// A longer wait than any of the sessions has is a failure.
const MOST_WAIT: Duration = Duration::from_secs(30);

/// What a socket is to have before it is connected.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wants {
    /// Its own port, 0 for any.
    pub(crate) port: u16,
    pub(crate) receive_bytes: Option<usize>,
    /// The first number that it sends after its SYN.
    pub(crate) begin: Option<u32>,
    /// True if it connects by the first write, with a cookie of Fast Open.
    pub(crate) fast_open: bool,
}

impl Side {
    fn make(wiring: &Wiring, host: u8) -> io::Result<Side> {
        let address: IpAddr = match wiring.is_v6 {
            true => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host.into()).into(),
            false => Ipv4Addr::new(10, 0, 0, host).into(),
        };
        in_thread(|| {
            // SAFETY: the flag touches neither memory nor open files; only this thread changes its namespace.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }?;
            let namespace = File::open("/proc/thread-self/ns/net")?;
            for (name, value) in wiring.sysctls {
                std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value)?;
            }
            let tun = link(wiring, address)?;
            Ok(Side { namespace, tun, address })
        })
    }

    /// A socket on this side; it stays here, whichever thread uses it.
    fn socket(&self) -> io::Result<OwnedFd> {
        in_thread(|| {
            move_into_link_name_space(self.namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            let family = if self.address.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
            Ok(socket(family, SocketType::STREAM, None)?)
        })
    }

    fn bound(&self, wants: Wants) -> io::Result<OwnedFd> {
        let socket = self.socket()?;
        sockopt::set_socket_reuseaddr(&socket, true)?;
        sockopt::set_socket_timeout(&socket, Timeout::Recv, Some(MOST_WAIT))?;
        sockopt::set_socket_timeout(&socket, Timeout::Send, Some(MOST_WAIT))?;
        if let Some(bytes) = wants.receive_bytes {
            sockopt::set_socket_recv_buffer_size(&socket, bytes)?;
        }
        let address = SocketAddr::new(self.address, wants.port);
        // An address of IPv6 may be used a moment after it was given (net/ipv6/addrconf.c:addrconf_dad_work, v6.18).
        for _ in 0..100 {
            match bind(&socket, &address) {
                Err(Errno::ADDRNOTAVAIL) => std::thread::sleep(Duration::from_millis(10)),
                outcome => return outcome.map(|()| socket).map_err(Into::into),
            }
        }
        Err(Errno::ADDRNOTAVAIL.into())
    }

    pub(crate) fn listener(&self, wants: Wants) -> io::Result<TcpListener> {
        let socket = self.bound(wants)?;
        if wants.fast_open {
            set_option(&socket, libc::TCP_FASTOPEN, 5)?;
        }
        listen(&socket, 5)?;
        Ok(socket.into())
    }

    /// A connection to a port of the other side.
    pub(crate) fn connect(&self, to: &Side, port: u16, wants: Wants) -> io::Result<TcpStream> {
        let socket = self.bound(wants)?;
        if let Some(begin) = wants.begin {
            // What a restored connection does (net/ipv4/tcp.c:do_tcp_setsockopt, v6.18); the queue for sending is 2.
            set_option(&socket, libc::TCP_REPAIR, 1)?;
            set_option(&socket, libc::TCP_REPAIR_QUEUE, 2)?;
            set_option(&socket, libc::TCP_QUEUE_SEQ, begin as c_int)?;
            set_option(&socket, libc::TCP_REPAIR, 0)?;
        }
        if wants.fast_open {
            set_option(&socket, libc::TCP_FASTOPEN_CONNECT, 1)?;
        }
        connect(&socket, &SocketAddr::new(to.address, port))?;
        Ok(socket.into())
    }

    pub(crate) fn read(&self, into: &mut [u8]) -> Option<usize> {
        (&self.tun).read(into).ok()
    }

    pub(crate) fn write(&self, packet: &[u8]) {
        (&self.tun).write_all(packet).expect("the link takes a packet that the other one gave");
    }
}

/// Waits until one of the links has a packet, at most so long.
pub(crate) fn wait(sides: &[Side; 2], most: Duration) {
    let mut fds = [0, 1].map(|i| PollFd::new(&sides[i].tun, PollFlags::IN));
    let most = Timespec { tv_sec: 0, tv_nsec: most.subsec_nanos().into() };
    // What there is to read is asked of each link; an interruption is a shorter wait.
    let _ = poll(&mut fds, Some(&most));
}

fn in_thread<T: Send>(job: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
    std::thread::scope(|scope| scope.spawn(job).join().expect("the job does not panic"))
}

fn set_option(socket: &OwnedFd, name: c_int, value: c_int) -> io::Result<()> {
    let length = size_of_val(&value) as libc::socklen_t;
    // SAFETY: the value is an int of the stated length, read before the call returns.
    let code =
        unsafe { libc::setsockopt(socket.as_raw_fd(), libc::IPPROTO_TCP, name, (&raw const value).cast(), length) };
    if code == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn control<T>(fd: &impl AsRawFd, request: c_ulong, argument: *mut T) -> io::Result<()> {
    // SAFETY: every request here reads or writes the structure that it is called with, and no more (netdevice(7),
    // Documentation/networking/tuntap.rst).
    let code = unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) };
    if code < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn request(name: &str) -> libc::ifreq {
    // SAFETY: numbers and addresses of which 0 is a valid value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
        *to = from as _;
    }
    request
}

/// Makes the link in the calling thread's namespace and gives it its address: the other side's is in the same network.
fn link(wiring: &Wiring, address: IpAddr) -> io::Result<File> {
    const NAME: &str = "relay";
    let tun = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/dev/net/tun")?;
    let mut asked = request(NAME);
    let header = if wiring.offload { libc::IFF_VNET_HDR } else { 0 };
    asked.ifr_ifru.ifru_flags = (libc::IFF_TUN | libc::IFF_NO_PI | header) as c_short;
    control(&tun, libc::TUNSETIFF as c_ulong, &raw mut asked)?;
    if wiring.offload {
        let features = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6;
        // The argument of this request is a number and no address.
        control(&tun, libc::TUNSETOFFLOAD as c_ulong, std::ptr::without_provenance_mut::<u8>(features as usize))?;
    }
    let socket = socket(AddressFamily::INET, SocketType::DGRAM, None)?;
    let mut mtu = request(NAME);
    mtu.ifr_ifru.ifru_mtu = wiring.mtu.into();
    control(&socket, libc::SIOCSIFMTU as c_ulong, &raw mut mtu)?;
    let mut queue = request(NAME);
    // Bursts queue instead of being lost unobserved.
    queue.ifr_ifru.ifru_metric = 10_000;
    control(&socket, libc::SIOCSIFTXQLEN as c_ulong, &raw mut queue)?;
    match address {
        IpAddr::V4(address) => {
            for (which, address) in [(libc::SIOCSIFADDR, address), (libc::SIOCSIFNETMASK, Ipv4Addr::new(255, 0, 0, 0))]
            {
                let mut asked = with_address(NAME, address);
                control(&socket, which as c_ulong, &raw mut asked)?;
            }
            up(&socket, NAME)?;
        }
        IpAddr::V6(address) => {
            up(&socket, NAME)?;
            let mut asked = request(NAME);
            control(&socket, libc::SIOCGIFINDEX as c_ulong, &raw mut asked)?;
            // SAFETY: the request before has just written this field.
            let index = unsafe { asked.ifr_ifru.ifru_ifindex };
            let in6 = libc::in6_addr { s6_addr: address.octets() };
            let mut asked = libc::in6_ifreq { ifr6_addr: in6, ifr6_prefixlen: 64, ifr6_ifindex: index };
            let socket = rustix::net::socket(AddressFamily::INET6, SocketType::DGRAM, None)?;
            control(&socket, libc::SIOCSIFADDR as c_ulong, &raw mut asked)?;
        }
    }
    Ok(tun)
}

fn with_address(name: &str, address: Ipv4Addr) -> libc::ifreq {
    let mut asked = request(name);
    let mut data = [0; 14];
    // An address of the Internet: two bytes of port, four of address.
    for (to, from) in data[2..6].iter_mut().zip(address.octets()) {
        *to = from as _;
    }
    asked.ifr_ifru.ifru_addr = libc::sockaddr { sa_family: libc::AF_INET as _, sa_data: data };
    asked
}

fn up(socket: &OwnedFd, name: &str) -> io::Result<()> {
    let mut asked = request(name);
    control(socket, libc::SIOCGIFFLAGS as c_ulong, &raw mut asked)?;
    // SAFETY: the request before has just written this field.
    let flags = unsafe { asked.ifr_ifru.ifru_flags };
    asked.ifr_ifru.ifru_flags = flags | libc::IFF_UP as c_short;
    control(socket, libc::SIOCSIFFLAGS as c_ulong, &raw mut asked)
}
