//! Rights before a recorded engine.
