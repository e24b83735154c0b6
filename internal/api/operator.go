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
	// its present address, also from another DHCP server; zero: unknown, or the node is down
	IP      netip.Addr   `json:"ip,omitzero"`
	Desired fleet.Digest `json:"desired,omitempty"` // version that the next boot gets; "": none can be resolved

	// extensions for the running version, or for the next boot's version if the node is down; only in requests for one
	// node
	Over []fleet.Extension `json:"over,omitempty"`
	// why some declared extensions cannot be mounted; only in requests for one node
	OverProblems []string     `json:"over_problems,omitempty"`
	Running      fleet.Digest `json:"running,omitempty"` // version that the node reports to run; "": not up
	// it runs something else than it should: a reboot would change it
	Drift    bool            `json:"drift"`
	Rollout  string          `json:"rollout,omitempty"`  // the rollout that decides Desired; "": none
	Boot     *Boot           `json:"boot,omitempty"`     // the latest boot
	Hardware *fleet.Hardware `json:"hardware,omitempty"` // last report
	Classes  []string        `json:"classes,omitempty"`  // hardware classes that it belongs to
	Status   *NodeStatus     `json:"status,omitempty"`

	// public key of the TPM that signed the latest registration; only in requests for one node
	Proof    string `json:"proof,omitempty"`
	Withheld string `json:"withheld,omitempty"` // why the running boot has no secrets; only in requests for one node
	// config files of the running node that differ from the next boot's; only in requests for one node
	ConfigOld  []string `json:"config_old,omitempty"`
	ConfigGone []string `json:"config_gone,omitempty"` // config files that the next boot does not get

	// its settings and where they come from; only in requests for one node
	Effective []fleet.Value `json:"effective,omitempty"`
}

// NodeList answers GET /v1/nodes.
type NodeList struct {
	Nodes []Node `json:"nodes"` // in natural order of their names
}

// NodeCreate is the body of POST /v1/nodes.
type NodeCreate struct {
	Name       string            `json:"name"`
	MACs       []fleet.MAC       `json:"macs,omitempty"`   // none: the first machine that reports the serial number
	Serial     string            `json:"serial,omitempty"` // as the machine's firmware reports it (DMI)
	Group      string            `json:"group,omitempty"`  // "": the default group
	Labels     map[string]string `json:"labels,omitempty"`
	Address    string            `json:"address,omitempty"` // fixed IPv4 address
	Version    fleet.Ref         `json:"version,omitempty"` // a tag means the version that it names now
	Follow     bool              `json:"follow,omitempty"`  // each boot gets what the tag names then
	KernelArgs []string          `json:"kernel_args,omitempty"`

	fleet.Settings
}

// NodeSet is the body of PATCH /v1/nodes: the nodes, and their changes. A nil field stays as it is.
type NodeSet struct {
	Select     string             `json:"select"`
	DryRun     bool               `json:"dry_run,omitempty"`
	Name       *string            `json:"name,omitempty"` // rename; only for one node
	Group      *string            `json:"group,omitempty"`
	Labels     map[string]*string `json:"labels,omitempty"`  // null removes the label
	Address    *string            `json:"address,omitempty"` // "" gives the address back to the pool; only for one node
	Version    *fleet.Ref         `json:"version,omitempty"` // "" removes the override; a tag: what it names now
	Follow     bool               `json:"follow,omitempty"`  // Version is a tag, and each boot gets what it names then
	KernelArgs *[]string          `json:"kernel_args,omitempty"`
	AddMACs    []fleet.MAC        `json:"add_macs,omitempty"` // only for one node
	RemoveMACs []fleet.MAC        `json:"remove_macs,omitempty"`
	Serial     *string            `json:"serial,omitempty"` // only for one node

	fleet.Settings          // settings that override the group's from now on
	Inherit        []string `json:"inherit,omitempty"` // names of settings that are the group's again
}

// NodeAdopt is the body of POST /v1/nodes/adopt: discovered nodes become adopted ones.
type NodeAdopt struct {
	Select string `json:"select"` // names or MACs of discovered nodes; "@discovered" is all of them
	DryRun bool   `json:"dry_run,omitempty"`
	// one node's new name, or a naming rule such as "pc[001-]"; "": the rule of the policy
	Name  string  `json:"name,omitempty"`
	Group *string `json:"group,omitempty"` // nil: the default group
}

// Changes answers every request that changes a set of nodes.
type Changes struct {
	DryRun bool     `json:"dry_run"` // true: nothing was changed
	Nodes  []Change `json:"nodes"`
}

// Change is the change of one node, made or proposed.
type Change struct {
	Node   string   `json:"node"`
	Fields []string `json:"fields"` // "group: default -> lab"; empty: nothing changes
}

// Group is a group as the API shows it.
type Group struct {
	fleet.Group
	Desired fleet.Digest `json:"desired,omitempty"` // version that Image resolves to now
	Nodes   int          `json:"nodes"`             // adopted members
}

// GroupList answers GET /v1/groups.
type GroupList struct {
	Groups []Group `json:"groups"`
}

// GroupSet is the body of PATCH /v1/groups/{name}. A nil field stays as it is.
type GroupSet struct {
	DryRun     bool       `json:"dry_run,omitempty"`
	Image      *fleet.Ref `json:"image,omitempty"`  // a tag means the version that it names now
	Follow     bool       `json:"follow,omitempty"` // Image is a tag, and each boot gets what it names then
	KernelArgs *[]string  `json:"kernel_args,omitempty"`

	fleet.Settings
}

// GroupChange answers PATCH /v1/groups/{name}: the changes, and the nodes whose next boot differs.
type GroupChange struct {
	DryRun bool     `json:"dry_run"`
	Fields []string `json:"fields"`
	Nodes  []string `json:"nodes"` // members
}

// Token is an operator's credential without its secret.
type Token struct {
	Name    string     `json:"name"`
	Role    fleet.Role `json:"role"`
	Groups  []string   `json:"groups,omitempty"` // groups that it is limited to; absent: the whole site
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
	Groups []string      `json:"groups,omitempty"` // groups that it is limited to; none: the whole site
}

// NewToken answers POST /v1/tokens. Only this answer has Secret; the server keeps its digest.
type NewToken struct {
	Token
	Secret string `json:"secret"` // value for PANDO_TOKEN: secret and the server's key, see ParseToken
}

// LeaseList answers GET /v1/leases.
type LeaseList struct {
	Leases []fleet.Lease `json:"leases"`
}

// Policy answers GET /v1/policy and is the body of PUT /v1/policy.
type Policy struct {
	Adoption fleet.AdoptionPolicy `json:"adoption"`
	Naming   string               `json:"naming"` // naming rule for adopted nodes: "node[001-]"
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
	// by state: "discovered", "adopted", and of the adopted ones "booting", "booted", "degraded", "silent", "failed",
	// "down", "drift"
	Nodes  map[string]int      `json:"nodes"`
	Groups []Group             `json:"groups"`
	Bytes  map[string]int64    `json:"bytes,omitempty"` // by source, summed over the latest boots
	Stages map[trace.Stage]int `json:"stages"`          // booting nodes by stage

	Rollouts []Rollout `json:"rollouts,omitempty"` // rollouts that are live, without their nodes

	Failed  int    `json:"failed"`            // nodes whose latest boot is failed or degraded
	Trouble []Boot `json:"trouble,omitempty"` // some of these boots, each with its fault

	Broken []BrokenVersion `json:"broken,omitempty"` // incomplete versions that groups should boot

	Disk *FullDisk `json:"disk,omitempty"` // the disk of the data directory is full; nil: it has space

	Full []string `json:"full,omitempty"` // nodes whose write layer is almost full: less than a fifth is free

	Logs Logs `json:"logs"`

	// secrets with a hardware class as scope: no node gets a secret by its class
	ClassSecrets []string `json:"class_secrets,omitempty"`
}

// FullDisk describes a full disk of the server: known nodes boot, everything else is refused.
type FullDisk struct {
	Since    time.Time `json:"since"`
	Free     int64     `json:"free"`                // bytes
	Reserved int64     `json:"reserved,omitempty"`  // bytes that are still reserved for boots of known nodes
	InMemory int       `json:"in_memory,omitempty"` // boots, leases and events that are in memory only
	Do       string    `json:"do"`                  // how to free space
}

// Text describes the full disk, in the same words in every display.
func (d FullDisk) Text() string {
	text := "the disk of the server is full since " + d.Since.Local().Format("2 Jan 15:04") +
		": known nodes boot, changes and uploads are refused"
	if d.InMemory > 0 {
		text += fmt.Sprintf("; %d boots, leases and events are in memory only", d.InMemory)
	}
	return text
}

// BrokenVersion is a version that is incomplete in the store: its nodes cannot boot.
type BrokenVersion struct {
	Version fleet.Digest `json:"version"`
	Groups  []string     `json:"groups"` // groups that should boot it
	Problem string       `json:"problem"`
	Do      string       `json:"do,omitempty"`
}

// States of Logs.
const (
	LogsOn      = "on"
	LogsMissing = "missing" // systemd-journal-remote is not installed on the server
	LogsOff     = "off"
)

// Logs reports how the server stores the journals that nodes send.
type Logs struct {
	State   string `json:"state"`           // LogsOn, LogsMissing, LogsOff
	Held    int64  `json:"held"`            // bytes of disk that all journals use
	Bound   int64  `json:"bound,omitempty"` // limit of Held
	Entries int64  `json:"entries"`         // entries stored since the server started
	Bytes   int64  `json:"bytes"`           // bytes of these entries, as they were sent
	// uploads that ended since the server started, by outcome (docs/monitor.md lists them)
	Uploads map[string]int64 `json:"uploads,omitempty"`
	Last    time.Time        `json:"last,omitzero"`  // when the last entry was stored
	Full    bool             `json:"full,omitempty"` // the disk had no space for the last upload; nodes send it again
}

// Refused is how many uploads were refused since the server started. Uploads that were interrupted, or that came during
// another upload of the same boot, do not count.
func (l Logs) Refused() int64 {
	return l.Uploads["disk_full"] + l.Uploads["malformed"] + l.Uploads["stranger"] + l.Uploads["failed"]
}

// Loads is how many nodes load kernel and initramfs now, and how many wait for an admission slot.
type Loads struct {
	Slots    int           `json:"slots"` // nodes that may load at the same time
	Loading  int           `json:"loading"`
	Waiting  int           `json:"waiting"`
	Expect   time.Duration `json:"expect,omitempty"` // time until the last waiting node is admitted
	Uplink   int64         `json:"uplink"`           // assumed bytes per second that the server can send
	NodeLink int64         `json:"node_link"`        // assumed bytes per second that a node can receive
}

// DHCP is the state of the server's DHCP part.
type DHCP struct {
	Mode       string   `json:"mode"` // "own", "proxy", "off"
	Interfaces []string `json:"interfaces,omitempty"`
	Range      string   `json:"range,omitempty"`  // "10.0.0.100-10.0.0.200"
	Others     []string `json:"others,omitempty"` // other DHCP servers seen
	// StoppedFor is the address of another DHCP server because of which this one gives no addresses now; "": it gives
	// addresses.
	StoppedFor string `json:"stopped_for,omitempty"`
	// Addresses says how the range is used now.
	Addresses DHCPAddresses `json:"addresses,omitzero"`
}

// Port is a port on which the server receives packets from nodes.
type Port struct {
	Net        string     `json:"net"` // "udp", "tcp"
	Number     uint16     `json:"number"`
	Use        string     `json:"use"`
	Address    netip.Addr `json:"address,omitzero"`     // zero: every address of the server
	Interfaces []string   `json:"interfaces,omitempty"` // interfaces from which it accepts packets; empty: all
	File       string     `json:"file,omitempty"`       // for TFTP: name of a file that it serves
}

// DHCPAddresses counts the addresses of a range.
type DHCPAddresses struct {
	All     int `json:"all"`
	Known   int `json:"known"`   // leases and fixed addresses of nodes
	Unknown int `json:"unknown"` // leases of machines that are not nodes yet
	InUse   int `json:"in_use"`  // used by machines that got them elsewhere
}

// Free is how many addresses are unused.
func (a DHCPAddresses) Free() int { return max(a.All-a.Known-a.Unknown-a.InUse, 0) }

// Short reports whether less than a tenth of the addresses is free.
func (a DHCPAddresses) Short() bool { return 10*a.Free() < a.All }

// Text describes how the range is used.
func (a DHCPAddresses) Text() string {
	return fmt.Sprintf("%d of %d addresses are free (%d of nodes, %d of unknown machines, %d in use by others)",
		a.Free(), a.All, a.Known, a.Unknown, a.InUse)
}

// Stopped says why the server gives no addresses now, in the same words in every display; "" if it gives them.
func (d DHCP) Stopped() string {
	if d.StoppedFor == "" {
		return ""
	}
	return "this server stopped giving addresses: DHCP server " + d.StoppedFor + " answers"
}

// StoppedHint says what an operator can do when Stopped is not empty.
const StoppedHint = "switch one of the two off; Pando gives addresses again within a minute of the other one's " +
	"silence, or works beside it with --dhcp proxy"
