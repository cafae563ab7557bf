//! Orders of events that no policy's answers could bring about.

use super::{Happening, ScenarioError};

/// The most stages that end well from one coming of a task to the next.
const MOST_ENDS: u32 = 4;

/// What the entries so far say of a task.
#[derive(Clone, Copy, Default)]
struct Told {
    came: u32,
    /// Stages that ended since it came last.
    ends: u32,
    failed: bool,
}

/// Whether each entry could happen at its place, whatever the policy answers.
///
/// # Errors
/// The first one that could not.
pub(super) fn check(order: &[Happening], tasks: usize) -> Result<(), ScenarioError> {
    let mut told = vec![Told::default(); tasks];
    for (entry, &what) in order.iter().enumerate() {
        let (Happening::Arrives(task)
        | Happening::Ends(task)
        | Happening::Fails(task)
        | Happening::GivesUp(task)) = what
        else {
            continue;
        };
        let judged = told.get_mut(task).ok_or("there is no such task").and_then(|told| told.take(what));
        judged.map_err(|why| ScenarioError::Order { entry, what, why })?;
    }
    Ok(())
}

impl Told {
    fn take(&mut self, what: Happening) -> Result<(), &'static str> {
        match what {
            Happening::Arrives(_) if self.came > 0 && !self.failed => {
                return Err("it has come already, and comes again only after a failure");
            }
            Happening::Arrives(_) if self.came > 1 => return Err("it has come twice already"),
            Happening::Arrives(_) => (self.came, self.ends) = (self.came + 1, 0),
            _ if self.came == 0 => return Err("it has not come yet"),
            Happening::Ends(_) if self.ends == MOST_ENDS => return Err("its four stages have ended already"),
            Happening::Ends(_) => self.ends += 1,
            Happening::Fails(_) => self.failed = true,
            Happening::GivesUp(_) | Happening::Later => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Happening::*;
    use super::*;

    #[test]
    fn what_could_happen_under_some_policy_is_taken() {
        let whole = [Arrives(0), Ends(0), Ends(0), Ends(0), Ends(0)];
        let again = [Arrives(0), Arrives(1), Ends(0), Fails(0), Later, Arrives(0), GivesUp(1)];
        // Whether it waits or is in a stage is for the policy to say.
        let open = [Arrives(1), GivesUp(1), Ends(1)];
        for order in [&[][..], &whole, &again, &open] {
            assert_eq!(check(order, 2), Ok(()), "{order:?}");
        }
    }

    #[test]
    fn what_could_never_happen_is_named() {
        for (order, entry) in [
            (&[Arrives(2)][..], 0),
            (&[Ends(0), Arrives(0)], 0),
            (&[Arrives(0), Fails(1)], 1),
            (&[Later, GivesUp(0)], 1),
            (&[Arrives(0), Arrives(0)], 1),
            (&[Arrives(0), Fails(0), Arrives(0), Arrives(0)], 3),
            (&[Arrives(0), Ends(0), Ends(0), Ends(0), Ends(0), Ends(0)], 5),
        ] {
            let what = order[entry];
            let error = check(order, 2).expect_err("it is impossible");
            assert!(
                matches!(error, ScenarioError::Order { entry: at, what: named, .. } if (at, named) == (entry, what))
            );
            assert!(error.to_string().contains(&format!("entry {entry} of `order`, {what:?}")), "{error}");
        }
    }
}
