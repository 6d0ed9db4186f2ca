"""TVM's auto_scheduler as a tuner."""
