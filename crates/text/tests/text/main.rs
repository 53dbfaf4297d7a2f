//! Tokenizers and chat templates against Python, and under damage.

mod alone;
mod drops_nothing;
mod holds_its_promises;
mod matches_python;
mod published_templates;
mod python_jinja;
mod python_literals;
mod survives_damage;
mod tools;
