package image

// DriverSet is the file /pando/drivers/<name>.json in a driver cpio. It lists the modules of the cpio, their load
// order, and the devices that they are for. The builder writes it, so that the node need not read modules.dep or
// modules.
type DriverSet struct {
	Format  int      `json:"format"`  // 1
	Name    string   `json:"name"`    // "base", "net"
	Release string   `json:"release"` // kernel release the modules are for
	Always  []string `json:"always"`  // modules that every boot loads, on any hardware
	Modules []Module `json:"modules"` // by name
}

// Module is one kernel module of a DriverSet.
type Module struct {
	Name string `json:"name"` // as in /proc/modules: underscores, no dashes
	// Path is the absolute path in the initramfs. It ends in .ko, or in .ko.xz if the kernel unpacks that. "": the
	// kernel has the module, but no cpio contains it.
	Path    string   `json:"path"`
	Needs   []string `json:"needs,omitempty"` // modules to load before it, deepest first; they may be in another set
	Aliases []string `json:"aliases,omitempty"`
}
