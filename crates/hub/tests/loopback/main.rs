//! Downloads from a hub on this machine.

mod hub;
mod keeps_models;
mod survives_faults;
