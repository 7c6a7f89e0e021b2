//! What is known of the connection that a request came over: the listener puts these into the extensions of
//! each request, for every door behind it.

use std::net::SocketAddr;
use std::sync::Arc;

/// The address of the client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Peer(pub SocketAddr);

/// The connection is encrypted; without this extension it is in clear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Encrypted {
    /// Whether it is TLS 1.3; otherwise 1.2.
    pub tls13: bool,
}

/// The certificate that the client has shown, in DER. The listener has checked that it is signed by a trusted
/// authority, is in its time, and that the client holds its private key; what its holder may do is for the
/// doors to decide.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientCertificate(pub Arc<[u8]>);
