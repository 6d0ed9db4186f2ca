"""Devices that stages are priced and networks raced on: this CPU, a GPU, a CPU over RPC.

Each is a :class:`~tvm_ios.devices.protocol.MeasuringDevice`, and opens a session that runs stages
and models on it. Outside this room nobody asks which one it is.
"""
