use super::pages::{NextBlockHead, SetHead, StatusHead};
use super::*;
use crate::bytes::Packed;
use crate::bytes::tests::{any_bytes, hex, packed};

fn kad() -> KeyAssociatedData {
    KeyAssociatedData { kind: KadType::Authenticated, authenticated: 1, data: b"key-17".to_vec() }
}

fn set() -> SetDataEncryption {
    SetDataEncryption {
        scope: EncryptionScope::AllNexus,
        clear_on_demount: true,
        encryption: EncryptionMode::Encrypt,
        decryption: DecryptionMode::Mixed,
        algorithm: 1,
        key: EncryptionKey(vec![0xaa; 32]),
        associated: vec![kad()],
        ..SetDataEncryption::default()
    }
}

#[test]
fn hold_as_structures() {
    packed::<EncryptionAlgorithm>();
    packed::<StatusHead>();
    packed::<NextBlockHead>();
    packed::<SetHead>();
}

/// Positions of all fields as FreeBSD (sys/cam/scsi/scsi_sa.h) and stenc (src/scsiencrypt.h) have them.
#[test]
fn the_fields_lie_where_others_have_them() {
    let algorithm = "ff 00 ff ff ff ff ff ff ff ff ff ff ff 0f ff ff ff ff 00 00 ff ff ff ff";
    assert_eq!(EncryptionAlgorithm::usage(), hex(algorithm));
    assert_eq!(StatusHead::usage(), hex("e7 ff ff ff ff ff ff ff 7f ff ff ff 00 00 00 00 00 00 00 00"));
    assert_eq!(NextBlockHead::usage(), hex("ff ff ff ff ff ff ff ff ff ff 03 ff"));
    assert_eq!(SetHead::usage(), hex("e1 ff ff ff ff ff ff 00 00 00 00 00 00 00"));
    let bytes = "01 00 00 14 a6 54 00 20 00 0c 00 20 e8 03 00 01 00 40 00 00 00 01 00 14";
    let read = EncryptionAlgorithm::decode(&hex(bytes)).unwrap();
    assert!(read.usable_with_volume && read.authenticates && !read.supplemental_keys);
    assert_eq!((read.decrypts, read.encrypts, read.volume_position, read.nonce), (1, 2, 1, 1));
    assert!(read.contains_encrypted && !read.associated_data_format);
    assert_eq!((read.unauthenticated_max, read.authenticated_max, read.key_size), (32, 12, 32));
    assert_eq!((read.decryption_data, read.external_mode, read.raw_mode), (3, 2, 4));
    assert_eq!((read.encrypted_keys_max, read.supplemental_keys_max), (3, 1));
    assert_eq!((read.encrypted_key_size_max, read.algorithm), (64, EncryptionAlgorithm::AES_256_GCM));
}

/// By the table of SSC-5, 8.7.3.2, which CTA, taped/scsi/Structures.hpp, has as spoutSDEParam_t.
#[test]
fn a_key_is_set_by_the_bytes_of_the_table() {
    let mut bytes = hex("00 10 00 3a 40 04 02 03 01 00 00 00 00 00 00 00 00 00 00 20");
    bytes.resize(52, 0xaa);
    bytes.extend(hex("01 01 00 06 6b 65 79 2d 31 37"));
    assert_eq!((set().encode(), SetDataEncryption::decode(&bytes)), (bytes, Ok(set())));
    assert!(!format!("{:?}", set()).contains("170"), "the key is not shown");
}

#[test]
fn another_page_is_refused() {
    let error = EncryptionStatus::decode(&set().encode()).unwrap_err();
    assert_eq!((error.at, error.fault), (0, Fault::Value { field: "the page code", value: 0x10 }));
    let mut bytes =
        EncryptionCapabilities { algorithms: vec![EncryptionAlgorithm::default()], ..Default::default() }
            .encode();
    bytes[23] = 21;
    assert_eq!(EncryptionCapabilities::decode(&bytes).unwrap_err().at, 22);
}

#[test]
fn nothing_panics() {
    let status = EncryptionStatus { control: 1, associated: vec![kad(), kad()], ..Default::default() };
    let next = NextBlockStatus { object: 9, associated: vec![kad()], ..Default::default() };
    let algorithm = EncryptionAlgorithm {
        index: 1,
        key_size: 32,
        algorithm: EncryptionAlgorithm::AES_256_GCM,
        ..EncryptionAlgorithm::default()
    };
    let capabilities = EncryptionCapabilities { algorithms: vec![algorithm; 2], ..Default::default() };
    let pages = EncryptionPages { out: true, pages: vec![page::SET_DATA_ENCRYPTION] };
    let protocols = ProtocolList(vec![PROTOCOL_INFORMATION, PROTOCOL_TAPE_ENCRYPTION]);
    assert_eq!(protocols.encode(), hex("00 00 00 00 00 00 00 02 00 20"));
    assert_eq!(pages.encode(), hex("00 01 00 02 00 10"));
    let samples = [
        set().encode(),
        status.encode(),
        next.encode(),
        capabilities.encode(),
        pages.encode(),
        protocols.encode(),
    ];
    assert_eq!(NextBlockStatus::decode(&samples[2]), Ok(next));
    any_bytes(&samples, |bytes| {
        if let Ok(read) = SetDataEncryption::decode(bytes) {
            assert_eq!(SetDataEncryption::decode(&read.encode()), Ok(read));
        }
        if let Ok(read) = EncryptionStatus::decode(bytes) {
            assert_eq!(EncryptionStatus::decode(&read.encode()), Ok(read));
        }
        if let Ok(read) = NextBlockStatus::decode(bytes) {
            assert_eq!(NextBlockStatus::decode(&read.encode()), Ok(read));
        }
        if let Ok(read) = EncryptionCapabilities::decode(bytes) {
            assert_eq!(EncryptionCapabilities::decode(&read.encode()), Ok(read));
        }
        if let Ok(read) = EncryptionPages::decode(bytes) {
            assert_eq!(EncryptionPages::decode(&read.encode()), Ok(read));
        }
        if let Ok(read) = ProtocolList::decode(bytes) {
            assert_eq!(ProtocolList::decode(&read.encode()), Ok(read));
        }
    });
}
