//! What the model leaves out makes no difference: each way of saving states is
//! held against doing without it.

use std::collections::HashSet;

use redquorum::core::{
    AcquireRound, AcquireVerdict, ExtendRound, ExtendVerdict, Lease, ReleaseRound, ReleaseVerdict,
    Vote,
};
use stateright::Model;

use super::ballot::{Ballot, NOW, ago, millis};
use super::client::{NO_FENCES, Phase};
use super::count::Count;
use super::link::{Answer, Voted};
use super::promise::Promise;
use super::protocol::Protocol;
use super::request::Queue;
use super::setting::Setting;
use super::world::World;

const MASTERS: usize = 3;
const TTL: u8 = 3;

/// A vote of a master, and how long after the round began it was counted.
type Counted = (usize, Voted, u8);

/// All that can be counted of a round: any masters in any order, each with any
/// vote, at any time.
fn all_counts() -> Vec<Vec<Counted>> {
    let mut all = vec![Vec::new()];
    let mut next = 0;
    while next < all.len() {
        let counts: Vec<Counted> = all[next].clone();
        next += 1;
        let earliest = counts.last().map_or(0, |(_, _, at)| *at);
        let has_voted = |master: &usize| counts.iter().any(|(voter, _, _)| voter == master);
        for master in (0..MASTERS).filter(|master| !has_voted(master)) {
            for voted in [Voted::Yes, Voted::No, Voted::Absent] {
                for at in earliest..=TTL {
                    let mut longer = counts.clone();
                    longer.push((master, voted, at));
                    all.push(longer);
                }
            }
        }
    }
    all
}

fn setting() -> Setting {
    Setting {
        ttl: [TTL, TTL],
        ..Setting::new("rounds begun anew")
    }
}

/// What a state keeps of these votes.
fn kept(counts: &[Counted]) -> World<MASTERS> {
    let mut world = World::new(&setting());
    for (master, voted, _) in counts {
        world.columns[*master].links[0].answer = Answer::Counted(*voted);
    }
    world
}

/// Each list of votes, and how long the round has taken.
fn for_all_counts(mut check: impl FnMut(&[Counted], u8)) {
    for counts in all_counts() {
        let last = counts.last().map_or(0, |(_, _, at)| *at);
        for elapsed in last..=TTL {
            check(&counts, elapsed);
        }
    }
}

#[test]
fn rounds_begun_anew_are_those_that_were_kept() {
    let ballot = Ballot::new(MASTERS, &setting());
    let mut compared = 0;
    for_all_counts(|counts, elapsed| {
        let mut round = AcquireRound::new(ballot.quorum, ballot.terms[0], ago(elapsed));
        for (master, voted, at) in counts {
            round.vote(*master, Vote::from(*voted), ago(elapsed - at));
        }
        if round.verdict() == AcquireVerdict::Pending {
            assert_eq!(ballot.acquire(&kept(counts), 0, elapsed), round);
            compared += 1;
        }
    });
    assert!(compared > 100, "{compared}");
}

#[test]
fn extensions_begun_anew_are_those_that_were_kept() {
    let ballot = Ballot::new(MASTERS, &setting());
    let mut compared = 0;
    for_all_counts(|counts, elapsed| {
        for left in 0..=TTL - elapsed {
            let old = Lease::until(NOW.after(millis(left)));
            let mut round = ExtendRound::new(ballot.quorum, ballot.terms[0], ago(elapsed), old);
            for (master, voted, at) in counts {
                round.vote(*master, Vote::from(*voted), ago(elapsed - at));
            }
            if round.verdict() == ExtendVerdict::Pending {
                assert_eq!(ballot.extend(&kept(counts), 0, elapsed, left), round);
                compared += 1;
            }
        }
    });
    assert!(compared > 100, "{compared}");
}

#[test]
fn releases_begun_anew_are_those_that_were_kept() {
    let ballot = Ballot::new(MASTERS, &setting());
    let mut compared = 0;
    for counts in all_counts() {
        let mut round = ReleaseRound::new(ballot.quorum);
        for (master, voted, _) in &counts {
            round.vote(*master, Vote::from(*voted));
        }
        if round.verdict() == ReleaseVerdict::Pending {
            assert_eq!(ballot.release(&kept(&counts), 0), round);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

/// What masters may have counted that granted a round: 0 if one did not.
fn all_grants() -> impl Iterator<Item = Vec<(usize, u64)>> {
    (0..3_u64.pow(MASTERS as u32)).filter_map(|number| {
        let count = |master: usize| number / 3_u64.pow(master as u32) % 3;
        let grants = (0..MASTERS).map(|master| (master, count(master)));
        let grants: Vec<_> = grants.filter(|(_, count)| *count > 0).collect();
        (!grants.is_empty()).then_some(grants)
    })
}

#[test]
fn second_rounds_begun_anew_are_those_that_were_kept() {
    let ballot = Ballot::new(MASTERS, &setting());
    let mut compared = 0;
    for grants in all_grants() {
        for_all_counts(|counts, elapsed| {
            let begun = counts.first().map_or(0, |(_, _, at)| *at);
            let mut round = ballot.fence(ago(elapsed), 0, &grants, ago(elapsed - begun));
            let knows = |master| grants.contains(&(master, round.token()));
            if counts.iter().any(|(master, _, _)| knows(*master)) {
                return;
            }
            let known = (0..MASTERS).filter(|master| knows(*master));
            let known = known.map(|master| (master, Voted::Yes, 0));
            let mut world = kept(&known.chain(counts.iter().copied()).collect::<Vec<_>>());
            world.clients[0].round = 1;
            world.clients[0].set_fence(1, Count::of(round.token()));
            for (master, voted, at) in counts {
                round.vote(*master, Vote::from(*voted), ago(elapsed - at));
            }
            if round.verdict() == AcquireVerdict::Pending {
                assert_eq!(ballot.fence_begun(&world, 0, elapsed), round);
                compared += 1;
            }
        });
    }
    assert!(compared > 100, "{compared}");
}

fn reachable<const N: usize>(setting: Setting) -> HashSet<World<N>> {
    let protocol = Protocol::new(setting);
    let mut next = protocol.init_states();
    let mut reached: HashSet<_> = next.iter().copied().collect();
    while let Some(world) = next.pop() {
        let following = protocol.next_states(&world);
        next.extend(following.into_iter().filter(|world| reached.insert(*world)));
    }
    reached
}

fn small() -> Setting {
    Setting {
        ttl: [1, 1],
        quarantine: 1,
        ..Setting::new("small")
    }
}

#[test]
fn the_order_of_masters_makes_no_difference() {
    let in_order = |mut world: World<MASTERS>| {
        world.columns.sort_unstable();
        world
    };
    let all = reachable(Setting {
        symmetry: false,
        ..small()
    });
    let saved = reachable(small());
    assert!(all.len() > 4 * saved.len());
    assert_eq!(all.into_iter().map(in_order).collect::<HashSet<_>>(), saved);
}

#[test]
fn when_idle_requests_are_executed_makes_no_difference() {
    let without_requests = |mut world: World<MASTERS>| {
        for link in world
            .columns
            .iter_mut()
            .flat_map(|column| &mut column.links)
        {
            link.requests = Queue::EMPTY;
            link.released = 0;
        }
        world.columns.sort_unstable();
        world
    };
    let all = reachable(Setting {
        prunes: false,
        crashes: 1,
        ..small()
    });
    let saved = reachable(Setting {
        crashes: 1,
        ..small()
    });
    assert!(all.len() > saved.len());
    let seen = |worlds: HashSet<_>| {
        worlds
            .into_iter()
            .map(without_requests)
            .collect::<HashSet<_>>()
    };
    assert_eq!(seen(all), seen(saved));
}

/// The same for second rounds, and for what nobody looks at who looks at tokens.
#[test]
fn what_is_left_out_of_fenced_rounds_makes_no_difference() {
    let fenced = |prunes| Setting {
        fenced: true,
        counters: &[Some(0), Some(1)],
        promises: &[Promise::TokensIncrease],
        prunes,
        ..small()
    };
    let looked_at = |mut world: World<2>| {
        for link in world
            .columns
            .iter_mut()
            .flat_map(|column| &mut column.links)
        {
            link.requests = Queue::EMPTY;
            link.released = 0;
            link.forgot = false;
        }
        for client in &mut world.clients {
            client.fences = NO_FENCES;
            if let Phase::Held { left, .. } = &mut client.phase {
                *left = 0;
            }
        }
        world.compact_counts(0);
        world.columns.sort_unstable();
        world
    };
    let seen = |worlds: HashSet<_>| worlds.into_iter().map(looked_at).collect::<HashSet<_>>();
    let (all, saved) = (reachable(fenced(false)), reachable(fenced(true)));
    assert!(all.len() > saved.len());
    assert_eq!(seen(all), seen(saved));
}
