//! Bounds on the work of planning.

/// Bounds on the work of one plan; each counts steps, not time, so that a plan does not depend on the
/// machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OrderLimits {
    /// Stretches that are ordered one by one; where there are more, those with the smallest gaps between them
    /// are read in one go.
    pub stretches: usize,
    /// Up to so many stretches, all orders are compared; at most [`OrderLimits::OPTIMUM_MAX`].
    pub optimum: usize,
    /// Costs that improving one order may look at, for each stretch in it.
    pub evaluations_each: u64,
    /// Costs that improving may look at in all.
    pub evaluations: u64,
    /// Orders that are improved: the cheapest of those made.
    pub improved: usize,
    /// States of the exact dynamic programme times the choices in each, for one wrap.
    pub exact_steps: u64,
    /// The same of the one without nesting.
    pub simple_steps: u64,
    /// Costs that inserting new segments may look at; if it took more, everything is planned anew.
    pub insert_evaluations: u64,
    /// Up to so many segments everything is also planned anew when new ones come.
    pub replan_segments: usize,
}

impl OrderLimits {
    /// More stretches than this are never compared in all orders: the tables take 2^n times n entries.
    pub const OPTIMUM_MAX: usize = 14;
}

impl Default for OrderLimits {
    fn default() -> Self {
        OrderLimits {
            stretches: 4_096,
            optimum: 10,
            evaluations_each: 400,
            evaluations: 1_000_000,
            improved: 2,
            exact_steps: 4_000_000,
            simple_steps: 8_000_000,
            insert_evaluations: 2_000_000,
            replan_segments: 4_096,
        }
    }
}
