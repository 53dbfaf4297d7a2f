//! Downloads from a local hub.

mod hub;
mod keeps_models;
mod survives_faults;
