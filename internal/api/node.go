package api

import (
	"crypto/sha256"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// BootConfig is boot.json of the trust archive: all that a node knows about its site before its first request. It is
// made for one boot and contains that boot's secret, so it is served once and never logged.
type BootConfig struct {
	Format  int          `json:"format"` // 1
	Boot    fleet.BootID `json:"boot"`
	MAC     fleet.MAC    `json:"mac"`
	Token   string       `json:"token"`   // redeemed once by Register
	Control []string     `json:"control"` // base URLs of the control port, "https://10.0.0.1:8443"
	// Ed25519 public key of the server, base64: pins TLS and signs assignments
	ServerKey string   `json:"server_key"`
	TrustKeys []string `json:"trust_keys"` // minisign public keys that may sign manifests
	Release   string   `json:"release"`    // Pando release that made the cpio

	// a boot that is stuck this long reboots; 0: the default; negative: never
	RebootAfter time.Duration `json:"reboot_after,omitempty"`

	// ShortDrivers means that the initramfs has drivers for the node's known NICs only. If such a boot does not
	// register, the next one gets all drivers.
	ShortDrivers bool `json:"short_drivers,omitempty"`

	TPM bool `json:"tpm,omitempty"` // the node should prove by its TPM which machine it is

	// KernelFile has the objects that follow each other in the file KernelPath, which the node serves to other
	// machines; empty: there is no such file.
	KernelFile []KernelObject `json:"kernel_file,omitempty"`

	// Medium is set if kernel+initrd come from a boot medium and were not made for one boot. It is the version whose
	// kernel and drivers these are. Boot, MAC and Token are then empty, and the node requests them with Begin.
	Medium fleet.Digest `json:"medium,omitempty"`
}

// KernelPath is where the boot loader leaves that file in the initramfs.
const KernelPath = "pando/kernel"

// KernelObject is a kernel or an initramfs without the trust archive, as other machines load it.
type KernelObject struct {
	Object string `json:"object"` // its SHA-256, 64 hex digits
	Size   int64  `json:"size"`
}

// BeginRequest requests a boot's id and token for a machine that was started from a boot medium. POST /v1/node/begin,
// without a credential: the server identifies the machine by the DHCP exchange just before.
type BeginRequest struct {
	MAC    fleet.MAC    `json:"mac"`
	Medium fleet.Digest `json:"medium"` // see BootConfig
	UUID   string       `json:"uuid,omitempty"`
	Serial string       `json:"serial,omitempty"`

	// Runs means that the node booted without a server and now reports its boot. Medium is the version that it runs.
	Runs   bool          `json:"runs,omitempty"`
	Uptime time.Duration `json:"uptime,omitempty"` // since its init started
}

// BeginResponse has what other machines get in their boot config. A second request before the registration gets another
// token, and invalidates the first token.
type BeginResponse struct {
	Boot  fleet.BootID `json:"boot"`
	Token string       `json:"token"`
	TPM   bool         `json:"tpm,omitempty"` // see BootConfig
}

// RegisterRequest registers a booting node and redeems its boot token. POST /v1/node/hello
type RegisterRequest struct {
	Boot     fleet.BootID   `json:"boot"`
	Token    string         `json:"token"`
	MAC      fleet.MAC      `json:"mac"`
	Addr     string         `json:"addr"`    // the address that the node configured
	Release  string         `json:"release"` // Pando release of the agent
	Hardware fleet.Hardware `json:"hardware"`

	// Nonce is random, made once for this boot. It permits repeating a registration whose reply was lost. Someone who
	// saw only the token cannot repeat it.
	Nonce string `json:"nonce,omitempty"`

	TPM *TPMProof `json:"tpm,omitempty"` // nil: the server did not request it, or the machine has no TPM
}

// TPMProof is a public key of the machine's TPM, and the TPM's signature of TPMDigest.
type TPMProof struct {
	Key       []byte `json:"key"`       // P-256: 32 bytes x, 32 bytes y
	Signature []byte `json:"signature"` // ECDSA: 32 bytes r, 32 bytes s
}

// TPMDigest is the digest that a TPM signs to prove that its machine sends this registration. The token is for one boot
// and accepted once, so a signature cannot be reused.
func TPMDigest(r RegisterRequest, serverKey string) [32]byte {
	return sha256.Sum256(
		[]byte(
			"pando tpm v1\n" + string(
				r.Boot,
			) + "\n" + r.MAC.String() + "\n" + r.Token + "\n" + r.Nonce + "\n" + serverKey,
		),
	)
}

// RegisterResponse carries the credential of this boot and the signed assignment.
type RegisterResponse struct {
	Session    string    `json:"session"`    // bearer credential until the next boot; kept in memory only
	Assignment []byte    `json:"assignment"` // exact bytes of a fleet.Assignment
	Signature  []byte    `json:"signature"`  // Ed25519 by the server's key over "pando assignment v1\n" + Assignment
	Time       time.Time `json:"time"`       // server clock, for nodes whose clock is wrong

	Secrets []fleet.File `json:"secrets,omitempty"` // config files that contain secrets; never kept on a disk

	// the node had a cache on a disk in its last boot: it waits for that disk before it fetches
	Cached bool `json:"cached,omitempty"`
}

// AssignmentContext precedes an assignment's bytes in the signed text, so that no other signature by the server's key
// is valid for an assignment.
const AssignmentContext = "pando assignment v1\n"

// ReportRequest appends events to a boot. POST /v1/node/events, with the session as bearer. Before the registration, or
// if it fails, the credential is "Authorization: Boot <token>", which permits only this.
type ReportRequest struct {
	Boot   fleet.BootID  `json:"boot"`
	Events []trace.Event `json:"events"`
	Uptime time.Duration `json:"uptime"` // node's monotonic time since Init when this was sent
	Status *NodeStatus   `json:"status,omitempty"`

	// key of the extensions that the node has mounted (fleet.ExtensionsKey); "": sent by init, or by an agent that
	// cannot mount extensions
	Extensions string `json:"extensions,omitempty"`

	Console string `json:"console,omitempty"` // the end of the kernel log; sent when a stage fails
	// pstore's record of the panic that ended the machine's last boot
	Pstore string `json:"pstore,omitempty"`
}

// NodeStatus is the measured state of a running node. The server keeps the latest one.
type NodeStatus struct {
	Version fleet.Digest     `json:"version"` // running
	Bytes   map[string]int64 `json:"bytes"`   // since Init, by source
	// bytes of the root by sender (a peer's address or a server's base URL), once the boot is over
	Fed      map[string]int64 `json:"fed,omitempty"`
	Reads    int64            `json:"reads"` // block device requests answered
	Rejected int64            `json:"rejected"`
	Stalled  time.Duration    `json:"stalled"` // time that reads waited for a source
	// write layer in use, in the form that fleet.ParseWriteLayer parses; "": not reported
	WriteLayer string       `json:"write_layer,omitempty"`
	UpperUsed  int64        `json:"upper_used,omitempty"`
	UpperTotal int64        `json:"upper_total,omitempty"`
	FilesUsed  int64        `json:"files_used,omitempty"` // files of the write layer
	FilesTotal int64        `json:"files_total,omitempty"`
	Systemd    *Systemd     `json:"systemd,omitempty"`
	Release    string       `json:"release,omitempty"` // Pando release of the agent
	Staged     fleet.Digest `json:"staged,omitempty"`  // version that is prepared for the next boot

	Extensions     []fleet.Extension `json:"extensions,omitempty"`      // laid over /usr and /opt
	ExtensionError string            `json:"extension_error,omitempty"` // why it lacks extensions that it should have

	// list of the state that the node keeps and of orders done (fleet.StateReport); sent after a change
	State string `json:"state,omitempty"`
}

// Fullness is how full the write layer is, by bytes or by files, whichever is worse.
func (s NodeStatus) Fullness() fleet.Fullness {
	return max(fleet.FullnessOf(s.UpperUsed, s.UpperTotal), fleet.FullnessOf(s.FilesUsed, s.FilesTotal))
}

// Systemd is systemd's own report of the boot, in time since the kernel started.
type Systemd struct {
	Userspace time.Duration `json:"userspace"` // systemd started
	Finish    time.Duration `json:"finish"`    // default target reached
	State     string        `json:"state"`     // systemctl is-system-running
	Failed    []string      `json:"failed,omitempty"`
	Units     []UnitTime    `json:"units,omitempty"` // the slowest units, and the critical chain
}

// UnitTime is one unit's start.
type UnitTime struct {
	Unit   string        `json:"unit"`
	Start  time.Duration `json:"start"`  // since the kernel started
	Active time.Duration `json:"active"` // since the kernel started
	// part of the critical chain, in which each unit waited for the one before
	Chain bool `json:"chain,omitempty"`
}

// TraceRequest sends what a boot read of its root, after the boot is over, and how its boot pack was used. POST
// /v1/node/trace, with the session as bearer.
type TraceRequest struct {
	Boot    fleet.BootID  `json:"boot"`
	Version fleet.Digest  `json:"version"`
	Reads   []byte        `json:"reads"`             // a read trace, see trace.EncodeReads
	Partial bool          `json:"partial,omitempty"` // the beginning was not recorded
	Uptime  time.Duration `json:"uptime"`            // node's monotonic time since Init when the recording ended
	// the node's monotonic time at time 0 of the reads; 0: unknown, about when the device was attached
	Began time.Duration `json:"began,omitempty"`

	Pack        string `json:"pack,omitempty"`   // object of the boot pack's map; the fields below are about it
	Hits        int64  `json:"hits,omitempty"`   // bytes read that the pack had
	Misses      int64  `json:"misses,omitempty"` // bytes read that it did not have
	Wasted      int64  `json:"wasted,omitempty"` // bytes fetched and not read, of the part for the time until booted
	WastedLater int64  `json:"late,omitempty"`   // bytes fetched and not read, of the rest of the pack

	Until   string `json:"until,omitempty"`   // the mark until which the assignment made it record
	Reached bool   `json:"reached,omitempty"` // the mark was set
}
