package boot

import (
	"path/filepath"
	"runtime"

	"pando/internal/api"

	"golang.org/x/sys/unix"
)

// hardware is what the machine says of itself.
func (m *machine) hardware() api.Hardware {
	dmi := filepath.Join(sysfs, "class/dmi/id")
	h := api.Hardware{
		Vendor:  sysValue(dmi, "sys_vendor"),
		Product: sysValue(dmi, "product_name"),
		Serial:  sysValue(dmi, "product_serial"),
		UUID:    sysValue(dmi, "product_uuid"),
		CPUs:    runtime.NumCPU(),
		Missing: withoutDriver(sysfs),
	}
	if m.modules != nil {
		h.Modules = m.modules.names
	}
	for _, n := range m.nics {
		if n.Index == m.lease.Interface {
			h.NIC = n.Driver
		}
	}
	h.Memory = machineMemory()
	return h
}

// machineMemory is the bytes of memory that the kernel has, 0 when it does not say.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(info.Totalram) * int64(info.Unit)
}
