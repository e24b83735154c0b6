package rundir

// Dir is the directory of all files of Pando on a running node: program, sockets, session, marks. It is on the tmpfs
// /run, which init mounts and the image's init keeps.
const Dir = "/run/pando"

// Names of files below Dir.
const (
	BinaryName   = "pando-init"
	SessionName  = "session.json" // 0600: the credential of this boot
	LeaseName    = "lease.json"
	EventsName   = "events.json" // events that init could not send any more
	MarksName    = "marks"       // one JSON object per line, appended by `pando-init mark`
	PstoreName   = "pstore"      // the last boot's kernel log from pstore, copied by the unit pando-pstore
	ProgressName = "agent.json"  // what the agent has reported so far
	WaitsName    = "waits"       // why the boot waits: one line, written by the unit that puts node state in place
	AgentSocket  = "agent.sock"  // a datagram to it makes the agent look at the marks
)
