//! Tests of the real server on real files.
//!
//! Three ways to hurt it: a mixed load with kills and lost drives ([`soak`]), kills and errors at chosen
//! system calls ([`kills`]), and disks as a power failure leaves them, built from recorded system calls
//! ([`images`]).

pub mod cartridges;
pub mod content;
pub mod http;
pub mod images;
pub mod kills;
pub mod oracle;
pub mod random;
pub mod server;
pub mod soak;
pub mod strace;
