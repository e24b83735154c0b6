package boot

// RunDir is where everything of Pando is on a running node: the program, sockets, the session, marks. It is on
// the tmpfs /run, which init makes and the image's init takes over.
const RunDir = "/run/pando"

// Names below RunDir.
const (
	binaryName   = "pando-init"
	sessionName  = "session.json" // 0600: the credential of this boot
	leaseName    = "lease.json"
	eventsName   = "events.json" // what init could not send any more
	marksName    = "marks"       // one JSON object per line, appended by `pando-init mark`
	pstoreName   = "pstore"      // what the kernel of the last boot left; the unit pando-pstore puts it there
	progressName = "agent.json"  // how far the agent has come with marks
	agentSocket  = "agent.sock"  // a datagram to it makes the agent look at the marks
)
