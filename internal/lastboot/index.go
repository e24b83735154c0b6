package lastboot

import (
	"encoding/json"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

// keptRecord is the record of the cache that names the boots which are kept.
const keptRecord = "boots"

// mostKept is how many boots are kept: see worth.
const mostKept = 3

// keptBoot is the index entry of a boot that a node may repeat without a server. It only helps to choose a boot;
// what is booted is verified by its signatures.
type keptBoot struct {
	Boot   fleet.BootID `json:"boot"` // that the assignment was made for
	Kernel string       `json:"kernel"`
	Booted bool         `json:"booted,omitempty"` // the node came up
	// manifest and map of the boot pack: the same at each boot of a version
	Version    []keptPart `json:"version"`
	Assignment []keptPart `json:"assignment"` // with the lease
}

// keptBoots are those that are kept, the newest first.
type keptBoots []keptBoot

// Records is the part of a cache that holds records.
type Records interface {
	Record(name string) ([]byte, error)
	SetRecord(name string, data []byte) error
}

// readKept reads the index. One that makes no sense counts as none: the next boot writes it anew.
func readKept(records Records) (keptBoots, error) {
	data, err := records.Record(keptRecord)
	if err != nil {
		return nil, err
	}
	var k keptBoots
	if len(data) == 0 || json.Unmarshal(data, &k) != nil || !k.sane() {
		return nil, nil
	}
	return k, nil
}

// sane checks the limits of what was read: the disk is not trusted.
func (k keptBoots) sane() bool {
	for _, b := range k {
		if len(b.Version)+len(b.Assignment) > keptParts {
			return false
		}
	}
	for _, p := range k.parts() {
		if p.Slot < 0 || p.Slot >= keptParts {
			return false
		}
	}
	return len(k) <= mostKept
}

func (k keptBoots) write(records Records) error {
	data, err := json.Marshal(k)
	if err != nil {
		return err
	}
	return records.SetRecord(keptRecord, data)
}

// parts are those of all boots.
func (k keptBoots) parts() (out []keptPart) {
	for _, b := range k {
		out = append(append(out, b.Version...), b.Assignment...)
	}
	return out
}

// holding names parts, and finds those that the disk already has intact.
func (k keptBoots) holding(records Records, parts [][]byte) (out []keptPart) {
	for _, data := range parts {
		part := keptPart{nowhere, chunk.Sum(data)}
		for _, p := range k.parts() {
			if p.Digest != part.Digest {
				continue
			}
			if _, err := p.read(records); err == nil {
				part = p
				break
			}
		}
		out = append(out, part)
	}
	return out
}

// place finds records for the parts of one more boot, and which boots stay meanwhile: all if there is room, and always
// the newest that came up. It returns false if there is no room.
func (k keptBoots) place(parts []keptPart) (keptBoots, []keptPart, bool) {
	placed, ok := placeParts(parts, k.parts())
	if !ok {
		k = k.good()
		placed, ok = placeParts(parts, k.parts())
	}
	return k, placed, ok
}

// good is the newest boot that came up, by itself; as long as there is none, all of them.
func (k keptBoots) good() keptBoots {
	for i, b := range k {
		if b.Booted {
			return k[i : i+1]
		}
	}
	return k
}

// with adds a boot to those that are kept.
func (k keptBoots) with(b keptBoot) keptBoots { return append(keptBoots{b}, k...).worth() }

// worth returns the boots that may be needed again: the last one, the newest that came up with its kernel, and one with
// another kernel. The boot medium gets a boot's kernel some time after the boot.
func (k keptBoots) worth() (out keptBoots) {
	last, good, other := k[0], 0, 0
	for i, b := range k {
		same := b.Kernel == last.Kernel
		if same && b.Booted && good == 0 && !last.Booted {
			good = i
		}
		if !same && (other == 0 || b.Booted && !k[other].Booted) {
			other = i
		}
	}
	for i, b := range k {
		if i == 0 || i == good || i == other {
			out = append(out, b)
		}
	}
	return out
}

// booted notes that a boot came up, and tells whether that is news.
func (k keptBoots) booted(boot fleet.BootID) (keptBoots, bool) {
	for i, b := range k {
		if b.Boot == boot && !b.Booted {
			k[i].Booted = true
			return k.worth(), true
		}
	}
	return k, false
}
