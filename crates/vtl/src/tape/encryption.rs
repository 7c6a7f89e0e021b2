//! SECURITY PROTOCOL IN and OUT: tape data encryption, with keys of the application (SSC-5, 4.2.22 and 8.7).
//! What they set is given to the library's drive before a block is read or written.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use iscsi::target::{Nexus, NexusId};
use library::{BlockEncryption, Decryption, EncryptionKey, KeyIdentity, TapeEncryption};
use scsi::SenseKey;
use scsi::command::Primary;
use scsi::security::{
    BlockEncryption as NextBlock, DecryptionMode, EncryptionAlgorithm, EncryptionCapabilities,
    EncryptionManagement, EncryptionMode, EncryptionPages, EncryptionScope, EncryptionStatus, KadType,
    KeyAssociatedData, KeyFormats, NextBlockStatus, PROTOCOL_INFORMATION, PROTOCOL_TAPE_ENCRYPTION,
    ProtocolList, SetDataEncryption, page,
};

use super::{Run, Tape};
use crate::answer::{Outcome, Refusal, give, parameters};
use crate::gate::{ENCRYPTION_CHANGED, Losses};

/// The index of the only algorithm.
const ALGORITHM: u8 = 1;
/// The longest parameter data of SECURITY PROTOCOL OUT: a key with both kinds of key-associated data, and
/// some room for others, which are then refused by their kind.
const LIST_MAX: u32 = 1024;
/// Initiators that may have parameters of their own.
const LOCAL_MAX: usize = 256;

/// The pages of SECURITY PROTOCOL IN.
const PAGES_IN: [u16; 7] = [
    page::IN_SUPPORT,
    page::OUT_SUPPORT,
    page::CAPABILITIES,
    page::KEY_FORMATS,
    page::MANAGEMENT_CAPABILITIES,
    page::STATUS,
    page::NEXT_BLOCK,
];

/// Data encryption parameters of a drive: for each session by its scope.
#[derive(Default)]
pub struct Encryption(Mutex<State>);

#[derive(Default)]
struct State {
    /// The key instance counter: of the last parameters that were set or cleared.
    instance: u32,
    /// Of all I_T nexuses, with the one that has set them.
    all: Option<(NexusId, Parameters)>,
    local: BTreeMap<NexusId, Parameters>,
    /// The counter when parameters were last cleared.
    cleared: u32,
    /// Sessions that have locked to a key, by its counter.
    locks: BTreeMap<NexusId, u32>,
}

struct Parameters {
    instance: u32,
    setting: TapeEncryption,
    /// CKOD.
    clear_on_demount: bool,
    /// CKORP: reservations that had been preempted when they were set.
    preempted: Option<u64>,
    /// CKORL: reservations that had been lost.
    lost: Option<u64>,
}

impl Parameters {
    fn outlives(&self, losses: Losses) -> bool {
        self.preempted.is_none_or(|count| count == losses.preempted)
            && self.lost.is_none_or(|count| count == losses.lost)
    }
}

/// What counts for a session.
struct Effective<'a> {
    scope: EncryptionScope,
    instance: u32,
    setting: Option<&'a TapeEncryption>,
}

impl State {
    fn next(&mut self) -> u32 {
        self.instance = self.instance.wrapping_add(1);
        self.instance
    }

    /// Keeps those parameters for which this holds.
    fn keep(&mut self, keeps: impl Fn(&Parameters) -> bool) {
        let count = self.local.len();
        self.local.retain(|_, parameters| keeps(parameters));
        let was_cleared = self.all.take_if(|(_, parameters)| !keeps(parameters)).is_some();
        if was_cleared || self.local.len() < count {
            self.cleared = self.next();
        }
    }

    fn effective(&self, nexus: NexusId) -> Effective<'_> {
        let of = |scope, parameters: Option<&'_ Parameters>| Effective {
            scope,
            instance: parameters.map_or(self.cleared, |parameters| parameters.instance),
            setting: None,
        };
        match (self.local.get(&nexus), &self.all) {
            (Some(own), _) => {
                Effective { setting: Some(&own.setting), ..of(EncryptionScope::Local, Some(own)) }
            }
            (None, Some((_, all))) => {
                Effective { setting: Some(&all.setting), ..of(EncryptionScope::AllNexus, Some(all)) }
            }
            (None, None) => of(EncryptionScope::Public, None),
        }
    }

    /// The scope that a session has registered.
    fn scope_of(&self, nexus: NexusId) -> EncryptionScope {
        match &self.all {
            _ if self.local.contains_key(&nexus) => EncryptionScope::Local,
            Some((owner, _)) if *owner == nexus => EncryptionScope::AllNexus,
            _ => EncryptionScope::Public,
        }
    }
}

impl Encryption {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The unit was reset: no key outlives that.
    pub fn reset(&self) {
        let mut state = self.lock();
        state.keep(|_| false);
        state.locks.clear();
    }

    /// A cartridge was unloaded.
    pub fn unloaded(&self) {
        self.lock().keep(|parameters| !parameters.clear_on_demount);
    }

    /// A session has ended: what is its own goes.
    pub fn ended(&self, nexus: &Nexus) {
        let mut state = self.lock();
        state.local.remove(&nexus.id);
        state.locks.remove(&nexus.id);
    }

    /// Sets parameters. Gives whether they are those of others too.
    fn set(
        &self,
        nexus: &Nexus,
        losses: Losses,
        list: &SetDataEncryption,
        setting: Option<TapeEncryption>,
    ) -> Result<bool, Refusal> {
        let mut state = self.lock();
        let instance = state.next();
        let parameters = setting.map(|setting| Parameters {
            instance,
            setting,
            clear_on_demount: list.clear_on_demount,
            preempted: list.clear_on_preempt.then_some(losses.preempted),
            lost: list.clear_on_reservation_loss.then_some(losses.lost),
        });
        let is_owner = matches!(&state.all, Some((owner, _)) if *owner == nexus.id);
        let is_public = list.scope == EncryptionScope::Public;
        state.local.remove(&nexus.id);
        let concerns_all = match (list.scope, parameters) {
            (EncryptionScope::Local, Some(own)) => {
                if state.local.len() >= LOCAL_MAX {
                    // 5/55/0D: insufficient resources to create one.
                    return Err(Refusal::illegal(0x55, 0x0d));
                }
                state.local.insert(nexus.id, own);
                false
            }
            (EncryptionScope::AllNexus, Some(all)) => {
                state.all = Some((nexus.id, all));
                true
            }
            (scope, _) => {
                state.cleared = instance;
                let clears_all = scope == EncryptionScope::AllNexus || is_owner;
                clears_all && state.all.take().is_some()
            }
        };
        state.locks.remove(&nexus.id);
        if list.lock && !is_public {
            let locked_to = state.effective(nexus.id).instance;
            state.locks.insert(nexus.id, locked_to);
        }
        Ok(concerns_all)
    }

    /// What counts for a session now, and the counter of it.
    ///
    /// # Errors
    /// 7/2A/13 if the session has locked to another.
    fn current(&self, nexus: &Nexus, losses: Losses) -> Result<(u32, Option<TapeEncryption>), Refusal> {
        let mut state = self.lock();
        state.keep(|parameters| parameters.outlives(losses));
        let effective = state.effective(nexus.id);
        if state.locks.get(&nexus.id).is_some_and(|locked_to| *locked_to != effective.instance) {
            return Err(Refusal::new(SenseKey::DataProtect, 0x2a, 0x13));
        }
        Ok((effective.instance, effective.setting.cloned()))
    }

    fn status(&self, nexus: &Nexus, losses: Losses) -> EncryptionStatus {
        let mut state = self.lock();
        state.keep(|parameters| parameters.outlives(losses));
        let effective = state.effective(nexus.id);
        let none = EncryptionStatus {
            nexus_scope: state.scope_of(nexus.id),
            key_scope: effective.scope,
            key_instance: effective.instance,
            control: 1,
            // What is encrypted is never given raw.
            raw_disabled: true,
            ..EncryptionStatus::default()
        };
        let Some(setting) = effective.setting else { return none };
        EncryptionStatus {
            encryption: if setting.encrypts { EncryptionMode::Encrypt } else { EncryptionMode::Disable },
            decryption: match setting.decryption {
                Decryption::Off => DecryptionMode::Disable,
                Decryption::Required => DecryptionMode::Decrypt,
                Decryption::IfEncrypted => DecryptionMode::Mixed,
            },
            algorithm: ALGORITHM,
            associated: associated(&setting.identity, 0),
            ..none
        }
    }
}

/// An identity as key-associated data.
fn associated(identity: &KeyIdentity, authenticated: u8) -> Vec<KeyAssociatedData> {
    [
        (KadType::Unauthenticated, 0, identity.unauthenticated()),
        (KadType::Authenticated, authenticated, identity.authenticated()),
    ]
    .into_iter()
    .filter(|(_, _, data)| !data.is_empty())
    .map(|(kind, authenticated, data)| KeyAssociatedData { kind, authenticated, data: data.to_vec() })
    .collect()
}

/// What a list asks for; `None`: neither encryption nor decryption.
///
/// # Errors
/// 5/26/00 with the byte of the page that cannot be.
fn setting_of(list: &SetDataEncryption) -> Result<Option<TapeEncryption>, Refusal> {
    let at_most = |is_wrong: bool, byte: u16| if is_wrong { Err(Refusal::parameter(byte)) } else { Ok(()) };
    let is_scope =
        matches!(list.scope, EncryptionScope::Public | EncryptionScope::Local | EncryptionScope::AllNexus);
    at_most(!is_scope, 4)?;
    if list.scope == EncryptionScope::Public {
        // All other fields are ignored.
        return Ok(None);
    }
    // Neither encryption outside of the drive, nor supplemental keys; 1 is no RDMC.
    at_most(list.external_check > 1 || list.raw_control == 1 || list.supplemental, 5)?;
    let encrypts = match list.encryption {
        EncryptionMode::Disable => false,
        EncryptionMode::Encrypt => true,
        _ => return Err(Refusal::parameter(6)),
    };
    let decryption = match list.decryption {
        DecryptionMode::Disable => Decryption::Off,
        DecryptionMode::Decrypt => Decryption::Required,
        DecryptionMode::Mixed => Decryption::IfEncrypted,
        // Nothing is given raw.
        _ => return Err(Refusal::parameter(7)),
    };
    if !encrypts && decryption == Decryption::Off {
        return Ok(None);
    }
    at_most(list.algorithm != ALGORITHM, 8)?;
    at_most(list.key_format != KeyFormats::PLAIN_TEXT, 9)?;
    at_most(list.associated_format > 2, 10)?;
    let secret = list.key.0.first_chunk().filter(|_| list.key.0.len() == EncryptionKey::BYTES);
    let secret = secret.ok_or_else(|| Refusal::parameter(18))?;
    /// Where key-associated data begin, behind a key.
    const ASSOCIATED_AT: u16 = 52;
    let wrong = || Refusal::parameter(ASSOCIATED_AT);
    let kinds: Vec<_> = list.associated.iter().map(|data| data.kind).collect();
    let known = [
        &[][..],
        &[KadType::Unauthenticated],
        &[KadType::Authenticated],
        &[KadType::Unauthenticated, KadType::Authenticated],
    ];
    if !known.contains(&&*kinds) {
        return Err(wrong());
    }
    let part = |kind| KeyAssociatedData::find(&list.associated, kind);
    let identity = KeyIdentity::new(part(KadType::Unauthenticated), part(KadType::Authenticated));
    Ok(Some(TapeEncryption {
        key: EncryptionKey::new(*secret),
        identity: identity.ok_or_else(wrong)?,
        encrypts,
        decryption,
    }))
}

impl Tape {
    /// SECURITY PROTOCOL IN.
    pub fn security_in(&mut self, run: &mut Run<'_>, command: &Primary) -> Outcome {
        let Primary::SecurityProtocolIn { protocol, specific, blocks, allocation_length } = *command else {
            return Err(Refusal::illegal(0x20, 0));
        };
        if blocks {
            return Err(Refusal::bit(4, 7));
        }
        let data = match (protocol, specific) {
            (PROTOCOL_INFORMATION, 0) => {
                ProtocolList(vec![PROTOCOL_INFORMATION, PROTOCOL_TAPE_ENCRYPTION]).encode()
            }
            (PROTOCOL_TAPE_ENCRYPTION, page) => self.encryption_page(run, page)?,
            (PROTOCOL_INFORMATION, _) => return Err(Refusal::field(2)),
            _ => return Err(Refusal::field(1)),
        };
        Ok(give(&data, u64::from(allocation_length), run.into))
    }

    fn encryption_page(&mut self, run: &Run<'_>, page: u16) -> Result<Vec<u8>, Refusal> {
        Ok(match page {
            page::IN_SUPPORT => EncryptionPages { out: false, pages: PAGES_IN.to_vec() }.encode(),
            page::OUT_SUPPORT => {
                EncryptionPages { out: true, pages: vec![page::SET_DATA_ENCRYPTION] }.encode()
            }
            page::CAPABILITIES => self.encryption_capabilities().encode(),
            page::KEY_FORMATS => KeyFormats(vec![KeyFormats::PLAIN_TEXT]).encode(),
            page::MANAGEMENT_CAPABILITIES => EncryptionManagement {
                lock: true,
                clear_on_demount: true,
                clear_on_preempt: true,
                clear_on_reservation_loss: true,
                all_nexus: true,
                local: true,
                public: true,
            }
            .encode_page(),
            page::STATUS => run.drive.encryption.status(run.nexus, run.drive.gate.losses()).encode(),
            page::NEXT_BLOCK => self.next_block(run)?.encode(),
            _ => return Err(Refusal::field(2)),
        })
    }

    fn encryption_capabilities(&self) -> EncryptionCapabilities {
        let limit = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
        let is_loaded = self.medium.is_some();
        let algorithm = EncryptionAlgorithm {
            index: ALGORITHM,
            usable_with_volume: is_loaded,
            authenticates: true,
            distinguishes_blocks: true,
            decrypts: EncryptionAlgorithm::BY_SOFTWARE,
            encrypts: EncryptionAlgorithm::BY_SOFTWARE,
            // Valid at every position of a cartridge.
            volume_position: if is_loaded { 2 } else { 0 },
            // The drive makes nonces.
            nonce: 1,
            unauthenticated_max: limit(KeyIdentity::UNAUTHENTICATED_MAX),
            authenticated_max: limit(KeyIdentity::AUTHENTICATED_MAX),
            key_size: limit(EncryptionKey::BYTES),
            // Key-associated data may come with a key for decryption.
            decryption_data: 3,
            // Not encrypted outside of the drive.
            external_mode: 1,
            algorithm: EncryptionAlgorithm::AES_256_GCM,
            ..EncryptionAlgorithm::default()
        };
        EncryptionCapabilities {
            external_control: 1,
            configuration_prevented: 1,
            algorithms: vec![algorithm],
        }
    }

    fn next_block(&mut self, run: &Run<'_>) -> Result<NextBlockStatus, Refusal> {
        let at = self.position()?;
        self.apply_encryption(run)?;
        let found = self.drive.block_encryption()?;
        let encryption = match &found {
            BlockEncryption::NoBlock => NextBlock::NotABlock,
            BlockEncryption::Plain => NextBlock::Plain,
            BlockEncryption::Encrypted { is_readable: true, .. } => NextBlock::Decryptable,
            BlockEncryption::Encrypted { is_readable: false, .. } => NextBlock::OtherKey,
            BlockEncryption::Unknown => NextBlock::NotNow,
        };
        let status = NextBlockStatus { object: at.block.0, encryption, ..NextBlockStatus::default() };
        let BlockEncryption::Encrypted { identity, is_readable } = found else { return Ok(status) };
        let verified = if is_readable { KeyAssociatedData::VERIFIED } else { KeyAssociatedData::COVERED };
        Ok(NextBlockStatus {
            algorithm: ALGORITHM,
            raw_disabled: true,
            associated: associated(&identity, verified),
            ..status
        })
    }

    /// SECURITY PROTOCOL OUT.
    pub fn security_out(&mut self, run: &Run<'_>, command: &Primary) -> Outcome {
        let Primary::SecurityProtocolOut { protocol, specific, blocks, length } = *command else {
            return Err(Refusal::illegal(0x20, 0));
        };
        if protocol != PROTOCOL_TAPE_ENCRYPTION {
            return Err(Refusal::field(1));
        }
        if specific != page::SET_DATA_ENCRYPTION {
            return Err(Refusal::field(2));
        }
        if blocks {
            return Err(Refusal::bit(4, 7));
        }
        if length > LIST_MAX {
            return Err(Refusal::field(6));
        }
        let data = parameters(run.out, u64::from(length))?;
        let list = SetDataEncryption::decode(data).map_err(|error| Refusal::malformed(&error))?;
        let setting = setting_of(&list)?;
        if list.clear_on_demount && setting.is_some() && self.medium.is_none() {
            return Err(Refusal::parameter(5));
        }
        let (drive, nexus) = (run.drive, run.nexus);
        if drive.encryption.set(nexus, drive.gate.losses(), &list, setting)? {
            drive.gate.tell_others(Some(nexus), ENCRYPTION_CHANGED);
        }
        if self.medium.is_some() {
            // A drive below that does not encrypt says so now, not at the first block.
            self.apply_encryption(run)?;
        }
        Ok(data.len())
    }

    /// Has the drive encrypt and decrypt as counts for the session whose command runs.
    pub fn apply_encryption(&mut self, run: &Run<'_>) -> Result<(), Refusal> {
        let (instance, setting) = run.drive.encryption.current(run.nexus, run.drive.gate.losses())?;
        if self.encryption_applied == Some(instance) {
            return Ok(());
        }
        if setting.is_some() || self.encryption_applied.is_some() {
            self.encryption_applied = None;
            self.drive.set_encryption(setting.as_ref())?;
            self.encryption_applied = Some(instance);
        }
        Ok(())
    }
}
