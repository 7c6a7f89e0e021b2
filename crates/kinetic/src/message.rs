//! A command with who vouches for it, to and from the bytes of a frame.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message as _;

use crate::auth::{HmacKey, Secret};
use crate::code::AuthType;
use crate::frame::{FrameHeader, HEADER_BYTES, MESSAGE_BYTES_MAX, OutFrame};
use crate::ids::Identity;
use crate::wire;

/// Why bytes are no message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// They are no protobuf of this kind.
    #[error("the bytes are no message of the protocol: {0}")]
    Malformed(#[from] prost::DecodeError),
    /// It has no known way of vouching.
    #[error("the message does not say in a known way who vouches for it (authType {0:?})")]
    Auth(Option<i32>),
    /// It has no command.
    #[error("the message has no command")]
    NoCommand,
    /// The message to be sent is too long.
    #[error("a message of {0} bytes, at most 1048576 can be sent")]
    TooLong(usize),
}

/// Who vouches for a message to be sent.
#[derive(Clone, Copy, Debug)]
pub enum Sender<'a> {
    /// An identity.
    Identity(Identity, &'a HmacKey),
    /// An identity whose key is not known: the HMAC is empty. Only for the answer that says so.
    NoKey(Identity),
    /// Whoever knows the PIN; an answer to them has none.
    Pin(Option<&'a Secret>),
    /// The device, by itself.
    Device,
}

/// Who vouches for a message that came. Nothing is checked yet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Vouched {
    /// An identity.
    Identity {
        /// Its number.
        identity: Identity,
        /// Its HMAC of the command.
        hmac: Bytes,
    },
    /// Whoever knows the PIN.
    Pin(Secret),
    /// Nobody.
    Unsolicited,
}

/// A message that came, with the command still as bytes: it is only read when it is known who sent it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sealed {
    /// Who vouches for it.
    pub vouched: Vouched,
    /// The bytes of the command.
    pub command: Bytes,
}

impl Sealed {
    /// From the bytes of a frame. Costs no memory of their size.
    pub fn read(message: Bytes) -> Result<Self, MessageError> {
        let message = wire::Message::decode(message)?;
        let vouched = match message.auth_type.and_then(AuthType::from_number) {
            None => return Err(MessageError::Auth(message.auth_type)),
            Some(AuthType::Hmac) => {
                let auth = message.hmac_auth.unwrap_or_default();
                let identity = Identity(auth.identity.unwrap_or_default());
                Vouched::Identity { identity, hmac: auth.hmac.unwrap_or_default() }
            }
            Some(AuthType::Pin) => {
                let auth = message.pin_auth.unwrap_or_default();
                Vouched::Pin(Secret::new(auth.pin.unwrap_or_default()))
            }
            Some(AuthType::Unsolicited) => Vouched::Unsolicited,
        };
        Ok(Sealed { vouched, command: message.command_bytes.ok_or(MessageError::NoCommand)? })
    }

    /// The command.
    pub fn open(&self) -> Result<wire::Command, MessageError> {
        Ok(wire::Command::decode(self.command.clone())?)
    }
}

/// Makes a frame of a command and a value.
pub fn seal(sender: Sender<'_>, command: &wire::Command, value: Bytes) -> Result<OutFrame, MessageError> {
    let command = Bytes::from(command.encode_to_vec());
    let (auth_type, hmac_auth, pin_auth) = match sender {
        Sender::Identity(identity, key) => (AuthType::Hmac, Some((identity, &key.sign(&command)[..])), None),
        Sender::NoKey(identity) => (AuthType::Hmac, Some((identity, &[][..])), None),
        Sender::Pin(pin) => (AuthType::Pin, None, pin),
        Sender::Device => (AuthType::Unsolicited, None, None),
    };
    let message = wire::Message {
        auth_type: Some(auth_type.number()),
        hmac_auth: hmac_auth.map(|(identity, hmac)| wire::HmacAuth {
            identity: Some(identity.0),
            hmac: Some(Bytes::copy_from_slice(hmac)),
        }),
        pin_auth: pin_auth.map(|pin| wire::PinAuth { pin: Some(pin.bytes().clone()) }),
        command_bytes: Some(command),
    };
    let length = message.encoded_len();
    let header = u32::try_from(length)
        .ok()
        .filter(|length| *length <= MESSAGE_BYTES_MAX)
        .and_then(|message| Some(FrameHeader { message, value: u32::try_from(value.len()).ok()? }))
        .ok_or(MessageError::TooLong(length))?;
    let mut head = BytesMut::with_capacity(HEADER_BYTES + length);
    head.put_slice(&header.encode());
    message.encode(&mut head).map_err(|_| MessageError::TooLong(length))?;
    assert_eq!(head.len(), HEADER_BYTES + length, "a message has the length that its frame states");
    Ok(OutFrame { head: head.freeze(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(frame: &OutFrame) -> Bytes {
        frame.head.slice(HEADER_BYTES..)
    }

    #[test]
    fn messages_come_back() {
        let key = HmacKey::new(b"k");
        let command = wire::Command::default();
        let by = |sender| Sealed::read(message(&seal(sender, &command, Bytes::new()).unwrap())).unwrap();
        let signed = by(Sender::Identity(Identity(7), &key));
        let Vouched::Identity { identity, hmac } = &signed.vouched else { panic!("an identity") };
        assert_eq!(*identity, Identity(7));
        assert!(key.verify(&signed.command, hmac));
        let pin = Secret::new("12");
        assert_eq!(by(Sender::Pin(Some(&pin))).vouched, Vouched::Pin(pin.clone()));
        assert_eq!(by(Sender::Device).vouched, Vouched::Unsolicited);
    }

    #[test]
    fn what_is_no_message_is_refused() {
        let read = |bytes: &[u8]| Sealed::read(Bytes::copy_from_slice(bytes)).unwrap_err();
        assert!(matches!(read(&[0xff]), MessageError::Malformed(_)));
        assert_eq!(read(&[]), MessageError::Auth(None));
        assert_eq!(read(&[0x20, 9]), MessageError::Auth(Some(9)));
        assert_eq!(read(&[0x20, 1]), MessageError::NoCommand);
    }

    #[test]
    fn a_command_that_fits_no_frame_is_not_made() {
        let keys = vec![Bytes::from(vec![0; 4096]); 256];
        let range = wire::Range { keys, ..wire::Range::default() };
        let body = wire::Body { range: Some(range), ..wire::Body::default() };
        let command = wire::Command { body: Some(body), ..wire::Command::default() };
        assert!(matches!(seal(Sender::Device, &command, Bytes::new()), Err(MessageError::TooLong(_))));
    }
}
