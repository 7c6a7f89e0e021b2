//! Machines whose time runs faster than that of real ones.

use crate::locate::LocateCost;
use crate::timing::{DriveTiming, RobotTiming};

fn span(us: u64, scale: f64) -> u64 {
    (us as f64 / scale).round() as u64
}

fn rate(bytes: u64, scale: f64) -> u64 {
    ((bytes as f64 * scale) as u64).max(1)
}

impl DriveTiming {
    /// A drive that does everything so many times as fast, by a clock that is not scaled. Buffers stay.
    ///
    /// # Panics
    /// If the scale is not above 0.
    #[must_use]
    pub fn faster(&self, scale: f64) -> DriveTiming {
        assert!(scale.is_finite() && scale > 0.0, "a scale of time is above 0");
        DriveTiming {
            name: self.name.clone(),
            native_rate: rate(self.native_rate, scale),
            least_rate: rate(self.least_rate, scale).min(rate(self.native_rate, scale)),
            buffer: self.buffer,
            load_us: span(self.load_us, scale),
            locate: self.locate.faster(scale),
            lpos_per_second: self.lpos_per_second * scale,
            rewind_us: span(self.rewind_us, scale),
            unload_us: span(self.unload_us, scale),
            backhitch_us: span(self.backhitch_us, scale),
            flush_us: span(self.flush_us, scale),
            recommends_order: self.recommends_order,
        }
    }
}

impl LocateCost {
    fn faster(&self, scale: f64) -> LocateCost {
        LocateCost {
            base_us: self.base_us / scale,
            wrap_change_us: self.wrap_change_us / scale,
            band_change_us: self.band_change_us / scale,
            landing_zone_change_us: self.landing_zone_change_us / scale,
            direction_change_us: self.direction_change_us / scale,
            step_back_us: self.step_back_us / scale,
            lpos_us: self.lpos_us / scale,
            least_us: self.least_us / scale,
        }
    }
}

impl RobotTiming {
    /// Robots that move so many times as fast.
    #[must_use]
    pub fn faster(&self, scale: f64) -> RobotTiming {
        RobotTiming { robots: self.robots, move_us: span(self.move_us, scale) }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Geometry, Motion, TapeByte};
    use base::Partition;

    #[test]
    fn a_drive_of_ten_times_the_speed_takes_a_tenth_of_the_time() {
        let real = crate::timing("LTO-8").unwrap();
        let geometry = Geometry::of(crate::drive("LTO-8").unwrap().own_medium().unwrap());
        let took = |timing: &crate::DriveTiming| {
            let mut motion = Motion::new(timing.clone(), &geometry);
            let mut at = motion.load(0);
            at = motion.locate(at, TapeByte { partition: Partition::Data, byte: 900_000_000_000 });
            at = motion.read(at, 5_000_000_000, 1_000_000_000_000);
            motion.unload(at) as f64
        };
        let (slow, fast) = (took(&real), took(&real.faster(10.0)));
        assert!((slow / fast - 10.0).abs() < 1e-3, "{slow} {fast}");
    }
}
