//! How often a limiter's word has let pass and refused.

use std::sync::LazyLock;

use super::thread_slot::ThreadSlot;
use crate::sync::{AtomicU32, AtomicU64, OnceLock, Ordering};

/// The most cache lines that one limiter counts in.
const MOST_LINES: usize = 64;

/// Counts of what passed and what was refused. Exact: whoever reads them sees all that was counted before.
///
/// An atomic addition for every decision would cost as much as the decision, and one line that all threads count in would
/// travel between their cores. So the first thread that counts has counts of its own, which it alone writes and all may
/// read, and so has each of the next ones in lines that are allocated when there is a second thread.
#[derive(Debug)]
pub(crate) struct Counts {
    /// None where limiters are many: their memory counts for more. Then all count in `shared`.
    by_thread: Option<Box<CountsByThread>>,
    /// Of whoever has no counts of its own.
    shared: CountPair,
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counted {
    Acquired,
    Rejected,
}

#[derive(Debug, Default)]
struct CountPair {
    acquired: AtomicU64,
    rejected: AtomicU64,
}

#[derive(Debug)]
struct CountsByThread {
    /// The first thread's [`ThreadSlot`]. Apart from what it writes, because others look here too.
    first: CountLine<AtomicU32>,
    of_first: CountLine<CountPair>,
    others: OnceLock<Box<[CountLine<ThreadCounts>]>>,
}

/// A cache line to itself.
#[repr(align(64))]
#[derive(Debug, Default)]
struct CountLine<T>(T);

#[derive(Debug, Default)]
struct ThreadCounts {
    /// Written by the one thread whose number this line has.
    owned: CountPair,
    /// Added to by threads with numbers beyond the last line.
    shared: CountPair,
}

impl CountPair {
    #[inline(always)]
    fn of(&self, counted: Counted) -> &AtomicU64 {
        match counted {
            Counted::Acquired => &self.acquired,
            Counted::Rejected => &self.rejected,
        }
    }

    /// Counts one, by the only thread that writes here.
    #[inline(always)]
    fn add_alone(&self, counted: Counted) {
        let count = self.of(counted);
        count.store(count.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    fn add(&self, counted: Counted) {
        self.of(counted).fetch_add(1, Ordering::Relaxed);
    }
}

impl Counts {
    /// Returns counts that stand at zero; `is_one_of_many` if no memory is to be spent on their speed.
    pub(crate) fn new(is_one_of_many: bool) -> Self {
        let by_thread = (!is_one_of_many).then(Box::<CountsByThread>::default);
        Counts { by_thread, shared: CountPair::default() }
    }

    /// Counts one.
    #[inline(always)]
    pub(crate) fn add(&self, counted: Counted) {
        match &self.by_thread {
            None => self.shared.add(counted),
            Some(by_thread) if ThreadSlot::known().get() == by_thread.first.0.load(Ordering::Relaxed) => {
                by_thread.of_first.0.add_alone(counted);
            }
            Some(by_thread) => self.add_elsewhere(counted, by_thread),
        }
    }

    // Out of line: the registers are for the first thread.
    #[inline(never)]
    fn add_elsewhere(&self, counted: Counted, by_thread: &CountsByThread) {
        // There are lines only if there is a first thread, and this is not it.
        match by_thread.others.get().and_then(|lines| lines.get(ThreadSlot::known().index())) {
            Some(line) => line.0.owned.add_alone(counted),
            None => self.add_without_line(counted, by_thread),
        }
    }

    #[inline(never)]
    fn add_without_line(&self, counted: Counted, by_thread: &CountsByThread) {
        match ThreadSlot::own() {
            Some(slot) => by_thread.add(counted, slot),
            None => self.shared.add(counted),
        }
    }

    /// Returns how often this was counted.
    pub(crate) fn sum(&self, counted: Counted) -> u64 {
        let by_thread = self.by_thread.iter().flat_map(|by_thread| by_thread.pairs());
        by_thread.chain([&self.shared]).map(|pair| pair.of(counted).load(Ordering::Relaxed)).sum()
    }
}

impl Default for CountsByThread {
    fn default() -> Self {
        CountsByThread {
            first: CountLine(AtomicU32::new(ThreadSlot::NOBODY.get())),
            of_first: CountLine::default(),
            others: OnceLock::new(),
        }
    }
}

impl CountsByThread {
    fn add(&self, counted: Counted, slot: ThreadSlot) {
        if self.is_first(slot) {
            return self.of_first.0.add_alone(counted);
        }
        let lines = self.others.get_or_init(lines);
        match lines.get(slot.index()) {
            Some(line) => line.0.owned.add_alone(counted),
            None => lines[slot.index() & (lines.len() - 1)].0.shared.add(counted),
        }
    }

    fn is_first(&self, slot: ThreadSlot) -> bool {
        let (first, nobody) = (&self.first.0, ThreadSlot::NOBODY.get());
        // Relaxed: a number says who may write, and is handed on under a lock. A look first, because a swap that fails
        // takes the line from the others all the same.
        match first.load(Ordering::Relaxed) {
            found if found == nobody => {
                first.compare_exchange(nobody, slot.get(), Ordering::Relaxed, Ordering::Relaxed).is_ok()
            }
            found => found == slot.get(),
        }
    }

    fn pairs(&self) -> impl Iterator<Item = &CountPair> {
        let others = self.others.get().into_iter().flatten();
        others.flat_map(|line| [&line.0.owned, &line.0.shared]).chain([&self.of_first.0])
    }
}

/// How many lines a limiter has: twice as many as there are cores, and a power of two. More threads than cores do not run at
/// once, but take turns. Asked once in a process: the system reads and parses files for the answer, tens of microseconds of them.
static LINES: LazyLock<usize> = LazyLock::new(|| {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    (2 * cores).next_power_of_two().min(MOST_LINES)
});

fn lines() -> Box<[CountLine<ThreadCounts>]> {
    (0..*LINES).map(|_| CountLine::default()).collect()
}
