//! One member of a conclave.
