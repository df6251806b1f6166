//! Frames: how the agent and the host tell messages from noise on a serial line.
