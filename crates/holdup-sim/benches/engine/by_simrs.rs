//! The same models as one writes them with simrs: a component gets boxed events, and its own state stands in cells. One
//! component for all processes is the fastest way, since the library finds components in a hash map.

use crate::models::{Draws, LOOKAHEAD_NS, MESSAGE_NS, SERVICE_NS, THINK_NS};
use simrs::{Component, ComponentId, Scheduler, Simulation, State};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::time::Duration;

struct Processes {
    draws: RefCell<(Draws, Draws)>,
    visits: Vec<Cell<u32>>,
}

#[derive(Debug)]
struct Message(u32);

fn ns(time: Duration) -> u64 {
    time.as_secs() * 1_000_000_000 + u64::from(time.subsec_nanos())
}

impl Component for Processes {
    type Event = Message;

    fn process_event(&self, id: ComponentId<Message>, event: &Message, scheduler: &mut Scheduler, _state: &mut State) {
        let (spans, choices) = &mut *self.draws.borrow_mut();
        let visits = &self.visits[choices.next() as usize];
        visits.set(visits.get() + 1);
        scheduler.schedule(Duration::from_nanos(LOOKAHEAD_NS + spans.next()), id, Message(event.0));
    }
}

pub(crate) fn phold(processes: usize, events: u64) -> u64 {
    let mut draws = (Draws::exponential(1, MESSAGE_NS), Draws::below(1, processes));
    let spans: Vec<u64> = (0..processes).map(|_| draws.0.next()).collect();
    let mut simulation = Simulation::default();
    let id = simulation.add_component(Processes { draws: RefCell::new(draws), visits: vec![Cell::new(0); processes] });
    for (message, span) in spans.into_iter().enumerate() {
        simulation.schedule(Duration::from_nanos(span), id, Message(message as u32));
    }
    for _ in 0..events {
        assert!(simulation.step());
    }
    ns(simulation.scheduler.time())
}

struct Servers {
    draws: RefCell<(Draws, Draws)>,
    queue: RefCell<VecDeque<u32>>,
    free: Cell<usize>,
}

#[derive(Debug)]
enum Client {
    Comes(u32),
    IsServed(u32),
}

impl Component for Servers {
    type Event = Client;

    fn process_event(&self, id: ComponentId<Client>, event: &Client, scheduler: &mut Scheduler, _: &mut State) {
        let (thinks, services) = &mut *self.draws.borrow_mut();
        let mut serve = |scheduler: &mut Scheduler, client| {
            scheduler.schedule(Duration::from_nanos(services.next()), id, Client::IsServed(client));
        };
        match *event {
            Client::IsServed(client) => {
                scheduler.schedule(Duration::from_nanos(thinks.next()), id, Client::Comes(client));
                match self.queue.borrow_mut().pop_front() {
                    Some(next) => serve(scheduler, next),
                    None => self.free.set(self.free.get() + 1),
                }
            }
            Client::Comes(client) if self.free.get() > 0 => {
                self.free.set(self.free.get() - 1);
                serve(scheduler, client);
            }
            Client::Comes(client) => self.queue.borrow_mut().push_back(client),
        }
    }
}

pub(crate) fn closed(clients: usize, servers: usize, events: u64) -> u64 {
    let mut thinks = Draws::exponential(2, THINK_NS);
    let spans: Vec<u64> = (0..clients).map(|_| thinks.next()).collect();
    let mut simulation = Simulation::default();
    let id = simulation.add_component(Servers {
        draws: RefCell::new((thinks, Draws::exponential(3, SERVICE_NS))),
        queue: RefCell::default(),
        free: Cell::new(servers),
    });
    for (client, span) in spans.into_iter().enumerate() {
        simulation.schedule(Duration::from_nanos(span), id, Client::Comes(client as u32));
    }
    for _ in 0..events {
        assert!(simulation.step());
    }
    ns(simulation.scheduler.time())
}
