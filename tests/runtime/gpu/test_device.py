"""A GPU whose driver is in the test."""

from __future__ import annotations

import threading

from tvm_ios.runtime.gpu.device import CudaDevice


class _Driver:
    """Says of each call whether another thread could have begun a capture meanwhile."""

    def __init__(self):
        self.calls = {}
        self.lock = None

    def integer(self, name, *_):
        return 1 if name == "cuDeviceGetCount" else 0

    def make(self, *_):
        return 1

    def call(self, name, *_, **__):
        if self.lock is not None:
            thread = threading.Thread(target=self._try, args=(name,))
            thread.start()
            thread.join()

    def _try(self, name):
        self.calls[name] = self.lock.acquire(blocking=False)
        if self.calls[name]:
            self.lock.release()


def test_nobody_captures_on_a_gpu_while_somebody_waits_for_all_its_work():
    driver = _Driver()
    with CudaDevice(driver=driver) as device, CudaDevice(driver=driver) as other:
        assert device.alone is other.alone
        driver.lock = other.alone
        device.activate()
        assert driver.calls == {"cuCtxSetCurrent": True}
        device.settle()
        assert not driver.calls["cuCtxSynchronize"]
        driver.lock = None
