//! What every parser of ours is fed with, and what must hold then: no panic, and what was read comes back the
//! same when it is written and read again.

mod catalogue_bytes;
mod device;
mod http;
mod identity_text;
mod iscsi_wire;
mod kist_toml;
mod logs;
mod machine;
mod pool_bytes;
mod scsi_bytes;
mod tape;

/// A parser, or several small ones of one kind.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name, and that of its directory in the corpus.
    pub name: &'static str,
    /// Panics if something does not hold.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target { name: "acl", run: identity_text::acl },
    Target { name: "token", run: identity_text::token },
    Target { name: "macaroon", run: identity_text::macaroon },
    Target { name: "certificate", run: identity_text::certificate },
    Target { name: "envelope", run: catalogue_bytes::envelope },
    Target { name: "record", run: catalogue_bytes::record },
    Target { name: "change_segment", run: tape::change_segment },
    Target { name: "label", run: tape::label },
    Target { name: "index", run: tape::index },
    Target { name: "pack", run: tape::pack },
    Target { name: "cartridge", run: tape::cartridge },
    Target { name: "drive", run: pool_bytes::drive },
    Target { name: "value_log", run: pool_bytes::value_log },
    Target { name: "access_line", run: logs::access_line },
    Target { name: "mount_line", run: logs::mount_line },
    Target { name: "audit_line", run: logs::audit_line },
    Target { name: "snapshot_manifest", run: logs::snapshot_manifest },
    Target { name: "s3_request", run: s3::fuzz::request },
    Target { name: "s3_chunks", run: s3::fuzz::chunks },
    Target { name: "s3_texts", run: s3::fuzz::texts },
    Target { name: "webdav_headers", run: webdav::fuzz::headers },
    Target { name: "webdav_xml", run: webdav::fuzz::xml },
    Target { name: "scsi_command", run: scsi_bytes::command },
    Target { name: "scsi_sense", run: scsi_bytes::sense },
    Target { name: "scsi_data", run: scsi_bytes::data },
    Target { name: "scsi_device", run: device::commands },
    Target { name: "kist_toml", run: kist_toml::load },
    Target { name: "http_headers", run: http::headers },
    Target { name: "http_address", run: http::address },
    Target { name: "tape_rest_body", run: tape_rest::fuzz::body },
    Target { name: "tape_rest_texts", run: tape_rest::fuzz::texts },
    Target { name: "tpc_text", run: http::tpc_text },
    Target { name: "iscsi_pdu", run: iscsi_wire::pdu },
    Target { name: "iscsi_text", run: iscsi_wire::text },
    Target { name: "iscsi_login", run: iscsi_wire::login },
    Target { name: "kinetic_frames", run: kinetic::fuzz::frames },
    Target { name: "kinetic_conversation", run: kinetic::fuzz::conversation },
    Target { name: "machine_record", run: machine::record },
    Target { name: "xrootd_frame", run: xrootd::fuzz::frame },
];

/// The first byte, which selects one of several parsers, and the rest.
fn split(data: &[u8]) -> (u8, &[u8]) {
    data.split_first().map_or((0, data), |(first, rest)| (*first, rest))
}
