//! Filling up: several kinds of streams share several limits.

/// Of each limit, what a byte a second costs; or what there is of it.
pub(super) type Costs = [f64; LIMITS];

/// Things that are shared.
pub(super) const LIMITS: usize = 10;

/// Streams of a kind.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub(super) count: f64,
    /// What one of them would take, bytes a second.
    pub(super) most: f64,
    /// Rates rise in proportion to this.
    pub(super) weight: f64,
    pub(super) cost: Costs,
    /// What one of them gets.
    pub(super) rate: f64,
}

/// Gives each flow its rate and tells what that costs: all rise together, until each has what it would take
/// or a limit of its is used up.
pub(super) fn fill_up<K>(flows: &mut [(K, Flow)], limits: Costs) -> Costs {
    let mut left = limits;
    let mut rising: Vec<usize> = (0..flows.len()).collect();
    while !rising.is_empty() {
        let sated = rising.iter().map(|at| flows[*at].1.most / flows[*at].1.weight);
        let mut level = sated.fold(f64::INFINITY, f64::min);
        let mut tight = None;
        for (limit, left) in left.iter().enumerate() {
            let slope: f64 = rising.iter().map(|at| &flows[*at].1).map(|flow| flow.slope(limit)).sum();
            if slope > 0.0 && left.max(0.0) / slope < level {
                (level, tight) = (left.max(0.0) / slope, Some(limit));
            }
        }
        rising.retain(|at| {
            let flow = &mut flows[*at].1;
            let is_stopped = match tight {
                Some(limit) => flow.cost[limit] > 0.0,
                None => flow.most <= flow.weight * level * (1.0 + 1e-9),
            };
            if is_stopped {
                flow.rate = flow.most.min(flow.weight * level);
                for (left, cost) in left.iter_mut().zip(flow.cost) {
                    if cost > 0.0 {
                        *left -= flow.count * flow.rate * cost;
                    }
                }
            }
            !is_stopped
        });
    }
    let mut used = [0.0; LIMITS];
    for (_, flow) in flows.iter() {
        for (used, cost) in used.iter_mut().zip(flow.cost) {
            *used += flow.count * flow.rate * cost;
        }
    }
    used
}

impl Flow {
    fn slope(&self, limit: usize) -> f64 {
        self.count * self.weight * self.cost[limit]
    }
}
