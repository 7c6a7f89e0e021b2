//! The commands, one file each.

pub mod class;
pub mod compare;
pub mod drive;
pub mod evict;
pub mod get;
pub mod init;
pub mod ls;
pub mod migrate;
pub mod mkdir;
pub mod mv;
pub mod pool;
pub mod put;
pub mod queue;
pub mod release;
pub mod request;
pub mod rm;
pub mod scrub;
pub mod stage;
pub mod stat;
pub mod status;
pub mod tape;
pub mod tape_dump;
pub mod verify;
pub mod wait;
pub mod why;
