package lastboot

import (
	"encoding/json"

	"pando/internal/chunk"
	"pando/internal/fleet"
)

// keptRecord is the record of the cache with the index of the kept boots.
const keptRecord = "boots"

// mostKept bounds the number of kept boots: see worth.
const mostKept = 3

// keptBoot is the index entry of a boot that the node may repeat without a server. It only serves to choose a boot:
// signatures protect the content.
type keptBoot struct {
	Boot   fleet.BootID `json:"boot"` // the boot that the assignment was made for
	Kernel string       `json:"kernel"`
	Booted bool         `json:"booted,omitempty"` // the node came up
	// manifest, its signature, and map of the boot pack: the same at each boot of a version
	Version    []keptPart `json:"version"`
	Assignment []keptPart `json:"assignment"` // assignment, its signature, and lease
}

// keptBoots is the index: the kept boots, newest first.
type keptBoots []keptBoot

// Records is the part of a cache that holds records.
type Records interface {
	Record(name string) ([]byte, error)
	SetRecord(name string, data []byte) error
}

// readKept reads the index. An invalid index counts as empty, and the next boot replaces it.
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

// sane reports whether the index is within its limits. The disk is not trusted.
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

// parts returns the parts of all boots.
func (k keptBoots) parts() (out []keptPart) {
	for _, b := range k {
		out = append(append(out, b.Version...), b.Assignment...)
	}
	return out
}

// holding returns a keptPart for each of parts. Its slot is nowhere unless the disk already has the part intact.
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

// place chooses records for the parts of a new boot, and returns the boots that stay until it is written: all if
// there is room for it, else only good ones. It returns false if there is no room even then.
func (k keptBoots) place(parts []keptPart) (keptBoots, []keptPart, bool) {
	placed, ok := placeParts(parts, k.parts())
	if !ok {
		k = k.good()
		placed, ok = placeParts(parts, k.parts())
	}
	return k, placed, ok
}

// good returns only the newest boot that came up, or all boots if none came up.
func (k keptBoots) good() keptBoots {
	for i, b := range k {
		if b.Booted {
			return k[i : i+1]
		}
	}
	return k
}

// with adds the newest boot and drops boots that are no longer needed (worth).
func (k keptBoots) with(b keptBoot) keptBoots { return append(keptBoots{b}, k...).worth() }

// worth returns the boots that may be needed again: the last one, the newest that came up with the same kernel, and
// one with another kernel. That one is needed because the boot medium gets a boot's kernel only some time after the
// boot.
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

// booted records that a boot came up, and reports whether the index changed.
func (k keptBoots) booted(boot fleet.BootID) (keptBoots, bool) {
	for i, b := range k {
		if b.Boot == boot && !b.Booted {
			k[i].Booted = true
			return k.worth(), true
		}
	}
	return k, false
}
