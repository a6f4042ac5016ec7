//! What crowds are held to.

/// Every algorithm, with a refill that is shorter than a run and one that is not.
pub const QUOTAS: [&str; 8] = [
    "400/s burst 20",
    "30/m burst 30",
    "400/s burst 20 bucket",
    "400/s burst 20 leaky",
    "40 per 250ms fixed",
    "40 per 250ms fixed grid",
    "40 per 250ms sliding",
    "40 per 250ms log",
];
