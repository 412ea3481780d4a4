"""Several ranks: collective operations, sharding of samples, launcher, session and watchdog."""
