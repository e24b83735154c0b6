package api

import (
	"context"
	"net/url"

	"pando/internal/fleet"
)

// NodeCommandKind says what a node shall do.
type NodeCommandKind string

// The kinds of commands.
const (
	ListDisks    NodeCommandKind = "disks" // tell which disks there are
	PrepareCache NodeCommandKind = "cache" // make a disk or partition the node's cache; what is on it is lost
	RebootNode   NodeCommandKind = "reboot"
	PowerOffNode NodeCommandKind = "poweroff"
	KexecNode    NodeCommandKind = "kexec" // go to the next boot without firmware
	// SoftRebootNode has a node go to its next boot without firmware and kernel. A node that cannot do that reboots.
	SoftRebootNode NodeCommandKind = "soft-reboot"
	StageNode      NodeCommandKind = "stage"  // fetch what the next boot runs, and go on
	SyncConfig     NodeCommandKind = "config" // make the config files what the server has for this boot
	// SendState has a node send its state while it runs. The order has the command's id.
	SendState NodeCommandKind = "state"
)

// NodeCommand is something that an operator wants a running node to do. It comes with the answer to a report.
type NodeCommand struct {
	ID     string          `json:"id"`
	Kind   NodeCommandKind `json:"kind"`
	Device string          `json:"device,omitempty"`  // of PrepareCache: "/dev/sdb"
	DryRun bool            `json:"dry_run,omitempty"` // only look whether it can be done

	Bootable bool `json:"bootable,omitempty"` // of PrepareCache: it becomes a boot medium as well
}

// ReportResponse answers a report when there is something for the node to do; usually there is not, and no body.
type ReportResponse struct {
	Command *NodeCommand `json:"errand,omitempty"`

	// the node's extensions have changed: it requests the list by POST /v1/node/extensions
	Extend bool `json:"extend,omitempty"`
}

// NodeCommandReport is the result of a command. POST /v1/node/errand, with the session as bearer.
type NodeCommandReport struct {
	Boot  fleet.BootID `json:"boot"`
	ID    string       `json:"id"`
	Error string       `json:"error,omitempty"` // why it was not done
	Hint  string       `json:"hint,omitempty"`
	Disks []Disk       `json:"disks,omitempty"` // as they are afterwards

	Files []SyncedFile `json:"files,omitempty"` // of SyncConfig: those that were not as they should be
}

// Disk is a disk or partition of a node.
type Disk struct {
	Name      string `json:"name"` // "/dev/sdb"
	Model     string `json:"model,omitempty"`
	Size      int64  `json:"size"`           // bytes
	Of        string `json:"of,omitempty"`   // disk that it is a partition of; "": it is a disk
	Has       string `json:"has,omitempty"`  // what was found on it: "ext4", "pando-cache"; "": nothing known
	Used      string `json:"used,omitempty"` // by what it is in use; "": it is not
	Removable bool   `json:"removable,omitempty"`
	ReadOnly  bool   `json:"read_only,omitempty"`
}

// DiskList answers GET /v1/nodes/{name}/disks and POST /v1/nodes/{name}/cache.
type DiskList struct {
	Disks []Disk `json:"disks"`
}

// NodeCache is the body of POST /v1/nodes/{name}/cache.
type NodeCache struct {
	Device string `json:"device"`
	Erase  string `json:"erase"` // the same once more: what is on it is lost
	DryRun bool   `json:"dry_run,omitempty"`

	Bootable bool `json:"bootable,omitempty"` // the disk becomes a boot medium as well
}

// NodeDisks gets the list of a running node's disks. It waits for the node's next report, up to about a minute.
func (c *Client) NodeDisks(ctx context.Context, name string) ([]Disk, error) {
	l, err := get[DiskList](ctx, c, "/v1/nodes/"+url.PathEscape(name)+"/disks", nil)
	return l.Disks, err
}

// PrepareNodeCache has a running node make a disk or partition its cache, and returns its disks as they are then.
func (c *Client) PrepareNodeCache(ctx context.Context, name string, n NodeCache) ([]Disk, error) {
	l, err := ask[DiskList](ctx, c, "POST", "/v1/nodes/"+url.PathEscape(name)+"/cache", n)
	return l.Disks, err
}

// NodeConfigRequest requests the config files of the running boot. POST /v1/node/config, with the session as bearer.
type NodeConfigRequest struct {
	Boot fleet.BootID `json:"boot"`
}

// NodeConfigResponse answers with all config files of the boot, as they are by now.
type NodeConfigResponse struct {
	Files []fleet.File `json:"files"`
}

// SyncedFile is what a node did, or would do, about a config file that differed.
type SyncedFile struct {
	Path  string `json:"path"`
	New   bool   `json:"new,omitempty"`   // it was not there
	Error string `json:"error,omitempty"` // why it is still as it was

	Run    string `json:"run,omitempty"`    // command that was run for it; one that several files want is run once
	Failed string `json:"failed,omitempty"` // how the command failed, with the end of what it printed
}

// NodeNext is the body of POST /v1/node/stage and POST /v1/node/next, with the session as bearer.
type NodeNext struct {
	Boot fleet.BootID `json:"boot"` // that runs
}

// StageResponse answers POST /v1/node/stage: what the next boot runs, as an assignment of the running boot, without
// files. POST /v1/node/next begins that boot, and answers with a BeginResponse.
type StageResponse struct {
	Assignment []byte `json:"assignment"`
	Signature  []byte `json:"signature"`
}

// NodeKexec is the body of POST /v1/node/kexec, with the session as bearer.
type NodeKexec struct {
	Boot fleet.BootID `json:"boot"` // that ends
}

// NextBoot begins the answer to POST /v1/node/kexec: a line of JSON, which kernel and initramfs follow.
type NextBoot struct {
	Boot      fleet.BootID `json:"boot"`
	Line      string       `json:"line"`   // kernel command line
	Kernel    int64        `json:"kernel"` // bytes
	Initramfs int64        `json:"initramfs"`
}
