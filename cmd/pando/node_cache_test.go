package main

import (
	"errors"
	"os"
	"strings"
	"testing"

	"pando/internal/api"
)

// A disk is given up when its own name was typed, and for nothing less. The question says what would be lost.
func TestConfirmErase(t *testing.T) {
	disks := []api.Disk{{Name: "/dev/sda", Size: 500e9, Model: "Disk A"}, {Name: "/dev/sdb", Size: 8e9, Model: "Stick", Has: "vfat PHOTOS"}}
	for _, x := range []struct {
		device, typed string
		refused       string // part of what is said; "": it is done
	}{
		{"/dev/sdb", "/dev/sdb", ""},
		{"/dev/sdb", " /dev/sdb ", ""},
		{"/dev/sdb", "/dev/sda", "was not typed"},
		{"/dev/sdb", "yes", "was not typed"},
		{"/dev/sdb", "", "was not typed"},
		{"/dev/sdc", "/dev/sdc", "has no disk /dev/sdc"},
	} {
		master, slave := openPTY(t)
		if _, err := master.WriteString(x.typed + "\n"); err != nil {
			t.Fatal(err)
		}
		var asked strings.Builder
		a, _ := testApp()
		a.in, a.err = slave, &asked
		err := a.confirmErase("pc001", x.device, disks)
		switch {
		case x.refused == "" && err != nil:
			t.Errorf("%q for %s: %v", x.typed, x.device, err)
		case x.refused != "" && (err == nil || !strings.Contains(err.Error(), x.refused)):
			t.Errorf("%q for %s: got %v, want %q", x.typed, x.device, err, x.refused)
		}
		if all := "8.0 GB Stick vfat PHOTOS"; x.device == "/dev/sdb" && (!strings.Contains(asked.String(), all) || !strings.Contains(asked.String(), "pc001")) {
			t.Errorf("the question is %q, want %q of pc001 in it", asked.String(), all)
		}
		if err := errors.Join(slave.Close(), master.Close()); err != nil {
			t.Error(err)
		}
	}
}

// Nobody is asked where nobody types.
func TestConfirmEraseWithoutTerminal(t *testing.T) {
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	a, _ := testApp()
	a.in = in
	err = a.confirmErase("pc001", "/dev/sdb", []api.Disk{{Name: "/dev/sdb"}})
	var h *hintError
	if !errors.As(err, &h) || !strings.Contains(h.hint, "--erase /dev/sdb") {
		t.Errorf("got %v, want a hint to --erase", err)
	}
}
