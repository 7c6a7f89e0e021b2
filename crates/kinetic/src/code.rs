//! The numbers of the protocol and their names.

/// An enum of the protocol: its numbers, and nothing for a number that is not in the table.
macro_rules! codes {
    ($(#[$about:meta])* $name:ident { $($variant:ident = $number:literal, $text:literal;)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name { $(#[doc = $text] $variant,)+ }

        impl $name {
            /// All of the table.
            pub const ALL: &[$name] = &[$($name::$variant,)+];

            /// The one with this number.
            #[must_use]
            pub fn from_number(number: i32) -> Option<Self> {
                match number {
                    $($number => Some($name::$variant),)+
                    _ => None,
                }
            }

            /// Its number.
            #[must_use]
            pub fn number(self) -> i32 {
                match self { $($name::$variant => $number,)+ }
            }
        }
    };
}

codes! {
    /// Who vouches for a message.
    AuthType {
        Hmac = 1, "An identity, by the HMAC of the command.";
        Pin = 2, "A PIN of the device.";
        Unsolicited = 3, "Nobody: the device speaks by itself.";
    }
}

codes! {
    /// What is asked for. The answer to a request has its number less one.
    MessageType {
        Get = 2, "The value of a key.";
        Put = 4, "Stores a value.";
        Delete = 6, "Removes a key.";
        GetNext = 8, "The entry behind a key.";
        GetPrevious = 10, "The entry before a key.";
        GetKeyRange = 12, "The keys of a range.";
        GetVersion = 16, "The version of a key.";
        Setup = 22, "Cluster version, firmware.";
        GetLog = 24, "What the device knows of itself.";
        Security = 26, "Access lists and PINs.";
        Peer2PeerPush = 28, "The device puts entries to another device.";
        Noop = 30, "Nothing, but an answer.";
        FlushAllData = 32, "Makes durable what was written back.";
        PinOp = 36, "Unlock, lock, erase.";
        MediaScan = 38, "Reads the values of a range and checks those with known tags.";
        MediaOptimize = 40, "Tidies the medium.";
        StartBatch = 42, "Opens a batch.";
        EndBatch = 44, "Commits a batch.";
        AbortBatch = 46, "Gives a batch up.";
        SetPowerLevel = 48, "Operational, hibernating, shut down.";
    }
}

impl MessageType {
    /// The number of the answer.
    #[must_use]
    pub fn response_number(self) -> i32 {
        self.number() - 1
    }

    /// The request to which this is the number of an answer.
    #[must_use]
    pub fn from_response_number(number: i32) -> Option<Self> {
        MessageType::from_number(number.checked_add(1)?)
    }

    /// Whether it is counted among the outstanding reads; all others are counted among the writes.
    #[must_use]
    pub fn is_read(self) -> bool {
        use MessageType::{Get, GetKeyRange, GetLog, GetNext, GetPrevious, GetVersion, Noop};
        matches!(self, Get | GetNext | GetPrevious | GetVersion | GetKeyRange | GetLog | Noop)
    }
}

codes! {
    /// How a request ended.
    StatusCode {
        Invalid = -1, "No status, or one that this table does not have.";
        NotAttempted = 0, "Part of a push that was not tried.";
        Success = 1, "Done.";
        HmacFailure = 2, "Unknown identity, or its HMAC does not agree.";
        NotAuthorized = 3, "The identity or the PIN does not allow it.";
        VersionFailure = 4, "Another cluster version.";
        InternalError = 5, "The device failed.";
        HeaderRequired = 6, "The command had no header.";
        NotFound = 7, "No such key, or no such log.";
        VersionMismatch = 8, "The entry has another version than the one expected.";
        ServiceBusy = 9, "Too much at once; again later.";
        Expired = 10, "Its time ended midway. This does not say that it failed.";
        DataError = 11, "Not readable within its time, or without all error recovery.";
        PermDataError = 12, "Not readable at all.";
        RemoteConnectionError = 13, "The peer of a push was not reached.";
        NoSpace = 14, "The device is full.";
        NoSuchHmacAlgorithm = 15, "An access list names an HMAC that the device does not have.";
        InvalidRequest = 16, "The request is wrong and will stay so.";
        NestedOperationErrors = 17, "The push was done, some of its operations failed.";
        DeviceLocked = 18, "The device is locked.";
        DeviceAlreadyUnlocked = 19, "The device is not locked.";
        ConnectionTerminated = 20, "The device ends the connection.";
        InvalidBatch = 21, "The batch is wrong and will stay so.";
        Hibernate = 22, "The device hibernates.";
        Shutdown = 23, "The device shuts down.";
    }
}

impl StatusCode {
    /// Whether a write that ended so may have been done all the same: then the device is to be asked.
    #[must_use]
    pub fn leaves_doubt(self) -> bool {
        matches!(self, StatusCode::Invalid | StatusCode::InternalError | StatusCode::Expired)
    }
}

codes! {
    /// When a write is durable.
    Synchronization {
        WriteThrough = 1, "Before it is answered.";
        WriteBack = 2, "When the device likes, or with the next flush.";
        Flush = 3, "Before it is answered, and with it all that was written back and answered before.";
    }
}

codes! {
    /// A log.
    LogType {
        Utilizations = 0, "How busy the parts of the device are.";
        Temperatures = 1, "How warm they are.";
        Capacities = 2, "Its capacity, and how full it is.";
        Configuration = 3, "Who made it, where it is reached.";
        Statistics = 4, "Requests and bytes by type, since it started.";
        Messages = 5, "Text for people.";
        Limits = 6, "What it accepts.";
        Device = 7, "A log of its maker, by name.";
    }
}

codes! {
    /// How awake a device is.
    PowerLevel {
        Operational = 1, "It does everything.";
        Hibernate = 2, "It only changes its power level.";
        Shutdown = 3, "It stops.";
        Fail = 4, "It has failed.";
    }
}

codes! {
    /// What is done with a PIN.
    PinOperation {
        Unlock = 1, "Opens a locked device.";
        Lock = 2, "Locks it.";
        Erase = 3, "Removes all data and settings.";
        SecureErase = 4, "The same, so that nothing is left on the medium.";
    }
}

codes! {
    /// What a SECURITY request changes.
    SecurityOperation {
        Acl = 1, "The access lists.";
        ErasePin = 2, "The PIN for erasing.";
        LockPin = 3, "The PIN for locking.";
    }
}

codes! {
    /// What a SETUP request changes.
    SetupOperation {
        Firmware = 1, "The program of the device, which is the value.";
        ClusterVersion = 2, "The cluster version.";
    }
}

codes! {
    /// What a scope allows.
    Permission {
        Read = 0, "Read values, versions and metadata.";
        Write = 1, "Put.";
        Delete = 2, "Delete.";
        Range = 3, "List keys; scan and optimise ranges.";
        Setup = 4, "Set cluster version and firmware.";
        PeerToPeer = 5, "Push to other devices.";
        GetLog = 7, "Read logs.";
        Security = 8, "Set access lists and PINs.";
        PowerManagement = 9, "Set the power level.";
    }
}

/// The only HMAC that there is: HmacSHA1.
pub const HMAC_SHA1: i32 = 1;

/// What a tag is. An open list: numbers from 100 on are private.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Algorithm(pub i32);

impl Algorithm {
    /// SHA-1.
    pub const SHA1: Algorithm = Algorithm(1);
    /// SHA-2; the length of the tag says which.
    pub const SHA2: Algorithm = Algorithm(2);
    /// SHA-3; the length of the tag says which.
    pub const SHA3: Algorithm = Algorithm(3);
    /// CRC-32C. In the list of version 3.0.6 this number is called CRC32.
    pub const CRC32C: Algorithm = Algorithm(4);
    /// CRC-64; the tables do not say which.
    pub const CRC64: Algorithm = Algorithm(5);
    /// CRC-32 of Ethernet; not in the list of version 3.0.6.
    pub const CRC32: Algorithm = Algorithm(6);
    /// The first private number.
    pub const PRIVATE_FIRST: Algorithm = Algorithm(100);
}

/// What is done first: 1 to 9, a higher one before a lower one. Older devices know only the odd ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Priority(i32);

impl Priority {
    /// The lowest.
    pub const LOWEST: Priority = Priority(1);
    /// Where none is given.
    pub const NORMAL: Priority = Priority(5);
    /// The highest.
    pub const HIGHEST: Priority = Priority(9);

    /// The one with this number.
    #[must_use]
    pub fn from_number(number: i32) -> Option<Self> {
        (Self::LOWEST.0..=Self::HIGHEST.0).contains(&number).then_some(Priority(number))
    }

    /// Its number.
    #[must_use]
    pub fn number(self) -> i32 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for one in MessageType::ALL {
            assert_eq!(MessageType::from_number(one.number()), Some(*one));
            assert_eq!(MessageType::from_response_number(one.response_number()), Some(*one));
            assert_eq!(MessageType::from_number(one.response_number()), None, "no answer is a request");
        }
        for one in StatusCode::ALL {
            assert_eq!(StatusCode::from_number(one.number()), Some(*one));
        }
        assert_eq!(StatusCode::from_number(24), None);
        assert_eq!(MessageType::from_response_number(i32::MAX), None);
    }

    #[test]
    fn priorities_run_from_1_to_9() {
        let known: Vec<i32> = (-1..12).filter(|number| Priority::from_number(*number).is_some()).collect();
        assert_eq!(known, (1..=9).collect::<Vec<_>>());
    }
}
