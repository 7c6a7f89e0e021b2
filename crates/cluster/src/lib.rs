//! Which drives hold which shards: placement, stripe sets, repair order.
