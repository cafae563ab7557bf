//! A grid of workers and options.

use std::collections::BTreeMap;

use interlock_policy_api::OptionDoc;
use serde::Serialize;

/// The most points of a grid.
pub const MOST_POINTS: usize = 50_000;

/// The values of one option, as they are written in RON; the configured one first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// Name of the option.
    pub option: String,
    /// Its values: at least one, each once.
    pub values: Vec<String>,
}

/// Numbers of workers, and the values of options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    workers: Vec<u32>,
    axes: Vec<Axis>,
}

/// One point of a grid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Point {
    /// Device workers of each device.
    pub workers: u32,
    /// Options by name, each as it is written in RON.
    pub options: BTreeMap<String, String>,
}

/// Why a grid cannot be searched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GridError {
    /// An axis, or the workers, without a value.
    #[error("{0}: there is no value to try")]
    NoValue(String),
    /// An option twice.
    #[error("option {0} is given twice")]
    Twice(String),
    /// More points than anybody has time for.
    #[error("{points} points are more than the {MOST_POINTS} that are tried; give fewer values")]
    TooMany {
        /// How many there would be.
        points: usize,
    },
}

impl Grid {
    /// A grid of these values; those that stand first are what is configured.
    ///
    /// # Errors
    /// See [`GridError`].
    pub fn new(mut workers: Vec<u32>, mut axes: Vec<Axis>) -> Result<Self, GridError> {
        without_repetition(&mut workers);
        if workers.is_empty() {
            return Err(GridError::NoValue("workers".to_owned()));
        }
        let mut points = workers.len();
        for index in 0..axes.len() {
            if axes[..index].iter().any(|axis| axis.option == axes[index].option) {
                return Err(GridError::Twice(axes[index].option.clone()));
            }
            let axis = &mut axes[index];
            without_repetition(&mut axis.values);
            if axis.values.is_empty() {
                return Err(GridError::NoValue(axis.option.clone()));
            }
            points = points.saturating_mul(axis.values.len());
        }
        if points > MOST_POINTS {
            return Err(GridError::TooMany { points });
        }
        Ok(Self { workers, axes })
    }

    /// All points; the configured one first.
    pub fn points(&self) -> Vec<Point> {
        let mut points: Vec<Point> = self
            .workers
            .iter()
            .map(|workers| Point { workers: *workers, options: BTreeMap::new() })
            .collect();
        for axis in &self.axes {
            points = points
                .iter()
                .flat_map(|point| {
                    axis.values.iter().map(|value| {
                        let mut point = point.clone();
                        point.options.insert(axis.option.clone(), value.clone());
                        point
                    })
                })
                .collect();
        }
        points
    }
}

impl Point {
    /// The options as RON.
    pub fn ron(&self) -> String {
        let options: Vec<String> =
            self.options.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!("({})", options.join(", "))
    }
}

fn without_repetition<T: PartialEq + Clone>(values: &mut Vec<T>) {
    let all = std::mem::take(values);
    for value in all {
        if !values.contains(&value) {
            values.push(value);
        }
    }
}

/// The values of an option that are worth a try when nobody says which, by its type, the `configured` one first: both of a
/// `bool`; of a number the configured one, parts and multiples of it, and for whole numbers the smallest ones. A text has its configured value only.
pub fn usual_values(option: &OptionDoc, configured: &str) -> Vec<String> {
    let plain = configured.replace('_', "");
    let mut values = vec![configured.to_owned()];
    match option.kind.as_str() {
        "bool" => values.extend(["false".to_owned(), "true".to_owned()]),
        "u32" => {
            let number: u32 = plain.parse().unwrap_or(1);
            let more = [1, 2, 3, 4, number / 2, number.saturating_mul(2)];
            values.extend(more.into_iter().filter(|value| *value > 0).map(|value| value.to_string()));
        }
        "u64" => {
            // A zero is often a switch: what it switches on has no natural size.
            if let Ok(number @ 1..) = plain.parse::<u64>() {
                values.extend(
                    [0, number / 10, number / 2, number.saturating_mul(2), number.saturating_mul(10)]
                        .map(|value| value.to_string()),
                );
            }
        }
        "i64" => {
            if let Ok(number) = plain.parse::<i64>() {
                values.extend([0, number / 2, number.saturating_mul(2)].map(|value| value.to_string()));
            }
        }
        "f64" => {
            if let Ok(number) = plain.parse::<f64>() {
                values.extend([0.5, 0.75, 1.25, 1.5, 2.0].map(|factor| format!("{:?}", number * factor)));
            }
        }
        _ => {}
    }
    without_repetition(&mut values);
    // What reads as the same number, 1_000 and 1000, is one value.
    let mut seen = Vec::new();
    values.retain(|value| {
        let plain = value.replace('_', "");
        let new = !seen.contains(&plain);
        seen.push(plain);
        new
    });
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(option: &str, values: &[&str]) -> Axis {
        Axis { option: option.to_owned(), values: values.iter().map(|value| (*value).to_owned()).collect() }
    }

    #[test]
    fn a_grid_has_every_combination_once_and_the_configured_one_first() {
        let grid = Grid::new(vec![2, 1, 2], vec![axis("a", &["5", "6", "5"]), axis("b", &["true"])])
            .expect("it is good");
        let points: Vec<(u32, String)> =
            grid.points().iter().map(|point| (point.workers, point.ron())).collect();
        let expected =
            [(2, "(a: 5, b: true)"), (2, "(a: 6, b: true)"), (1, "(a: 5, b: true)"), (1, "(a: 6, b: true)")];
        assert_eq!(points, expected.map(|(workers, options)| (workers, options.to_owned())));
    }

    #[test]
    fn grids_that_cannot_be_searched_are_refused() {
        assert_eq!(Grid::new(vec![], vec![]), Err(GridError::NoValue("workers".into())));
        assert_eq!(Grid::new(vec![1], vec![axis("a", &[])]), Err(GridError::NoValue("a".into())));
        let twice = vec![axis("a", &["1"]), axis("a", &["2"])];
        assert_eq!(Grid::new(vec![1], twice), Err(GridError::Twice("a".into())));
        let values: Vec<String> = (0..300).map(|value| value.to_string()).collect();
        let large = |name: &str| Axis { option: name.into(), values: values.clone() };
        assert_eq!(
            Grid::new(vec![1], vec![large("a"), large("b")]),
            Err(GridError::TooMany { points: 90_000 })
        );
    }

    #[test]
    fn usual_values_begin_with_what_is_configured() {
        let option = |kind: &str| OptionDoc {
            name: "an_option".into(),
            kind: kind.into(),
            default: String::new(),
            doc: String::new(),
        };
        assert_eq!(usual_values(&option("bool"), "true"), ["true", "false"]);
        assert_eq!(usual_values(&option("u32"), "2"), ["2", "1", "3", "4"]);
        assert_eq!(usual_values(&option("u64"), "1_000"), ["1_000", "0", "100", "500", "2000", "10000"]);
        assert_eq!(usual_values(&option("u64"), "0"), ["0"]);
        assert_eq!(usual_values(&option("f64"), "0.5"), ["0.5", "0.25", "0.375", "0.625", "0.75", "1.0"]);
        assert_eq!(usual_values(&option("string"), "\"x\""), ["\"x\""]);
    }
}
