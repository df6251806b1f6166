//! A group as the engine runs it.
