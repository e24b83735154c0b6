package power

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pando/internal/fleet"
)

// chassisProgram is the program that ipmi_sim runs to switch: it keeps the power state in a file and records the
// actions.
const chassisProgram = `#!/bin/sh
cd "$(dirname "$0")"
echo "$@" >>log
verb=$1
shift
while [ $# -gt 0 ]; do
	case $verb in
	get) [ "$1" = power ] && echo "power:$(cat power)"; [ "$1" = boot ] && echo "boot:$(cat boot)"; shift ;;
	set) [ "$1" = reset ] || [ "$1" = shutdown ] || printf %s "$2" >"$1"; shift 2 ;;
	*) shift ;;
	esac
done
exit 0
`

// ipmiSim starts OpenIPMI's simulator of a controller. It returns its address and a function that checks the state of
// the chassis.
func ipmiSim(t *testing.T) (address string, chassisIs func(string) string) {
	t.Helper()
	program, err := exec.LookPath("ipmi_sim")
	if err != nil {
		t.Skip("ipmi_sim is not installed (Debian's package openipmi)")
	}
	dir := t.TempDir()
	port := freePort(t)
	config := strings.NewReplacer("{port}", port, "{dir}", dir).Replace(`name "node"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_operator md5
    allowed_auths_admin md5
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{dir}/chassis"
  user 1 true "" "none" user 10 none md2 md5 straight
  user 2 true "admin" "sesame" admin 10 none md2 md5 straight
`)
	for name, text := range map[string]string{"chassis": chassisProgram, "lan.conf": config, "power": "0",
		"boot": "none", "log": "",
		"sim": "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\nmc_enable " +
			"0x20\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	foreign(t, dir, program, "-n", "-c", "lan.conf", "-f", "sim", "-s", filepath.Join(dir, "state"))
	return "127.0.0.1:" + port, func(file string) string {
		b, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
}

func TestIPMIWithASimulator(t *testing.T) {
	address, chassisIs := ipmiSim(t)
	r := Request{
		Node:     "pc001",
		To:       fleet.PowerTo{Method: fleet.PowerIPMI, Host: address, User: "admin"},
		Password: "sesame",
	}
	do := func(a Action) State {
		t.Helper()
		r.Action = a
		state, err := (Switch{}).Do(t.Context(), r)
		if err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		return state
	}
	var err error
	// the simulator needs a moment, and does not report when it is ready
	for start := time.Now(); time.Since(start) < 20*time.Second; {
		r.Action = Status
		if _, err = (Switch{}).Do(t.Context(), r); err == nil {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if s := do(Status); s != IsOff {
		t.Fatalf("at first it is %s", s)
	}
	r.Network = true
	if s := do(On); s != IsOff || chassisIs("power") != "1" {
		t.Errorf("switched on: was %s, power %s", s, chassisIs("power"))
	}
	if !strings.Contains(chassisIs("boot"), "pxe") {
		t.Errorf("it boots from %q", chassisIs("boot"))
	}
	if s := do(Status); s != IsOn {
		t.Errorf("then it is %s", s)
	}
	before := len(chassisIs("log"))
	if s := do(On); s != IsOn || strings.Contains(chassisIs("log")[before:], "set power") {
		t.Errorf("on once more: was %s; %s", s, chassisIs("log")[before:])
	}
	r.Force = true
	if s := do(Off); s != IsOn || chassisIs("power") != "0" {
		t.Errorf("cut: was %s, power %s", s, chassisIs("power"))
	}
	if s := do(Cycle); s != IsOff || chassisIs("power") != "1" {
		t.Errorf("a cycle of what is off: was %s, power %s", s, chassisIs("power"))
	}
	r.Password = "wrong"
	r.Action = Status
	if _, err := (Switch{}).Do(t.Context(), r); err == nil || errors.Is(err, ErrNone) {
		t.Errorf("with a wrong password: %v", err)
	}
}
