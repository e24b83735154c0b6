package testkit

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
	"pando/internal/netboot"
)

// A loader obeys every kind of script: it loads, sleeps as long as the script says, or repeats its request at once.
// Each script also ends with a sleep for the case that no answer comes.
func TestReadScript(t *testing.T) {
	const base, kernel = "http://10.0.0.1:8480", "/o/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	in := netboot.ScriptInput{
		Base:    base,
		MAC:     fleet.MAC{2, 0, 0, 0, 0, 1},
		Node:    "pc001",
		Image:   "lab:latest",
		Boot:    "0123456789abcdef",
		Kernel:  strings.TrimPrefix(kernel, "/o/"),
		Args:    []string{"quiet"},
		Message: "nobody adopted it",
	}
	for _, x := range []struct {
		action netboot.Action
		answer netboot.Admission
		want   Script
	}{
		{netboot.Start, netboot.Admission{},
			Script{Kernel: base + kernel, Initramfs: base + "/boot/0123456789abcdef/initramfs"}},
		{netboot.Queued, netboot.Admission{Place: 3, Expect: time.Minute, Sleep: 7 * time.Second},
			Script{Sleep: 7 * time.Second}},
		{netboot.Queued, netboot.Admission{Place: 1, Expect: time.Second}, Script{}},
	} {
		in.Action, in.Admission = x.action, x.answer
		text, err := netboot.Script(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadScript(string(text)); err != nil || got != x.want {
			t.Errorf("%s: got %+v, %v, want %+v of\n%s", x.action, got, err, x.want, text)
		}
	}
	for _, action := range []netboot.Action{netboot.Wait, netboot.Fail} {
		in.Action = action
		text, err := netboot.Script(in)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ReadScript(string(text)); err == nil || !strings.Contains(err.Error(), in.Message) {
			t.Errorf("%s: got %+v, %v, want an error that says what the script does", action, got, err)
		}
	}
}

// A loader sends the parameters that a server accepts from iPXE.
func TestLoaderQuery(t *testing.T) {
	l := NewLoader(&Net{Addr: netip.MustParsePrefix("10.79.0.2/16")}, fleet.MAC{2, 0x70, 10, 79, 0, 2}, "", "amd64")
	q, err := netboot.ParseQuery(l.query())
	if err != nil || q.MAC != l.MAC || q.IP != l.Addr || q.UUID != "70616e64-6f00-4000-8000-02700a4f0002" ||
		q.Hardware().Architecture != "amd64" {
		t.Errorf("got %+v, %v", q, err)
	}
}
