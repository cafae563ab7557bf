//! A priority queue that threads wait on, and a count of free places.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use parking_lot::{Condvar, Mutex};

/// Items come out by priority, higher first, and in order of arrival among equals.
pub(super) struct PriorityQueue<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    heap: BinaryHeap<Entry<T>>,
    pushed: u64,
    closed: bool,
}

struct Entry<T> {
    priority: i32,
    arrival: u64,
    item: T,
}

impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.priority.cmp(&other.priority).then(other.arrival.cmp(&self.arrival))
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Entry<T> {}

impl<T> PriorityQueue<T> {
    pub fn new() -> Self {
        let state = State { heap: BinaryHeap::new(), pushed: 0, closed: false };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    /// Adds an item; gives it back when the queue is closed.
    pub fn push(&self, priority: i32, item: T) -> Result<(), T> {
        let mut state = self.state.lock();
        if state.closed {
            return Err(item);
        }
        let arrival = state.pushed;
        state.pushed += 1;
        state.heap.push(Entry { priority, arrival, item });
        self.changed.notify_one();
        Ok(())
    }

    /// The first item; waits for one. `None` once the queue is closed and empty.
    pub fn pop(&self) -> Option<T> {
        let mut state = self.state.lock();
        loop {
            if let Some(entry) = state.heap.pop() {
                return Some(entry.item);
            }
            if state.closed {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Takes out all items for which `wanted` holds, in no particular order.
    pub fn remove(&self, wanted: impl Fn(&T) -> bool) -> Vec<T> {
        let mut state = self.state.lock();
        let (gone, kept): (Vec<_>, Vec<_>) = state.heap.drain().partition(|entry| wanted(&entry.item));
        state.heap = kept.into();
        gone.into_iter().map(|entry| entry.item).collect()
    }

    /// No more items: waiters leave once what is there is gone.
    pub fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_all();
    }
}

/// How many more witnesses may be made ahead of the device workers.
pub(super) struct Places {
    free: Mutex<usize>,
    changed: Condvar,
}

impl Places {
    pub fn new(free: usize) -> Self {
        Self { free: Mutex::new(free), changed: Condvar::new() }
    }

    pub fn take(&self) {
        let mut free = self.free.lock();
        self.changed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
    }

    pub fn give_back(&self) {
        *self.free.lock() += 1;
        self.changed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn higher_priority_first_then_arrival() {
        let queue = PriorityQueue::new();
        for (priority, item) in [(0, 'a'), (5, 'b'), (0, 'c'), (5, 'd'), (-1, 'e')] {
            queue.push(priority, item).expect("open");
        }
        queue.close();
        assert_eq!(queue.push(9, 'z'), Err('z'));
        let order: String = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, "bdace");
    }

    #[test]
    fn what_is_removed_does_not_come_out() {
        let queue = PriorityQueue::new();
        for item in 0..6 {
            queue.push(0, item).expect("open");
        }
        let mut odd = queue.remove(|item| item % 2 == 1);
        odd.sort_unstable();
        assert_eq!(odd, [1, 3, 5]);
        queue.close();
        assert_eq!(std::iter::from_fn(|| queue.pop()).collect::<Vec<_>>(), [0, 2, 4]);
    }
}
