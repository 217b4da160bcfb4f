"""A fake NVIDIA driver: a ``libnvidia-ml.so.1`` that any program loads, in Python, Go or C, without a GPU.

The library is compiled from its C source when it is asked for, and shows the machine of a JSON description: models, MIG
layouts, links, processes, measurements. A test changes it while programs run: XIDs, lost GPUs, MIG modes, drivers that
are loaded anew, calls that are slow or hang. ::

    async with fake_driver(a100_nvswitch()) as driver:
        program = subprocess.Popen([...], env={**os.environ, **driver.environ})
        ...
        await driver.xid(3, 79)

Without Python beside it, a program takes a description from the file that ``PLUGBAY_FAKE_NVML`` names, with
``LD_LIBRARY_PATH`` for the library, and reads it whenever it starts the library.
"""

from plugbay.testing.fakenvml.compile import compile_library, find_compiler
from plugbay.testing.fakenvml.driver import FakeDriver, FakeFault, fake_driver
from plugbay.testing.fakenvml.files import (
    lay_out_devices,
    lay_out_driver,
    lay_out_machine,
    lay_out_module,
    lay_out_pci,
    lay_out_proc,
    lay_out_tegra,
    lay_out_wsl,
    mig_minors,
)
from plugbay.testing.fakenvml.machines import (
    IDLE,
    FakeFabric,
    FakeGpu,
    FakeMachine,
    FakeMig,
    FakeMigDevice,
    FakeMigProfile,
    FakeNvLink,
    FakeProcess,
    in_mig_mode,
    with_nvlinks,
    with_nvswitches,
)
from plugbay.testing.fakenvml.ready import (
    A100_40GB_PROFILES,
    H100_80GB_PROFILES,
    H200_PROFILES,
    READY,
    a100_nvswitch,
    dgx1,
    h100_mig,
    h200,
    sixteen_gpus,
    t4,
)

__all__ = [
    "A100_40GB_PROFILES",
    "H100_80GB_PROFILES",
    "H200_PROFILES",
    "IDLE",
    "READY",
    "FakeDriver",
    "FakeFabric",
    "FakeFault",
    "FakeGpu",
    "FakeMachine",
    "FakeMig",
    "FakeMigDevice",
    "FakeMigProfile",
    "FakeNvLink",
    "FakeProcess",
    "a100_nvswitch",
    "compile_library",
    "dgx1",
    "fake_driver",
    "find_compiler",
    "h100_mig",
    "h200",
    "in_mig_mode",
    "lay_out_devices",
    "lay_out_driver",
    "lay_out_machine",
    "lay_out_module",
    "lay_out_pci",
    "lay_out_proc",
    "lay_out_tegra",
    "lay_out_wsl",
    "mig_minors",
    "sixteen_gpus",
    "t4",
    "with_nvlinks",
    "with_nvswitches",
]
