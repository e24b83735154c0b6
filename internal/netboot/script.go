package netboot

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"pando/internal/fleet"
)

// Action is what a script makes the machine do.
type Action string

// The actions of a script.
const (
	Start  Action = "start"  // fetch kernel and initramfs, and start them
	Probe  Action = "probe"  // try whether the loader verifies digests, then request again
	Queued Action = "queued" // show its place in the queue, sleep, request again: other nodes load now
	Wait   Action = "wait"   // show why, sleep, request again: nobody has adopted this machine yet
	Fail   Action = "fail"   // like Wait, for something that an operator has to fix
)

// Times between two requests of a waiting machine.
const (
	DefaultWait = 15 * time.Second
	DefaultFail = 30 * time.Second
)

// ScriptInput is all that a script depends on.
type ScriptInput struct {
	Action Action
	Base   string    // URL of the image port as this machine sees it, "http://10.0.0.1:8480"
	MAC    fleet.MAC // of the NIC that booted

	Node string // for Start and Queued

	// For Start.
	Boot    fleet.BootID
	Image   fleet.Ref
	Version fleet.Digest
	Kernel  string   // object id: 64 hex digits
	Args    []string // kernel arguments: the manifest's, the group's, the node's, in this order

	// For Start, if the loader verifies digests (Query.Digests).
	Initramfs  string   // object id of the initramfs without the trust cpio; "": no verification, all comes from Base
	Neighbours []string // base URLs of nodes that have both objects, the best first
	Keep       bool     // the node gets both objects as a file, too: the kernel reads initrd= (see KeepsInitrd)

	// For Queued.
	Admission Admission
	Renew     bool // do a DHCP exchange before the next request

	// For Wait and Fail.
	Message string        // why it waits, or what is wrong
	Hint    string        // what to do about it
	Retry   time.Duration // 0: DefaultWait or DefaultFail; rounded up to seconds
}

// Script writes the iPXE script for one machine. It returns an error if a script cannot express the input (an argument
// with a line break). The caller then sends a script with the Action Fail and that error.
func Script(in ScriptInput) ([]byte, error) {
	if err := checkBase(in.Base); err != nil {
		return nil, err
	}
	switch in.Action {
	case Start:
		return startScript(in)
	case Probe:
		return probeScript(in.Base), nil
	case Queued:
		return queuedScript(in), nil
	case Wait:
		return sleepScript(in, "Pando: this machine waits.", or(in.Retry, DefaultWait)), nil
	case Fail:
		return sleepScript(in, "Pando: this machine cannot boot.", or(in.Retry, DefaultFail)), nil
	}
	return nil, fmt.Errorf("boot script: unknown action %q", in.Action)
}

func startScript(in ScriptInput) ([]byte, error) {
	line, err := CommandLine(in)
	if err != nil {
		return nil, err
	}
	if !isObject(in.Kernel) {
		return nil, fmt.Errorf("boot script of %s: kernel %q is not an object id", in.Node, in.Kernel)
	}
	var b bytes.Buffer
	b.WriteString("#!ipxe\n")
	fmt.Fprintf(&b, "echo Pando: %s boots %s\n", text(in.Node), text(in.Image.Short()))
	fmt.Fprintf(&b, "echo Pando: version %s, boot %s\n", text(string(in.Version)), text(string(in.Boot)))
	// Free the images of an earlier attempt, or iPXE would start them as well.
	b.WriteString("imgfree ||\n")
	if in.Initramfs != "" {
		if err := writeVerified(&b, in, line); err != nil {
			return nil, err
		}
	} else {
		fmt.Fprintf(&b, "kernel --name %s %s/o/%s %s || goto failed\n", kernelImage, in.Base, in.Kernel, line)
		fmt.Fprintf(&b, "initrd --name initramfs %s/boot/%s/initramfs || goto failed\n", in.Base, in.Boot)
	}
	b.WriteString("boot || goto failed\n")
	b.WriteString(":failed\necho Pando: kernel or initramfs did not arrive or did not start\nsleep 5\nimgfree ||\n")
	b.WriteString(exchange)
	writeAsk(&b, in.Base, 5)
	return b.Bytes(), nil
}

// queuedScript is short: in a storm each waiting machine requests it every few seconds.
func queuedScript(in ScriptInput) []byte {
	var b bytes.Buffer
	b.WriteString("#!ipxe\n")
	fmt.Fprintf(
		&b,
		"echo Pando: %s waits for its turn to load: place %d, about %d s\n",
		text(in.Node),
		in.Admission.Place,
		seconds(in.Admission.Expect),
	)
	if in.Admission.Sleep > 0 {
		fmt.Fprintf(&b, "sleep %d\n", seconds(in.Admission.Sleep))
	}
	if in.Renew {
		b.WriteString(exchange)
	}
	writeAsk(&b, in.Base, 5)
	return b.Bytes()
}

// seconds rounds up to whole seconds, at least one.
func seconds(d time.Duration) int { return max(1, int((d+time.Second-1)/time.Second)) }

func sleepScript(in ScriptInput, title string, retry time.Duration) []byte {
	pause := seconds(retry)
	var b bytes.Buffer
	b.WriteString("#!ipxe\necho\n")
	fmt.Fprintf(&b, "echo %s\n", title)
	// Every echo begins with a fixed word. iPXE takes a text that begins with "-" for an option, fails, and the
	// firmware continues with the next boot device.
	for _, s := range []string{in.Message, in.Hint} {
		for line := range strings.Lines(s) {
			fmt.Fprintf(&b, "echo | %s\n", text(line))
		}
	}
	fmt.Fprintf(&b, "echo | MAC %s, address ${ip}; it asks again in %d seconds\n", in.MAC, pause)
	fmt.Fprintf(&b, "sleep %d\n", pause)
	// The server accepts a request for a token only soon after a DHCP exchange, so every attempt makes one.
	b.WriteString(exchange)
	writeAsk(&b, in.Base, pause)
	return b.Bytes()
}

func or(d, def time.Duration) time.Duration {
	if d <= 0 {
		return def
	}
	return d
}
