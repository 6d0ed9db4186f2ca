"""Where stages are priced and networks raced: this machine's CPU, a GPU of it, a CPU over RPC.

Each is a :class:`~tvm_ios.devices.protocol.MeasuringDevice`, and opens a session that runs stages
and models on it. Outside this room nobody asks which one it is.
"""
