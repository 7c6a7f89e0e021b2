//! What an iSCSI initiator or target says: PDUs, texts, logins.

use iscsi::login::{
    Access, Account, Challenge, Hash, InitiatorLogin, Name, Outcome, Parameters, TargetLogin,
};
use iscsi::pdu::{Digests, Pdu, Stage, split};
use iscsi::text::{Keys, binary, hexadecimal, is_yes, number};

/// PDUs behind each other; the first byte says which checksums they have.
pub(crate) fn pdu(data: &[u8]) {
    let (kind, data) = data.split_first().map_or((0, data), |(first, rest)| (*first, rest));
    let digests = Digests { header: kind & 1 == 1, data: kind & 2 == 2 };
    let mut rest = data;
    while let Ok(whole) = split(rest, digests, 1 << 20) {
        let again = whole.pdu.whole(whole.data, digests);
        let back = split(&again, digests, 1 << 20).expect("what was read can be written");
        assert_eq!((back.pdu, back.data), (whole.pdu, whole.data));
        rest = &rest[whole.length..];
    }
    // Where the checksums are wrong, the header may be looked at all the same.
    if let Some(Ok(pdu)) = data.first_chunk().map(Pdu::decode) {
        assert_eq!(Pdu::decode(&pdu.encode(0)), Ok(pdu));
    }
}

/// Keys and values.
pub(crate) fn text(data: &[u8]) {
    let Ok(keys) = Keys::parse(data) else { return };
    assert_eq!(Keys::parse(&keys.bytes()).as_ref(), Ok(&keys));
    for (_, value) in keys.iter() {
        let _ = (number(value), is_yes(value), Name::new(value));
        if let Some(bytes) = binary(value) {
            assert_eq!(binary(&hexadecimal(&bytes)), Some(bytes));
        }
    }
}

/// Messages of a login, apart by a byte FFh, to both sides, each with proofs and without. The first byte of a
/// message says its stages. Nobody gets in who was to prove what only a secret proves.
pub(crate) fn login(data: &[u8]) {
    let account = |name: &str| Account::new(name, "a secret of twelve bytes and more").expect("an account");
    let (user, own) = (account("user"), account("own"));
    let (us, target) = (Name::new("iqn.a:i").expect("a name"), Name::new("iqn.a:t").expect("a name"));
    let parameters = Parameters::default();
    for proves in [false, true] {
        let access = match proves {
            false => Access::Open,
            true => Access::Chap { accounts: vec![user.clone()], own: Some(own.clone()) },
        };
        let mut theirs = TargetLogin::new(&access, &parameters, Challenge::random([1; 17]));
        let accounts = if proves { (Some(&user), Some(&own)) } else { (None, None) };
        let challenge = Challenge::random([2; 17]);
        let mut ours =
            InitiatorLogin::new((&us, Some(&target)), accounts, &Hash::ALL, &parameters, challenge);
        let _ = ours.begin();
        let (mut is_refused, mut has_failed) = (false, false);
        for message in data.split(|byte| *byte == 0xff) {
            let Some((stages, text)) = message.split_first() else { continue };
            let stage = |bits: u8| match bits & 3 {
                0 => Stage::Security,
                1 => Stage::Operational,
                _ => Stage::FullFeature,
            };
            let (at, to) = (stage(*stages), (stages & 0x80 != 0).then(|| stage(stages >> 2)));
            let Ok(keys) = Keys::parse_once(text) else { continue };
            if !is_refused {
                is_refused = theirs.request(at, to, &keys, &|name| *name == target).is_err();
                if let Some(opened) = theirs.opened().filter(|_| !is_refused) {
                    assert!(!proves, "who proved nothing got in");
                    in_range(opened.agreed);
                }
            }
            if !has_failed {
                match ours.answered(at, to, &keys) {
                    Ok(Outcome::Say(message)) => assert!(Keys::parse(&message.keys.bytes()).is_ok()),
                    Ok(Outcome::Done(agreed)) => {
                        assert!(!proves, "a target that proved nothing was taken");
                        in_range(agreed);
                    }
                    Err(_) => has_failed = true,
                }
            }
        }
    }
}

fn in_range(agreed: iscsi::login::Agreed) {
    let lengths = 512..=0xff_ffff;
    assert!(lengths.contains(&agreed.send_segment_max) && lengths.contains(&agreed.burst_max), "{agreed:?}");
    assert!(
        lengths.contains(&agreed.first_burst_max) && agreed.first_burst_max <= agreed.burst_max,
        "{agreed:?}"
    );
}
