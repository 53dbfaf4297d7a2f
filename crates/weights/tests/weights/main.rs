//! Files of weights as other tools write them. Tests that count allocations have programs of their
//! own.

mod block_formats;
mod fixture;
mod joins_parts;
mod names_what_it_is;
mod opens_models;
mod reads_8_bit_floats;
mod reads_gguf;
mod reads_safetensors;
