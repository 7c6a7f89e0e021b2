//! How the elements of an enclosure are, and their control: page 02h (SES-3, 6.1.3 and 6.1.4).

use super::{Configuration, finish, header, page};
use crate::bytes::Malformed;
use crate::code::codes;

codes! {
    open
    /// How an element is (SES-3, 7.2.3).
    ElementCode {
        Unsupported = 0x0 "unsupported",
        Ok = 0x1 "OK",
        Critical = 0x2 "critical",
        Noncritical = 0x3 "non-critical",
        Unrecoverable = 0x4 "unrecoverable",
        NotInstalled = 0x5 "not installed",
        Unknown = 0x6 "unknown",
        NotAvailable = 0x7 "not available",
        NoAccess = 0x8 "no access allowed",
    }
}

/// The four bytes of an element's status.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ElementStatus(pub [u8; 4]);

impl ElementStatus {
    /// How it is.
    #[must_use]
    pub fn code(self) -> ElementCode {
        ElementCode::of(self.0[0] & 0x0f)
    }

    /// PRDFAIL: it is expected to fail.
    #[must_use]
    pub fn is_failure_predicted(self) -> bool {
        self.0[0] & 0x40 != 0
    }

    /// DISABLED: it has been switched off.
    #[must_use]
    pub fn is_disabled(self) -> bool {
        self.0[0] & 0x20 != 0
    }

    /// As the status of a slot (SES-3, 7.3.2 and 7.3.3: bytes 2 and 3 of both kinds are alike).
    #[must_use]
    pub fn slot(self) -> SlotStatus {
        let [_, _, two, three] = self.0;
        SlotStatus {
            ready_to_insert: two & 0x08 != 0,
            remove: two & 0x04 != 0,
            identify: two & 0x02 != 0,
            fault_sensed: three & 0x40 != 0,
            fault_requested: three & 0x20 != 0,
            off: three & 0x10 != 0,
            bypassed: two & 0x30 != 0 || three & 0x0f != 0,
        }
    }

    /// Degrees Celsius of a temperature sensor (SES-3, 7.3.6); `None` if it does not tell.
    #[must_use]
    pub fn celsius(self) -> Option<i16> {
        (self.0[2] != 0).then(|| i16::from(self.0[2]) - 20)
    }

    /// Millivolts of a voltage sensor (SES-3, 7.3.20).
    #[must_use]
    pub fn millivolts(self) -> i32 {
        i32::from(i16::from_be_bytes([self.0[2], self.0[3]])) * 10
    }

    /// Milliamperes of a current sensor (SES-3, 7.3.21).
    #[must_use]
    pub fn milliamperes(self) -> i32 {
        i32::from(i16::from_be_bytes([self.0[2], self.0[3]])) * 10
    }

    /// As the status of fans (SES-3, 7.3.5).
    #[must_use]
    pub fn cooling(self) -> Cooling {
        let [_, high, low, flags] = self.0;
        let tens = u16::from_be_bytes([high & 0x07, low]);
        Cooling {
            revolutions_per_minute: u32::from(tens) * 10,
            failed: flags & 0x40 != 0,
            off: flags & 0x10 != 0,
        }
    }

    /// As the status of a power supply (SES-3, 7.3.4).
    #[must_use]
    pub fn power(self) -> Power {
        let flags = self.0[3];
        Power {
            failed: flags & 0x40 != 0,
            off: flags & 0x10 != 0,
            too_hot: flags & 0x08 != 0,
            no_input: flags & 0x02 != 0,
            no_output: flags & 0x01 != 0,
        }
    }
}

/// What is told of a slot beyond its code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotStatus {
    /// A device may be put in.
    pub ready_to_insert: bool,
    /// RMV: somebody asked for the device to be taken out.
    pub remove: bool,
    /// IDENT: its light shows where it is.
    pub identify: bool,
    /// The enclosure has noticed a fault of the device.
    pub fault_sensed: bool,
    /// Somebody asked for the fault light.
    pub fault_requested: bool,
    /// DEVICE OFF: it has no power.
    pub off: bool,
    /// A port of the device is not connected.
    pub bypassed: bool,
}

/// What is told of fans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cooling {
    /// How fast they turn.
    pub revolutions_per_minute: u32,
    /// FAIL.
    pub failed: bool,
    /// OFF.
    pub off: bool,
}

/// What is told of a power supply.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Power {
    /// FAIL.
    pub failed: bool,
    /// OFF.
    pub off: bool,
    /// OVRTMP FAIL.
    pub too_hot: bool,
    /// AC FAIL.
    pub no_input: bool,
    /// DC FAIL.
    pub no_output: bool,
}

/// What a host asks of a slot (SES-3, 7.3.2 and 7.3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotControl {
    /// RQST IDENT: its light is to show where it is.
    pub identify: bool,
}

/// How all of the enclosure is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Condition {
    /// INVOP: the last control page was not understood.
    pub invalid_operation: bool,
    /// Something has changed.
    pub information: bool,
    /// Something is non-critical.
    pub noncritical: bool,
    /// Something is critical.
    pub critical: bool,
    /// Something is unrecoverable.
    pub unrecoverable: bool,
}

/// The enclosure status page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EnclosureStatus {
    /// All of it together.
    pub condition: Condition,
    /// The generation of the configuration that it belongs to.
    pub generation: u32,
    /// Of each type the status of all of it, then that of each element.
    pub types: Vec<Vec<ElementStatus>>,
}

impl EnclosureStatus {
    const NAME: &'static str = "enclosure status page";

    /// Reads it.
    ///
    /// # Errors
    /// If it has fewer elements than `configuration`.
    pub fn decode(bytes: &[u8], configuration: &Configuration) -> Result<EnclosureStatus, Malformed> {
        let head = header(EnclosureStatus::NAME, page::STATUS, bytes)?;
        let mut body = head.body;
        let mut types = Vec::new();
        for kind in &configuration.types {
            let mut all = Vec::new();
            for _ in 0..=kind.count {
                all.push(ElementStatus(body.array()?));
            }
            types.push(all);
        }
        let condition = Condition {
            invalid_operation: head.flags & 0x10 != 0,
            information: head.flags & 0x08 != 0,
            noncritical: head.flags & 0x04 != 0,
            critical: head.flags & 0x02 != 0,
            unrecoverable: head.flags & 0x01 != 0,
        };
        Ok(EnclosureStatus { condition, generation: head.generation, types })
    }

    /// Writes it.
    ///
    /// # Panics
    /// If it is longer than 65,535 bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let c = self.condition;
        let flags = u8::from(c.invalid_operation) << 4
            | u8::from(c.information) << 3
            | u8::from(c.noncritical) << 2
            | u8::from(c.critical) << 1
            | u8::from(c.unrecoverable);
        let body: Vec<u8> = self.types.iter().flatten().flat_map(|status| status.0).collect();
        finish(page::STATUS, flags, self.generation, &body)
    }

    /// The status of an element.
    #[must_use]
    pub fn of(&self, kind: usize, element: usize) -> Option<ElementStatus> {
        self.types.get(kind)?.get(element + 1).copied()
    }

    /// The control page that asks this of one slot and leaves everything else as it is: only an element with
    /// SELECT is looked at. What the slot was asked before and is not asked again ends; so the bits that hold
    /// across requests are taken over from its status (linux: ses.c, `init_device_slot_control`).
    ///
    /// `None` if there is no such element.
    #[must_use]
    pub fn control(&self, kind: usize, element: usize, control: SlotControl) -> Option<Vec<u8>> {
        const SELECT: u8 = 0x80;
        const IDENTIFY: u8 = 0x02;
        let [_, _, two, three] = self.of(kind, element)?.0;
        let two = two & 0xde & !IDENTIFY | if control.identify { IDENTIFY } else { 0 };
        let wanted = [SELECT, 0, two, three & 0x3c];
        let mut types: Vec<Vec<ElementStatus>> =
            self.types.iter().map(|all| vec![ElementStatus::default(); all.len()]).collect();
        *types.get_mut(kind)?.get_mut(element + 1)? = ElementStatus(wanted);
        let page = EnclosureStatus { condition: Condition::default(), generation: self.generation, types };
        Some(page.encode())
    }
}
