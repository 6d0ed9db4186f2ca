"""TVM's AutoTVM as a tuner."""
