//! All points of a grid in one picture: throughput against latency.

use plotters::prelude::*;

use super::{Tried, Tuned};

/// Why there is no picture.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the picture could not be drawn: {0}")]
pub struct PlotError(String);

/// Draws the fit points as SVG: jobs per second to the right, 95th percentile of latency upwards, a colour for each number of workers. The best
/// one and the configured one are named.
///
/// # Errors
/// There is no fit point.
pub fn plot(tuned: &Tuned) -> Result<String, PlotError> {
    let failed = |error: &dyn std::fmt::Display| PlotError(error.to_string());
    let fit: Vec<&Tried> = tuned.points.iter().filter(|tried| tried.unfit.is_none()).collect();
    if fit.is_empty() {
        return Err(PlotError("no point is fit".to_owned()));
    }
    let rate = |tried: &Tried| tried.figures.proofs_per_s;
    let latency = |tried: &Tried| tried.figures.latency_p95_s;
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (900, 560)).into_drawing_area();
        area.fill(&WHITE).map_err(|error| failed(&error))?;
        let mut chart = ChartBuilder::on(&area)
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(
                range(fit.iter().map(|tried| rate(tried))),
                range(fit.iter().map(|tried| latency(tried))),
            )
            .map_err(|error| failed(&error))?;
        chart
            .configure_mesh()
            .x_desc("jobs per second")
            .y_desc("latency of a job, 95th percentile, s")
            .light_line_style(WHITE)
            .draw()
            .map_err(|error| failed(&error))?;
        let mut workers: Vec<u32> = fit.iter().map(|tried| tried.point.workers).collect();
        workers.sort_unstable();
        workers.dedup();
        for (index, workers) in workers.iter().enumerate() {
            let color = Palette99::pick(index).mix(0.7);
            let here = fit.iter().filter(|tried| tried.point.workers == *workers);
            chart
                .draw_series(here.map(|tried| Circle::new((rate(tried), latency(tried)), 4, color.filled())))
                .map_err(|error| failed(&error))?
                .label(format!("{workers} workers"))
                .legend(move |(x, y)| Circle::new((x + 8, y), 4, color.filled()));
        }
        for (name, tried) in [("best", tuned.best()), ("configured", tuned.configured())] {
            let Some(tried) = tried.filter(|tried| tried.unfit.is_none()) else { continue };
            let at = (rate(tried), latency(tried));
            let mark = EmptyElement::at(at)
                + Circle::new((0, 0), 8, BLACK.stroke_width(2))
                + Text::new(name.to_owned(), (11, -7), ("sans-serif", 15));
            chart.draw_series([mark]).map_err(|error| failed(&error))?;
        }
        chart
            .configure_series_labels()
            .background_style(WHITE.mix(0.9))
            .border_style(BLACK.mix(0.3))
            .draw()
            .map_err(|error| failed(&error))?;
        area.present().map_err(|error| failed(&error))?;
    }
    Ok(svg)
}

/// From the least to the most, with some room.
fn range(values: impl Iterator<Item = f64>) -> std::ops::Range<f64> {
    let (least, most) = values
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| (least.min(value), most.max(value)));
    let room = ((most - least) * 0.08).max(most.abs() * 0.01).max(1e-9);
    least - room..most + room
}
