package api

import (
	"context"
	"net/url"

	"pando/internal/fleet"
)

// NodeCommandKind says what a node should do.
type NodeCommandKind string

// The kinds of commands.
const (
	ListDisks    NodeCommandKind = "disks" // report the disks
	PrepareCache NodeCommandKind = "cache" // make a disk or partition the node's cache; its content is lost
	RebootNode   NodeCommandKind = "reboot"
	PowerOffNode NodeCommandKind = "poweroff"
	KexecNode    NodeCommandKind = "kexec" // kexec into the next boot, without firmware
	// SoftRebootNode makes a node go to its next boot without firmware and kernel. A node that cannot do that reboots.
	SoftRebootNode NodeCommandKind = "soft-reboot"
	StageNode      NodeCommandKind = "stage"  // fetch what the next boot needs, and keep running
	SyncConfig     NodeCommandKind = "config" // update the config files to what the server has for this boot
)

// NodeCommand is something that an operator wants a running node to do. It is sent in the answer to a report.
type NodeCommand struct {
	ID     string          `json:"id"`
	Kind   NodeCommandKind `json:"kind"`
	Device string          `json:"device,omitempty"`  // of PrepareCache: "/dev/sdb"
	DryRun bool            `json:"dry_run,omitempty"` // only check whether it can be done

	Bootable bool `json:"bootable,omitempty"` // of PrepareCache: the disk also becomes a boot medium
}

// ReportResponse answers a report if there is something for the node to do. Usually the answer has no body.
type ReportResponse struct {
	Command *NodeCommand `json:"errand,omitempty"`

	// the node's extensions have changed: it should request the list by POST /v1/node/extensions
	Extend bool `json:"extend,omitempty"`
}

// NodeCommandReport is the result of a command. POST /v1/node/errand, with the session as bearer.
type NodeCommandReport struct {
	Boot  fleet.BootID `json:"boot"`
	ID    string       `json:"id"`
	Error string       `json:"error,omitempty"` // why it failed
	Hint  string       `json:"hint,omitempty"`
	Disks []Disk       `json:"disks,omitempty"` // the disks after the command

	Files []SyncedFile `json:"files,omitempty"` // of SyncConfig: the files that differed
}

// Disk is a disk or partition of a node.
type Disk struct {
	Name      string `json:"name"` // "/dev/sdb"
	Model     string `json:"model,omitempty"`
	Size      int64  `json:"size"`           // bytes
	Of        string `json:"of,omitempty"`   // disk that it is a partition of; "": it is a disk
	Has       string `json:"has,omitempty"`  // detected content: "ext4", "pando-cache"; "": none
	Used      string `json:"used,omitempty"` // what uses it; "": nothing
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
	Erase  string `json:"erase"` // Device again, as a confirmation: its content is lost
	DryRun bool   `json:"dry_run,omitempty"`

	Bootable bool `json:"bootable,omitempty"` // the disk also becomes a boot medium
}

// NodeDisks lists a running node's disks. It waits for the node's next report, up to about a minute.
func (c *Client) NodeDisks(ctx context.Context, name string) ([]Disk, error) {
	l, err := get[DiskList](ctx, c, "/v1/nodes/"+url.PathEscape(name)+"/disks", nil)
	return l.Disks, err
}

// PrepareNodeCache makes a running node use a disk or partition as its cache, and returns the node's disks afterwards.
func (c *Client) PrepareNodeCache(ctx context.Context, name string, n NodeCache) ([]Disk, error) {
	l, err := ask[DiskList](ctx, c, "POST", "/v1/nodes/"+url.PathEscape(name)+"/cache", n)
	return l.Disks, err
}

// NodeConfigRequest requests the config files of the running boot. POST /v1/node/config, with the session as bearer.
type NodeConfigRequest struct {
	Boot fleet.BootID `json:"boot"`
}

// NodeConfigResponse has all config files of the boot in their present form.
type NodeConfigResponse struct {
	Files []fleet.File `json:"files"`
}

// SyncedFile is what a node did, or would do, about a config file that differed.
type SyncedFile struct {
	Path  string `json:"path"`
	New   bool   `json:"new,omitempty"`   // the file did not exist
	Error string `json:"error,omitempty"` // why the file was not changed

	Run    string `json:"run,omitempty"`    // command that was run for the file; a command of several files runs once
	Failed string `json:"failed,omitempty"` // how the command failed, with the end of its output
}

// NodeNext is the body of POST /v1/node/stage and POST /v1/node/next, with the session as bearer.
type NodeNext struct {
	Boot fleet.BootID `json:"boot"` // the running boot
}

// StageResponse answers POST /v1/node/stage: what the next boot runs, as an assignment of the running boot without
// config files. POST /v1/node/next begins the next boot, and answers with a BeginResponse.
type StageResponse struct {
	Assignment []byte `json:"assignment"`
	Signature  []byte `json:"signature"`
}

// NodeKexec is the body of POST /v1/node/kexec, with the session as bearer.
type NodeKexec struct {
	Boot fleet.BootID `json:"boot"` // the boot that ends
}

// NextBoot begins the answer to POST /v1/node/kexec: a line of JSON. Kernel and initramfs follow it.
type NextBoot struct {
	Boot      fleet.BootID `json:"boot"`
	Line      string       `json:"line"`   // kernel command line
	Kernel    int64        `json:"kernel"` // bytes
	Initramfs int64        `json:"initramfs"`
}
