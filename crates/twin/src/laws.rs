//! Size laws: what a table of sizes is made of.
