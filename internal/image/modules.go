package image

// DriverSet is /pando/drivers/<name>.json in a driver cpio: which modules it carries, in which order they
// must be loaded, and which devices they are for. The builder writes it so that the node reads neither
// modules.dep nor a module's own headers.
type DriverSet struct {
	Format  int      `json:"format"`  // 1
	Name    string   `json:"name"`    // "base", "net"
	Release string   `json:"release"` // kernel release the modules are for
	Always  []string `json:"always"`  // names that every boot loads, whatever the hardware is
	Modules []Module `json:"modules"` // by name
}

// Module is one kernel module of a DriverSet.
type Module struct {
	Name string `json:"name"` // as /proc/modules has it: underscores, no dashes
	// absolute, in the initramfs; ends in .ko, or .ko.xz if the kernel unpacks it; "": the kernel has it, no set does
	Path    string   `json:"path"`
	Needs   []string `json:"needs,omitempty"` // names to load before it, deepest first; may be in another set
	Aliases []string `json:"aliases,omitempty"`
}
