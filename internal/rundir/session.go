package rundir

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"pando/internal/fleet"
)

// Session is what init leaves for the agent: the node's identity in this boot, and its credential for the server. The
// file is on a tmpfs, readable only by root.
type Session struct {
	Boot      fleet.BootID  `json:"boot"`
	Node      string        `json:"node"`
	MAC       fleet.MAC     `json:"mac"`
	Version   fleet.Digest  `json:"version"`
	Session   string        `json:"session"`
	Control   []string      `json:"control"`
	ServerKey string        `json:"server_key"`
	Origin    time.Duration `json:"origin"` // CLOCK_MONOTONIC when init started: offset 0 of the timeline
	Interface int           `json:"interface"`
	Until     string        `json:"until,omitempty"` // mark that ends the recording of reads

	// keys that may sign the version of a soft reboot
	TrustKeys []string       `json:"trust_keys,omitempty"`
	Hardware  fleet.Hardware `json:"hardware,omitzero"`   // as reported at registration
	RunFiles  []string       `json:"run_files,omitempty"` // files that init put into /run
	Block     string         `json:"block,omitempty"`     // directory of the block daemon; "": Dir
	Device    int            `json:"device,omitempty"`    // N of the root's /dev/nbdN
	// the write layer in use, in the form of fleet.ParseWriteLayer
	Writes string       `json:"writes,omitempty"`
	Former []FormerRoot `json:"former,omitempty"` // previous roots that are not detached yet
	// where this boot is kept on a disk; nil: it is not kept
	Kept *KeptMark `json:"kept,omitempty"`
}

// Monotonic returns CLOCK_MONOTONIC, which all processes of a boot share.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // cannot happen for this clock
	}
	return time.Duration(ts.Nano())
}

// WriteJSON replaces a file of dir atomically by v as JSON.
func WriteJSON(dir, name string, mode os.FileMode, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path+".new", data, mode); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}

// ReadJSON reads a file that WriteJSON wrote.
func ReadJSON(dir, name string, v any) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// FormerRoot is a previous root: its block daemon's directory and the number of its NBD device.
type FormerRoot struct {
	Block  string `json:"block"`
	Device int    `json:"device"`
}

// KeptMark is how the agent finds this boot among the kept boots.
type KeptMark struct {
	Device string `json:"device"` // device of the cache disk
	// the boot that the assignment was made for; that of an earlier boot if no server answered
	Boot fleet.BootID `json:"boot"`
}
