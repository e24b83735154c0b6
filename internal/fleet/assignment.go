package fleet

import "time"

// Assignment tells one boot of one node what to run. The node gets the exact bytes and a detached signature by the
// server's key over the control port (8443), and accepts nothing else. A node boots an older version than its last one
// only if an assignment names it.
type Assignment struct {
	Format  int       `json:"format"` // 1
	Boot    BootID    `json:"boot"`
	Node    string    `json:"node"`
	Group   string    `json:"group"`
	Image   Ref       `json:"image"`   // as desired, for people: "lab:stable"
	Version Digest    `json:"version"` // digest of the manifest
	Issued  time.Time `json:"issued"`

	Servers []string `json:"servers"` // base URLs of the image port (8480), in order of preference
	// base URLs that serve objects only, such as a bucket's; tried before Servers
	Stores      []string      `json:"stores,omitempty"`
	Files       []File        `json:"files"` // config files put in place before init starts
	LockRoot    bool          `json:"lock_root"`
	WriteLimit  string        `json:"write_limit,omitempty"`
	WriteLayer  string        `json:"write_layer,omitempty"` // see ParseWriteLayer
	RebootAfter time.Duration `json:"reboot_after,omitempty"`
	// the node may boot this version again from its own disk if no server answers
	Offline bool     `json:"offline,omitempty"`
	Pack    *PackRef `json:"pack,omitempty"`  // the boot pack of this boot; nil: none, or none yet
	Swarm   *Swarm   `json:"swarm,omitempty"` // how the node shares with its peers; nil: it does not
	Cache   *Cache   `json:"cache,omitempty"` // fetched objects that the node keeps; nil: only what a boot needs

	// RevokedKeys are minisign public keys that the node must not trust, even if its trust archive contains them: the
	// archive on a boot medium may be older than the revocation.
	RevokedKeys []string `json:"revoked_keys,omitempty"`

	// name of the mark until which this boot records its reads; "": until it has booted
	RecordUntil string `json:"record_until,omitempty"`

	Extensions []Extension `json:"extensions,omitempty"` // laid over /usr and /opt
	// boot packs of extensions, by version; an extension without one is read as chunks
	ExtensionPacks map[Digest]PackRef `json:"extension_packs,omitempty"`

	Problems []string `json:"problems,omitempty"` // what the server could not provide; the node boots without
}

// Cache says where a node keeps objects, and how many bytes of them.
type Cache struct {
	Kind CachePolicy `json:"kind"`
	Size int64       `json:"size"`
}

// PackRef names the map of a boot pack, which a node fetches like any object. A node that cannot fetch or verify it
// boots without.
type PackRef struct {
	Object    string `json:"object"`    // id of the map's object
	Size      int64  `json:"size"`      // bytes of the map
	Signature string `json:"signature"` // minisign, over the map
}

// Swarm says how a node takes part in the swarm of its boot pack.
type Swarm struct {
	Place     string `json:"place,omitempty"` // its rack or switch; "": not declared
	LocalOnly bool   `json:"near,omitempty"`  // share only with peers of the same place, or else the same subnet
}

// File is one config file, rendered for one node.
type File struct {
	Path   string `json:"path"` // absolute, in the node's root
	Mode   uint32 `json:"mode"` // permission bits
	UID    int    `json:"uid,omitempty"`
	GID    int    `json:"gid,omitempty"`
	Data   []byte `json:"data,omitempty"`
	Target string `json:"target,omitempty"` // not empty: a symbolic link to it
	Owner  string `json:"owner,omitempty"`  // "user:group" of the image, instead of UID and GID
	Run    string `json:"run,omitempty"`    // command to run after the file changed on a running node
}

// BootID names one attempt to boot, from the first packet to booted: 16 lower-case hex digits.
type BootID string
