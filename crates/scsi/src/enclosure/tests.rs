use super::*;
use crate::bytes::Text;
use crate::bytes::tests::{any_bytes, hex};

/// Two slots, a temperature sensor and an expander.
fn configuration() -> Configuration {
    let kind = |kind, count, text: &str| ElementType { kind, count, subenclosure: 0, text: text.into() };
    let types = vec![
        kind(ElementKind::ArrayDeviceSlot, 2, "ArrayDevicesInSubEnclsr0"),
        kind(ElementKind::Temperature, 1, ""),
        kind(ElementKind::Expander, 1, "Expander"),
    ];
    let enclosure = Subenclosure {
        processes: 0x11,
        id: 0,
        types: 3,
        identifier: 0x500c_0ff0_1234_5600,
        vendor: Text::new("DELL").unwrap(),
        product: Text::new("Array584EMM").unwrap(),
        revision: Text::new("2071").unwrap(),
        vendor_specific: vec![1, 2, 3, 4],
    };
    Configuration { generation: 7, enclosures: vec![enclosure], types }
}

/// The same as bytes, put together by the tables of SES-3.
const CONFIGURATION: &str = "
    01 00 00 5c 00 00 00 07
    11 00 03 28 50 0c 0f f0 12 34 56 00 44 45 4c 4c 20 20 20 20
    41 72 72 61 79 35 38 34 45 4d 4d 20 20 20 20 20 32 30 37 31 01 02 03 04
    17 02 00 18 04 01 00 00 18 01 00 08
    41 72 72 61 79 44 65 76 69 63 65 73 49 6e 53 75 62 45 6e 63 6c 73 72 30
    45 78 70 61 6e 64 65 72";

fn status() -> EnclosureStatus {
    let of = |bytes: [u8; 4]| ElementStatus(bytes);
    EnclosureStatus {
        condition: Condition { critical: true, ..Condition::default() },
        generation: 7,
        types: vec![
            vec![of([1, 0, 0, 0]), of([1, 0, 0, 0]), of([0x42, 0, 0x42, 0x60])],
            vec![of([1, 0, 0, 0]), of([1, 0, 55, 0])],
            vec![of([1, 0, 0, 0]), of([1, 0, 0, 0])],
        ],
    }
}

fn additional() -> Additional {
    let phy = SlotPhy {
        device_type: 1,
        target: 8,
        attached: 0x500c_0ff0_1234_563f,
        address: 0x5000_c500_a1b2_c3d5,
        number: 0,
    };
    let slot = |index, slot, phys| AdditionalElement {
        invalid: false,
        protocol: 6,
        index: Some((1, index)),
        sas: SasElement::Slot { slot: Some(slot), more: true, phys },
    };
    let expander = SasElement::Expander {
        address: 0x500c_0ff0_1234_563f,
        phys: vec![ExpanderPhy { connector: 0xff, other: 1 }, ExpanderPhy { connector: 9, other: 0xff }],
    };
    let expander = AdditionalElement { invalid: false, protocol: 6, index: Some((1, 6)), sas: expander };
    Additional { generation: 7, elements: vec![slot(1, 41, vec![phy]), slot(2, 42, vec![]), expander] }
}

#[test]
fn a_configuration_is_the_bytes_of_the_tables() {
    assert_eq!(configuration().encode(), hex(CONFIGURATION));
    assert_eq!(Configuration::decode(&hex(CONFIGURATION)), Ok(configuration()));
    assert_eq!(configuration().type_name(2), "Expander");
}

#[test]
fn the_status_of_slots_and_sensors() {
    let bytes = status().encode();
    assert_eq!(bytes[..8], [2, 2, 0, 32, 0, 0, 0, 7]);
    let read = EnclosureStatus::decode(&bytes, &configuration()).unwrap();
    assert_eq!(read, status());
    let bad = read.of(0, 1).unwrap();
    assert_eq!((bad.code(), bad.is_failure_predicted()), (ElementCode::Critical, true));
    let slot = bad.slot();
    assert!(slot.identify && slot.fault_sensed && slot.fault_requested && !slot.off && !slot.bypassed);
    assert_eq!(read.of(1, 0).unwrap().celsius(), Some(35));
    assert_eq!(ElementStatus([1, 0x02, 0x58, 0x40]).cooling().revolutions_per_minute, 6000);
    assert_eq!(ElementStatus([1, 0, 0x04, 0xb6]).millivolts(), 12_060);
}

/// A light is switched for one slot; the fault that was asked for stays, all other slots are left alone.
#[test]
fn a_light_is_asked_of_one_slot_only() {
    let status = status();
    for (identify, two) in [(true, 0x42), (false, 0x40)] {
        let page = status.control(0, 1, SlotControl { identify }).unwrap();
        let mut expected = vec![2, 0, 0, 32, 0, 0, 0, 7];
        expected.extend([0; 8]);
        expected.extend([0x80, 0, two, 0x20]);
        expected.extend([0; 16]);
        assert_eq!(page, expected);
    }
    assert_eq!(status.control(0, 2, SlotControl::default()), None);
    assert_eq!(status.control(3, 0, SlotControl::default()), None);
}

#[test]
fn names_and_limits() {
    let names = Descriptors {
        generation: 7,
        types: vec![
            vec![b"".to_vec(), b"SLOT 41".to_vec(), b"SLOT 42 ".to_vec()],
            vec![vec![], b"PSU temp".to_vec()],
            vec![vec![], vec![]],
        ],
    };
    let read = Descriptors::decode(&names.encode(), &configuration()).unwrap();
    assert_eq!(read, names);
    assert_eq!((read.name(0, 1), read.name(2, 0).len(), read.name(9, 9).len()), ("SLOT 42".into(), 0, 0));
    let limit = Limits { high_critical: 75, high_warning: 70, low_warning: 25, low_critical: 20 };
    let limits = Thresholds {
        invalid_operation: false,
        generation: 7,
        types: vec![vec![Limits::default(); 3], vec![limit, Limits::default()], vec![Limits::default(); 2]],
    };
    let read = Thresholds::decode(&limits.encode(), &configuration()).unwrap();
    assert_eq!(read, limits);
    assert_eq!(read.of(1, 0).celsius_high(), (Some(50), Some(55)));
    assert_eq!(read.of(0, 0).celsius_high(), (None, None));
}

#[test]
fn what_is_attached_is_found_by_its_place() {
    let bytes = additional().encode();
    let first = "16 22 01 01 01 01 00 29 10 00 00 08 50 0c 0f f0 12 34 56 3f 50 00 c5 00 a1 b2 c3 d5 00";
    assert_eq!(bytes[8..37], hex(first));
    let read = Additional::decode(&bytes).unwrap();
    assert_eq!(read, additional());
    let place = |kind, element| AdditionalPlace { kind, element };
    let configuration = configuration();
    let places: Vec<_> = read.placed(&configuration).into_iter().map(|(place, _)| place).collect();
    assert_eq!(places, [place(0, 0), place(0, 1), place(2, 0)]);
    // Without EIIOE the entries of types do not count; without EIP the order decides.
    let mut other = additional();
    for (element, index) in other.elements.iter_mut().zip([0, 1, 3]) {
        element.index = Some((0, index));
    }
    assert_eq!(other.placed(&configuration).into_iter().map(|(place, _)| place).collect::<Vec<_>>(), places);
    other.elements.iter_mut().for_each(|element| element.index = None);
    assert_eq!(other.placed(&configuration).into_iter().map(|(place, _)| place).collect::<Vec<_>>(), places);
}

#[test]
fn another_page_than_the_one_asked_for_is_refused() {
    let error = Configuration::decode(&status().encode()).unwrap_err();
    assert_eq!((error.at, error.structure), (0, "enclosure configuration page"));
}

#[test]
fn nothing_panics() {
    any_bytes(&[configuration().encode()], |bytes| {
        if let Ok(read) = Configuration::decode(bytes) {
            assert_eq!(Configuration::decode(&read.encode()), Ok(read.clone()));
            let _ = (status().of(0, 0), additional().placed(&read));
            let _ = EnclosureStatus::decode(&status().encode(), &read);
        }
    });
    any_bytes(&[additional().encode()], |bytes| {
        if let Ok(read) = Additional::decode(bytes) {
            assert_eq!(Additional::decode(&read.encode()), Ok(read));
        }
    });
    let configuration = configuration();
    any_bytes(&[status().encode()], |bytes| {
        if let Ok(read) = EnclosureStatus::decode(bytes, &configuration) {
            assert_eq!(EnclosureStatus::decode(&read.encode(), &configuration), Ok(read.clone()));
            let _ = read.control(0, 0, SlotControl { identify: true });
        }
        let _ = Thresholds::decode(bytes, &configuration);
        let _ = Descriptors::decode(bytes, &configuration);
    });
}
