package boot

import "fmt"

// RunDir is where everything of Pando is on a running node: the program, sockets, the session, marks. It is on
// the tmpfs /run, which init makes and the image's init takes over.
const RunDir = "/run/pando"

// Places in the initramfs.
const (
	bootConfigFile = "/pando/boot.json" // trust cpio
	driverSets     = "/pando/drivers"   // driver cpios
	lowerDir       = "/pando/lower"     // the verified, read-only root
	upperDir       = "/pando/upper"     // tmpfs: upper and work directory of the overlay
	newRoot        = "/newroot"
)

// places are where a boot puts its root together. A node that runs has another set of them for its next root.
type places struct {
	lower, upper string // the verified, read-only root; the tmpfs for what is written
	root         string // the overlay of both
	block        string // directory of the block daemon: its program, and its socket
	device       int    // N of /dev/nbdN
}

// initramfsPlaces are those of a machine that starts.
func initramfsPlaces() places { return places{lowerDir, upperDir, newRoot, RunDir, 0} }

// node is the device's node.
func (p places) node() string { return fmt.Sprintf("/dev/nbd%d", p.device) }

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
