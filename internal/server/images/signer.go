package images

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"pando/internal/fleet"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/image/bootpack"
	"pando/internal/store"
)

// Signer signs the versions in the store again when the keys change. A version itself does not change: its signatures
// are separate files.
type Signer struct {
	ring   *identity.Ring
	store  *store.Dir
	forget func()
	log    *slog.Logger

	mu sync.Mutex // one change of the keys at a time
}

// NewSigner returns a Signer. forget is called when a key was revoked; it must drop cached results of verification.
func NewSigner(ring *identity.Ring, dir *store.Dir, forget func(), log *slog.Logger) *Signer {
	return &Signer{ring: ring, store: dir, forget: forget, log: log}
}

// stored calls each for every version whose manifest can be read.
func (s *Signer) stored(each func(store.Version) error) error {
	all, err := s.store.Versions()
	if err != nil {
		return err
	}
	for _, d := range all {
		v, err := s.store.GetVersion(d)
		if err != nil {
			s.log.Warn("version in the store cannot be read", "version", d, "err", err)
			continue
		}
		if err := each(v); err != nil {
			return err
		}
	}
	return nil
}

// renew signs one version if a key that signs now has not signed it yet. It waits for the store's lock.
func (s *Signer) renew(ctx context.Context, v store.Version) error {
	if _, changed := s.signatureOf(v); !changed {
		return nil
	}
	unlock, err := s.store.Lock(ctx, "keys")
	if err != nil {
		return err
	}
	defer unlock()
	_, err = s.sign(v)
	return err
}

// signatureOf returns the signature that a version should have: by every key that signs now, if a trusted key has
// signed the version. Signatures of revoked keys are dropped, unless there is no other: they show why the version does
// not boot.
func (s *Signer) signatureOf(v store.Version) (signature []byte, changed bool) {
	accepted := s.ring.Trust().Accepted()
	kept := image.OnlyBy(v.Manifest, v.Signature, accepted)
	if len(kept) == 0 {
		return nil, false
	}
	is := image.JoinSignatures(image.SignAll(v.Manifest, s.ring.Signers()), kept)
	return is, string(is) != string(v.Signature)
}

// sign writes the signature that a version should have. The caller holds the store's lock.
func (s *Signer) sign(v store.Version) (changed bool, err error) {
	is, changed := s.signatureOf(v)
	if !changed {
		return false, nil
	}
	return true, s.store.PutSignature(v.Digest, is)
}

// signAll signs every version and every boot pack again. It returns how many versions have a new signature.
func (s *Signer) signAll(ctx context.Context) (n int, err error) {
	unlock, err := s.store.TryLock("keys")
	if err != nil {
		return 0, err
	}
	defer unlock()
	err = s.stored(func(v store.Version) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		changed, err := s.sign(v)
		if changed {
			n++
		}
		if err == nil {
			err = s.signPacks(ctx, v.Digest)
		}
		return err
	})
	return n, err
}

func (s *Signer) signPacks(ctx context.Context, v fleet.Digest) error {
	accepted, with := s.ring.Trust().Accepted(), s.ring.Signers()
	return s.store.SignPacks(v, func(r bootpack.Record) (string, error) {
		data, err := s.store.Get(ctx, r.Object)
		if err != nil {
			s.log.Warn("boot pack cannot be signed again", "version", v, "err", err)
			return r.Signature, ctx.Err() // an unreadable pack is useless anyway, and will be made again
		}
		if _, err := bootpack.Verify(data, []byte(r.Signature), v, s.ring.All()...); err != nil {
			return r.Signature, nil
		}
		return string(bootpack.Renew(data, []byte(r.Signature), accepted, with...)), nil
	})
}

// signatures counts for each key the versions that it signed, and those that no other trusted key signed.
func (s *Signer) signatures() (signed, only map[string]int, err error) {
	signed, only = map[string]int{}, map[string]int{}
	all, trusted := s.ring.All(), s.ring.Trust().Accepted()
	err = s.stored(func(v store.Version) error {
		by := image.Signers(v.Manifest, v.Signature, all)
		for _, k := range by {
			signed[k]++
			if len(without(image.Signers(v.Manifest, v.Signature, trusted), k)) == 0 {
				only[k]++
			}
		}
		return nil
	})
	return signed, only, err
}

// lacking lists the versions that boot now and that none of keys has signed.
func (s *Signer) lacking(keys []string) ([]fleet.Digest, error) {
	var out []fleet.Digest
	trust := s.ring.Trust()
	err := s.stored(func(v store.Version) error {
		_, boots := trust.Verify(v.Manifest, v.Signature)
		if boots == nil && len(image.Signers(v.Manifest, v.Signature, keys)) == 0 {
			out = append(out, v.Digest)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read signatures: %w", err)
	}
	return out, nil
}

func without(keys []string, key string) []string {
	var out []string
	for _, k := range keys {
		if k != key {
			out = append(out, k)
		}
	}
	return out
}
