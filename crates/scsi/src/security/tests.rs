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
    packed::<EncryptionManagement>();
}

/// Positions of all fields as FreeBSD (sys/cam/scsi/scsi_sa.h) and stenc (src/scsiencrypt.h) have them.
#[test]
fn the_fields_lie_where_others_have_them() {
    let algorithm = "ff 00 ff ff ff ff ff ff ff ff ff ff ff 0f ff ff ff ff 00 00 ff ff ff ff";
    assert_eq!(EncryptionAlgorithm::usage(), hex(algorithm));
    assert_eq!(StatusHead::usage(), hex("e7 ff ff ff ff ff ff ff 7f ff ff ff 00 00 00 00 00 00 00 00"));
    assert_eq!(NextBlockHead::usage(), hex("ff ff ff ff ff ff ff ff ff ff 03 ff"));
    assert_eq!(EncryptionManagement::usage(), hex("01 07 00 07 00 00 00 00 00 00 00 00"));
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

/// By the tables of SSC-5, 8.7.2.4 to 8.7.2.9 in the pages' order, as an LTO drive answers.
#[test]
fn pages_are_the_bytes_of_the_tables() {
    let algorithm = EncryptionAlgorithm {
        index: 1,
        usable_with_volume: true,
        authenticates: true,
        distinguishes_blocks: true,
        decrypts: EncryptionAlgorithm::BY_HARDWARE,
        encrypts: EncryptionAlgorithm::BY_HARDWARE,
        nonce: 1,
        unauthenticated_max: 32,
        authenticated_max: 12,
        key_size: 32,
        decryption_data: 3,
        external_mode: 1,
        algorithm: EncryptionAlgorithm::AES_256_GCM,
        ..EncryptionAlgorithm::default()
    };
    let page = EncryptionCapabilities {
        external_control: 1,
        configuration_prevented: 1,
        algorithms: vec![algorithm],
    };
    let mut bytes = hex("00 10 00 28 05");
    bytes.resize(20, 0);
    bytes.extend(hex("01 00 00 14 ba 10 00 20 00 0c 00 20 d0 00 00 00 00 00 00 00 00 01 00 14"));
    assert_eq!((page.encode(), EncryptionCapabilities::decode(&bytes)), (bytes, Ok(page)));

    let page = KeyFormats(vec![KeyFormats::PLAIN_TEXT]);
    assert_eq!(
        (page.encode(), KeyFormats::decode(&hex("00 11 00 01 00"))),
        (hex("00 11 00 01 00"), Ok(page))
    );

    let page = EncryptionManagement {
        lock: true,
        clear_on_demount: true,
        clear_on_reservation_loss: true,
        all_nexus: true,
        public: true,
        ..EncryptionManagement::default()
    };
    let bytes = hex("00 12 00 0c 01 05 00 05 00 00 00 00 00 00 00 00");
    assert_eq!((page.encode_page(), EncryptionManagement::decode_page(&bytes)), (bytes, Ok(page)));

    let page = EncryptionStatus {
        nexus_scope: EncryptionScope::AllNexus,
        key_scope: EncryptionScope::AllNexus,
        encryption: EncryptionMode::Encrypt,
        decryption: DecryptionMode::Mixed,
        algorithm: 1,
        key_instance: 0x0102_0304,
        control: 1,
        contains_encrypted: true,
        associated: vec![KeyAssociatedData {
            kind: KadType::Unauthenticated,
            authenticated: 0,
            data: b"K7".to_vec(),
        }],
        ..EncryptionStatus::default()
    };
    let mut bytes = hex("00 20 00 1a 42 02 03 01 01 02 03 04 18 00 00 00");
    bytes.resize(24, 0);
    bytes.extend(hex("00 00 00 02 4b 37"));
    assert_eq!(KeyAssociatedData::find(&page.associated, KadType::Unauthenticated), b"K7");
    assert_eq!(KeyAssociatedData::find(&page.associated, KadType::Authenticated), b"");
    assert_eq!((page.encode(), EncryptionStatus::decode(&bytes)), (bytes, Ok(page)));

    let page = NextBlockStatus {
        object: 0x1122,
        compression: 2,
        encryption: BlockEncryption::OtherKey,
        algorithm: 1,
        raw_disabled: true,
        associated: vec![kad()],
        ..NextBlockStatus::default()
    };
    let bytes = hex("00 21 00 16 00 00 00 00 00 00 11 22 26 01 01 00 01 01 00 06 6b 65 79 2d 31 37");
    assert_eq!((page.encode(), NextBlockStatus::decode(&bytes)), (bytes, Ok(page)));
}

#[test]
fn a_page_that_is_cut_off_is_refused() {
    let status = EncryptionStatus { associated: vec![kad()], ..EncryptionStatus::default() };
    let next = NextBlockStatus { associated: vec![kad()], ..NextBlockStatus::default() };
    let algorithms = vec![EncryptionAlgorithm::default()];
    let capabilities = EncryptionCapabilities { algorithms, ..EncryptionCapabilities::default() };
    fn none<T>(bytes: &[u8], decode: fn(&[u8]) -> Result<T, Malformed>) {
        assert!(decode(bytes).is_ok());
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).is_err(), "cut off at {length} of {bytes:x?}");
        }
    }
    none(&set().encode(), SetDataEncryption::decode);
    none(&status.encode(), EncryptionStatus::decode);
    none(&next.encode(), NextBlockStatus::decode);
    none(&capabilities.encode(), EncryptionCapabilities::decode);
    none(&KeyFormats(vec![0]).encode(), KeyFormats::decode);
    none(&EncryptionManagement::default().encode_page(), EncryptionManagement::decode_page);
    none(&EncryptionPages { out: false, pages: vec![0, 1] }.encode(), EncryptionPages::decode);
    none(&ProtocolList(vec![0, 0x20]).encode(), ProtocolList::decode);
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
        KeyFormats(vec![0, 2]).encode(),
        EncryptionManagement { lock: true, ..EncryptionManagement::default() }.encode_page(),
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
        if let Ok(read) = KeyFormats::decode(bytes) {
            assert_eq!(KeyFormats::decode(&read.encode()), Ok(read));
        }
        if let Ok(read) = EncryptionManagement::decode_page(bytes) {
            assert_eq!(EncryptionManagement::decode_page(&read.encode_page()), Ok(read));
        }
        if let Ok(read) = ProtocolList::decode(bytes) {
            assert_eq!(ProtocolList::decode(&read.encode()), Ok(read));
        }
    });
}
