package rundir

// Dir is where everything of Pando is on a running node: the program, sockets, the session, marks. It is on
// the tmpfs /run, which init makes and the image's init takes over.
const Dir = "/run/pando"

// Names below RunDir.
const (
	BinaryName   = "pando-init"
	SessionName  = "session.json" // 0600: the credential of this boot
	LeaseName    = "lease.json"
	EventsName   = "events.json" // what init could not send any more
	MarksName    = "marks"       // one JSON object per line, appended by `pando-init mark`
	PstoreName   = "pstore"      // what the kernel of the last boot left; the unit pando-pstore puts it there
	ProgressName = "agent.json"  // how far the agent has come with marks
	WaitsName    = "waits"       // why the boot waits: a line, by the unit that puts node state in place
	AgentSocket  = "agent.sock"  // a datagram to it makes the agent look at the marks
)
