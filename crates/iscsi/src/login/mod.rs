//! The login: who the two sides are and how they go on (RFC 7143, section 6.3). Pure: the two machines here
//! take text and give text.

mod as_initiator;
mod as_target;
mod chap;
mod name;
mod parameters;

pub use as_initiator::{InitiatorLogin, LoginError, Message, Outcome};
pub use as_target::{Access, LoginReply, Opened, TargetLogin};
pub use chap::{Account, AccountError, CHALLENGE, Challenge, Hash};
pub use name::{Name, NameError};
pub use parameters::{Agreed, DigestWish, ParameterError, Parameters, SEGMENT_DEFAULT};

/// Status class and detail of a login response (RFC 7143, 11.13.5).
pub mod status {
    /// All is well.
    pub const SUCCESS: u16 = 0x0000;
    /// The initiator has made an error.
    pub const INITIATOR_ERROR: u16 = 0x0200;
    /// Who asks could not prove who they are.
    pub const AUTHENTICATION: u16 = 0x0201;
    /// Who asks may not use the target.
    pub const NOT_ALLOWED: u16 = 0x0202;
    /// There is no such target.
    pub const NOT_FOUND: u16 = 0x0203;
    /// No version in common.
    pub const VERSION: u16 = 0x0205;
    /// No more connections in a session.
    pub const TOO_MANY_CONNECTIONS: u16 = 0x0206;
    /// A name or another key is missing.
    pub const MISSING: u16 = 0x0207;
    /// There is no such type of session.
    pub const SESSION_TYPE: u16 = 0x0209;
    /// There is no such session.
    pub const NO_SESSION: u16 = 0x020a;
    /// Not allowed during a login.
    pub const INVALID: u16 = 0x020b;
    /// Not now.
    pub const UNAVAILABLE: u16 = 0x0301;
    /// The target has no room.
    pub const NO_ROOM: u16 = 0x0302;

    /// What a status says, for people.
    #[must_use]
    pub fn words(status: u16) -> &'static str {
        match status {
            SUCCESS => "success",
            0x0101 => "the target has moved for a while",
            0x0102 => "the target has moved for good",
            INITIATOR_ERROR => "it sees an error of the initiator's",
            AUTHENTICATION => "authentication failed: give the name and secret that it has for us (CHAP)",
            NOT_ALLOWED => "this initiator may not use the target: allow its name there",
            NOT_FOUND => "it has no target of this name: list them by a discovery",
            0x0204 => "the target was removed",
            VERSION => "it speaks another version of the protocol",
            TOO_MANY_CONNECTIONS => "too many connections in the session",
            MISSING => "a parameter is missing",
            0x0208 => "it cannot take the connection into the session",
            SESSION_TYPE => "it does not know this type of session",
            NO_SESSION => "the session does not exist",
            INVALID => "a request that no login has",
            0x0300 => "an error of the target",
            UNAVAILABLE => "not now: try again",
            NO_ROOM => "it has no room for another session",
            _ => "a status that no standard has",
        }
    }
}
