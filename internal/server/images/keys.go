package images

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"aead.dev/minisign"

	"pando/internal/api"
	"pando/internal/fleet"
	"pando/internal/httpapi"
	"pando/internal/identity"
	"pando/internal/image"
	"pando/internal/registry"
	"pando/internal/store"
)

func (a *API) showKeys(*http.Request) (any, error) {
	signed, only, err := a.signer.signatures()
	if err != nil {
		return nil, err
	}
	out := api.Keys{Server: api.KeyText(a.key)}
	for i, k := range a.signer.ring.Keys() {
		view := a.keyView(k, i == 0)
		view.Versions, view.Only = signed[k.Public], only[k.Public]
		out.Signing = append(out.Signing, view)
	}
	out.Site = out.Signing[0].Public
	return out, nil
}

func (a *API) keyView(k identity.SigningKey, first bool) api.Key {
	view := api.Key{
		Name:    k.Name,
		Public:  k.Public,
		State:   api.KeyTrusted,
		Here:    a.signer.ring.Here(k),
		Created: k.Created,
		Revoked: k.Revoked,
	}
	var public minisign.PublicKey
	if public.UnmarshalText([]byte(k.Public)) == nil {
		view.ID = image.KeyID(public.ID())
	}
	switch {
	case !k.Revoked.IsZero():
		view.State = api.KeyRevoked
	case first:
		view.State = api.KeySigns
	}
	return view
}

func (a *API) createKey(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.KeyCreate](r)
	if err != nil {
		return nil, err
	}
	if err := httpapi.Invalid(fleet.ValidName("key", req.Name)); err != nil {
		return nil, err
	}
	if req.Public != "" {
		if req.Public, err = image.ParseKey(req.Public); err != nil {
			return nil, httpapi.BadRequest(
				"key "+req.Name+": "+err.Error(),
				"it is the second line of the file that `minisign -G` calls minisign.pub",
			)
		}
	}
	a.signer.mu.Lock()
	defer a.signer.mu.Unlock()
	k, err := a.signer.ring.Add(req.Name, req.Public, a.now())
	if err != nil {
		return nil, keyRefused(err)
	}
	a.log.Info("key is trusted from the next boots on", "key", k.Name, "public", k.Public)
	// a key that is kept here signs too, so that all versions carry its signature before it becomes the first key
	if req.Public == "" {
		if _, err := a.signer.signAll(r.Context()); err != nil {
			return nil, signingFailed(err)
		}
	}
	return a.keyView(k, false), nil
}

// keyRefused converts an error of the ring to an API error.
func keyRefused(err error) error {
	switch {
	case errors.Is(err, identity.ErrNoKey):
		return api.NewError(api.NotFound, err.Error(), "`pando key list` shows what there is")
	case errors.Is(err, identity.ErrLastKey):
		return api.NewError(api.Conflict, err.Error(), "give the site another one first: `pando key rotate NAME`")
	case errors.Is(err, identity.ErrKeyTaken),
		errors.Is(err, identity.ErrRevoked),
		errors.Is(err, identity.ErrManyKeys):
		return api.NewError(api.Conflict, err.Error(), "`pando key list` shows what there is")
	}
	return err
}

// signingFailed returns an error that tells the caller to repeat the request, which then continues.
func signingFailed(err error) error {
	var locked *store.LockedError
	if errors.As(err, &locked) {
		return api.NewError(
			api.Conflict,
			"the keys are changed, and versions are not signed yet: "+err.Error(),
			"when that is done, run the same command again",
		)
	}
	return httpapi.WithHint(err, "the keys are changed, and not every version is signed again; fix that and run "+
		"the same command again")
}

func (a *API) rotateKey(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.KeyUse](r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	if err := httpapi.Invalid(fleet.ValidName("key", name)); err != nil {
		return nil, err
	}
	a.signer.mu.Lock()
	defer a.signer.mu.Unlock()
	out := api.KeyChange{DryRun: req.DryRun, Without: []api.KeyVersion{}}
	k, err := a.signer.ring.Find(name)
	switch {
	case errors.Is(err, identity.ErrNoKey) && req.DryRun:
		k = identity.SigningKey{Name: name}
	case errors.Is(err, identity.ErrNoKey):
		k, err = a.signer.ring.Add(name, "", a.now())
	case err == nil && !k.Revoked.IsZero():
		err = fmt.Errorf("key %s: %w", name, identity.ErrRevoked)
	}
	if err != nil && !req.DryRun {
		return nil, keyRefused(err)
	}
	if !req.DryRun {
		if err := a.signer.ring.Use(name); err != nil {
			return nil, keyRefused(err)
		}
		a.log.Info("key signs from now on", "key", k.Name, "public", k.Public)
		if out.Signed, err = a.signer.signAll(r.Context()); err != nil {
			return nil, signingFailed(err)
		}
	}
	out.Key = a.keyView(k, true)
	out.Without, err = a.lacking(r.Context(), []string{k.Public})
	return out, err
}

// lacking lists the versions that none of keys has signed, with the groups and nodes that use them.
func (a *API) lacking(ctx context.Context, keys []string) ([]api.KeyVersion, error) {
	out := []api.KeyVersion{}
	lacking, err := a.signer.lacking(keys)
	if err != nil || len(lacking) == 0 {
		return out, err
	}
	err = a.registry.View(ctx, func(tx *registry.Tx) error {
		users, err := a.holders(ctx, tx)
		for _, v := range lacking {
			out = append(out, api.KeyVersion{Version: v, InUse: users[v]})
		}
		return err
	})
	return out, err
}

func (a *API) revokeKey(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.KeyUse](r)
	if err != nil {
		return nil, err
	}
	a.signer.mu.Lock()
	defer a.signer.mu.Unlock()
	ring := a.signer.ring
	k, err := ring.Find(r.PathValue("name"))
	if err == nil && !k.Revoked.IsZero() {
		err = fmt.Errorf("key %s: %w", k.Name, identity.ErrRevoked)
	}
	if err == nil && len(ring.Trust().Accepted()) == 1 {
		err = fmt.Errorf("key %s: %w", k.Name, identity.ErrLastKey)
	}
	if err != nil {
		return nil, keyRefused(err)
	}
	out := api.KeyChange{DryRun: req.DryRun}
	if out.Without, err = a.lacking(r.Context(), without(ring.Trust().Accepted(), k.Public)); err != nil {
		return nil, err
	}
	for _, v := range out.Without {
		if len(v.InUse) > 0 && !req.Force && !req.DryRun {
			return nil, api.NewError(
				api.Conflict,
				fmt.Sprintf(
					"version %s, which %s wants, is signed by no other trusted key than %s",
					v.Version.Short(),
					strings.Join(v.InUse, ", "),
					k.Name,
				),
				"sign all with another one first (`pando key rotate NAME`), or --force",
			)
		}
	}
	if !req.DryRun {
		if err := ring.Revoke(k.Name, a.now()); err != nil {
			return nil, keyRefused(err)
		}
		a.signer.forget()
		a.log.Warn("key is revoked", "key", k.Name, "public", k.Public, "versions", len(out.Without))
		if out.Signed, err = a.signer.signAll(r.Context()); err != nil {
			return nil, signingFailed(err)
		}
		k, _ = ring.Find(k.Name)
	}
	out.Key = a.keyView(k, false)
	return out, nil
}

// addSignature adds a signature that was made on another machine, where the key is kept.
func (a *API) addSignature(r *http.Request) (any, error) {
	req, err := httpapi.Body[api.SignatureAdd](r)
	if err != nil {
		return nil, err
	}
	unlock, err := a.store.Lock(r.Context(), "keys")
	if err != nil {
		return nil, err
	}
	defer unlock()
	v, err := a.store.GetVersion(req.Version)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, api.NewError(api.NotFound, err.Error(), "`pando image list` shows what there is")
	}
	if err != nil {
		return nil, err
	}
	ring := a.signer.ring
	by := image.Signers(v.Manifest, []byte(req.Signature), ring.Trust().Accepted())
	if len(by) == 0 {
		_, err := ring.Trust().Verify(v.Manifest, []byte(req.Signature))
		return nil, httpapi.BadRequest(
			err.Error(),
			"sign it as `pando key export` says, with a key that `pando key list` shows as trusted",
		)
	}
	k, err := ring.Find(by[0])
	if err != nil {
		return nil, keyRefused(err)
	}
	return a.keyView(k, ring.Keys()[0].Public == k.Public),
		a.store.PutSignature(
			v.Digest,
			image.JoinSignatures(image.OnlyBy(v.Manifest, []byte(req.Signature), by), v.Signature),
		)
}

// unsignedHint says how a built version gets its signature.
func (a *API) unsignedHint(err error) string {
	if errors.Is(err, image.ErrUnsigned) && len(a.signer.ring.Signers()) == 0 {
		k := a.signer.ring.Keys()[0].Name
		return fmt.Sprintf(
			"no key that signs is kept here: `pando key export %s DIR`, sign there, `pando key import DIR`, and "+
				"build again",
			k,
		)
	}
	return "nodes trust only what a key of this data directory signed: `pando key list`"
}
