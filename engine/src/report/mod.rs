//! What a run has to say for itself: the JSON report, the text for people, the timeline and the trace.

mod experiment;
mod experiment_page;
mod policies;
mod run;
mod switch;
mod text;
mod timeline;
mod trace;

pub use experiment::{
    arm_name, ending, render_experiment, render_saved_comparison, sentence, verdict, write_experiment_csv,
};
pub use experiment_page::ExperimentPage;
pub use policies::render_policies;
pub use run::{PartitionLine, PlanReport, RunReport, StatementReport};
pub use switch::render_switch;
pub use text::render;
pub use timeline::CsvTimeline;
pub use trace::{TraceGuard, start_logging};
