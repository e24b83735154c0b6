package boot

import (
	"fmt"
	"io"
)

// RunAgent is the role of pando-agent.service.
func RunAgent(release string, stderr io.Writer) int {
	fmt.Fprintln(stderr, "agent", release)
	select {}
}
