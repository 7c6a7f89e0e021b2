//! Robots that move one cartridge each at a time.

use crate::timing::RobotTiming;

/// A move that a robot was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RobotMove {
    /// Which robot, from 0.
    pub robot: u16,
    /// When it begins, microseconds.
    pub start_us: u64,
    /// When the cartridge is where it should be.
    pub done_us: u64,
}

/// The robots of a library. Moves are given out in the order in which they are asked for, each to the robot
/// that is free first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Robots {
    move_us: u64,
    /// When each robot has done all that it was given.
    free_us: Vec<u64>,
}

impl Robots {
    /// Robots at rest; at least one.
    #[must_use]
    pub fn new(timing: RobotTiming) -> Self {
        Robots { move_us: timing.move_us, free_us: vec![0; usize::from(timing.robots.max(1))] }
    }

    /// Gives a robot a move that can begin at `now_us` at the earliest.
    pub fn request(&mut self, now_us: u64) -> RobotMove {
        let free = self.free_us.iter().enumerate().min_by_key(|(robot, free)| (**free, *robot));
        let (robot, free) = free.map_or((0, 0), |(robot, free)| (robot, *free));
        let start_us = free.max(now_us);
        let done_us = start_us + self.move_us;
        if let Some(free) = self.free_us.get_mut(robot) {
            *free = done_us;
        }
        RobotMove { robot: robot as u16, start_us, done_us }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moves_wait_for_a_free_robot() {
        let mut robots = Robots::new(RobotTiming { robots: 2, move_us: 12 });
        let ends: Vec<u64> = (0..5).map(|_| robots.request(100).done_us).collect();
        assert_eq!(ends, [112, 112, 124, 124, 136]);
        assert_eq!(robots.request(1000), RobotMove { robot: 1, start_us: 1000, done_us: 1012 });
    }
}
