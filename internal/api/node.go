package api

import (
	"crypto/sha256"
	"time"

	"pando/internal/fleet"
	"pando/internal/trace"
)

// BootConfig is boot.json of the trust cpio: all that a node knows of its site before it has spoken to it.
// It is made for one boot and holds that boot's secret, so it is served once and never logged.
type BootConfig struct {
	Format  int          `json:"format"` // 1
	Boot    fleet.BootID `json:"boot"`
	MAC     fleet.MAC    `json:"mac"`
	Token   string       `json:"token"`   // redeemed once by Hello
	Control []string     `json:"control"` // base URLs of the control channel, "https://10.0.0.1:8443"
	// Ed25519 public key of the server, base64: pins TLS and signs assignments
	ServerKey string   `json:"server_key"`
	TrustKeys []string `json:"trust_keys"` // minisign public keys that may sign manifests
	Release   string   `json:"release"`    // Pando release that made the cpio

	// a boot stuck this long reboots; 0: the default; negative: never
	RebootAfter time.Duration `json:"reboot_after,omitempty"`

	// ShortDrivers says that the initramfs has the drivers of the NICs that the node is known to have, and no others.
	// The boot after one that did not say hello is sent all.
	ShortDrivers bool `json:"short_drivers,omitempty"`

	TPM bool `json:"tpm,omitempty"` // the node proves by its TPM which machine it is

	// Medium is set when K lies on a boot medium, and was not made for one boot: the version that its kernel and
	// drivers are of. Boot, MAC and Token are empty then, and the node asks for them with Begin.
	Medium fleet.Digest `json:"medium,omitempty"`
}

// BeginRequest asks for a boot's id and token, for a machine that was started from a boot medium.
// POST /v1/node/begin, without a credential: what counts is the DHCP exchange that was seen just before.
type BeginRequest struct {
	MAC    fleet.MAC    `json:"mac"`
	Medium fleet.Digest `json:"medium"` // see BootConfig
	UUID   string       `json:"uuid,omitempty"`
	Serial string       `json:"serial,omitempty"`

	// Runs says that the node has booted already, without a server, and wants to report: Medium is what it runs.
	Runs   bool          `json:"runs,omitempty"`
	Uptime time.Duration `json:"uptime,omitempty"` // since its init started, when it runs
}

// BeginResponse is what a boot config has for other machines. A second request before Hello gets another token, and the
// one before is worthless then.
type BeginResponse struct {
	Boot  fleet.BootID `json:"boot"`
	Token string       `json:"token"`
	TPM   bool         `json:"tpm,omitempty"` // see BootConfig
}

// HelloRequest redeems the boot token. POST /v1/node/hello
type HelloRequest struct {
	Boot     fleet.BootID   `json:"boot"`
	Token    string         `json:"token"`
	MAC      fleet.MAC      `json:"mac"`
	Addr     string         `json:"addr"`    // the address the node gave itself
	Release  string         `json:"release"` // Pando release of the agent
	Hardware fleet.Hardware `json:"hardware"`

	// Nonce is random, made once for this boot. With it the same hello may be said again when its answer was
	// lost: nobody who only read the token can say it.
	Nonce string `json:"nonce,omitempty"`

	TPM *TPMProof `json:"tpm,omitempty"` // nil: it was not asked for, or the machine has none
}

// TPMProof is a key that lives in the TPM of a machine, and its signature of TPMDigest.
type TPMProof struct {
	Key       []byte `json:"key"`       // P-256: 32 bytes x, 32 bytes y
	Signature []byte `json:"signature"` // ECDSA: 32 bytes r, 32 bytes s
}

// TPMDigest is what a TPM signs: that its machine says this hello. The token was made for this boot by the server,
// and is good once, so no signature can be used again.
func TPMDigest(r HelloRequest, serverKey string) [32]byte {
	return sha256.Sum256(
		[]byte(
			"pando tpm v1\n" + string(
				r.Boot,
			) + "\n" + r.MAC.String() + "\n" + r.Token + "\n" + r.Nonce + "\n" + serverKey,
		),
	)
}

// HelloResponse carries the credential of this boot and the signed assignment.
type HelloResponse struct {
	Session    string    `json:"session"`    // bearer credential until the next boot; kept in memory only
	Assignment []byte    `json:"assignment"` // exact bytes of a fleet.Assignment
	Signature  []byte    `json:"signature"`  // Ed25519 by the server's key over "pando assignment v1\n" + Assignment
	Time       time.Time `json:"time"`       // server clock, to set a clock that is wrong

	Secrets []fleet.File `json:"secrets,omitempty"` // config files with secrets in them; never kept on a disk

	// the node had a cache on a disk in its last boot: it waits for that before it fetches
	Cached bool `json:"cached,omitempty"`
}

// AssignmentContext is put before an assignment's bytes when they are signed, so that no other signature
// of the server's key can pass for one.
const AssignmentContext = "pando assignment v1\n"

// ReportRequest appends events of a boot. POST /v1/node/events, with the session as bearer; before Hello,
// or when Hello fails, with "Authorization: Boot <token>", which can append and do nothing else.
type ReportRequest struct {
	Boot   fleet.BootID  `json:"boot"`
	Events []trace.Event `json:"events"`
	Uptime time.Duration `json:"uptime"` // node's monotonic time since Init when this was sent
	Status *NodeStatus   `json:"status,omitempty"`

	// key of what the node has laid over its root (fleet.ExtensionsKey); "": an init, or an agent that can lay nothing
	Extensions string `json:"extensions,omitempty"`

	Console string `json:"console,omitempty"` // the end of the kernel's log, with the failure of a stage
	// what the kernel of the machine's last boot left when it gave up, as pstore has it
	Pstore string `json:"pstore,omitempty"`
}

// NodeStatus is what the running node proves and measures; the latest one is kept.
type NodeStatus struct {
	Version fleet.Digest     `json:"version"` // running
	Bytes   map[string]int64 `json:"bytes"`   // by source since Init
	// bytes of the root by who sent them, once the boot is over: a peer's address, a server's base URL
	Fed      map[string]int64 `json:"fed,omitempty"`
	Reads    int64            `json:"reads"` // block device requests answered
	Rejected int64            `json:"rejected"`
	Stalled  time.Duration    `json:"stalled"` // time that reads waited for a source
	// what takes its writes, as fleet.ParseWriteLayer reads it; "": it does not say
	WriteLayer string       `json:"write_layer,omitempty"`
	UpperUsed  int64        `json:"upper_used,omitempty"`
	UpperTotal int64        `json:"upper_total,omitempty"`
	FilesUsed  int64        `json:"files_used,omitempty"` // files of the write layer
	FilesTotal int64        `json:"files_total,omitempty"`
	Systemd    *Systemd     `json:"systemd,omitempty"`
	Release    string       `json:"release,omitempty"` // of the agent
	Staged     fleet.Digest `json:"staged,omitempty"`  // version that is ready to be gone to

	Extensions     []fleet.Extension `json:"extensions,omitempty"`      // laid over /usr and /opt
	ExtensionError string            `json:"extension_error,omitempty"` // why it has not those that it should have

	// what it keeps and what it did about it, as its script says, when that has changed
	State string `json:"state,omitempty"`
}

// Fullness is how full the write layer is, by bytes or by files, whichever is worse.
func (s NodeStatus) Fullness() fleet.Fullness {
	return max(fleet.FullnessOf(s.UpperUsed, s.UpperTotal), fleet.FullnessOf(s.FilesUsed, s.FilesTotal))
}

// Systemd is systemd's own account of the boot, in time since the kernel started.
type Systemd struct {
	Userspace time.Duration `json:"userspace"` // systemd started
	Finish    time.Duration `json:"finish"`    // default target reached
	State     string        `json:"state"`     // systemctl is-system-running
	Failed    []string      `json:"failed,omitempty"`
	Units     []UnitTime    `json:"units,omitempty"` // the slowest, and the critical chain
}

// UnitTime is one unit's start.
type UnitTime struct {
	Unit   string        `json:"unit"`
	Start  time.Duration `json:"start"`  // since the kernel started
	Active time.Duration `json:"active"` // since the kernel started
	// of the critical chain: what the default target waited for, each for the one before
	Chain bool `json:"chain,omitempty"`
}

// TraceRequest sends what a boot read of its root, once it is over, and how its boot pack did. POST /v1/node/trace,
// with the session as bearer.
type TraceRequest struct {
	Boot    fleet.BootID  `json:"boot"`
	Version fleet.Digest  `json:"version"`
	Reads   []byte        `json:"reads"`             // a read trace, see trace.EncodeReads
	Partial bool          `json:"partial,omitempty"` // nobody recorded the beginning
	Uptime  time.Duration `json:"uptime"`            // node's monotonic time since Init when the recording ended
	// the same when the time of reads was 0; 0: not known, and about when the device was attached
	Began time.Duration `json:"began,omitempty"`

	Pack   string `json:"pack,omitempty"`   // object of the boot pack's map that this boot had; the rest is about it
	Hits   int64  `json:"hits,omitempty"`   // bytes read that the pack had
	Misses int64  `json:"misses,omitempty"` // bytes read that it did not have
	Wasted int64  `json:"wasted,omitempty"` // bytes of the pack until booted that were fetched and not read
	Late   int64  `json:"late,omitempty"`   // bytes of the rest of it that were fetched and not read

	Until   string `json:"until,omitempty"`   // mark that the assignment said to record until
	Reached bool   `json:"reached,omitempty"` // it was made
}
