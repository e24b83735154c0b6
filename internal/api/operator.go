package api

import (
	"fmt"
	"net/netip"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// Node is a node as the API shows it: the record, and the state of its last boot.
type Node struct {
	fleet.Node
	// its present address, whoever gave it; zero: not known, or it is down
	IP      netip.Addr   `json:"ip,omitzero"`
	Desired fleet.Digest `json:"desired,omitempty"` // version that the next boot gets; "": nothing resolves

	// extensions that should be mounted over what the node runs, or else over its next boot; only where one node is
	// shown
	Over []fleet.Extension `json:"over,omitempty"`
	// why some of the declared extensions cannot be mounted; only where one node is shown
	OverProblems []string     `json:"over_problems,omitempty"`
	Running      fleet.Digest `json:"running,omitempty"` // version that the node proved it runs; "": not up
	// runs something else than desired: a reboot would change it
	Drift    bool            `json:"drift"`
	Rollout  string          `json:"rollout,omitempty"`  // the rollout that decides Desired; "": none
	Boot     *Boot           `json:"boot,omitempty"`     // the latest boot
	Hardware *fleet.Hardware `json:"hardware,omitempty"` // as it was reported last
	Classes  []string        `json:"classes,omitempty"`  // hardware classes that it is of
	Status   *NodeStatus     `json:"status,omitempty"`

	// public key of the TPM that signed the registration of its latest boot; only where one node is shown
	Proof    string `json:"proof,omitempty"`
	Withheld string `json:"withheld,omitempty"` // why the boot that runs has no secrets; only where one node is shown
	// config files of a running node that differ from those of its next boot; only where one node is shown
	ConfigOld  []string `json:"config_old,omitempty"`
	ConfigGone []string `json:"config_gone,omitempty"` // those that its next boot does not get

	// its settings and their origin; only where one node is shown
	Effective []fleet.Value `json:"effective,omitempty"`
}

// NodeList answers GET /v1/nodes.
type NodeList struct {
	Nodes []Node `json:"nodes"` // in natural order of their names
}

// NodeCreate is the body of POST /v1/nodes.
type NodeCreate struct {
	Name       string            `json:"name"`
	MACs       []fleet.MAC       `json:"macs,omitempty"`   // none: the first machine with its serial number
	Serial     string            `json:"serial,omitempty"` // as the machine's firmware tells it (DMI)
	Group      string            `json:"group,omitempty"`  // "": the default group
	Labels     map[string]string `json:"labels,omitempty"`
	Address    string            `json:"address,omitempty"` // fixed IPv4 address
	Version    fleet.Ref         `json:"version,omitempty"` // a tag is the version that it names now
	Follow     bool              `json:"follow,omitempty"`  // boots get what the tag names then
	KernelArgs []string          `json:"kernel_args,omitempty"`

	fleet.Settings
}

// NodeSet is the body of PATCH /v1/nodes: which nodes, and what of them changes. A nil field stays as it is.
type NodeSet struct {
	Select     string             `json:"select"`
	DryRun     bool               `json:"dry_run,omitempty"`
	Name       *string            `json:"name,omitempty"` // rename; only for one node
	Group      *string            `json:"group,omitempty"`
	Labels     map[string]*string `json:"labels,omitempty"`  // null removes the label
	Address    *string            `json:"address,omitempty"` // "" gives it back to the pool; only for one node
	Version    *fleet.Ref         `json:"version,omitempty"` // "" takes the override away; a tag: what it names now
	Follow     bool               `json:"follow,omitempty"`  // Version is a tag, and boots get what it names then
	KernelArgs *[]string          `json:"kernel_args,omitempty"`
	AddMACs    []fleet.MAC        `json:"add_macs,omitempty"` // only for one node
	RemoveMACs []fleet.MAC        `json:"remove_macs,omitempty"`
	Serial     *string            `json:"serial,omitempty"` // only for one node

	fleet.Settings          // that the nodes have otherwise than their group from now on
	Inherit        []string `json:"inherit,omitempty"` // names of settings that they have as their group from now on
}

// NodeAdopt is the body of POST /v1/nodes/adopt: discovered nodes become adopted ones.
type NodeAdopt struct {
	Select string `json:"select"` // names or MACs of discovered nodes; "@discovered" is all of them
	DryRun bool   `json:"dry_run,omitempty"`
	// one node's new name, or a naming rule such as "pc[001-]"; "": the policy's
	Name  string  `json:"name,omitempty"`
	Group *string `json:"group,omitempty"` // nil: the default group
}

// Changes answers every request that touches a set of nodes.
type Changes struct {
	DryRun bool     `json:"dry_run"` // true: nothing was changed
	Nodes  []Change `json:"nodes"`
}

// Change is the change of one node, made or proposed.
type Change struct {
	Node   string   `json:"node"`
	Fields []string `json:"fields"` // "group: default -> lab"; empty: it was so already
}

// Group is a group as the API shows it.
type Group struct {
	fleet.Group
	Desired fleet.Digest `json:"desired,omitempty"` // version that Image points at now
	Nodes   int          `json:"nodes"`             // adopted members
}

// GroupList answers GET /v1/groups.
type GroupList struct {
	Groups []Group `json:"groups"`
}

// GroupSet is the body of PATCH /v1/groups/{name}. A nil field stays as it is.
type GroupSet struct {
	DryRun     bool       `json:"dry_run,omitempty"`
	Image      *fleet.Ref `json:"image,omitempty"`  // a tag is the version that it names now
	Follow     bool       `json:"follow,omitempty"` // Image is a tag, and boots get what it names then
	KernelArgs *[]string  `json:"kernel_args,omitempty"`

	fleet.Settings
}

// GroupChange answers PATCH /v1/groups/{name}: what changes, and for which nodes the next boot differs.
type GroupChange struct {
	DryRun bool     `json:"dry_run"`
	Fields []string `json:"fields"`
	Nodes  []string `json:"nodes"` // members
}

// Token is an operator's credential without its secret.
type Token struct {
	Name    string     `json:"name"`
	Role    fleet.Role `json:"role"`
	Groups  []string   `json:"groups,omitempty"` // that it is for; absent: the whole site
	Created time.Time  `json:"created"`
	Used    time.Time  `json:"used,omitzero"`
	Expires time.Time  `json:"expires,omitzero"` // zero: never
}

// TokenList answers GET /v1/tokens.
type TokenList struct {
	Tokens []Token `json:"tokens"`
}

// TokenCreate is the body of POST /v1/tokens.
type TokenCreate struct {
	Name   string        `json:"name"`
	Role   fleet.Role    `json:"role,omitempty"`   // "": operator
	TTL    time.Duration `json:"ttl,omitempty"`    // 0: does not expire
	Groups []string      `json:"groups,omitempty"` // that it is for; none: the whole site
}

// NewToken answers POST /v1/tokens. Secret is shown this once; the server keeps only its digest.
type NewToken struct {
	Token
	Secret string `json:"secret"` // what PANDO_TOKEN wants: secret and the server's key, see ParseToken
}

// LeaseList answers GET /v1/leases.
type LeaseList struct {
	Leases []fleet.Lease `json:"leases"`
}

// Policy answers GET /v1/policy and is the body of PUT /v1/policy.
type Policy struct {
	Adoption fleet.AdoptionPolicy `json:"adoption"`
	Naming   string               `json:"naming"` // names of nodes adopted without one: "node[001-]"
}

// Status answers GET /v1/status.
type Status struct {
	Release string    `json:"release"`
	Started time.Time `json:"started"`
	Time    time.Time `json:"time"` // server clock
	Policy  Policy    `json:"policy"`
	DHCP    DHCP      `json:"dhcp"`
	Ports   []Port    `json:"ports,omitempty"`
	Loads   Loads     `json:"loads"`
	// by state: "discovered", "adopted", and of these "booting", "booted", "degraded", "silent", "failed", "down",
	// "drift"
	Nodes  map[string]int      `json:"nodes"`
	Groups []Group             `json:"groups"`
	Bytes  map[string]int64    `json:"bytes,omitempty"` // by source, sum over the latest boots
	Stages map[trace.Stage]int `json:"stages"`          // nodes that boot, by their stage

	Rollouts []Rollout `json:"rollouts,omitempty"` // that are under way, without their nodes

	Failed  int    `json:"failed"`            // nodes whose latest boot is failed or degraded
	Trouble []Boot `json:"trouble,omitempty"` // some of these boots, each with its fault

	Broken []BrokenVersion `json:"broken,omitempty"` // versions that groups boot and that are not whole in the store

	Disk *FullDisk `json:"disk,omitempty"` // the disk of the data directory is full; missing: it has room

	Full []string `json:"full,omitempty"` // nodes whose write layer has less than a fifth left

	Logs Logs `json:"logs"`

	// secrets that are for hardware classes: no node gets them by that
	ClassSecrets []string `json:"class_secrets,omitempty"`
}

// FullDisk is a disk without room: known nodes boot, nothing else is changed.
type FullDisk struct {
	Since    time.Time `json:"since"`
	Free     int64     `json:"free"`                // bytes
	Reserved int64     `json:"reserved,omitempty"`  // bytes that are still reserved for boots of known nodes
	InMemory int       `json:"in_memory,omitempty"` // boots, leases and events that are not on the disk
	Do       string    `json:"do"`                  // what makes room
}

// Text is what people read, everywhere in the same words.
func (d FullDisk) Text() string {
	text := "the disk of the server is full since " + d.Since.Local().Format("2 Jan 15:04") +
		": known nodes boot, changes and uploads are refused"
	if d.InMemory > 0 {
		text += fmt.Sprintf("; %d boots, leases and events are in memory only", d.InMemory)
	}
	return text
}

// BrokenVersion is a version that is not whole in the store: its nodes cannot boot.
type BrokenVersion struct {
	Version fleet.Digest `json:"version"`
	Groups  []string     `json:"groups"` // that boot it
	Problem string       `json:"problem"`
	Do      string       `json:"do,omitempty"`
}

// States of Logs.
const (
	LogsOn      = "on"
	LogsMissing = "missing" // systemd-journal-remote is not installed on the server
	LogsOff     = "off"
)

// Logs is what becomes of the journals that nodes send.
type Logs struct {
	State   string `json:"state"`           // LogsOn, LogsMissing, LogsOff
	Held    int64  `json:"held"`            // bytes of the disk that all journals have
	Bound   int64  `json:"bound,omitempty"` // bytes that they may have
	Entries int64  `json:"entries"`         // that were written since the server started
	Bytes   int64  `json:"bytes"`           // of these, as they were sent
	// uploads that ended since then, by outcome: taken, cut_off, busy, disk_full, malformed, stranger, failed
	Uploads map[string]int64 `json:"uploads,omitempty"`
	Last    time.Time        `json:"last,omitzero"`  // when something was written last
	Full    bool             `json:"full,omitempty"` // the disk had no room for what came last; nodes send it again
}

// Refused is how many uploads were refused since the server started; those that broke off, or came while another of
// the same boot was under way, are none.
func (l Logs) Refused() int64 {
	return l.Uploads["disk_full"] + l.Uploads["malformed"] + l.Uploads["stranger"] + l.Uploads["failed"]
}

// Loads is how many nodes load kernel and initramfs now, and how many wait for their turn.
type Loads struct {
	Slots    int           `json:"slots"` // nodes that may load at the same time
	Loading  int           `json:"loading"`
	Waiting  int           `json:"waiting"`
	Expect   time.Duration `json:"expect,omitempty"` // until the last one that waits may load
	Uplink   int64         `json:"uplink"`           // bytes a second that the server is taken to send
	NodeLink int64         `json:"node_link"`        // bytes a second that a node is taken to receive
}

// DHCP is what the DHCP part does.
type DHCP struct {
	Mode       string   `json:"mode"` // "own", "proxy", "off"
	Interfaces []string `json:"interfaces,omitempty"`
	Range      string   `json:"range,omitempty"`  // "10.0.0.100-10.0.0.200"
	Others     []string `json:"others,omitempty"` // other DHCP servers seen
	// StoppedFor is the DHCP server because of which this one gives no addresses for now, "" when it gives them.
	StoppedFor string `json:"stopped_for,omitempty"`
	// Addresses is the range, as it is used now.
	Addresses DHCPAddresses `json:"addresses,omitzero"`
}

// Port is one where the server waits for packets of nodes.
type Port struct {
	Net        string     `json:"net"` // "udp", "tcp"
	Number     uint16     `json:"number"`
	Use        string     `json:"use"`
	Address    netip.Addr `json:"address,omitzero"`     // missing: each address of the server
	Interfaces []string   `json:"interfaces,omitempty"` // that packets are taken from; missing: all
	File       string     `json:"file,omitempty"`       // one that it has, for TFTP
}

// DHCPAddresses counts the addresses of a range.
type DHCPAddresses struct {
	All     int `json:"all"`
	Known   int `json:"known"`   // leases and fixed addresses of nodes
	Unknown int `json:"unknown"` // leases of machines that are no nodes yet
	InUse   int `json:"in_use"`  // by machines that have them from somewhere else
}

// Free is how many nobody has.
func (a DHCPAddresses) Free() int { return max(a.All-a.Known-a.Unknown-a.InUse, 0) }

// Short reports whether less than a tenth is free.
func (a DHCPAddresses) Short() bool { return 10*a.Free() < a.All }

// Text tells how the range is used.
func (a DHCPAddresses) Text() string {
	return fmt.Sprintf("%d of %d addresses are free (%d of nodes, %d of unknown machines, %d in use by others)",
		a.Free(), a.All, a.Known, a.Unknown, a.InUse)
}

// Stopped is what people read, everywhere in the same words, when the server gives no addresses for now; else "".
func (d DHCP) Stopped() string {
	if d.StoppedFor == "" {
		return ""
	}
	return "this server stopped giving addresses: DHCP server " + d.StoppedFor + " answers"
}

// StoppedHint is what to do about it.
const StoppedHint = "switch one of the two off; Pando gives addresses again within a minute of the other one's " +
	"silence, or works beside it with --dhcp proxy"
