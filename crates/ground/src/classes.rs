//! Storage classes: what the configuration says joined with what the catalogue calls them.

use std::collections::BTreeMap;

use base::{ByteCount, ClassId, ShareId, TapePoolId};
use catalogue::{Command, typed};
use store::CatalogueStore;

use crate::libraries;
use crate::{ArchiveError, ClassSettings, OpenError, Settings, TapePoolSettings};

/// A storage class with its id.
#[derive(Clone, Debug)]
pub struct Class {
    /// What the catalogue calls it.
    pub id: ClassId,
    /// What the configuration says of it.
    pub settings: ClassSettings,
    /// The tape pools that get a copy.
    pub copies: Vec<TapePoolId>,
}

/// All classes and tape pools of this instance.
#[derive(Clone, Debug)]
pub struct Classes {
    classes: Vec<Class>,
    pools: BTreeMap<TapePoolId, TapePoolSettings>,
}

impl Classes {
    /// Makes what the configuration names known to the catalogue.
    pub fn define(settings: &Settings, catalogue: &CatalogueStore) -> Result<Self, OpenError> {
        let mut pools = BTreeMap::new();
        for pool in &settings.tape_pools {
            if let Some(library) = &pool.library
                && libraries::number(settings, library).is_none()
            {
                let (tape_pool, library) = (pool.name.clone(), library.clone());
                return Err(OpenError::UnknownLibrary { tape_pool, library });
            }
            pools.insert(catalogue.ask(typed::DefineTapePool { name: pool.name.clone() })?, pool.clone());
        }
        let mut classes = Vec::new();
        for class in &settings.classes {
            let copies = class
                .copies
                .iter()
                .map(|name| {
                    let known = pools.iter().find(|(_, pool)| pool.name == *name).map(|(id, _)| *id);
                    known.ok_or_else(|| OpenError::UnknownTapePool {
                        class: class.name.clone(),
                        tape_pool: name.clone(),
                    })
                })
                .collect::<Result<Vec<_>, _>>()?;
            let define = typed::DefineClass { name: class.name.clone(), copies: copies.clone() };
            let id = catalogue.ask(define)?;
            catalogue.execute(Command::SetResidency { class: id, cold: class.cold })?;
            classes.push(Class { id, settings: class.clone(), copies });
        }
        Ok(Classes { classes, pools })
    }

    /// What the configuration names, numbered from 1 in its order, without a catalogue.
    pub fn numbered(settings: &Settings) -> Result<Self, OpenError> {
        let ids = (1..).map(TapePoolId);
        let pools: BTreeMap<_, _> = ids.zip(settings.tape_pools.iter().cloned()).collect();
        let mut classes = Vec::new();
        for (id, class) in (1..).map(ClassId).zip(&settings.classes) {
            let copies = class.copies.iter().map(|name| {
                let known = pools.iter().find(|(_, pool)| pool.name == *name).map(|(id, _)| *id);
                let class = || class.name.clone();
                known.ok_or_else(|| OpenError::UnknownTapePool { class: class(), tape_pool: name.clone() })
            });
            let copies = copies.collect::<Result<Vec<_>, _>>()?;
            classes.push(Class { id, settings: class.clone(), copies });
        }
        Ok(Classes { classes, pools })
    }

    /// These classes, and no tape pools.
    #[cfg(test)]
    pub fn of(classes: Vec<Class>) -> Self {
        Classes { classes, pools: BTreeMap::new() }
    }

    /// All classes, in the order of the configuration.
    pub fn all(&self) -> &[Class] {
        &self.classes
    }

    /// All tape pools.
    pub fn tape_pools(&self) -> &BTreeMap<TapePoolId, TapePoolSettings> {
        &self.pools
    }

    /// A class by its id, if the configuration has it still.
    pub fn get(&self, id: ClassId) -> Option<&Class> {
        self.classes.iter().find(|class| class.id == id)
    }

    /// On whose behalf files of a class are recalled: each class has a share of its own, and with it its room
    /// in the pool.
    pub fn share(&self, class: ClassId) -> ShareId {
        ShareId(class.0)
    }

    /// Whether some class recalls packs as a whole.
    pub fn any_recalls_packs(&self) -> bool {
        self.classes.iter().any(|class| class.settings.recall_packs)
    }

    /// A class's name.
    pub fn name(&self, id: ClassId) -> String {
        self.get(id).map_or_else(|| format!("class-{id}"), |class| class.settings.name.clone())
    }

    /// A tape pool's name.
    pub fn tape_pool_name(&self, id: TapePoolId) -> String {
        self.pools.get(&id).map_or_else(|| format!("tape-pool-{id}"), |pool| pool.name.clone())
    }

    /// The class of a name.
    pub fn by_name(&self, name: &str) -> Result<&Class, ArchiveError> {
        self.classes.iter().find(|class| class.settings.name == name).ok_or_else(|| {
            ArchiveError::NoSuchClass {
                name: name.to_owned(),
                known: self
                    .classes
                    .iter()
                    .map(|class| class.settings.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", "),
            }
        })
    }

    /// The default class of a file of this size: the first that it fits, else the last.
    pub fn by_size(&self, size: ByteCount) -> Option<&Class> {
        let fits = |class: &&Class| class.settings.up_to.is_none_or(|limit| size <= limit);
        self.classes.iter().find(fits).or_else(|| self.classes.last())
    }
}
