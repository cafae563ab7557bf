//! Processor sharing: work that is done at the same time, all at one rate.
//!
//! Because the rate is the same for all, whoever has the least left to do ends first, whatever the rate will be. So work waits in the order
//! in which it ends on a *virtual clock* that runs at that rate, and a change of the rate touches no work.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Work that shares a resource.
#[derive(Debug)]
pub(super) struct Sharing<T> {
    work: BinaryHeap<Work<T>>,
    /// Nanoseconds of work that each has been given since the group was last empty.
    virtual_ns: f64,
    /// Nanoseconds of work that each is given in a nanosecond.
    rate: f64,
    /// Until when `virtual_ns` counts.
    at_ns: u64,
    added: u64,
}

#[derive(Debug)]
struct Work<T> {
    /// Where the virtual clock stands when it is done.
    ends_at: f64,
    order: u64,
    what: T,
}

impl<T> Sharing<T> {
    pub fn new() -> Self {
        Self { work: BinaryHeap::new(), virtual_ns: 0.0, rate: 1.0, at_ns: 0, added: 0 }
    }

    pub fn len(&self) -> usize {
        self.work.len()
    }

    /// Sets the rate from now on.
    pub fn set_rate(&mut self, now_ns: u64, rate: f64) {
        self.advance(now_ns);
        self.rate = rate;
    }

    /// Adds work that takes so many nanoseconds at the rate of one.
    pub fn add(&mut self, now_ns: u64, work_ns: u64, what: T) {
        self.advance(now_ns);
        if self.work.is_empty() {
            // Small numbers have more digits behind the point.
            self.virtual_ns = 0.0;
        }
        let work = Work { ends_at: self.virtual_ns + work_ns as f64, order: self.added, what };
        self.added += 1;
        self.work.push(work);
    }

    /// When the next work is done, if nothing changes before.
    pub fn next_ns(&self) -> Option<u64> {
        let left = (self.work.peek()?.ends_at - self.virtual_ns).max(0.0);
        Some(self.at_ns.saturating_add((left / self.rate).ceil() as u64))
    }

    /// Takes the next work; to be called at the time that [`Sharing::next_ns`] says.
    pub fn take(&mut self, now_ns: u64) -> Option<T> {
        self.advance(now_ns);
        self.work.pop().map(|work| work.what)
    }

    /// Drops all work.
    pub fn clear(&mut self) {
        self.work.clear();
    }

    fn advance(&mut self, now_ns: u64) {
        self.virtual_ns += (now_ns - self.at_ns) as f64 * self.rate;
        self.at_ns = now_ns;
    }
}

impl<T> Ord for Work<T> {
    /// Whoever ends first is greatest: the heap gives out the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.ends_at.total_cmp(&self.ends_at).then(other.order.cmp(&self.order))
    }
}

impl<T> PartialOrd for Work<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Work<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Work<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a group dry: who ends when, with the rate worked out from how many there are.
    fn ends(group: &mut Sharing<char>, rate: impl Fn(usize) -> f64) -> Vec<(u64, char)> {
        let mut ended = Vec::new();
        while let Some(now_ns) = group.next_ns() {
            ended.push((now_ns, group.take(now_ns).expect("there is work")));
            group.set_rate(now_ns, rate(group.len()));
        }
        ended
    }

    #[test]
    fn alone_work_takes_its_time() {
        let mut group = Sharing::new();
        group.add(5, 100, 'a');
        assert_eq!(ends(&mut group, |_| 1.0), [(105, 'a')]);
    }

    #[test]
    fn two_that_share_take_as_long_as_both_one_after_the_other() {
        let half = |count: usize| if count > 1 { 0.5 } else { 1.0 };
        let mut group = Sharing::new();
        group.add(0, 100, 'a');
        group.add(0, 30, 'b');
        group.set_rate(0, 0.5);
        // Both get 30 by 60, then one has 70 left for itself.
        assert_eq!(ends(&mut group, half), [(60, 'b'), (130, 'a')]);
    }

    #[test]
    fn equals_end_in_the_order_in_which_they_came() {
        let mut group = Sharing::new();
        for what in ['a', 'b', 'c'] {
            group.add(0, 10, what);
        }
        let order: Vec<char> = ends(&mut group, |_| 1.0).into_iter().map(|(_, what)| what).collect();
        assert_eq!(order, ['a', 'b', 'c']);
    }

    #[test]
    fn a_rate_that_changes_counts_from_then_on() {
        let mut group = Sharing::new();
        group.add(0, 100, 'a');
        group.set_rate(40, 0.25);
        assert_eq!(group.next_ns(), Some(280));
    }
}
