use proptest::prelude::*;

use super::*;

const ALL: [Digests; 4] = [
    Digests { header: false, data: false },
    Digests { header: true, data: false },
    Digests { header: false, data: true },
    Digests { header: true, data: true },
];

/// RFC 7143, appendix A (RFC 3720, B.4): CRC examples.
#[test]
fn checksums_are_those_of_the_standard() {
    assert_eq!(data_digest(&[0; 32], &[]), [0xaa, 0x36, 0x91, 0x8a]);
    assert_eq!(data_digest(&[0xff; 32], &[]), [0x43, 0xab, 0xa8, 0x62]);
    let rising: Vec<u8> = (0..32).collect();
    assert_eq!(data_digest(&rising, &[]), [0x4e, 0x79, 0xdd, 0x46]);
    let read = [
        0x01, 0xc0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0, 0, 0, 0, 0x14, 0,
        0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_eq!(header_digest(&read, &[]), [0x56, 0x3a, 0x96, 0xd9], "a READ command");
    let Ok(Pdu::Command(command)) = Pdu::decode(&read) else { panic!("a command") };
    assert_eq!((command.read, command.write, command.last), (true, false, true));
    assert_eq!((command.tag, command.expected_length), (Tag(0x1400_0000), 0x400));
    assert_eq!(command.numbers, Sent { command: Serial(0x14), expected_answer: Serial(0x18) });
    assert_eq!(command.cdb[..10], [0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0]);
}

/// Every opcode once, with all other bytes different: what a field holds, it holds alone.
#[test]
fn each_pdu_comes_back_and_no_field_shares_bytes_with_another() {
    let mut known = 0;
    for opcode in 0..64 {
        let mut header = [0; HEADER];
        for (at, byte) in header.iter_mut().enumerate() {
            *byte = at as u8;
        }
        header[0] = opcode;
        // Stage 0 to 1 of a login; no residual.
        header[1] = 0x81;
        let Ok(pdu) = Pdu::decode(&header) else { continue };
        known += 1;
        let encoded = pdu.encode(0x0123);
        assert_eq!(Pdu::decode(&encoded), Ok(pdu), "{opcode:02X}h");
        assert_eq!(encoded[4..8], [0, 0, 0x01, 0x23]);
        for at in 8..HEADER {
            let fills = [header[at], 0, 0xff];
            assert!(fills.contains(&encoded[at]), "{opcode:02X}h, byte {at}: {:02X}", encoded[at]);
        }
    }
    assert_eq!(known, 18);
}

#[test]
fn data_at_the_limit_is_taken_and_one_byte_more_is_not() {
    let pdu = Pdu::Reject(Reject { reason: 4, numbers: Answered::default(), number: Serial(0) });
    for digests in ALL {
        let whole = pdu.whole(&[7; 100], digests);
        assert_eq!(split(&whole, digests, 100).map(|whole| whole.data.len()), Ok(100));
        let fault = PduError::TooLong { length: 100, most: 99 };
        assert_eq!(split(&whole, digests, 99), Err(fault));
    }
}

#[test]
fn additional_headers_are_skipped_and_checked() {
    let pdu = Pdu::TextRequest(TextRequest {
        immediate: false,
        last: true,
        goes_on: false,
        lun: Lun::default(),
        tag: Tag(1),
        target_tag: Tag::NONE,
        numbers: Sent::default(),
    });
    let mut header = pdu.encode(5);
    header[4] = 3;
    let mut bytes = header.to_vec();
    bytes.extend([9; 12]);
    bytes.extend(header_digest(&header, &[9; 12]));
    bytes.extend(b"hello\0\0\0");
    let digests = Digests { header: true, data: false };
    let whole = split(&bytes, digests, 8192);
    assert_eq!(whole, Ok(Whole { pdu, data: b"hello", length: bytes.len() }));
    bytes[HEADER + 4] ^= 1;
    assert_eq!(split(&bytes, digests, 8192), Err(PduError::HeaderDigest));
}

proptest! {
    #[test]
    fn any_header_is_refused_or_comes_back(header: [u8; HEADER]) {
        if let Ok(pdu) = Pdu::decode(&header) {
            prop_assert_eq!(Pdu::decode(&pdu.encode(17)), Ok(pdu));
        }
    }

    #[test]
    fn whole_pdus_come_back_and_their_parts_are_cut_off(
        mut header: [u8; HEADER],
        data in prop::collection::vec(any::<u8>(), 0..70),
        kind in 0..4usize,
        flip: prop::sample::Index,
    ) {
        header[0] &= 0x3f;
        let Ok(pdu) = Pdu::decode(&header) else { return Ok(()) };
        let digests = ALL[kind];
        let whole = pdu.whole(&data, digests);
        prop_assert_eq!(split(&whole, digests, 70), Ok(Whole { pdu, data: &data, length: whole.len() }));
        for length in 0..whole.len() {
            prop_assert_eq!(split(&whole[..length], digests, 70), Err(PduError::Short));
        }
        if digests.header && digests.data && !data.is_empty() {
            // No single bit goes unnoticed.
            let mut changed = whole.clone();
            let bit = flip.index(whole.len() * 8);
            changed[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(split(&changed, digests, 70).is_err());
        }
    }

    #[test]
    fn any_bytes_are_harmless(bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..4usize) {
        if let Ok(whole) = split(&bytes, ALL[kind], 1 << 20) {
            prop_assert!(whole.length <= bytes.len());
        }
    }
}
