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

// Session is what init leaves for the agent: who the node is in this boot, and the right to say so. It is in
// memory only, readable by root only, and gone with the boot.
type Session struct {
	Boot      fleet.BootID  `json:"boot"`
	Node      string        `json:"node"`
	MAC       fleet.MAC     `json:"mac"`
	Version   fleet.Digest  `json:"version"`
	Session   string        `json:"session"`
	Control   []string      `json:"control"`
	ServerKey string        `json:"server_key"`
	Origin    time.Duration `json:"origin"` // CLOCK_MONOTONIC when init started: zero of every offset
	Interface int           `json:"interface"`
	Until     string        `json:"until,omitempty"` // mark until which reads are recorded

	// that may sign what the node boots next without its kernel ending
	TrustKeys []string       `json:"trust_keys,omitempty"`
	Hardware  fleet.Hardware `json:"hardware,omitzero"`   // as it was reported
	RunFiles  []string       `json:"run_files,omitempty"` // files in /run that came with the boot
	Block     string         `json:"block,omitempty"`     // directory of the block daemon; "": RunDir
	Device    int            `json:"device,omitempty"`    // N of the root's /dev/nbdN
	// what takes the writes of this boot, as fleet.ParseWriteLayer reads it
	Writes string       `json:"writes,omitempty"`
	Former []FormerRoot `json:"former,omitempty"` // roots before this one that are not detached yet
	// this boot among those that are kept on a disk; nil: it is not
	Kept *KeptMark `json:"kept,omitempty"`
}

// Monotonic is CLOCK_MONOTONIC, which all processes of a boot share.
func Monotonic() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // never fails for this clock
	}
	return time.Duration(ts.Nano())
}

// WriteJSON replaces a file below /run.
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

// FormerRoot is a root that the node has left.
type FormerRoot struct {
	Block  string `json:"block"`
	Device int    `json:"device"`
}

// KeptMark is how the agent finds this boot among those that are kept for boots without a server.
type KeptMark struct {
	Device string `json:"device"` // of the cache
	// that the assignment was made for; another one than this boot's when no server answered
	Boot fleet.BootID `json:"boot"`
}
