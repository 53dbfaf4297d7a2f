//! Fair scheduling: first come, first served, but round-robin between clients.
//!
//! Turns rotate by address, and within an address by the request's `user`, so that inventing users
//! gains nothing.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Identity of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Client {
    pub address: IpAddr,
    /// `user` of the request, or empty.
    pub user: String,
}

impl Client {
    /// Creates the identity of a request's sender.
    pub fn new(from: SocketAddr, user: String) -> Self {
        Self {
            address: from.ip().to_canonical(),
            user,
        }
    }
}

/// Reason why an item is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Full {
    /// The queue is full.
    All,
    /// The address already has half of all places.
    Address,
}

/// Waiting items.
#[derive(Debug)]
pub(crate) struct Turns<T> {
    most: usize,
    waiting: usize,
    addresses: Ring<IpAddr, Ring<String, VecDeque<T>>>,
}

/// Queues in rotation; the first is next.
type Ring<K, Q> = VecDeque<(K, Q)>;

impl<T> Turns<T> {
    /// Creates a queue of at most `most` items.
    pub fn new(most: usize) -> Self {
        Self {
            most,
            waiting: 0,
            addresses: Ring::new(),
        }
    }

    /// Returns the number of waiting items.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Adds an item of a client.
    ///
    /// # Errors
    /// [`Full`].
    pub fn push(&mut self, client: &Client, thing: T) -> Result<(), Full> {
        if self.waiting >= self.most {
            return Err(Full::All);
        }
        let users = entry(&mut self.addresses, &client.address);
        let waiting: usize = users.iter().map(|(_, things)| things.len()).sum();
        if waiting >= self.most.div_ceil(2) {
            return Err(Full::Address);
        }
        entry(users, &client.user).push_back(thing);
        self.waiting += 1;
        Ok(())
    }

    /// Removes items that are no longer `wanted`.
    pub fn retain(&mut self, wanted: impl Fn(&T) -> bool) {
        self.waiting = 0;
        self.addresses.retain_mut(|(_, users)| {
            users.retain_mut(|(_, things)| {
                things.retain(&wanted);
                self.waiting += things.len();
                !things.is_empty()
            });
            !users.is_empty()
        });
    }

    /// Removes and returns the next item.
    pub fn pop(&mut self) -> Option<T> {
        let (address, mut users) = self.addresses.pop_front()?;
        let (user, mut things) = users.pop_front()?;
        let thing = things.pop_front()?;
        if !things.is_empty() {
            users.push_back((user, things));
        }
        if !users.is_empty() {
            self.addresses.push_back((address, users));
        }
        self.waiting -= 1;
        Some(thing)
    }
}

/// Returns the queue of `key`, appended if it is new.
fn entry<'a, K: Clone + PartialEq, Q: Default>(ring: &'a mut Ring<K, Q>, key: &K) -> &'a mut Q {
    let place = match ring.iter().position(|(each, _)| each == key) {
        Some(place) => place,
        None => {
            ring.push_back((key.clone(), Q::default()));
            ring.len() - 1
        }
    };
    &mut ring[place].1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(host: u8, user: &str) -> Client {
        Client {
            address: IpAddr::from([10, 0, 0, host]),
            user: user.to_owned(),
        }
    }

    fn all(turns: &mut Turns<&'static str>) -> String {
        let things = std::iter::from_fn(|| turns.pop());
        things.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn nobody_has_two_turns_while_another_waits() {
        let mut turns = Turns::new(100);
        for (host, user, thing) in [
            (1, "", "a1"),
            (1, "", "a2"),
            (1, "", "a3"),
            (2, "x", "b-x1"),
            (2, "x", "b-x2"),
            (2, "y", "b-y1"),
            (3, "", "c1"),
        ] {
            turns.push(&client(host, user), thing).unwrap();
        }
        assert_eq!(turns.waiting(), 7);
        assert_eq!(all(&mut turns), "a1 b-x1 c1 a2 b-y1 a3 b-x2");
        assert_eq!(turns.waiting(), 0);
        // A returning client waits after those already queued.
        turns.push(&client(1, ""), "a1").unwrap();
        turns.push(&client(2, ""), "b1").unwrap();
        assert_eq!(turns.pop(), Some("a1"));
        turns.push(&client(1, ""), "a2").unwrap();
        assert_eq!(all(&mut turns), "b1 a2");
    }

    #[test]
    fn an_address_has_half_of_the_places_whoever_it_says_it_is() {
        let mut turns = Turns::new(4);
        turns.push(&client(1, "a"), "1").unwrap();
        turns.push(&client(1, "b"), "2").unwrap();
        assert_eq!(turns.push(&client(1, "c"), "3"), Err(Full::Address));
        turns.push(&client(2, ""), "4").unwrap();
        turns.push(&client(3, ""), "5").unwrap();
        assert_eq!(turns.push(&client(4, ""), "6"), Err(Full::All));
        turns.pop().unwrap();
        turns.push(&client(4, ""), "7").unwrap();
        assert_eq!(all(&mut turns), "4 5 2 7");
    }

    #[test]
    fn who_has_gone_away_has_no_place() {
        let mut turns = Turns::new(4);
        for (host, thing) in [(1, "a1"), (1, "gone"), (2, "gone"), (3, "c1")] {
            turns.push(&client(host, ""), thing).unwrap();
        }
        assert_eq!(turns.push(&client(4, ""), "d1"), Err(Full::All));
        turns.retain(|thing| *thing != "gone");
        assert_eq!(turns.waiting(), 2);
        turns.push(&client(1, ""), "a2").unwrap();
        turns.push(&client(2, ""), "b1").unwrap();
        assert_eq!(all(&mut turns), "a1 c1 b1 a2");
    }

    #[test]
    fn one_place_is_enough_for_one() {
        let mut turns = Turns::new(1);
        turns.push(&client(1, ""), "1").unwrap();
        assert_eq!(turns.push(&client(1, ""), "2"), Err(Full::All));
        assert_eq!(all(&mut turns), "1");
    }
}
