//! All figures of one pool.

use crate::chain::{Chain, Repair};
use crate::closed;
use crate::inputs::{HOURS_PER_YEAR, InputError, Inputs};
use crate::latent::Latent;
use crate::placement;
use crate::rebuild::{Rebuild, rebuild};

/// Bytes of a cell: one shard's part of one row of a stripe, what one unreadable place takes with it.
pub(crate) const CELL_BYTES: f64 = 1_048_576.0;

/// What the closed forms say about a pool. Losses are per year; "group" is one set of n drives.
#[derive(Clone, PartialEq, Debug)]
pub struct Assessment {
    /// Shards of a stripe, n.
    pub width: u32,
    /// Distinct groups of drives, G.
    pub groups: f64,
    /// Bytes that a group has on each of its drives.
    pub group_bytes: f64,
    /// User bytes in the full pool.
    pub stored_bytes: f64,
    /// The rebuild of one drive.
    pub rebuild: Rebuild,
    /// Expected losses of a group by [`closed::windowed`]; what the pool's figures rest on.
    pub windowed: f64,
    /// The same by [`closed::leading`].
    pub leading: f64,
    /// The same by [`closed::stationary`].
    pub stationary: f64,
    /// Mean time to loss of a group in years, drives repaired in parallel, by the chain.
    pub mttdl_parallel: f64,
    /// The same, drives repaired one after the other.
    pub mttdl_serial: f64,
    /// Its approximation: 1 / [`Assessment::leading`].
    pub mttdl_leading: f64,
    /// Probability that a whole group is lost in its first year, repair in parallel, by the chain.
    pub first_year_parallel: f64,
    /// The same, drives repaired one after the other.
    pub first_year_serial: f64,
    /// Probability that a group is lost in a year without any repair.
    pub no_repair: f64,
    /// Unreadable places on a group's part of a drive.
    pub latent: Latent,
    /// Expected last rebuilds of a group that meet an unreadable place.
    pub latent_yearly: f64,
    /// Probability that the pool loses a group.
    pub pool_drives: f64,
    /// Probability that the pool loses a group or meets an unreadable place in a last rebuild.
    pub pool_all: f64,
    /// Expected user bytes lost with whole groups, each counted whole.
    pub bytes_drives: f64,
    /// Expected user bytes lost to unreadable places, a row of the stripe each.
    pub bytes_latent: f64,
}

impl Assessment {
    /// Nines of the pool keeping everything for a year: -log10 of [`Assessment::pool_all`].
    #[must_use]
    pub fn nines_pool(&self) -> f64 {
        -self.pool_all.log10()
    }

    /// Nines of a byte being kept for a year: -log10 of the share of the stored bytes expected lost.
    #[must_use]
    pub fn nines_byte(&self) -> f64 {
        -((self.bytes_drives + self.bytes_latent) / self.stored_bytes).log10()
    }
}

/// Assesses a pool.
///
/// # Errors
/// Those of [`Inputs::check`].
pub fn assess(inputs: &Inputs) -> Result<Assessment, InputError> {
    inputs.check()?;
    let (code, drives) = (inputs.code, inputs.drives);
    let width = code.width();
    let groups = match (inputs.groups, inputs.scatter) {
        (Some(groups), _) => groups as f64,
        (None, Some(scatter)) => placement::groups_for_scatter(code, drives, scatter),
        (None, None) => placement::expected_groups(code, drives),
    };
    let partners = match inputs.scatter {
        Some(scatter) => f64::from(scatter),
        None => placement::expected_partners(code, drives, groups),
    };
    let group_bytes = inputs.drive_bytes * (f64::from(drives) / (groups * f64::from(width))).min(1.0);
    let rebuild = rebuild(inputs, inputs.drive_bytes, partners.max(1.0));
    let window = rebuild.window_hours / HOURS_PER_YEAR;
    let survived = code.survived_shares();
    let windowed = closed::windowed(&survived, inputs.afr, window);
    let leading = closed::leading(&survived, inputs.afr, window);
    let parallel = Chain::new(&survived, inputs.afr, window, Repair::Parallel);
    let serial = Chain::new(&survived, inputs.afr, window, Repair::Serial);
    let latent = Latent::new(inputs, group_bytes);
    let latent_yearly = match code.tolerance() {
        // Without parity every unreadable place is a loss, when it arises or when a scrub reads over it.
        0 => {
            let reads = HOURS_PER_YEAR / inputs.scrub_hours;
            let arise = inputs.latent_per_year * group_bytes / inputs.drive_bytes;
            f64::from(width) * (arise + latent.by_bits * reads)
        }
        _ => closed::latent_yearly(&survived, inputs.afr, window, latent.expected()),
    };
    let data = f64::from(code.data());
    Ok(Assessment {
        width,
        groups,
        group_bytes,
        stored_bytes: f64::from(drives) * inputs.drive_bytes * data / f64::from(width),
        rebuild,
        windowed,
        leading,
        stationary: closed::stationary(&survived, inputs.afr, window),
        mttdl_parallel: parallel.mean_time_to_loss(),
        mttdl_serial: serial.mean_time_to_loss(),
        mttdl_leading: 1.0 / leading,
        first_year_parallel: parallel.loss_within(1.0),
        first_year_serial: serial.loss_within(1.0),
        no_repair: closed::no_repair(&survived, inputs.afr),
        latent,
        latent_yearly,
        pool_drives: -(-groups * windowed).exp_m1(),
        pool_all: -(-groups * (windowed + latent_yearly)).exp_m1(),
        bytes_drives: groups * windowed * data * group_bytes,
        bytes_latent: groups * latent_yearly * data * CELL_BYTES.min(group_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::code::Code;

    fn typical(layout: &str, drives: u32) -> Inputs {
        Inputs::typical(Code::parse(layout).unwrap(), drives)
    }

    #[test]
    fn one_group_over_all_its_drives_is_the_table() {
        let inputs = Inputs { window_hours: Some(156.0), groups: Some(1), ..typical("17+3", 20) };
        let found = assess(&inputs).unwrap();
        assert_eq!(format!("{:.1e}", found.windowed), "3.7e-9");
        assert!((found.pool_drives / found.windowed - 1.0).abs() < 1e-6);
        assert!((found.group_bytes - inputs.drive_bytes).abs() < 1.0);
        assert!((found.stored_bytes - 17.0 * 20e12).abs() < 1.0);
    }

    /// A wider scatter rebuilds faster and exposes more groups: for m = 4 the first outweighs the second.
    #[test]
    fn scatter_trades_windows_for_groups() {
        let at = |scatter| {
            let inputs = Inputs { scatter: Some(scatter), detection_hours: 0.0, ..typical("12+4", 1512) };
            assess(&inputs).unwrap()
        };
        let (narrow, wide) = (at(15), at(150));
        assert!((wide.groups / narrow.groups - 10.0).abs() < 0.1);
        assert!((narrow.rebuild.hours / wide.rebuild.hours - 10.0).abs() < 1e-6);
        assert!((narrow.pool_drives / wide.pool_drives - 1e3).abs() < 20.0);
    }

    /// The reference multiplies 1e-15 by the bits read in a critical rebuild; for 8+2 over ten drives that
    /// is 8 x 20 TB, more than one error.
    #[test]
    fn bits_of_a_critical_rebuild_are_counted() {
        let found = assess(&Inputs { groups: Some(1), ..typical("8+2", 10) }).unwrap();
        assert!((found.latent.by_bits - 0.16).abs() < 1e-9);
        assert!(found.latent_yearly > 100.0 * found.windowed);
        let scrubbed = Inputs { latent_per_year: 10.0, scrub_hours: 876.0, ..typical("8+2", 10) };
        let found = assess(&Inputs { groups: Some(1), ..scrubbed }).unwrap();
        assert!((found.latent.by_time - 0.5).abs() < 1e-9, "ten a year wait for half of a tenth");
    }

    #[test]
    fn without_parity_every_unreadable_place_is_a_loss() {
        let inputs =
            Inputs { latent_per_year: 3.0, bit_error_rate: 0.0, groups: Some(1), ..typical("5+0", 5) };
        assert!((assess(&inputs).unwrap().latent_yearly - 15.0).abs() < 1e-9);
    }

    #[test]
    fn bad_figures_are_refused() {
        let good = typical("8+2", 20);
        assert!(assess(&good).is_ok());
        let bad = [
            Inputs { drives: 9, ..good.clone() },
            Inputs { afr: 0.0, ..good.clone() },
            Inputs { afr: f64::NAN, ..good.clone() },
            Inputs { rebuild_share: 1.1, ..good.clone() },
            Inputs { scatter: Some(8), ..good.clone() },
            Inputs { scatter: Some(21), ..good.clone() },
            Inputs { groups: Some(0), ..good.clone() },
            Inputs { window_hours: Some(0.0), ..good.clone() },
            Inputs { drive_speed: f64::INFINITY, ..good },
        ];
        for inputs in bad {
            assert!(assess(&inputs).is_err(), "{inputs:?}");
        }
    }
}
