//! When the device did what: by events, on its own clock.

use cust::event::{Event, EventFlags};
use cust::stream::Stream;
use interlock_core_api::StepRecord;

use crate::driver::Context;
use crate::fault::Fault;
use crate::gpu::Gpu;

/// Marks on a stream, for the device time between them; none at all unless the core was told to measure.
pub struct Clock<'a> {
    gpu: &'a Gpu,
    stream: &'a Stream,
    marks: Vec<(&'static str, Event)>,
}

impl<'a> Clock<'a> {
    /// The first step begins when what is on the stream so far is done.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn new(gpu: &'a Gpu, stream: &'a Stream) -> Result<Self, Fault> {
        let mut clock = Self { gpu, stream, marks: Vec::new() };
        clock.mark("start")?;
        Ok(clock)
    }

    /// A step ends, the next one begins.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn mark(&mut self, name: &'static str) -> Result<(), Fault> {
        if self.gpu.measure {
            let event = Event::new(EventFlags::DEFAULT).context("make an event")?;
            event.record(self.stream).context("record an event")?;
            self.marks.push((name, event));
        }
        Ok(())
    }

    /// The steps, once the stream is done.
    ///
    /// # Errors
    /// When the driver refuses.
    pub fn steps(&self) -> Result<Vec<StepRecord>, Fault> {
        let step = |pair: &[(&'static str, Event)]| {
            let between = |from: &Event, to: &Event| to.elapsed_time_f32(from).context("read an event");
            let [(_, begin), (name, end)] = pair else { unreachable!("windows of two") };
            Ok(StepRecord {
                name: (*name).into(),
                start_milliseconds: between(&self.gpu.opened, begin)?,
                milliseconds: between(begin, end)?,
            })
        };
        self.marks.windows(2).map(step).collect()
    }
}
