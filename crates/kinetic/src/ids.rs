//! Numbers that must not be confused.

macro_rules! numbers {
    ($($(#[$about:meta])* $name:ident($type:ty);)+) => {
        $(
            $(#[$about])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
            pub struct $name(pub $type);
        )+
    };
}

numbers! {
    /// The number of a request on its connection: strictly increasing.
    Sequence(i64);
    /// The number that a device gave a connection.
    ConnectionId(i64);
    /// The generation of a cluster: a device refuses who has another one.
    ClusterVersion(i64);
    /// Who asks: the number of an access list.
    Identity(i64);
    /// The number of a batch on its connection.
    BatchNumber(u32);
}
