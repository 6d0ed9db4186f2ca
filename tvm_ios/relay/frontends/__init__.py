"""Models of other frameworks as Relay: TVM's front ends, with errors that name the cause."""
