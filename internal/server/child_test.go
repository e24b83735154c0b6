package server

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// childOf is the environment variable that says which helper of a benchmark this process is; empty for none.
const childOf = "PANDO_TEST_CHILD"

// TestBenchmarkChild is no test. It is the other side of a benchmark in its own process, so that the processor time of
// each side can be measured.
func TestBenchmarkChild(t *testing.T) {
	in := bufio.NewReader(os.Stdin)
	switch os.Getenv(childOf) {
	case "watchers":
		watchAll(t, in)
	case "nodes":
		playAll(t, in)
	default:
		t.Skip("the other process of BenchmarkWatchers and BenchmarkCostOfWatching")
	}
}

// child is the other process.
type child struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startChild starts a helper process and sends it its task.
func startChild(t testing.TB, kind string, task any) *child {
	t.Helper()
	c := &child{t: t, cmd: exec.Command(os.Args[0], "-test.run=^TestBenchmarkChild$", "-test.timeout=10m")}
	c.cmd.Env = append(os.Environ(), childOf+"="+kind)
	c.cmd.Stderr = os.Stderr
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(out)
	c.out.Buffer(nil, 64<<20)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.tell(task)
	return c
}

func (c *child) tell(v any) {
	c.t.Helper()
	if err := json.NewEncoder(c.in).Encode(v); err != nil {
		c.t.Fatal(err)
	}
}

// hear waits for the child's next answer.
func (c *child) hear(v any) {
	c.t.Helper()
	for c.out.Scan() {
		if text, ok := strings.CutPrefix(c.out.Text(), "ANSWER "); ok {
			if err := json.Unmarshal([]byte(text), v); err != nil {
				c.t.Fatal(err)
			}
			return
		}
		c.t.Log("child: ", c.out.Text())
	}
	c.t.Fatalf("the other process ended: %v", c.out.Err())
}

// end makes the child end, and waits for its end.
func (c *child) end() {
	_ = c.in.Close()
	for c.out.Scan() { // what it says at its end
	}
	if err := c.cmd.Wait(); err != nil {
		c.t.Error(err)
	}
}

// answerParent sends an answer to the parent process.
func answerParent(v any) error {
	b, err := json.Marshal(v)
	if err == nil {
		_, err = fmt.Printf("ANSWER %s\n", b)
	}
	return err
}

// cpuTime returns the processor time of this process, in user and system mode.
func cpuTime(t testing.TB) time.Duration {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
