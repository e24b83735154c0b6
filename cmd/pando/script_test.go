package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"pando/internal/api"
	"pando/internal/cmdenv"
	"pando/internal/testkit"
)

// runMain lets testscript start this test binary as the program itself.
func runMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pando": main})
}

// TestScripts runs the real program against real servers on loopback, one file per behaviour.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup: func(e *testscript.Env) error {
			data := filepath.Join(e.WorkDir, "d")
			e.Setenv("DATA", data)
			e.Setenv("TZ", "UTC")
			control, err := freePort()
			if err != nil {
				return err
			}
			e.Setenv("CONTROL", control)
			e.Setenv("SERVE", "--data="+data)
			agent := filepath.Join(e.WorkDir, "agent")
			e.Setenv("AGENT", agent)
			return os.WriteFile(agent, []byte("\x7fELF not really a program"), 0o755)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"seed": seed, "packed": packed, "answers": answers, "history": history, "code": code,
			"bootable": bootable, "tmpfs": tmpfs, "flip": flip, "bucket": bucketOf, "loader": loaderFile,
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			if cond == "versitygw" {
				_, err := testkit.FindVersityGW(moduleTop)
				return err == nil, nil
			}
			return false, fmt.Errorf("unknown condition %s", cond)
		},
	})
}

// freePort returns an unused address on loopback.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// answers waits until the server of the script answers.
func answers(ts *testscript.TestScript, neg bool, _ []string) {
	c := api.OverSocket(cmdenv.SocketPath(ts.Getenv("DATA")))
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		_, err := c.Status(ctx)
		if (err == nil) != neg {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("answers: %v", err)
		case <-tick.C:
		}
	}
}

// history waits until the server's history has so many boots: it is written a moment after the events.
func history(ts *testscript.TestScript, _ bool, args []string) {
	c := api.OverSocket(cmdenv.SocketPath(ts.Getenv("DATA")))
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		boots, err := c.History(ctx, api.HistoryQuery{})
		if err == nil && fmt.Sprint(len(boots)) == args[0] {
			return
		}
		select {
		case <-ctx.Done():
			ts.Fatalf("history has %d boots, %v", len(boots), err)
		case <-tick.C:
		}
	}
}

// code runs a command and wants an exit code: code 3 pando node show x.
func code(ts *testscript.TestScript, _ bool, args []string) {
	want := args[0]
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		got = strings.TrimPrefix(err.Error(), "exit status ")
	}
	if got != want {
		ts.Fatalf("%s: exit code %s, want %s", strings.Join(args[1:], " "), got, want)
	}
}
