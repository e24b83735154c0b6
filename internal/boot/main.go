package boot

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"pando/internal/ext4"
)

// AgentName is the name that the agent's process goes by.
const AgentName = "pando-agent"

// Usage of the program when a person calls it.
const usage = `pando-init is Pando's program on a node; the node starts it by itself.
  pando-init mark NAME    put a moment of this boot on its timeline
  pando-init version      print the release
`

// Main picks the role by the name that the program was called by, and returns the exit status: 0, 1 when the
// work failed, 2 when the call makes no sense. The role init does not return.
func Main(args []string, release string, stdout, stderr io.Writer) int {
	switch filepath.Base(args[0]) {
	case SupervisorName:
		return RunSupervisor()
	case BlockName:
		return RunBlock()
	case AgentName:
		return RunAgent(release, stderr)
	case VolumeName:
		return RunVolume(args[1:])
	case "modprobe":
		return runModprobe(args[1:], stderr)
	}
	if os.Getpid() == 1 {
		return RunInit(release)
	}
	return runCommand(args[1:], release, stdout, stderr)
}

func runCommand(args []string, release string, stdout, stderr io.Writer) int {
	switch {
	case len(args) == 1 && args[0] == "version":
		fmt.Fprintln(stdout, release)
		return 0
	case len(args) == 2 && args[0] == "mark":
		if err := Mark(RunDir, args[1]); err != nil {
			fmt.Fprintln(stderr, "pando-init:", err)
			return 1
		}
		return 0
	case len(args) == 3 && args[0] == "ext4":
		if err := makeLayer(args[1], ext4.Options{Label: args[2], Journal: true}); err != nil {
			fmt.Fprintf(stderr, "pando-init: make ext4 on %s: %v\n", args[1], err)
			return 1
		}
		return 0
	case len(args) == 4 && (args[0] == "state-send" || args[0] == "state-fetch"):
		return moveState(RunDir, args, stderr)
	case len(args) == 2 && args[0] == "own-nic":
		return ownNIC(RunDir, args[1], stderr)
	case len(args) == 1 && args[0] == "ifupdown-env":
		return ifupdownEnv(RunDir, stderr)
	}
	fmt.Fprint(stderr, usage)
	return 2
}
