package power

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

func linkIndex(name string) (int, error) {
	l, err := net.InterfaceByName(name)
	if err != nil {
		return 0, err
	}
	return l.Index, nil
}

// freePort returns an unused port of loopback.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// foreign starts a program that ends with the test.
func foreign(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	c := exec.Command(name, args...)
	c.Dir = dir
	out, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.Env = append(os.Environ(), "PYTHONUNBUFFERED=1")
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // so that its child processes are killed too
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for s := bufio.NewScanner(out); s.Scan(); {
			if line := strings.TrimSpace(s.Text()); line != "" {
				t.Log(name + ": " + line)
			}
		}
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL)
		<-done
		_ = c.Wait()
	})
}
