"""Several ranks: collective operations, sharding of samples, launcher, session, the named phases of their work, and the watchdog."""
