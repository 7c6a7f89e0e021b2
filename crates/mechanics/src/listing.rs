//! All figures of a model, with their names.

use crate::figure::{Figure, Statement};
use crate::model::{DriveModel, LocateFigures, MediumModel, RobotModel};

/// A figure with the key that data files give it; figures of a drive with a medium have the medium's name in
/// front of it.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedFigure<'a> {
    /// `rate`, or `LTO-8: rate`.
    pub name: String,
    /// The figure.
    pub figure: &'a Figure,
}

/// A statement with the key that data files give it.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedStatement<'a> {
    /// `recommends_order`.
    pub name: &'static str,
    /// The statement.
    pub statement: &'a Statement,
}

fn named<'a, const N: usize>(figures: [(&str, &'a Figure); N]) -> Vec<NamedFigure<'a>> {
    figures.map(|(name, figure)| NamedFigure { name: name.to_owned(), figure }).into()
}

impl DriveModel {
    /// All its figures, those of its locates apart ([`LocateFigures::figures`]).
    #[must_use]
    pub fn figures(&self) -> Vec<NamedFigure<'_>> {
        let mut all = named([
            ("buffer", &self.buffer),
            ("load", &self.load),
            ("unload", &self.unload),
            ("rewind_fixed", &self.rewind_fixed),
            ("backhitch", &self.backhitch),
            ("flush", &self.flush),
        ]);
        if let Some(table) = &self.unload_rewind {
            all.extend(named([
                ("unload_rewind.under_5_gb", &table.under_5_gb),
                ("unload_rewind.to_50_gb", &table.to_50_gb),
                ("unload_rewind.other", &table.other),
            ]));
        }
        for with in &self.media {
            let mut figures = named([("rate", &with.rate), ("least_rate", &with.least_rate)]);
            figures.extend(with.mean_locate.iter().flat_map(|figure| named([("mean_locate", figure)])));
            figures.extend(with.mean_rewind.iter().flat_map(|figure| named([("mean_rewind", figure)])));
            let full = |named: NamedFigure<'_>| format!("{}: {}", with.medium, named.name);
            all.extend(figures.into_iter().map(|one| NamedFigure { figure: one.figure, name: full(one) }));
        }
        all
    }

    /// What else it says.
    #[must_use]
    pub fn statements(&self) -> Vec<NamedStatement<'_>> {
        vec![NamedStatement { name: "recommends_order", statement: &self.recommends_order }]
    }
}

impl LocateFigures {
    /// All its figures.
    #[must_use]
    pub fn figures(&self) -> Vec<NamedFigure<'_>> {
        named([
            ("base", &self.base),
            ("wrap_change", &self.wrap_change),
            ("band_change", &self.band_change),
            ("landing_zone_change", &self.landing_zone_change),
            ("direction_change", &self.direction_change),
            ("step_back", &self.step_back),
            ("pace", &self.pace),
            ("least", &self.least),
        ])
    }
}

impl MediumModel {
    /// All its figures.
    #[must_use]
    pub fn figures(&self) -> Vec<NamedFigure<'_>> {
        let mut all = named([
            ("capacity", &self.capacity),
            ("wraps", &self.wraps),
            ("bands", &self.bands),
            ("wrap_capacity", &self.wrap_capacity),
            ("length", &self.length),
            ("lpos_min", &self.lpos_min),
            ("lpos_max", &self.lpos_max),
            ("index_wraps", &self.index_wraps),
            ("guard_wraps", &self.guard_wraps),
        ]);
        if let Some((least, most)) = &self.first_load {
            all.extend(named([("first_load_least", least), ("first_load_most", most)]));
        }
        all
    }
}

impl RobotModel {
    /// All its figures.
    #[must_use]
    pub fn figures(&self) -> Vec<NamedFigure<'_>> {
        named([("robots", &self.robots), ("move", &self.move_one)])
    }
}
