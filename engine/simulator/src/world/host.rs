//! The host's processor: CPU work that shares cores and memory bandwidth.

use crate::scenario::{CpuWork, Host};

use super::sharing::Sharing;

/// Cores are counted in millionths, so that sums are exact.
const MILLIONTHS: f64 = 1e6;

/// The CPU work that goes on.
#[derive(Debug)]
pub(super) struct Processor<T> {
    cores: Option<u64>,
    bandwidth: Option<u64>,
    /// Work that moves little memory, and work that moves much: the second is slowed down by bandwidth too.
    groups: [Sharing<(Demand, T)>; 2],
    asked: Demand,
}

/// What work asks for at full speed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Demand {
    cores: u64,
    bandwidth: u64,
}

impl Demand {
    pub fn of(work: &CpuWork) -> Self {
        Self { bandwidth: work.bandwidth.0, ..Self::of_cores(work.cores) }
    }

    pub fn of_cores(cores: f64) -> Self {
        Self { cores: (cores * MILLIONTHS).round() as u64, bandwidth: 0 }
    }
}

impl<T> Processor<T> {
    pub fn new(host: &Host) -> Self {
        Self {
            cores: host.cores.map(|cores| (cores * MILLIONTHS).round() as u64),
            bandwidth: host.bandwidth.map(|bandwidth| bandwidth.0),
            groups: [Sharing::new(), Sharing::new()],
            asked: Demand::default(),
        }
    }

    /// Begins work that takes so many nanoseconds at full speed.
    pub fn begin(&mut self, now_ns: u64, demand: Demand, work_ns: u64, what: T) {
        self.asked.cores += demand.cores;
        self.asked.bandwidth += demand.bandwidth;
        self.groups[usize::from(demand.bandwidth > 0)].add(now_ns, work_ns, (demand, what));
        self.share(now_ns);
    }

    /// When the next work is done.
    pub fn next_ns(&self) -> Option<u64> {
        self.groups.iter().filter_map(Sharing::next_ns).min()
    }

    /// Takes the work that is done now.
    pub fn take(&mut self, now_ns: u64) -> Option<T> {
        let due = self.groups.iter_mut().find(|group| group.next_ns().is_some_and(|next| next <= now_ns))?;
        let (demand, what) = due.take(now_ns)?;
        self.asked.cores -= demand.cores;
        self.asked.bandwidth -= demand.bandwidth;
        self.share(now_ns);
        Some(what)
    }

    fn share(&mut self, now_ns: u64) {
        let part = |there: Option<u64>, asked: u64| match there {
            Some(there) if asked > there => there as f64 / asked as f64,
            _ => 1.0,
        };
        let by_cores = part(self.cores, self.asked.cores);
        let by_bandwidth = part(self.bandwidth, self.asked.bandwidth);
        self.groups[0].set_rate(now_ns, by_cores);
        self.groups[1].set_rate(now_ns, by_cores.min(by_bandwidth));
    }
}

#[cfg(test)]
mod tests {
    use interlock_settings::ByteSize;

    use super::*;

    fn run(host: &Host, works: &[(u64, u64, u64)]) -> Vec<u64> {
        let mut processor = Processor::new(host);
        for (index, (cores, bandwidth, work_ns)) in works.iter().enumerate() {
            let demand = Demand { cores: cores * 1_000_000, bandwidth: *bandwidth };
            processor.begin(0, demand, *work_ns, index);
        }
        let mut ends = vec![0; works.len()];
        while let Some(now_ns) = processor.next_ns() {
            ends[processor.take(now_ns).expect("it is due")] = now_ns;
        }
        ends
    }

    #[test]
    fn enough_for_all_slows_nobody() {
        assert_eq!(run(&Host::default(), &[(64, 1 << 40, 10), (64, 1 << 40, 20)]), [10, 20]);
        let host = Host { cores: Some(2.0), bandwidth: None };
        assert_eq!(run(&host, &[(1, 0, 10), (1, 0, 20)]), [10, 20]);
    }

    #[test]
    fn too_few_cores_slow_all_who_share_them() {
        let host = Host { cores: Some(2.0), bandwidth: None };
        // Six cores of two: all at a third, until those of 10 are done.
        assert_eq!(run(&host, &[(2, 0, 10), (2, 0, 10), (2, 0, 20)]), [30, 30, 40]);
    }

    #[test]
    fn bandwidth_slows_those_who_use_it() {
        let host = Host { cores: None, bandwidth: Some(ByteSize(100)) };
        // Twice what there is: half the speed; the third uses none.
        assert_eq!(run(&host, &[(1, 100, 10), (1, 100, 10), (1, 0, 10)]), [20, 20, 10]);
    }
}
