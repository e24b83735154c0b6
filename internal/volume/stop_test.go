package volume

import (
	"bufio"
	"os/exec"
	"testing"
	"time"
)

// qemu-storage-daemon sometimes ignores a signal (2 of 8,173 with version 7.2). stop must not wait for ever.
func TestStopAsksUntilItIsGone(t *testing.T) {
	p := &process{
		cmd:   exec.Command("sh", "-c", `trap 'trap - TERM; echo deaf' TERM; echo ready; while :; do sleep 0.01; done`),
		ended: make(chan struct{}),
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	output := bufio.NewReader(out)
	if _, err := output.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	go func() { defer close(p.ended); _ = p.cmd.Wait() }() // its exit status does not matter
	go p.stop()
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill() // the process is the test's own
		t.Fatal("one that did not hear the first signal is still there after 10 s")
	}
}
